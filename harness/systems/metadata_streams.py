"""Streams of the metadata cluster, for the workload `stream`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from splitbrain.cluster.client import Client, ClientError, Streams
from splitbrain.cluster.streamclient import StreamPublisher
from splitbrain.harness.contract.sessions import Answer, DefiniteError, IndefiniteError

REPLICAS: Final = 99
"""Of a stream at most: each node has one, so that each fault meets a copy, and all nodes are asked."""

DECLARE_S: Final = 4.0
"""For the streams of a session to be written, all together: a workload has to be prepared within ten seconds."""

PAUSE_S: Final = 0.2

T = TypeVar("T")


class MetadataStreams:
    """What one session does with streams.

    Args:
        client: of the node that is asked.
        timeout_ms: of a request.
        new_name: a name that no other session has.
    """

    def __init__(self, client: Client, timeout_ms: int, new_name: Callable[[], Awaitable[str]]) -> None:
        self._client = client
        self._timeout_ms = timeout_ms
        self._new_name = new_name
        self._streams: Streams | None = None
        self._name: str | None = None
        self._publishers: dict[str, StreamPublisher] = {}
        self._declares_until: float | None = None

    async def declare(self, stream: str) -> Answer:
        """Make a stream; tried for a while, since to declare it twice is to declare it once.

        No error if it is not written by then: the ops say what becomes of them.
        """
        loop = asyncio.get_running_loop()
        if self._declares_until is None:
            self._declares_until = loop.time() + DECLARE_S
        while loop.time() <= self._declares_until:
            try:
                await (await self._opened()).declare(stream, replicas=REPLICAS, timeout_ms=self._timeout_ms)
                break
            except (ClientError, DefiniteError):
                await asyncio.sleep(PAUSE_S)  # noqa: TID251 - of a client, which has no runtime: its loop's time
        return Answer()

    async def publish(self, stream: str, value: int) -> Answer:
        """Publish, and wait for the confirm; its offset."""
        publisher = self._publishers.get(stream)
        if publisher is None:
            if self._name is None:
                self._name = await self._new_name()
            publisher = (await self._opened()).publisher(stream, self._name)
            self._publishers[stream] = publisher
        confirmed = await publisher.publish(str(value).encode(), timeout_ms=self._timeout_ms)
        return Answer(confirmed.offset)

    async def read(self, stream: str, offset: int, most: int) -> Answer:
        """Read from an offset on, as this session's node has it."""
        found = await (await self._opened()).read(stream, offset, most=most, timeout_ms=self._timeout_ms)
        try:
            values = [int(body) for body in found.bodies]
        except ValueError as error:
            raise IndefiniteError(f"a message in {stream} is no whole number: {error}") from error
        return Answer({"values": values, "end": found.committed})

    async def _opened(self) -> Streams:
        """Streams on this connection.

        Raises:
            DefiniteError: the node did not say its address; nothing was done.
        """
        if self._streams is None:
            try:
                self._streams = await self._client.streams()
            except ClientError as error:
                raise DefiniteError(str(error)) from error
        return self._streams
