"""A client that publishes to a queue, with confirms."""

from __future__ import annotations

import asyncio
from typing import Final

import msgspec

from splitbrain.cluster.asking import DEFAULT_TIMEOUT_MS
from splitbrain.cluster.errors import ClientError, OutcomeUnknownError, UnavailableError
from splitbrain.cluster.queueclient.connection import Ends, QueueConnection, pause, unexpected
from splitbrain.cluster.queuegroups.notes import Event
from splitbrain.cluster.queues.commands import Enqueue
from splitbrain.cluster.queues.effects import Confirm
from splitbrain.cluster.queues.replies import Accepted, NotEnqueued
from splitbrain.cluster.retry import GRACE_MS

ATTEMPT_MS: Final = 500
"""After so long without a confirm a message is sent again, under its number: the queue takes it once (QQ-2). Each next
time is twice as long: where every answer takes longer than this, one comes in time all the same.
"""


class Confirmed(msgspec.Struct, frozen=True):
    """A message that is in its queue.

    Attributes:
        number: of its publisher.
        term: in which it was confirmed; 0 if the confirm came by itself.
    """

    number: int
    term: int


class _OutOfOrderError(UnavailableError):
    """The queue lacks earlier messages of the publisher: it does not know it any more."""


class Publisher:
    """Publishes to a queue, one message after another, each with a number: what is sent again is taken once (QQ-2).

    A message of unknown outcome ends the numbers: those after it are of another publisher, as the queue sees it.
    """

    def __init__(self, connection: QueueConnection, name: str) -> None:
        self._connection = connection
        self._name = name
        self._turn = asyncio.Lock()
        self._begin()

    async def publish(self, body: bytes, *, timeout_ms: int = DEFAULT_TIMEOUT_MS) -> Confirmed:
        """Put a message into the queue; returns once it is confirmed. Sent again while its outcome is unknown.

        Raises:
            RefusedError: it is not in the queue, and will not be.
            OutcomeUnknownError: it may be there, or come to be.
        """
        async with self._turn:
            number, ends, attempt_ms = self._number + 1, Ends(timeout_ms), ATTEMPT_MS
            await self._connection.record(self._name, ends.left_ms)  # once; it may take longer than an attempt
            unknown: ClientError | None = None
            while True:
                try:
                    confirmed = await self._once(number, body, min(attempt_ms, ends.left_ms))
                except ClientError as error:
                    unknown = unknown if error.definite else error
                    if self._heard_of < number:
                        if self._is_last(error, unknown, ends):
                            raise self._given_up(error, unknown) from error
                        await self._pause()
                        attempt_ms *= 2
                        continue
                    confirmed = Confirmed(number, 0)
                self._number = number
                return confirmed

    def _is_last(self, error: ClientError, unknown: ClientError | None, ends: Ends) -> bool:
        is_broken = error.term is None and not isinstance(error, _NoAnswerError)
        return unknown is None or ends.are_over or is_broken or isinstance(error, _OutOfOrderError)

    def _given_up(self, error: ClientError, unknown: ClientError | None) -> ClientError:
        if unknown is None and not isinstance(error, _OutOfOrderError):
            return error
        self._begin_anew()
        if unknown is None:
            return error
        return OutcomeUnknownError(f"no confirm came in time: {unknown}", unknown.term)

    async def _pause(self) -> None:
        try:
            await pause()
        except BaseException:  # cancelled: the outcome is unknown
            self._begin_anew()
            raise

    def _begin_anew(self) -> None:
        """Number the messages to come as those of another publisher."""
        self._connection.ignore(self._process)
        self._begin()

    def _begin(self) -> None:
        """Number messages from 1 on, as a publisher that the queue does not know yet."""
        self._process = self._connection.new_process()
        self._number = self._heard_of = 0
        self._connection.listen(self._process, self)

    async def _once(self, number: int, body: bytes, timeout_ms: int) -> Confirmed:
        command = Enqueue(self._process, number, body)
        try:
            async with asyncio.timeout((timeout_ms + GRACE_MS) / 1000):  # the request or its answer may be lost
                said = await self._connection.command(self._name, command, timeout_ms=timeout_ms)
        except TimeoutError as error:
            raise _NoAnswerError(f"no answer of queue {self._name} came in time.") from error
        except ClientError:
            raise
        except BaseException:  # cancelled: it may be there, and its number must not become that of another message
            self._begin_anew()
            raise
        match said.what:
            case Accepted():
                return Confirmed(number, said.term)
            case NotEnqueued():
                raise _OutOfOrderError(f"queue {self._name} lacks earlier messages: publish this one again.", said.term)
            case _:
                raise unexpected(self._name, said)

    def heard(self, event: Event) -> None:
        """The queue says something: a confirm may come though the answer was lost with a leader."""
        if isinstance(event, Confirm):
            self._heard_of = max(self._heard_of, event.seq)

    def broken(self) -> None:
        """The connection is gone, as requests on it say."""


class _NoAnswerError(OutcomeUnknownError):
    """The node was silent."""
