"""What a client does with a message that it has, sent until the queue has carried it out.

RabbitMQ's client of quorum queues (`rabbit_fifo_client`) keeps such commands, too, and sends them again to a new
leader. One that is lost would leave its message with this connection, out of the reach of all others. It may be carried
out twice: no id is given a second time, so the queue ignores what it does not know.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

import msgspec

from splitbrain.cluster.channel import Channel
from splitbrain.cluster.errors import ClientError, UnavailableError
from splitbrain.cluster.wire import Answer, Failure, Request

ATTEMPT_MS: Final = 5000
"""After so long the node gives an attempt up, and says so."""

UNANSWERED_S: Final = ATTEMPT_MS / 1000 + 0.5
"""After so long without any answer it is sent again: the request was lost, or what the node said of it."""

AGAIN_S: Final = 0.2
"""Before it is sent again after a failure."""

GIVEN_UP_S: Final = 60.0
"""After so long it is not sent again: the queue was deleted, or has had no majority for all that time."""

_FINAL: Final = frozenset({"invalid_request"})
"""Failures that the next attempt would meet again."""


class Settling:
    """One command about messages. Made inside a running event loop, and sent by `begin`.

    Args:
        channel: the connection; once that is broken, the messages go back by themselves.
        request: the command, to its queue's group.
    """

    def __init__(self, channel: Channel, request: Request) -> None:
        self._channel = channel
        self._request = msgspec.structs.replace(request, timeout_ms=ATTEMPT_MS)
        self._loop = asyncio.get_running_loop()
        self._ends = self._loop.time() + GIVEN_UP_S
        self._timer: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        """Send it.

        Raises:
            UnavailableError: the connection is broken.
        """
        self._later(UNANSWERED_S)
        try:
            self._channel.post(self._request, self)
        except UnavailableError:
            self._end()
            raise

    def answered(self, answers: Sequence[Answer]) -> None:
        """The queue carried it out, or it has to be sent again."""
        outcome = answers[0].outcome
        if not isinstance(outcome, Failure) or outcome.reason in _FINAL:
            self._end()  # an attempt that was taken for lost may be answered yet
        else:
            self._later(AGAIN_S)

    def failed(self, request_id: int, error: ClientError) -> None:
        """The connection is broken: what was not settled goes back."""
        self._end()

    def _end(self) -> None:
        self._ends = 0.0
        self._later(0.0)

    def _later(self, delay_s: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if self._loop.time() >= self._ends else self._loop.call_later(delay_s, self._again)

    def _again(self) -> None:
        self._timer = None
        try:
            self.begin()
        except UnavailableError:
            return
