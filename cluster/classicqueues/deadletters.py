"""Dead letters of a classic queue on their way to another queue (CQ-5): handed over first, and only then dropped.

One after the other, in the order in which they became dead letters. One that is not taken is handed over again after
0.5 s, for ever, to the queue that gets dead letters by then. What a kill comes between is handed over again, or, as the
count of its redeliveries is forgotten, first delivered again: it may be there twice, and none is lost.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

from splitbrain.cluster.classic import DeadLetter
from splitbrain.cluster.classicqueues.messages import annotations_of, body_of
from splitbrain.cluster.marks import reached
from splitbrain.cluster.queuegroups.notes import FIRST_REASON, LAST_REASON
from splitbrain.cluster.queues.commands import Annotations
from splitbrain.cluster.runtime import Clock

RETRY_MS: Final = 500
"""After so long a dead letter that was not taken is handed over again."""

_MS: Final = 1_000_000

HandOver: TypeAlias = Callable[[str, bytes, Annotations], Awaitable[bool]]
"""Has another queue take a message, by its name, body and annotations; whether it certainly has it, durably."""


class Letters:
    """The dead letters of one queue.

    Args:
        hand_over: to another queue.
        drop: has the message of a sequence id removed, durably.
        clock: of the node.

    Attributes:
        to: name of the queue that gets them; None: they are dropped.
    """

    def __init__(self, hand_over: HandOver, drop: Callable[[int], Awaitable[None]], clock: Clock) -> None:
        self.to: str | None = None
        self._hand_over = hand_over
        self._drop = drop
        self._clock = clock
        self._waiting: deque[DeadLetter] = deque()
        self._is_over = self._works = self._drops = False

    def add(self, letter: DeadLetter) -> bool:
        """One more; whether `work` is to be called now."""
        self._waiting.append(letter)
        begins, self._works = not self._works, True
        return begins

    @property
    def is_dropping(self) -> bool:
        """Whether a message is just being removed."""
        return self._drops

    def end(self) -> None:
        """Hand over nothing more; what waits stays in the queue."""
        self._is_over = True

    async def work(self) -> None:
        """Hand over what waits, until nothing does.

        Raises:
            OSError: it is not known what is durable; the node must stop.
        """
        try:
            while self._waiting and not self._is_over:
                await self._step(self._waiting[0])
        finally:
            self._works = False

    async def _step(self, letter: DeadLetter) -> None:
        to = self.to
        if to is not None:
            stored = letter.record
            annotations = {FIRST_REASON: letter.reason, **annotations_of(stored), LAST_REASON: letter.reason}
            if not await self._hand_over(to, body_of(stored), annotations):
                reached("dead letter of a classic queue not handed over")
                await self._clock.sleep(RETRY_MS * _MS)
                return
            reached("dead letter of a classic queue handed over")
        if self._is_over:
            return
        self._drops = True
        try:
            await self._drop(letter.seq)
            self._waiting.popleft()
        finally:
            self._drops = False
