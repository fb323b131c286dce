"""One HTTP/1.1 connection to the JSON gateway of one etcd node, one request at a time; other pages are got as well.

Nothing is ever sent twice. A connection that failed is dropped, and the next request makes a new one; so is one that
the node closed while it was idle (a node that was killed closes all of them), which is seen before anything is sent:
that request is not lost, and a node that is down refuses it definitely.
"""

from __future__ import annotations

import asyncio
import socket  # noqa: TID251 - for the type of a dialled connection, and to look at one; nothing here opens one
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

import h11
import msgspec

from splitbrain.harness.contract.sessions import IndefiniteError
from splitbrain.harness.systems.etcd.errors import error_of
from splitbrain.harness.systems.etcd.messages import Message
from splitbrain.harness.systems.sockets import is_closed

A = TypeVar("A", bound=Message)
B = TypeVar("B")

Dial = Callable[[], Awaitable[socket.socket]]
"""Makes a connected, non-blocking TCP socket; a DefiniteError if the connection is refused."""

READ_BYTES: Final = 1 << 16
ANSWER_MAX_BYTES: Final = 1 << 28
"""An answer that is longer is not read to its end. A range over a million keys, without values, has half of that."""


class Gateway:
    """A connection to one node; made by `open`.

    Args:
        dial: how to reach the node.
        timeout_ms: the node's timeout for a request. It is sent with each request, and the node enforces it.
    """

    def __init__(self, dial: Dial, timeout_ms: int) -> None:
        self._dial = dial
        self._timeout_ms = timeout_ms
        self._socket: socket.socket | None = None
        self._http = h11.Connection(h11.CLIENT)

    @classmethod
    async def open(cls, dial: Dial, timeout_ms: int) -> Gateway:
        """A gateway that is connected.

        Raises:
            DefiniteError: the node could not be reached.
        """
        gateway = cls(dial, timeout_ms)
        await gateway._connected()
        return gateway

    async def call(self, method: str, request: Message, answer: type[A]) -> A:
        """Ask for `method`, the path below /v3 ("kv/put").

        Raises:
            DefiniteError: the request was not sent, or the node refused it.
            IndefiniteError: its outcome is unknown.
        """
        return await self._ask(self._posted(method, msgspec.json.encode(request)), method, answer)

    async def get(self, path: str, answer: type[B]) -> B:
        """The page at `path`, which is JSON.

        Raises:
            DefiniteError, IndefiniteError: as from `call`.
        """
        return await self._ask((_request("GET", path, ()),), path, answer)

    async def close(self) -> None:
        """Drop the connection."""
        self._drop()

    async def _ask(self, events: Sequence[h11.Event], what: str, answer: type[B]) -> B:
        connection = await self._connected()
        try:
            status, content = await self._exchange(connection, events)
        except (OSError, h11.RemoteProtocolError) as error:
            self._drop()
            raise IndefiniteError(f"the connection broke before {what} was answered: {error}") from error
        except BaseException:  # cancelled: what comes later on this connection would answer the wrong request
            self._drop()
            raise
        error = error_of(status, content)
        if error is not None:
            raise error
        try:
            return msgspec.json.decode(content, type=answer, strict=False)
        except msgspec.DecodeError as error:
            raise IndefiniteError(f"the answer to {what} cannot be read: {error}") from error

    def _posted(self, method: str, body: bytes) -> Sequence[h11.Event]:
        headers = (
            ("Content-Type", "application/json"),
            ("Content-Length", str(len(body))),
            ("Grpc-Timeout", f"{self._timeout_ms}m"),
        )
        return _request("POST", f"/v3/{method}", headers), h11.Data(body)

    async def _connected(self) -> socket.socket:
        if self._socket is not None and is_closed(self._socket):
            self._drop()
        if self._socket is None:
            self._socket = await self._dial()
            self._http = h11.Connection(h11.CLIENT)
        return self._socket

    async def _exchange(self, connection: socket.socket, events: Sequence[h11.Event]) -> tuple[int, bytes]:
        loop, http = asyncio.get_running_loop(), self._http
        sent = [http.send(event) or b"" for event in (*events, h11.EndOfMessage())]
        await loop.sock_sendall(connection, b"".join(sent))
        status, content = 0, bytearray()
        while True:
            event = http.next_event()
            if event is h11.NEED_DATA:
                http.receive_data(await loop.sock_recv(connection, READ_BYTES))
            elif isinstance(event, h11.Response):
                status = event.status_code
            elif isinstance(event, h11.Data):
                content += event.data
                if len(content) > ANSWER_MAX_BYTES:
                    raise h11.RemoteProtocolError(f"the answer is longer than {ANSWER_MAX_BYTES:,} bytes")
            elif isinstance(event, h11.EndOfMessage):
                break
            elif isinstance(event, h11.ConnectionClosed):
                raise h11.RemoteProtocolError("it was closed in place of an answer")
        if http.our_state is h11.DONE and http.their_state is h11.DONE:
            http.start_next_cycle()
        else:
            self._drop()
        return status, bytes(content)

    def _drop(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None


def _request(method: str, target: str, headers: Sequence[tuple[str, str]]) -> h11.Request:
    return h11.Request(method=method, target=target, headers=[("Host", "etcd"), *headers])
