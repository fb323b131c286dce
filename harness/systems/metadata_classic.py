"""Classic queues of the metadata cluster, for the workload `conversion`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeVar
from zlib import crc32

from splitbrain.cluster.classicclient import ClassicQueues
from splitbrain.cluster.client import Client, ClientError, UnavailableError
from splitbrain.cluster.members import node_of
from splitbrain.harness.contract.brokers import Delivery
from splitbrain.harness.contract.sessions import Answer, NonsenseError
from splitbrain.harness.systems.metadata_declared import Declarations
from splitbrain.harness.systems.metadata_errors import refused

T = TypeVar("T")


class MetadataClassic:
    """What one session does with classic queues.

    Args:
        client: of the node that is asked.
        timeout_ms: of a request.
    """

    def __init__(self, client: Client, timeout_ms: int) -> None:
        self._client = client
        self._timeout_ms = timeout_ms
        self._queues: ClassicQueues | None = None
        self._taken: dict[int, tuple[str, str]] = {}
        self._last_tag = 0
        self._known: set[str] = set()
        self._declarations = Declarations()

    async def declare(self, queue: str) -> Answer:
        """Make a queue, as `Declarations.tried`."""
        return await self._declarations.tried(lambda: self._declare(queue))

    async def _declare(self, queue: str) -> None:
        """Make a queue, on a node that its name says: so each node holds some."""
        queues = await self._opened()
        nodes = [node_of(member) for member in await queues.members(self._timeout_ms)]
        await queues.declare(queue, node=nodes[crc32(queue.encode()) % len(nodes)], timeout_ms=self._timeout_ms)

    async def put(self, queue: str, value: int) -> Answer:
        """Put a message into a queue; returns once it is durable."""
        queues, body = await self._opened(), str(value).encode()
        await self._use(queue, lambda: queues.put(queue, body, timeout_ms=self._timeout_ms))
        return Answer(value)

    async def take(self, queue: str) -> Answer:
        """Take the next message; None if nothing is ready."""
        queues = await self._opened()
        found = await self._use(queue, lambda: queues.take(queue, timeout_ms=self._timeout_ms))
        if found is None:
            return Answer()
        try:
            value = int(found.body)
        except ValueError as error:
            raise NonsenseError(f"a message in {queue} is no whole number: {found.body[:40]!r}") from error
        self._last_tag += 1
        self._taken[self._last_tag] = (queue, found.tag)
        return Answer(Delivery(value=value, tag=self._last_tag, redelivered=found.redelivered))

    def settle(self, tag: int, *, requeue: bool) -> None:
        """Be done with a message, or give it back; not answered, and perhaps lost."""
        queue, known = self._taken.pop(tag)
        assert self._queues is not None, "a message was taken"
        with suppress(ClientError):  # the connection is broken: the message goes back
            self._queues.post_settle(queue, known, "requeue" if requeue else "ack")

    async def convert(self, queue: str) -> Answer:
        """Have the files of a queue converted."""
        queues = await self._opened()
        return Answer(await self._use(queue, lambda: queues.convert(queue, timeout_ms=self._timeout_ms)))

    async def _use(self, queue: str, call: Callable[[], Awaitable[T]]) -> T:
        """Do something with a queue. One that may not have been declared in time is."""
        try:
            result = await call()
        except UnavailableError:
            if queue not in self._known:
                with suppress(ClientError):
                    await self._declare(queue)
            raise
        self._known.add(queue)
        return result

    async def _opened(self) -> ClassicQueues:
        """Classic queues on this connection.

        Raises:
            DefiniteError: the node did not say its address; nothing was done.
        """
        if self._queues is None:
            try:
                self._queues = await self._client.classic_queues()
            except ClientError as error:
                raise refused(error) from error
        return self._queues
