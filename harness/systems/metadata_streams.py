"""Streams of the metadata cluster, for the workload `stream`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import suppress
from typing import Final, TypeVar

from splitbrain.cluster.client import Client, ClientError, Streams, UnavailableError
from splitbrain.cluster.streamclient import StreamPublisher
from splitbrain.cluster.streams.retention import Retention
from splitbrain.harness.contract.sessions import Answer, NonsenseError
from splitbrain.harness.systems.metadata_declared import Declarations
from splitbrain.harness.systems.metadata_errors import refused

REPLICAS: Final = 99
"""Copies of a stream at most: each node has one, so that each fault meets a copy, and each node gives its own."""

T = TypeVar("T")


class MetadataStreams:
    """What one session does with streams.

    Args:
        client: of the node that is asked.
        timeout_ms: of a request.
        new_name: a name that no other session has.
        kept: how much is kept of streams that any session declared; all of others. A session adds its own.
    """

    def __init__(
        self,
        client: Client,
        timeout_ms: int,
        new_name: Callable[[], Awaitable[str]],
        kept: MutableMapping[str, Retention],
    ) -> None:
        self._client = client
        self._timeout_ms = timeout_ms
        self._new_name = new_name
        self._kept = kept
        self._streams: Streams | None = None
        self._name: str | None = None
        self._publishers: dict[str, StreamPublisher] = {}
        self._declarations = Declarations()
        self._known: set[str] = set()

    async def declare(self, stream: str, kept: Retention | None = None) -> Answer:
        """Make a stream, of which so much is kept, as `Declarations.tried`."""
        if kept is not None:
            self._kept[stream] = kept
        return await self._declarations.tried(lambda: self._declare(stream, self._timeout_ms))

    async def _declare(self, stream: str, timeout_ms: int) -> None:
        kept = self._kept.get(stream, Retention())
        await (await self._opened()).declare(
            stream,
            replicas=REPLICAS,
            max_length_bytes=kept.max_length_bytes,
            max_age_ms=kept.max_age_ms,
            timeout_ms=timeout_ms,
        )

    async def publish(self, stream: str, value: int) -> Answer:
        """Publish, and wait for the confirm; its offset."""
        publisher = self._publishers.get(stream) or await self._publisher(stream)
        body = str(value).encode()
        confirmed = await self._use(stream, lambda timeout_ms: publisher.publish(body, timeout_ms=timeout_ms))
        return Answer(confirmed.offset)

    async def _publisher(self, stream: str) -> StreamPublisher:
        # Threads that share this session may be here at once: two publishers of one name would give messages the same
        # numbers, and the later of two would be taken for the earlier one sent again.
        name = await self._new_name() if self._name is None else self._name
        streams = await self._opened()
        if self._name is None:
            self._name = name
        return self._publishers.setdefault(stream, streams.publisher(stream, self._name))

    async def publish_once(self, stream: str, value: int) -> Answer:
        """Publish under a name that the value alone has, as its first message: it is in the stream once."""
        publisher = (await self._opened()).publisher(stream, f"once-{value}")
        body = str(value).encode()
        confirmed = await self._use(stream, lambda timeout_ms: publisher.publish(body, timeout_ms=timeout_ms))
        return Answer(confirmed.offset)

    async def read(self, stream: str, offset: int, most: int) -> Answer:
        """Read from an offset on, as this session's node has it."""
        streams = await self._opened()
        found = await self._use(
            stream, lambda timeout_ms: streams.read(stream, offset, most=most, timeout_ms=timeout_ms)
        )
        try:
            values = [int(body) for body in found.bodies]
        except ValueError as error:
            raise NonsenseError(f"a message in {stream} is no whole number: {error}") from error
        answer = {"values": values, "end": found.committed}
        return Answer(answer if found.first == offset else {**answer, "first": found.first})

    async def _use(self, stream: str, call: Callable[[int], Awaitable[T]]) -> T:
        """Do something with a stream. One that may not have been declared in time is, in half of the time of the op."""
        if stream in self._known:
            return await call(self._timeout_ms)
        half_ms = self._timeout_ms // 2
        try:
            result = await call(half_ms)
        except UnavailableError:
            with suppress(ClientError):
                await self._declare(stream, half_ms)
            raise
        self._known.add(stream)
        return result

    async def _opened(self) -> Streams:
        """Streams on this connection.

        Raises:
            DefiniteError: the node did not say its address; nothing was done.
        """
        if self._streams is None:
            try:
                self._streams = await self._client.streams()
            except ClientError as error:
                raise refused(error) from error
        return self._streams
