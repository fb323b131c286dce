"""What judging a key may cost, counted on one clock that everything working on it shares."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Final, TypeAlias

from splitbrain.checkers.kernels import cpu_s

Clock: TypeAlias = Callable[[], float]
"""CPU seconds of this thread, since whenever."""

LOOK_S: Final = 0.02
"""About how many CPU seconds pass between two clock checks."""

EXPLAIN_LEAST_S: Final = 0.5
"""CPU seconds that an explanation may take in any case; beyond, no more than the verdict took."""

FEWEST: Final = 64
"""The least number of steps between two clock checks: a check has a cost."""


EVENTS_PER_S: Final = 20_000_000
"""Events that no search gets through in a CPU second. One that has more before it is not begun: to begin it takes as
long by itself, and room for all of them."""


@dataclass(frozen=True)
class Limits:
    """When to give up: CPU seconds of this thread, bytes of configurations, cells of a lazy transition table."""

    time_s: float = 60.0
    memory_bytes: int = 1 << 30
    cells: int = 20_000_000
    clock: Clock = cpu_s

    def can_read(self, events: int) -> bool:
        """Whether a search can process this many events in time."""
        return events <= EVENTS_PER_S * self.time_s


class Budget:
    """CPU seconds that parts of the work on one key share. Time counts while the budget is entered (`with budget:`).

    Between, the thread may work on other keys.
    """

    def __init__(self, seconds: float, clock: Clock = cpu_s) -> None:
        self._seconds = seconds
        self._clock = clock
        self._before = 0.0
        self._since: float | None = None

    def __enter__(self) -> Budget:
        self._since = self._clock()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._before, self._since = self.spent(), None

    @property
    def clock(self) -> Clock:
        """What counts the seconds."""
        return self._clock

    def part(self, share: float, most_s: float = float("inf")) -> Budget:
        """A budget of a share of what is left here, or of `most_s` if that is less; what it spends is spent here too.

        It counts while it is entered itself.
        """
        return Budget(min(share * self.left(), most_s), self._clock)

    def is_over(self) -> bool:
        """Whether nothing is left: for those who cannot be stopped from outside, often enough."""
        return self.left() <= 0

    def spent(self) -> float:
        """Seconds that were counted so far."""
        return self._before + (0.0 if self._since is None else self._clock() - self._since)

    def left(self) -> float:
        """Seconds that are left, never less than none."""
        return max(0.0, self._seconds - self.spent())


WITHOUT_END: Final = Budget(float("inf"))
"""For those who may take their time."""


class Pace:
    """How many steps of a machine take about as long as may pass between two looks at the clock."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._steps = min(FEWEST, most)

    def steps(self) -> int:
        """Steps until the next look."""
        return self._steps

    def learn(self, done: int, seconds: float) -> None:
        """Record what this many steps took; a single one may take long, and the first compile nothing."""
        if seconds > LOOK_S:
            self._steps = max(min(FEWEST, self._most), int(min(self._steps, done) * LOOK_S / seconds))
        elif done >= self._steps:
            self._steps = min(self._most, 2 * self._steps)


class Deadline:
    """The end of an allowance of seconds, for steps of which it is not known how long one takes.

    Each look at the clock is a call of the kernel: while steps are short, only each 64th of them looks.
    """

    def __init__(self, clock: Clock, seconds: float) -> None:
        self._clock = clock
        self._last_s = clock()
        self._end_s = self._last_s + seconds
        self._every = self._left = 1

    def has_passed(self) -> bool:
        """Whether time is up, as far as was looked; asked before each step."""
        self._left -= 1
        if self._left:
            return False
        now_s = self._clock()
        self._every = min(2 * self._every, FEWEST) if now_s - self._last_s < LOOK_S else 1
        self._left, self._last_s = self._every, now_s
        return now_s > self._end_s
