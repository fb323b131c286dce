"""A client that consumes from a queue."""

from __future__ import annotations

import asyncio
from collections import deque

import msgspec

from splitbrain.cluster.asking import DEFAULT_TIMEOUT_MS
from splitbrain.cluster.errors import QueueNotFoundError, UnavailableError
from splitbrain.cluster.queueclient.connection import QueueConnection, unexpected
from splitbrain.cluster.queuegroups.notes import LAST_REASON, Event
from splitbrain.cluster.queues import ConsumerId, ConsumerKey
from splitbrain.cluster.queues.commands import Annotations, Attach, Cancel, Credit, Credited, Prefetch, Remove
from splitbrain.cluster.queues.effects import ConsumerActivity, ConsumerCancelled, Deliver, Delivered, EndOfLife
from splitbrain.cluster.queues.replies import Attached, Cancelled


class Message(msgspec.Struct, frozen=True):
    """A message that this connection has, until it is settled or given back.

    Attributes:
        queue: its name.
        body: of it.
        acquired: how often it was given back before.
        failed: how many of its deliveries failed.
        term: in which it was taken; 0 for one that was delivered.
        key: of the consumer.
        id: of the message there.
        annotations: what is said of it besides its body: of a dead letter, why it is one.
    """

    queue: str
    body: bytes
    acquired: int
    failed: int
    term: int
    key: ConsumerKey
    id: int
    annotations: Annotations = {}

    @property
    def is_redelivered(self) -> bool:
        """Whether it may have been delivered before."""
        return self.acquired > 0

    @property
    def dead_because(self) -> str | None:
        """Why it is a dead letter, None if it is none: "expired", "rejected", "maxlen" or "delivery_limit"."""
        return self.annotations.get(LAST_REASON)


class Consumer:
    """Gets the messages of a queue.

    Attributes:
        is_active: whether the queue says that it gets messages, or did not say anything.
    """

    def __init__(self, connection: QueueConnection, name: str) -> None:
        self.is_active = True
        self._connection = connection
        self._name = name
        self._id = ConsumerId("consumer", connection.new_process())
        self._key: ConsumerKey = self._id
        self._next_id = 0
        self._messages: deque[Message] = deque()
        self._news = asyncio.Event()
        self._is_over = self._is_broken = False

    async def attach(self, prefetch: int | None, priority: int, timeout_ms: int) -> None:
        """Begin to consume."""
        self._connection.listen(self._id.process, self)
        mode = Credited(0) if prefetch is None else Prefetch(prefetch)
        command = Attach(self._id, "auto", mode, priority)
        try:
            said = await self._connection.command(self._name, command, timeout_ms=timeout_ms)
            if not isinstance(said.what, Attached):
                raise unexpected(self._name, said)
        except BaseException:
            self._connection.ignore(self._id.process)
            raise
        self._key = said.what.key

    async def next(self) -> Message:
        """The next message; waits until there is one.

        Raises:
            QueueNotFoundError: the consumer was cancelled, or the queue deleted.
            UnavailableError: the connection is broken.
        """
        while not self._messages:
            self._check()
            self._news.clear()
            await self._news.wait()
        return self._messages.popleft()

    def _check(self) -> None:
        if self._is_over:
            raise QueueNotFoundError(f"nothing more comes from queue {self._name} to this consumer.")
        if self._is_broken:
            raise UnavailableError(f"nothing more comes from queue {self._name}: the connection is broken.")

    def arrived(self) -> Message | None:
        """The next message if one has come, else None; raises as `next`."""
        if self._messages:
            return self._messages.popleft()
        self._check()
        return None

    async def credit(self, count: int, *, timeout_ms: int = DEFAULT_TIMEOUT_MS) -> None:
        """Let the queue deliver so many messages beyond those that came: of a consumer without prefetch."""
        command = Credit(self._key, count, self._next_id, False)
        await self._connection.command(self._name, command, timeout_ms=timeout_ms)

    async def cancel(self, *, give_back: bool = True, timeout_ms: int = DEFAULT_TIMEOUT_MS) -> None:
        """Get no more messages; with `give_back` what was not settled goes back, else it may still be settled."""
        command = Remove(self._id) if give_back else Cancel(self._id)
        said = await self._connection.command(self._name, command, timeout_ms=timeout_ms)
        if not isinstance(said.what, Cancelled):
            raise unexpected(self._name, said)
        if give_back:  # what came is not this consumer's any more; without it, what comes yet still is
            self._connection.ignore(self._id.process)
            self._is_over = True
            self._news.set()

    def heard(self, event: Event) -> None:
        """What the queue says. A delivery that comes again, from a new leader, is known by its id."""
        match event:
            case Deliver(messages=messages):
                for each in messages:
                    if each.id >= self._next_id and each.body is not None:
                        self._next_id = each.id + 1
                        self._messages.append(self._received(each, each.body))
            case ConsumerActivity(active=active):
                self.is_active = active
            case ConsumerCancelled() | EndOfLife():
                self._is_over = True
            case _:
                return
        self._news.set()

    def _received(self, each: Delivered, body: bytes) -> Message:
        counts = each.acquired, each.failed
        return Message(self._name, body, *counts, 0, self._id, each.id, each.annotations)

    def broken(self) -> None:
        """The connection is gone."""
        self._is_broken = True
        self._news.set()
