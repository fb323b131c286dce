"""A client's connection to a node: many requests in flight on it, and the answer to each."""

from __future__ import annotations

import asyncio
from typing import Protocol

import msgspec

from splitbrain.cluster import wire
from splitbrain.cluster.errors import InvalidRequestError, OutcomeUnknownError, UnavailableError
from splitbrain.cluster.groupnames import METADATA
from splitbrain.cluster.wire import Answer, Body, ClientHello, ReplyFrom, Request


class MessageConnection(Protocol):
    """An ordered connection that carries whole messages (see `splitbrain.cluster.runtime.Connection`)."""

    def send(self, message: bytes) -> None:
        """Queue a message."""
        ...

    async def receive(self) -> bytes:
        """The next message; ConnectionError when the other side is gone."""
        ...

    def close(self) -> None:
        """Close both directions."""
        ...


class Channel:
    """A connection to one node. Made inside a running event loop."""

    def __init__(self, connection: MessageConnection) -> None:
        self._connection = connection
        self._in_flight: dict[int, asyncio.Future[Answer]] = {}
        self._last_id = 0
        self._broken: str | None = None
        connection.send(wire.encode(ClientHello(wire.PROTOCOL_VERSION)))
        self._reading = asyncio.get_running_loop().create_task(self._read_answers())

    def abort(self) -> None:
        """Drop the connection. Requests in flight fail as indefinite."""
        self._connection.close()

    async def close(self) -> None:
        """Drop the connection, and return when everything in flight has failed."""
        self.abort()
        await self._reading

    async def ask(self, body: Body, timeout_ms: int, reply_from: ReplyFrom = "leader", group: str = METADATA) -> Answer:
        """Send a request, and wait for its answer.

        Raises:
            UnavailableError: the connection was broken before.
            InvalidRequestError: the request is too long.
            OutcomeUnknownError: the connection broke before the answer came.
        """
        if self._broken is not None:
            raise UnavailableError(f"nothing was sent, the connection is broken: {self._broken}.")
        self._last_id += 1
        request_id = self._last_id
        data = wire.encode(Request(request_id, timeout_ms, body, reply_from, group))
        if len(data) > wire.MAX_REQUEST_BYTES:
            raise InvalidRequestError(f"a request has at most {wire.MAX_REQUEST_BYTES} bytes, not {len(data)}.")
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._in_flight[request_id] = answer
        self._connection.send(data)
        try:
            return await answer
        finally:
            self._in_flight.pop(request_id, None)

    async def _read_answers(self) -> None:
        try:
            while True:
                answer = wire.decode_answer(await self._connection.receive())
                waiting = self._in_flight.get(answer.id)
                if waiting is not None and not waiting.done():
                    waiting.set_result(answer)
        except ConnectionError as error:
            self._broken = str(error)
        except msgspec.DecodeError as error:
            self._broken = f"what came on it is no answer: {error}"
        finally:
            self._broken = self._broken or "its reader was stopped"
            self._connection.close()
            for waiting in list(self._in_flight.values()):
                if not waiting.done():
                    reason = f"the connection broke before the answer came: {self._broken}."
                    waiting.set_exception(OutcomeUnknownError(reason))
