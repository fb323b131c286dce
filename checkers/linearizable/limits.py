"""What judging a key may cost, counted on one clock that is handed down to everything that works on it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Final, TypeAlias

from checkers.kernels import cpu_s

Clock: TypeAlias = Callable[[], float]
"""CPU seconds of this thread, since whenever."""

LOOK_S: Final = 0.02
"""CPU seconds between two looks at the clock, about."""

FEWEST: Final = 64
"""Steps between two looks at the clock, at least: a look is not free."""


@dataclass(frozen=True)
class Limits:
    """When to give up: CPU seconds of this thread, bytes of configurations, cells of a lazy transition table."""

    time_s: float = 60.0
    memory_bytes: int = 1 << 30
    cells: int = 20_000_000
    clock: Clock = cpu_s


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

    def spent(self) -> float:
        """Seconds that were counted so far."""
        return self._before + (0.0 if self._since is None else self._clock() - self._since)

    def left(self) -> float:
        """Seconds that are left, never less than none."""
        return max(0.0, self._seconds - self.spent())


class Pace:
    """How many steps of a machine take about as long as may pass between two looks at the clock."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._steps = min(FEWEST, most)

    def steps(self) -> int:
        """Steps until the next look."""
        return self._steps

    def learn(self, done: int, seconds: float) -> None:
        """Take into account what so many steps took; a single one may take long, and the first compile nothing."""
        if seconds > LOOK_S:
            self._steps = max(min(FEWEST, self._most), int(min(self._steps, done) * LOOK_S / seconds))
        elif done >= self._steps:
            self._steps = min(self._most, 2 * self._steps)
