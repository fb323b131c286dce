"""Requests of clients for streams that are under way in a node."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

import msgspec

from splitbrain.cluster.pending import Answering
from splitbrain.cluster.runtime import Clock, Timer
from splitbrain.cluster.streams.frames import NotDone
from splitbrain.cluster.tree import Value
from splitbrain.cluster.wire import Failure, Outcome

_MS: Final = 1_000_000

MAX_REQUESTS: Final = 10_000


class StreamRequests:
    """Each is answered once: by a reply, or as its time runs out.

    Args:
        node: its name.
        clock: of the node.
        whose: answer it is that does not come in time, in words.
    """

    def __init__(self, node: str, clock: Clock, whose: str = "the stream's writer") -> None:
        self._node = node
        self._whose = whose
        self._clock = clock
        self._under_way: dict[int, tuple[Answering, Timer]] = {}
        self._last = 0

    def begin(self, timeout_ms: int, changes: bool, answer: Answering) -> int | None:
        """Wait for a reply to a request; its number. None: there are too many, and it was answered.

        Args:
            timeout_ms: how long.
            changes: whether it may change something.
            answer: called once, now or later.
        """
        if len(self._under_way) >= MAX_REQUESTS:
            answer(0, Failure("busy", True, f"{self._node} has {MAX_REQUESTS} requests under way: try again later"), 0)
            return None
        self._last += 1
        timer = self._clock.call_later(timeout_ms * _MS, partial(self._time_out, self._last, changes))
        self._under_way[self._last] = (answer, timer)
        return self._last

    def replied(self, number: int, reply: msgspec.Struct) -> None:
        """There is a reply; nothing, if it comes too late."""
        self._finish(number, outcome_of(reply))

    def replier(self, number: int) -> Callable[[msgspec.Struct], None]:
        """What takes the reply to a request."""
        return partial(self.replied, number)

    def _time_out(self, number: int, changes: bool) -> None:
        detail = f"{self._node} got no answer of {self._whose} in time"
        self._finish(number, Failure("timeout", not changes, detail))

    def _finish(self, number: int, outcome: Outcome) -> None:
        answer, timer = self._under_way.pop(number, (None, None))
        if answer is not None and timer is not None:
            timer.cancel()
            answer(0, outcome, 0)


def outcome_of(reply: msgspec.Struct) -> Outcome:
    """A reply, as what a node answers."""
    if isinstance(reply, NotDone):
        return Failure(reply.reason, reply.definite, reply.detail)
    return Value(msgspec.msgpack.encode(reply))
