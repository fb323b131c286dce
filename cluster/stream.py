"""Whole messages over a byte stream: each is preceded by its length, 4 bytes big endian.

The one implementation of `splitbrain.cluster.runtime.Connection` on a TCP connection, shared by the node and the
client.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final, cast

MAX_MESSAGE_BYTES: Final = 16 * 1024 * 1024
"""A longer message is taken for a stream that is out of step, and ends the connection."""

# Several of the longest messages: one alone must not end a connection.
_MAX_UNSENT_BYTES: Final = 4 * MAX_MESSAGE_BYTES
_MAX_UNREAD_MESSAGES: Final = 4096
_LENGTH_BYTES: Final = 4


class StreamConnection(asyncio.Protocol):
    """An ordered connection that carries whole messages.

    Nothing here waits for the other side: when more than 64 MiB are unsent the connection is given up, and when 4096
    messages are unread no more are taken from the network until half of them were.
    """

    def __init__(self, opened: Callable[[StreamConnection], None] | None = None) -> None:
        self._opened = opened
        self._transport: asyncio.Transport | None = None
        self._outgoing: list[bytes] = []
        self._buffer = bytearray()
        self._messages: deque[bytes] = deque()
        self._reader: asyncio.Future[None] | None = None
        self._paused = False
        self._lost: str | None = None

    def send(self, message: bytes) -> None:
        """Queue a message; silently lost on a closed connection.

        Raises:
            ValueError: the message is longer than `MAX_MESSAGE_BYTES`.
        """
        if len(message) > MAX_MESSAGE_BYTES:
            raise ValueError(f"a message of {len(message)} bytes is longer than {MAX_MESSAGE_BYTES}.")
        transport = self._transport
        if transport is None or self._lost is not None:
            return
        # What is sent in one turn of the event loop goes out in one system call: those are most of a node's work.
        if not self._outgoing:
            asyncio.get_running_loop().call_soon(self._flush)
        self._outgoing += (len(message).to_bytes(_LENGTH_BYTES, "big"), message)

    async def receive(self) -> bytes:
        """The next message. One task at a time may wait for it.

        Raises:
            ConnectionError: the other side is gone and all that it sent was received, or this side was closed.
        """
        while not self._messages:
            if self._lost is not None:
                raise ConnectionError(self._lost)
            assert self._reader is None, "two tasks receive on one connection"
            self._reader = asyncio.get_running_loop().create_future()
            try:
                await self._reader
            finally:
                self._reader = None
        message = self._messages.popleft()
        # At half, not at once: each pause and each resumption is a system call.
        if self._paused and len(self._messages) <= _MAX_UNREAD_MESSAGES // 2 and self._transport is not None:
            self._paused = False
            self._transport.resume_reading()
        return message

    async def hand_over(self, take: Callable[[bytes], None]) -> None:
        """Call `take` with each message.

        Raises:
            ConnectionError: as of `receive`.
            Exception: what `take` raised; nothing more is taken then.
        """
        while True:
            take(await self.receive())

    def close(self) -> None:
        """Close both directions; what was queued before is still sent if the other side takes it."""
        if self._transport is not None and self._lost is None:
            self._flush()
            self._transport.close()
        self._lose("the connection was closed on this side")

    # What asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Asyncio: the connection is up."""
        self._transport = cast(asyncio.Transport, transport)
        if self._lost is not None:
            transport.close()
        elif self._opened is not None:
            self._opened(self)

    def data_received(self, data: bytes) -> None:
        """Asyncio: bytes came in."""
        if self._lost is not None:
            return
        # Mostly whole messages come, and nothing of one is kept: they are taken out of what came.
        kept = self._buffer
        kept_some = bool(kept)
        if kept_some:
            kept += data
        buffer = kept if kept_some else data
        start = 0
        while len(buffer) - start >= _LENGTH_BYTES:
            body = start + _LENGTH_BYTES
            length = int.from_bytes(buffer[start:body], "big")
            if length > MAX_MESSAGE_BYTES:
                self._give_up(f"the other side announced a message of {length} bytes: it speaks another protocol")
                return
            if len(buffer) - body < length:
                break
            start = body + length
            self._messages.append(bytes(buffer[body:start]))
        if kept_some:
            del kept[:start]
        else:
            kept += data[start:]
        if len(self._messages) > _MAX_UNREAD_MESSAGES and not self._paused and self._transport is not None:
            self._paused = True
            self._transport.pause_reading()
        if self._messages:
            self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        """Asyncio: the connection is down."""
        self._lose(str(exc) if exc is not None else "the other side closed the connection")

    def _flush(self) -> None:
        outgoing, self._outgoing = self._outgoing, []
        if self._transport is None or self._lost is not None or not outgoing:
            return
        self._transport.write(b"".join(outgoing))
        if self._transport.get_write_buffer_size() > _MAX_UNSENT_BYTES:
            self._give_up("the other side does not take what is sent to it")

    def _give_up(self, reason: str) -> None:
        if self._transport is not None:
            self._transport.abort()
        self._lose(reason)

    def _lose(self, reason: str) -> None:
        if self._lost is None:
            self._lost = reason
        self._wake()

    def _wake(self) -> None:
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)
