"""Queues for sessions of the metadata cluster, which has none: what workloads of queues ask of a broker.

The messages are beside the cluster, shared by all sessions; a node has to answer before anything is put in or taken.
"""

from __future__ import annotations

from typing import Any

from splitbrain.harness.contract.sessions import Answer, Delivery

Held = dict[str, list[tuple[int, bool]]]
"""By queue: values, each with whether it was delivered before."""


Consumers = dict[str, list[Any]]
"""By queue: the sessions that consume from it, the active one first."""


class MemoryQueues:
    """Adds queues to a session; everything else goes through."""

    def __init__(self, session: Any, held: Held, consumers: Consumers) -> None:
        self._session = session
        self._held = held
        self._consumers = consumers
        self._taken: dict[int, tuple[str, int]] = {}
        self._tag = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    async def declare_queue(self, queue: str) -> Answer:
        """Make a queue."""
        self._held.setdefault(queue, [])
        return Answer()

    async def publish(self, queue: str, value: int) -> Answer:
        """Put a message in, once a node has written it down."""
        written = await self._session.write(f"queue {queue}", value)
        self._held[queue].append((value, False))
        return Answer(value, written.term)

    async def take(self, queue: str) -> Answer:
        """Take the next message, once a node has answered."""
        read = await self._session.read(f"queue {queue}")
        return self._next(queue, read.term)

    async def declare_single_active(self, queue: str) -> Answer:
        """Make a queue."""
        self._consumers.setdefault(queue, [])
        return await self.declare_queue(queue)

    async def consume(self, queue: str) -> Answer:
        """Be a consumer, and take the next message if it is this one's turn, once a node has answered."""
        read = await self._session.read(f"queue {queue}")
        consumers = self._consumers[queue]
        if self not in consumers:
            consumers.append(self)
        return self._next(queue, read.term) if consumers[0] is self else Answer(None, read.term)

    async def leave(self, queue: str) -> Answer:
        """Be no consumer any more, once a node has answered."""
        read = await self._session.read(f"queue {queue}")
        if self in self._consumers[queue]:
            self._consumers[queue].remove(self)
        return Answer(None, read.term)

    def _next(self, queue: str, term: int | None) -> Answer:
        if not self._held[queue]:
            return Answer(None, term)
        value, redelivered = self._held[queue].pop(0)
        self._tag += 1
        self._taken[self._tag] = (queue, value)
        return Answer(Delivery(value=value, tag=self._tag, redelivered=redelivered), term)

    def ack(self, tag: int) -> None:
        """It was dealt with."""
        del self._taken[tag]

    def reject(self, tag: int, *, requeue: bool) -> None:
        """It goes back, or away."""
        queue, value = self._taken.pop(tag)
        if requeue:
            self._held[queue].insert(0, (value, True))

    async def purge(self, queue: str) -> Answer:
        """Nothing is left in it."""
        written = await self._session.write(f"queue {queue}", None)
        count = len(self._held[queue])
        self._held[queue].clear()
        return Answer(count, written.term)

    async def close(self) -> None:
        """What was taken and not acknowledged goes back."""
        for queue, value in reversed(self._taken.values()):
            self._held[queue].insert(0, (value, True))
        self._taken.clear()
        for consumers in self._consumers.values():
            if self in consumers:
                consumers.remove(self)
        await self._session.close()
