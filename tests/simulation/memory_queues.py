"""Queues for sessions of the metadata cluster, which has none: what workloads of queues ask of a broker.

The messages are beside the cluster, shared by all sessions; a node has to answer before anything is put in or taken.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from splitbrain.harness.contract.brokers import Delivery
from splitbrain.harness.contract.sessions import Answer


class Waiting(NamedTuple):
    """A message: its value, how often it was given back, and why it is a dead letter."""

    value: int
    times: int = 0
    reason: str | None = None


Held = dict[str, list[Waiting]]
"""By queue: its messages."""

Limits = dict[str, tuple[int, str]]
"""By queue: how often a message may be given back, and the queue for those that were given back more often."""


Consumers = dict[str, list[Any]]
"""By queue: the sessions that consume from it, the active one first."""


class MemoryQueues:
    """Adds queues to a session; everything else goes through."""

    def __init__(self, session: Any, held: Held, consumers: Consumers, limits: Limits) -> None:
        self._limits = limits
        self._session = session
        self._held = held
        self._consumers = consumers
        self._taken: dict[int, tuple[str, Waiting]] = {}
        self._tag = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    async def declare_queue(self, queue: str) -> Answer:
        """Make a queue."""
        self._held.setdefault(queue, [])
        return Answer()

    async def declare_limited(self, queue: str, limit: int, dead_letters: str) -> Answer:
        """Make a queue."""
        self._limits[queue] = limit, dead_letters
        return await self.declare_queue(queue)

    async def publish(self, queue: str, value: int) -> Answer:
        """Put a message in, once a node has written it down."""
        written = await self._session.write(f"queue {queue}", value)
        self._held[queue].append(Waiting(value))
        return Answer(value, written.term)

    async def take(self, queue: str) -> Answer:
        """Take the next message, once a node has answered."""
        read = await self._session.read(f"queue {queue}")
        return self._next(queue, read.term)

    async def declare_single_active(self, queue: str) -> Answer:
        """Make a queue."""
        self._consumers.setdefault(queue, [])
        return await self.declare_queue(queue)

    async def consume(self, queue: str, priority: int = 0) -> Answer:
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
        found = self._held[queue].pop(0)
        self._tag += 1
        self._taken[self._tag] = (queue, found)
        delivery = Delivery(value=found.value, tag=self._tag, redelivered=found.times > 0)
        if found.reason is not None:
            delivery["reason"] = found.reason
        return Answer(delivery, term)

    def _give_back(self, queue: str, message: Waiting) -> None:
        limit, dead = self._limits.get(queue, (message.times + 1, ""))
        if message.times < limit:
            self._held[queue].insert(0, message._replace(times=message.times + 1))
        else:
            self._held[dead].append(Waiting(message.value, reason="delivery_limit"))

    def ack(self, tag: int) -> None:
        """It was dealt with."""
        del self._taken[tag]

    def reject(self, tag: int, *, requeue: bool) -> None:
        """It goes back, or away."""
        queue, message = self._taken.pop(tag)
        if requeue:
            self._give_back(queue, message)

    async def purge(self, queue: str) -> Answer:
        """Nothing is left in it."""
        written = await self._session.write(f"queue {queue}", None)
        count = len(self._held[queue])
        self._held[queue].clear()
        return Answer(count, written.term)

    async def close(self) -> None:
        """What was taken and not acknowledged goes back."""
        for queue, message in reversed(self._taken.values()):
            self._give_back(queue, message)
        self._taken.clear()
        for consumers in self._consumers.values():
            if self in consumers:
                consumers.remove(self)
        await self._session.close()
