"""A client's connection to a node: many requests in flight on it, and the answer to each."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Protocol

import msgspec

from splitbrain.cluster import wire
from splitbrain.cluster.errors import ClientError, InvalidRequestError, OutcomeUnknownError, UnavailableError
from splitbrain.cluster.wire import Answer, Applied, ClientHello, ClientMessage, Request


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


class Recipient(Protocol):
    """Waits for answers."""

    def answered(self, answers: Sequence[Answer]) -> None:
        """Answers to requests of this recipient, which came together; each request gets one, or fails."""
        ...

    def failed(self, request_id: int, error: ClientError) -> None:
        """There will be no answer to a request."""
        ...


class _OneAnswer:
    """The recipient of one answer, for who waits."""

    def __init__(self) -> None:
        self.future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()

    def answered(self, answers: Sequence[Answer]) -> None:
        if not self.future.done():
            self.future.set_result(answers[0])

    def failed(self, request_id: int, error: ClientError) -> None:
        del request_id
        if not self.future.done():
            self.future.set_exception(error)


class Channel:
    """A connection to one node. Made inside a running event loop."""

    def __init__(self, connection: MessageConnection) -> None:
        self._connection = connection
        self._in_flight: dict[int, Recipient] = {}
        self._last_id = 0
        self._broken: str | None = None
        self._messages: asyncio.Queue[bytes | None] = asyncio.Queue()
        connection.send(wire.encode(ClientHello(wire.PROTOCOL_VERSION)))
        self._reading = asyncio.get_running_loop().create_task(self._read_answers())

    @property
    def is_broken(self) -> bool:
        """Whether the connection is gone: nothing can be sent any more."""
        return self._broken is not None

    def abort(self) -> None:
        """Drop the connection. Requests in flight fail as indefinite."""
        self._connection.close()

    async def close(self) -> None:
        """Drop the connection, and return when everything in flight has failed."""
        self.abort()
        await self._reading

    async def ask(self, request: Request) -> Answer:
        """Send a request, and wait for its answer; errors as of `post`.

        Raises:
            OutcomeUnknownError: the connection broke before the answer came.
        """
        recipient = _OneAnswer()
        request_id = self.post(request, recipient)
        try:
            return await recipient.future
        finally:
            self._in_flight.pop(request_id, None)

    def post(self, request: Request, recipient: Recipient | None = None) -> int:
        """Send a request, under the next id, which is returned; the recipient, if there is one, gets the answer.

        Raises:
            UnavailableError: the connection was broken before.
            InvalidRequestError: the request is too long.
        """
        if self._broken is not None:
            raise UnavailableError(f"nothing was sent, the connection is broken: {self._broken}.")
        self._last_id += 1
        request_id = self._last_id
        data = wire.encode(msgspec.structs.replace(request, id=request_id))
        if len(data) > wire.MAX_REQUEST_BYTES:
            raise InvalidRequestError(f"a request has at most {wire.MAX_REQUEST_BYTES} bytes, not {len(data)}.")
        if recipient is not None:
            self._in_flight[request_id] = recipient
        self._connection.send(data)
        return request_id

    async def next_message(self) -> bytes:
        """The next message of a machine for this client.

        Raises:
            UnavailableError: the connection is broken, and there are no more.
        """
        message = await self._messages.get()
        if message is None:
            self._messages.put_nowait(None)
            raise UnavailableError(f"there are no more messages, the connection is broken: {self._broken}.")
        return message

    async def _read_answers(self) -> None:
        try:
            while True:
                answer = wire.decode_answer(await self._connection.receive())
                match answer.outcome:
                    case Applied(notices):
                        self._deliver([Answer(each.id, each.term, each.outcome, each.index) for each in notices])
                    case ClientMessage(data):
                        self._messages.put_nowait(data)
                    case _:
                        recipient = self._in_flight.pop(answer.id, None)
                        if recipient is not None:
                            recipient.answered((answer,))
        except ConnectionError as error:
            self._broken = str(error)
        except msgspec.DecodeError as error:
            self._broken = f"what came on it is no answer: {error}"
        finally:
            self._broken = self._broken or "its reader was stopped"
            self._connection.close()
            self._messages.put_nowait(None)
            in_flight, self._in_flight = self._in_flight, {}
            for request_id, recipient in in_flight.items():
                reason = f"the connection broke before the answer came: {self._broken}."
                recipient.failed(request_id, OutcomeUnknownError(reason))

    def _deliver(self, answers: Sequence[Answer]) -> None:
        """Give each recipient its answers, those that came together at once; an answer that comes twice once only."""
        together: dict[Recipient, list[Answer]] = {}
        for answer in answers:
            recipient = self._in_flight.pop(answer.id, None)
            if recipient is not None:
                together.setdefault(recipient, []).append(answer)
        for recipient, its_answers in together.items():
            recipient.answered(its_answers)
