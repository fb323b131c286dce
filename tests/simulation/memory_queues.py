"""Queues for sessions of the metadata cluster, which has none: what the workload `queue` asks of a broker.

The messages are beside the cluster, shared by all sessions; a node has to answer before anything is put in or taken.
"""

from __future__ import annotations

from typing import Any

from splitbrain.harness.contract.sessions import Answer, Delivery

Held = dict[str, list[tuple[int, bool]]]
"""By queue: values, each with whether it was delivered before."""


class MemoryQueues:
    """Adds queues to a session; everything else goes through."""

    def __init__(self, session: Any, held: Held) -> None:
        self._session = session
        self._held = held
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
        if not self._held[queue]:
            return Answer(None, read.term)
        value, redelivered = self._held[queue].pop(0)
        self._tag += 1
        self._taken[self._tag] = (queue, value)
        return Answer(Delivery(value=value, tag=self._tag, redelivered=redelivered), read.term)

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
        await self._session.close()
