"""A node that answers HTTP as a test scripts it, byte by byte if need be."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from splitbrain.harness.contract.sessions import DefiniteError

Step = Callable[[asyncio.StreamWriter], Awaitable[None]]
"""What a node does about one request that has arrived whole."""


@dataclass
class Request:
    """What arrived."""

    path: str
    headers: Mapping[str, str]
    body: Any


@dataclass
class FakeNode:
    """Carries out its steps, one for each request, whatever connection that comes on; then hangs up on everybody."""

    steps: list[Step]
    requests: list[Request] = field(default_factory=list[Request])
    connections: int = 0
    address: tuple[str, int] = ("", 0)
    writers: list[asyncio.StreamWriter] = field(default_factory=list[asyncio.StreamWriter])

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.writers.append(writer)
        try:
            while True:
                self.requests.append(await _request(reader))
                await (self.steps.pop(0) if self.steps else then_closes())(writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def hung_up(self) -> None:
        """Wait until every connection has ended on this side."""
        await asyncio.gather(*(writer.wait_closed() for writer in self.writers), return_exceptions=True)

    async def dial(self, node: str = "n1") -> socket.socket:
        """As a deployment's."""
        found = socket.socket()
        found.setblocking(False)
        try:
            await asyncio.get_running_loop().sock_connect(found, self.address)
        except OSError as error:
            found.close()
            raise DefiniteError(f"{node} cannot be reached: {error.strerror}") from None
        return found


@asynccontextmanager
async def fake_node(*steps: Step) -> AsyncGenerator[FakeNode, None]:
    """A node that listens on loopback."""
    node = FakeNode(list(steps))
    server = await asyncio.start_server(node.serve, "127.0.0.1", 0)
    node.address = server.sockets[0].getsockname()
    try:
        yield node
    finally:
        server.close()
        for writer in node.writers:
            writer.transport.abort()
        await node.hung_up()
        await server.wait_closed()


async def _request(reader: asyncio.StreamReader) -> Request:
    head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in head[1:] if line)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Request(head[0].split()[1], headers, json.loads(body) if body else None)


# --- steps --------------------------------------------------------------------------------------------------------


def page(
    body: Any = None, status: str = "200 OK", *, text: bytes | None = None, headers: Sequence[str] = (), length: int = 0
) -> bytes:
    """A whole answer, as JSON unless `text` is given; `length` more bytes are announced than are there."""
    content = json.dumps({} if body is None else body).encode() if text is None else text
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(content) + length}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + content


def says(*pieces: bytes) -> Step:
    """Send these pieces, each in a packet of its own."""

    async def step(writer: asyncio.StreamWriter) -> None:
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0.002)  # so that the reader sees each by itself

    return step


def refuses(code: int, message: str, status: str = "503 Service Unavailable") -> Step:
    """An error as the gateway gives it."""
    return says(page({"error": message, "message": message, "code": code}, status))


def then_closes(*pieces: bytes) -> Step:
    """Send these pieces, and end the connection."""

    async def step(writer: asyncio.StreamWriter) -> None:
        await says(*pieces)(writer)
        writer.close()

    return step


def then_resets(*pieces: bytes) -> Step:
    """Send these pieces, and reset the connection."""

    async def step(writer: asyncio.StreamWriter) -> None:
        await says(*pieces)(writer)
        sock: socket.socket = writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()

    return step


async def silence(writer: asyncio.StreamWriter) -> None:
    """Say nothing."""
