"""Clients of `benchmarks/cluster_throughput.py`: one connection each, one request at a time, in one Python process."""

from __future__ import annotations

import asyncio
import socket
from base64 import b64decode, b64encode
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Protocol, cast

import msgspec

from splitbrain.cluster.client import Client, connect
from splitbrain.harness.contract.realtime import RealClock
from splitbrain.harness.systems.etcd.gateway import Gateway
from splitbrain.harness.systems.etcd.session import EtcdSession
from splitbrain.results.errors import HarnessError

TIMEOUT_MS: Final = 5000

Port = int


class KeyValue(Protocol):
    """One client of one node. Any error ends the benchmark."""

    async def write(self, key: str, value: str) -> None:
        """Set a key."""
        ...

    async def read(self, key: str) -> str | None:
        """The value of a key, linearizable."""
        ...

    async def close(self) -> None:
        """Drop the connection."""
        ...


async def dial(port: Port) -> socket.socket:
    """A connection to a port of this machine."""
    sock = socket.socket()
    sock.setblocking(False)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", port))
    return sock


class OfMetadata:
    """The cluster's own client."""

    def __init__(self, client: Client) -> None:
        self._client = client

    @classmethod
    async def open(cls, port: Port) -> OfMetadata:
        """A client of the node at a port."""
        return cls(await connect(await dial(port)))

    async def write(self, key: str, value: str) -> None:
        """Set a key."""
        await self._client.put(f"/registers/{key}", value, timeout_ms=TIMEOUT_MS)

    async def read(self, key: str) -> str | None:
        """The value of a key."""
        return (await self._client.get(f"/registers/{key}", timeout_ms=TIMEOUT_MS)).value

    async def close(self) -> None:
        """Drop the connection."""
        await self._client.close()


class OfEtcd:
    """The harness's client of etcd, over h11."""

    def __init__(self, session: EtcdSession) -> None:
        self._session = session

    @classmethod
    async def open(cls, port: Port) -> OfEtcd:
        """A client of the node at a port."""

        async def gateway() -> Gateway:
            return await Gateway.open(lambda: dial(port), TIMEOUT_MS)

        return cls(EtcdSession(await gateway(), another=gateway, clock=RealClock(), timeout_ms=TIMEOUT_MS))

    async def write(self, key: str, value: str) -> None:
        """Set a key."""
        await self._session.write(key, value)

    async def read(self, key: str) -> str | None:
        """The value of a key."""
        return (await self._session.read(key)).value

    async def close(self) -> None:
        """Drop the connection."""
        await self._session.close()


class BareOfEtcd(asyncio.Protocol):
    """A client of etcd that does as little as it can: it writes a request as text, and looks for the end of the answer.

    Its process has about as much to do for a request as with the client of the metadata cluster.
    """

    def __init__(self) -> None:
        self._transport: asyncio.Transport
        self._received = bytearray()
        self._answer: asyncio.Future[bytes] | None = None

    @classmethod
    async def open(cls, port: Port) -> BareOfEtcd:
        """A client of the node at a port."""
        _, client = await asyncio.get_running_loop().create_connection(cls, sock=await dial(port))
        return client

    async def write(self, key: str, value: str) -> None:
        """Set a key."""
        await self._ask("kv/put", {"key": _base64(f"registers/{key}"), "value": _base64(value)})

    async def read(self, key: str) -> str | None:
        """The value of a key."""
        answer = msgspec.json.decode(await self._ask("kv/range", {"key": _base64(f"registers/{key}")}))
        return b64decode(answer["kvs"][0]["value"]).decode() if "kvs" in answer else None

    async def close(self) -> None:
        """Drop the connection."""
        self._transport.close()

    async def _ask(self, method: str, request: Mapping[str, Any]) -> bytes:
        body = msgspec.json.encode(request)
        head = f"POST /v3/{method} HTTP/1.1\r\nHost: etcd\r\nContent-Length: {len(body)}\r\n\r\n"
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(head.encode() + body)
        return await self._answer

    # What asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Asyncio: the connection is up."""
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        """Asyncio: bytes came in."""
        received = self._received
        received += data
        end = received.find(b"\r\n\r\n")
        if end < 0 or self._answer is None:
            return
        head = bytes(received[:end])
        length = int(head.partition(b"Content-Length: ")[2].partition(b"\r\n")[0] or -1)
        if length < 0 or not head.startswith(b"HTTP/1.1 200 "):
            self._fail(f"etcd answers {head!r}")
        elif len(received) >= end + 4 + length:
            body = bytes(received[end + 4 :])
            received.clear()
            answer, self._answer = self._answer, None
            answer.set_result(body)

    def connection_lost(self, exc: Exception | None) -> None:
        """Asyncio: the connection is down."""
        self._fail("etcd closed the connection")

    def _fail(self, reason: str) -> None:
        answer, self._answer = self._answer, None
        if answer is not None and not answer.done():
            answer.set_exception(HarnessError(f"{reason}."))


Open = Callable[[Port], Awaitable[KeyValue]]


def _base64(text: str) -> str:
    return b64encode(text.encode()).decode()
