"""The client of the table store: one connection to one node, many requests in flight on it.

It neither redirects nor sends anything twice. A request that got no answer raises an error whose `definite` says
whether it certainly did not happen.

    client = await connect(sock)
    await client.write("exchanges", "orders", {"type": "direct"})
    await client.read("exchanges", "orders")
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import msgspec

from splitbrain.cluster.channel import MessageConnection
from splitbrain.cluster.errors import ClientError, InvalidRequestError, OutcomeUnknownError, UnavailableError
from splitbrain.cluster.stream import StreamConnection
from splitbrain.cluster.tables.wire import (
    MAX_REQUEST_BYTES,
    Answer,
    NodeState,
    Refusal,
    Request,
    Result,
    StatusRequest,
    decode_answer,
    encode,
)
from splitbrain.cluster.wire import PROTOCOL_VERSION, ClientHello
from splitbrain.cluster.wire import encode as encode_hello

if TYPE_CHECKING:
    import socket  # noqa: TID251 - for the type of a dialled connection; nothing here opens one

__all__ = ["ClientError", "TablesClient", "TablesState", "UnavailableError", "connect"]

DEFAULT_TIMEOUT_MS = 5000


class TablesState(NamedTuple):
    """What a node says of itself (`splitbrain.cluster.tables.wire.NodeState`)."""

    members: tuple[str, ...]
    phase: str
    active: tuple[str, ...]
    alive: tuple[str, ...]
    partitions: tuple[str, ...]
    client: str = ""


async def connect(endpoint: socket.socket | MessageConnection) -> TablesClient:
    """A client on a connection that is already made: a connected non-blocking TCP socket, or a message connection.

    Raises:
        UnavailableError: the connection is gone already.
    """
    if hasattr(endpoint, "receive"):
        return TablesClient(cast(MessageConnection, endpoint))
    sock = cast("socket.socket", endpoint)
    try:
        _, connection = await asyncio.get_running_loop().create_connection(StreamConnection, sock=sock)
    except OSError as error:
        raise UnavailableError(f"the connection cannot be used: {error}.") from error
    return TablesClient(connection)


class TablesClient:
    """A connection to one node. Made by `connect`, inside a running event loop; every request raises `ClientError`."""

    def __init__(self, connection: MessageConnection) -> None:
        self._connection = connection
        self._last_id = 0
        self._in_flight: dict[int, asyncio.Future[Answer]] = {}
        self._broken: str | None = None
        connection.send(encode_hello(ClientHello(PROTOCOL_VERSION)))
        self._reading = asyncio.get_running_loop().create_task(self._read_answers())

    async def read(self, table: str, key: str, timeout_ms: int = DEFAULT_TIMEOUT_MS) -> Any:
        """The value of a key, None if there is none."""
        return await self._run("read", (table, key), timeout_ms)

    async def read_all(self, table: str, key: str, timeout_ms: int = DEFAULT_TIMEOUT_MS) -> list[Any]:
        """All values of a key."""
        return list(await self._run("read_all", (table, key), timeout_ms))

    async def write(self, table: str, key: str, value: Any, timeout_ms: int = DEFAULT_TIMEOUT_MS) -> None:
        """Give a key this value, and no other."""
        await self._run("write", (table, key, value), timeout_ms)

    async def compare_and_swap(
        self, table: str, key: str, expected: Any, value: Any, timeout_ms: int = DEFAULT_TIMEOUT_MS
    ) -> bool:
        """Give a key this value if it has the expected one; whether it did."""
        return bool(await self._run("compare_and_swap", (table, key, expected, value), timeout_ms))

    async def create(self, table: str, key: str, value: Any, timeout_ms: int = DEFAULT_TIMEOUT_MS) -> bool:
        """Give a key this value if it has none; whether it did."""
        return bool(await self._run("create", (table, key, value), timeout_ms))

    async def insert(self, table: str, key: str, value: Any, timeout_ms: int = DEFAULT_TIMEOUT_MS) -> bool:
        """Give a key one more value; whether it did not have it yet."""
        return bool(await self._run("insert", (table, key, value), timeout_ms))

    async def run(self, procedure: str, arguments: Sequence[Any], timeout_ms: int = DEFAULT_TIMEOUT_MS) -> Any:
        """What a procedure returns (`splitbrain.cluster.tables.known`), such as one of entities.

        So a client is what `splitbrain.cluster.tables.entities.store.TablesStore` takes.
        """
        return await self._run(procedure, tuple(arguments), timeout_ms)

    async def state(self) -> TablesState:
        """What the node says of itself; answered at once."""
        self._last_id += 1
        outcome = (await self._ask(StatusRequest(self._last_id))).outcome
        if not isinstance(outcome, NodeState):
            raise OutcomeUnknownError(f"the answer does not fit the request: {type(outcome).__name__}.")
        return TablesState(*msgspec.structs.astuple(outcome))

    def abort(self) -> None:
        """Drop the connection. Requests in flight fail as indefinite."""
        self._connection.close()

    async def close(self) -> None:
        """Drop the connection, and return when everything in flight has failed."""
        self.abort()
        await self._reading

    async def _run(self, procedure: str, arguments: tuple[Any, ...], timeout_ms: int) -> Any:
        self._last_id += 1
        match (await self._ask(Request(self._last_id, procedure, arguments, timeout_ms))).outcome:
            case Result(value):
                return value
            case Refusal("invalid", detail):
                raise InvalidRequestError(f"invalid_request: {detail}.")
            case Refusal(reason, detail):
                raise UnavailableError(f"{reason}: {detail}.")
            case other:
                raise OutcomeUnknownError(f"the answer does not fit the request: {type(other).__name__}.")

    async def _ask(self, request: Request | StatusRequest) -> Answer:
        if self._broken is not None:
            raise UnavailableError(f"nothing was sent, the connection is broken: {self._broken}.")
        data = encode(request)
        if len(data) > MAX_REQUEST_BYTES:
            raise InvalidRequestError(f"a request has at most {MAX_REQUEST_BYTES} bytes, not {len(data)}.")
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._in_flight[request.id] = answer
        self._connection.send(data)
        try:
            return await answer
        finally:
            self._in_flight.pop(request.id, None)

    async def _read_answers(self) -> None:
        try:
            while True:
                answer = decode_answer(await self._connection.receive())
                waiting = self._in_flight.pop(answer.id, None)
                if waiting is not None and not waiting.done():
                    waiting.set_result(answer)
        except ConnectionError as error:
            self._broken = str(error)
        except msgspec.DecodeError as error:
            self._broken = f"what came on it is no answer: {error}"
        finally:
            self._broken = self._broken or "its reader was stopped"
            self._connection.close()
            in_flight, self._in_flight = self._in_flight, {}
            for waiting in in_flight.values():
                if not waiting.done():
                    reason = f"the connection broke before the answer came: {self._broken}."
                    waiting.set_exception(OutcomeUnknownError(reason))
