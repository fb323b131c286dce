"""The time of a night: what is spent, what is left, and whether what is to be begun comes to its end in time.

A budget is that of the whole night: its runs, and storing, replaying and shrinking what failed, and its files at the
end. So nothing is begun that would not come to its end within it, as far as that is known from what was like it. What
takes longer than that is not broken off: a night can take longer than its budget by runs that were under way, and by
no more than their length.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from splitbrain.harness.campaigns.nightly.cells import Cell

FILES: Final = 0.02
"""The share of the budget that is kept for the files of the night and the comparison with nights before."""

FILES_MAX_S: Final = 30.0

CLOSER: Final = 0.2
"""The share that is kept for what failed, once something has: for replays and shrinking."""

LATE: Final = 0.05
"""The share that is kept while nothing failed: what fails in the last run is still stored."""

KEPT: Final = 3.0
"""Storing a violation takes as long as so many runs, as long as none was stored: it is run, judged and drawn."""


class Spending:
    """The time of a night.

    Attributes:
        budget_s: how long it may take.
    """

    def __init__(self, budget_s: float, spent_s: float = 0.0, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin to count.

        Args:
            budget_s: how long the night may take, in seconds.
            spent_s: what it took before it was killed.
            clock: seconds that pass.
        """
        self.budget_s = budget_s
        self._clock, self._began_s = clock, clock() - spent_s
        self._under_way: dict[tuple[str, int], float] = {}
        self._runs: dict[tuple[str, str], float] = {}
        self._kept_s = 0.0
        self._first: set[tuple[str, int]] = set()

    @property
    def elapsed_s(self) -> float:
        """Seconds until now, those before it was killed included."""
        return self._clock() - self._began_s

    @property
    def left_s(self) -> float:
        """Seconds that are left for what is done before the files of the night are written."""
        return max(0.0, self.budget_s - min(FILES_MAX_S, FILES * self.budget_s) - self.elapsed_s)

    def fits(self, seconds: float) -> bool:
        """Whether what takes so long comes to its end in time."""
        return 0.0 < self.left_s >= seconds

    def run_fits(self, cell: Cell, limit_s: float, *, failed: bool) -> bool:
        """Whether another run of a cell comes to its end before the time that is kept for what fails.

        Args:
            cell: which one.
            limit_s: how long a run on real nodes takes at least.
            failed: whether a run of this night failed.
        """
        share = CLOSER if failed else LATE
        left_s = self.budget_s * (1.0 - share) - self.elapsed_s
        return 0.0 < left_s >= self.usual_s(cell, limit_s)

    # --- how long things take -------------------------------------------------------------------------------------

    def begins(self, cell: Cell, seed: int, *, loads: bool = False) -> None:
        """A run begins; `loads`: its process has to get ready first, which the runs after it have no need of."""
        self._under_way[cell.name, seed] = self._clock()
        if loads:
            self._first.add((cell.name, seed))

    def ended(self, cell: Cell, seed: int, seconds: float) -> None:
        """A run came to its end.

        Args:
            cell, seed: which one.
            seconds: that it took by its own account: of CPU time in simulation.
        """
        began_s = self._under_way.pop((cell.name, seed), None)
        if began_s is not None and (cell.name, seed) not in self._first:
            seconds = self._clock() - began_s
        self.known(cell, seconds)

    def known(self, cell: Cell, seconds: float) -> None:
        """A run of a cell took so long."""
        place = (cell.backend, cell.name)
        self._runs[place] = max(seconds, self._runs.get(place, 0.0))

    def usual_s(self, cell: Cell, limit_s: float = 0.0) -> float:
        """How long a run of a cell takes: the longest one of it, or else of its backend; at least a limit if real."""
        found = self._runs.get((cell.backend, cell.name))
        if found is None:
            found = max((each for (backend, _), each in self._runs.items() if backend == cell.backend), default=0.0)
        return found if cell.simulated else max(found, limit_s)

    def kept(self, seconds: float) -> None:
        """Storing a violation took so long."""
        self._kept_s = max(self._kept_s, seconds)

    def keeping_s(self, cell: Cell) -> float:
        """How long storing a simulated violation takes."""
        return self._kept_s or KEPT * self.usual_s(cell)
