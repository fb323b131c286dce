"""Who publishes the dead letters of a queue at least once: the worker of one leadership, on the leader's node (QQ-5).

The queue hands it as many as its prefetch; each is published to the target, again and again until that has confirmed
it, and only then settled in the queue's own log. What a worker did not settle goes to that of the next leader: so a
dead letter may be published twice, and the target may get them in another order. A worker ends with its leadership,
and does nothing about what it hears later: the queue gives its successor the same letters under other ids.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, TypeAlias

from splitbrain.cluster.bugs import M75, Bugs
from splitbrain.cluster.marks import reached

PREFETCH: Final = 32
"""Dead letters that a worker has at once at most, as RabbitMQ's."""

RETRY_MS: Final = 500
"""After so long a dead letter that was not confirmed is published again."""

Publish: TypeAlias = Callable[[str, bytes, Callable[[bool], None]], None]
"""Has a queue carry out a command, and says once, now or later, whether it confirmed that."""


class DeadLetterWorker:
    """One worker.

    Args:
        name: by which the queue knows it.
        publish: to another queue.
        settle: has the dead letter of an id settled.
        later: calls something after so many ms.
        bugs: those that are switched on.
    """

    def __init__(
        self,
        name: str,
        publish: Publish,
        settle: Callable[[int], None],
        later: Callable[[int, Callable[[], None]], object],
        bugs: Bugs,
    ) -> None:
        self.name = name
        self._publish = publish
        self._settle = settle
        self._later = later
        self._settles_first = M75 in bugs
        self._is_over = False

    def take(self, queue: str, letters: Sequence[tuple[int, bytes]]) -> None:
        """The queue hands out dead letters for another one: ids, and commands that publish them."""
        for number, command in letters:
            if self._settles_first:
                self._settle(number)
            self._send(queue, number, command)

    def end(self) -> None:
        """The leadership is over."""
        self._is_over = True

    def _send(self, queue: str, number: int, command: bytes) -> None:
        if not self._is_over:
            self._publish(queue, command, partial(self._heard, queue, number, command))

    def _heard(self, queue: str, number: int, command: bytes, is_confirmed: bool) -> None:
        if self._is_over or self._settles_first:
            return
        if is_confirmed:
            reached("dead letter confirmed")
            self._settle(number)
        else:
            reached("dead letter not confirmed")
            self._later(RETRY_MS, partial(self._send, queue, number, command))
