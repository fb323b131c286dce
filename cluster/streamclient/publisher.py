"""A client that publishes to a stream, with confirms."""

from __future__ import annotations

import asyncio

from splitbrain.cluster.asking import DEFAULT_TIMEOUT_MS
from splitbrain.cluster.errors import ClientError, InvalidRequestError, OutcomeUnknownError
from splitbrain.cluster.queueclient.connection import Ends, pause
from splitbrain.cluster.retry import GRACE_MS
from splitbrain.cluster.streamclient.connection import StreamsConnection, unexpected
from splitbrain.cluster.streams.chunks import StreamMessage
from splitbrain.cluster.streams.frames import Confirmed, Publish

ATTEMPT_MS = 500
"""After so long without a confirm a message is sent again, each next time after twice as long."""


class StreamPublisher:
    """Publishes messages one after another, each with a number: what is sent again is in the stream once.

    Args:
        connection: to a node.
        stream: its name.
        name: of the publisher. A stream keeps the number of each: one that goes on under its name says from where.
        number: of the message that was published last under that name.
    """

    def __init__(self, connection: StreamsConnection, stream: str, name: str, number: int = 0) -> None:
        self._connection = connection
        self._stream = stream
        self._name = name
        self.number = number
        self._turn = asyncio.Lock()

    async def publish(self, body: bytes, *, timeout_ms: int = DEFAULT_TIMEOUT_MS) -> Confirmed:
        """Put a message into the stream; returns once it is committed. Sent again while its outcome is unknown.

        Raises:
            RefusedError: it is not in the stream, and will not be.
            OutcomeUnknownError: it may be there, or come to be; the next message has another number all the same.
        """
        async with self._turn:
            self.number += 1
            message = StreamMessage(self._name, self.number, body)
            ends, attempt_ms = Ends(timeout_ms), ATTEMPT_MS
            unknown: ClientError | None = None
            while True:
                try:
                    return await self._once(message, min(attempt_ms, ends.left_ms))
                except InvalidRequestError:
                    raise
                except ClientError as error:
                    unknown = unknown if error.definite else error
                    is_broken = error.term is None and not isinstance(error, _NoAnswerError)
                    if ends.are_over or is_broken:
                        if unknown is None:
                            raise
                        detail = f"no confirm came in time: {unknown}"
                        raise OutcomeUnknownError(detail, unknown.term) from error
                await pause()
                attempt_ms *= 2

    async def _once(self, message: StreamMessage, timeout_ms: int) -> Confirmed:
        try:
            async with asyncio.timeout((timeout_ms + GRACE_MS) / 1000):  # the request or its answer may be lost
                reply = await self._connection.ask(Publish(self._stream, message), timeout_ms)
        except TimeoutError as error:
            raise _NoAnswerError(f"no answer of stream {self._stream} came in time.") from error
        if not isinstance(reply, Confirmed):
            raise unexpected(self._stream, reply)
        return reply


class _NoAnswerError(OutcomeUnknownError):
    """The node was silent."""
