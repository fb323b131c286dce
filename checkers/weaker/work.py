"""What may go into asking for weaker models: steps first, which are the same everywhere, and CPU seconds."""

from __future__ import annotations

from typing import Final

from splitbrain.checkers.linearizable.limits import Budget

STEPS: Final = 800_000
"""Steps of all kinds together: an op, a chain, an order or a state that is looked at. A million take about a second."""

TIME_S: Final = 3.0
"""CPU seconds for all of it, on a machine on which steps take much longer."""

_LOOK: Final = 5_000


class OutOfWorkError(Exception):
    """The steps or the time ran out: what is asked is not decided."""


class Work:
    """Steps and CPU seconds that are left.

    Attributes:
        steps: how many were done.
        most: how many may be done.
    """

    def __init__(self, budget: Budget, most: int = STEPS) -> None:
        self.steps = 0
        self.most = most
        self._budget = budget
        self._next_look = _LOOK

    def spend(self, steps: int) -> None:
        """Count steps before they are done.

        Raises:
            OutOfWorkError: too few steps are left, or no time is.
        """
        if self.steps + steps > self.most:
            raise OutOfWorkError("the search took too many steps")
        self.steps += steps
        if self.steps >= self._next_look:
            self._next_look = self.steps + _LOOK
            if self._budget.is_over():
                raise OutOfWorkError("the search took too long")

    def part(self, share: float) -> Work:
        """Work of a share of the steps that are left here, in the same time; `absorb` counts what was done of it."""
        return Work(self._budget, int((self.most - self.steps) * share))

    def absorb(self, part: Work) -> None:
        """Count what was done of a part."""
        self.steps += part.steps
