"""A limit of how much of a CPU the processes of a simulated node get, as the kernel's bandwidth control sets it.

In every period a process may run for a share of it; further work waits for the next period (CFS bandwidth control:
Turner, Rao and Rao, "CPU bandwidth control for CFS", Linux Symposium 2010). Computing takes no time in a simulation, so
each thing that happens to a process, a timer or a message or the completion of a sync, is charged with a fixed amount:
about what it costs a node that is written in Python.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from splitbrain.harness.simulation.loop import SimLoop

PERIOD_NS: Final = 100_000_000
"""Of the kernel's default."""

COST_NS: Final = 500_000
"""What each thing that a process does is charged with."""


class CpuLimit:
    """The rest of the current period.

    Args:
        loop: gives the time.
        share: of one CPU, above 0; in every period at least one thing is done.

    Attributes:
        throttled: periods in which something had to wait for the next one.
    """

    def __init__(self, loop: SimLoop, share: float) -> None:
        self._loop = loop
        self._quota = max(1, int(PERIOD_NS * share) // COST_NS)
        self._since_ns = loop.now_ns
        self._spent = 0
        self._waited = False
        self.throttled = 0

    def spend(self) -> bool:
        """Charge for one thing that a process does now; False if it has to wait for the next period."""
        self._turn_over()
        if self._spent < self._quota:
            self._spent += 1
            return True
        if not self._waited:
            self._waited = True
            self.throttled += 1
        return False

    def next_ns(self) -> int:
        """When the next period begins."""
        self._turn_over()
        return self._since_ns + PERIOD_NS

    def _turn_over(self) -> None:
        periods = (self._loop.now_ns - self._since_ns) // PERIOD_NS
        if periods:
            self._since_ns += periods * PERIOD_NS
            self._spent, self._waited = 0, False
