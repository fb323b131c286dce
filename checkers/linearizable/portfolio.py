"""Two searches in turn, so that a history which is hard for one of them is left to the other (as Knossos does it).

The depth-first arm goes first: an explanation is found in a fraction of the time in which the frontier finds all of
them, and most histories have one. Where there is none the frontier is the better one, as it looks at each configuration
once and remembers few. The slices of time grow, so that whichever arm is right for a history has a fixed share of the
whole, and the other costs at most about as much again; less, while one of them comes farther with its turns, so that it
will be the first one at the end.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Final, TypeAlias, cast

from splitbrain.checkers import kernels
from splitbrain.checkers.linearizable import depth_first
from splitbrain.checkers.linearizable import search as breadth_first
from splitbrain.checkers.linearizable.advance import advance
from splitbrain.checkers.linearizable.backtracking import advance as depth_first_advance
from splitbrain.checkers.linearizable.depth_first import DepthFirst
from splitbrain.checkers.linearizable.encoding import Problem, events
from splitbrain.checkers.linearizable.limits import Budget, Limits
from splitbrain.checkers.linearizable.ops import Ops
from splitbrain.checkers.linearizable.search import Answer, Result, Search
from splitbrain.checkers.linearizable.transitions import Stepper

SLICE_S: Final = 0.03
"""CPU seconds of an arm's first turn; each round of turns is twice as long as the one before."""

DEPTH_FIRST_SHARE: Final = 4
"""While there are two arms, the depth-first one gets this fraction of the memory (1/n): it can forget."""

BEHIND: Final = 8
"""The arm that would need longer for the rest, if it went on as in its last turn, has one part in so many of a turn."""

DEPTH_FIRST: Final = depth_first.ALGORITHM
FRONTIER: Final = "frontier"

Arm: TypeAlias = DepthFirst | Search


def search(ops: Ops, stepper: Stepper, limits: Limits, *, until_row: int | None = None) -> Result:
    """Look for a linearization with both arms in turn; `Result.algorithm` names the one that answered.

    Args:
        ops: the partition.
        stepper: steps on its transitions. Both arms share it: what one has asked the model the other knows.
        limits: for both arms together.
        until_row: leave out every event after this row, as `encoding.events` does.

    Returns:
        The first answer. Without one, what ran out, and how far the arm came that came farther.

    Raises:
        UsageError: the model failed, or contradicts itself.
    """
    portfolio = Portfolio(ops, stepper, limits, until_row=until_row)
    while True:
        result = portfolio.advance(limits.time_s)
        if result is not None:
            return result


class Portfolio:
    """One search by both arms, that stops and goes on at will; arguments as those of `search`.

    `problem`: the events up to that row, if the caller has them.
    """

    def __init__(
        self,
        ops: Ops,
        stepper: Stepper,
        limits: Limits,
        *,
        until_row: int | None = None,
        problem: Problem | None = None,
    ) -> None:
        self._ops = ops
        self._problem = problem
        self._stepper = stepper
        self._limits = limits
        self._until_row = until_row
        self._budget = Budget(limits.time_s, limits.clock)
        self._makers: dict[str, Callable[[], Arm]] = {DEPTH_FIRST: self._depth_first, FRONTIER: self._frontier}
        self._arms: dict[str, Arm] = {}
        self._due: list[str] = []
        # The first round doubles it.
        self._slice_s = SLICE_S / 2
        self._rest_s: dict[str, float] = {}
        self._ended: list[Result] = []
        if depth_first.least_bytes(ops, until_row) > limits.memory_bytes // DEPTH_FIRST_SHARE:
            del self._makers[DEPTH_FIRST]  # it would take a while to find that out by itself

    @property
    def memory_bytes(self) -> int:
        """What the arms and the stepper hold."""
        return self._stepper.bytes + sum(arm.memory_bytes for arm in self._arms.values())

    def limit_time(self, seconds: float) -> None:
        """Set the CPU seconds that the search may take."""
        self._limits = replace(self._limits, time_s=self._budget.spent() + seconds)

    def advance(self, seconds: float) -> Result | None:
        """Continue for about this many CPU seconds of this thread; None if there is no answer by then.

        Raises:
            UsageError: the model failed, or contradicts itself.
        """
        with self._budget:
            until_s = self._budget.spent() + seconds
            while self._makers:
                spent = self._budget.spent()
                if spent >= self._limits.time_s:
                    return self._unknown("time")
                if spent >= until_s:
                    return None
                result = self._turn(min(self._limits.time_s, until_s) - spent)
                if result is not None:
                    return result
            return self._unknown("memory")

    def _turn(self, most_s: float) -> Result | None:
        """The next arm's turn, or as much of it as there is time for."""
        if not self._due:
            self._due = list(self._makers)
            self._slice_s *= 2
        name = self._due.pop(0)
        if name not in self._arms:
            self._arms[name] = self._makers[name]()
        arm, began_s = self._arms[name], self._budget.spent()
        began = arm.furthest
        result = arm.advance(min(self._share_s(name), most_s))
        if result is None:
            came, took_s = arm.furthest - began, self._budget.spent() - began_s
            self._rest_s[name] = (arm.events - arm.furthest) * took_s / came if came > 0 else math.inf
            return None
        # Each arm's answer is a proof: the first one counts.
        if result.answer in ("linearizable", "violation"):
            return replace(result, seconds=self._budget.spent())
        self._end(name, result)
        return None if result.answer == "memory" else self._unknown(result.answer)

    def _share_s(self, name: str) -> float:
        """CPU seconds of an arm's turn."""
        mine = self._rest_s.get(name, 0.0)
        is_behind = any(mine > rest_s for other, rest_s in self._rest_s.items() if other in self._makers)
        return self._slice_s / BEHIND if is_behind else self._slice_s

    def _depth_first(self) -> DepthFirst:
        share = self._limits.memory_bytes // DEPTH_FIRST_SHARE
        limits = replace(self._limits, memory_bytes=share)
        return DepthFirst(self._ops, self._stepper, limits, until_row=self._until_row)

    def _frontier(self) -> Search:
        """It begins with what the other arm has explained, which is all of a legal prefix as a rule."""
        share, explained = self._limits.memory_bytes, 0
        other = self._arms.get(DEPTH_FIRST)
        if isinstance(other, DepthFirst):
            share -= share // DEPTH_FIRST_SHARE
            explained = other.furthest
        problem = self._problem or events(self._ops, self._stepper.observer, until_row=self._until_row)
        return Search(problem, self._stepper, replace(self._limits, memory_bytes=share), explained=explained)

    def _end(self, name: str, result: Result) -> None:
        """Leave the rest to the other arm, and all the memory to the one that can take more."""
        self._ended.append(result)
        del self._makers[name], self._arms[name]
        for arm in self._arms.values():
            if isinstance(arm, DepthFirst):
                arm.limit_memory(self._limits.memory_bytes)

    def _unknown(self, answer: Answer) -> Result:
        """What ran out, unless an arm knows that there is a violation, only not yet where the smallest prefix ends."""
        results = self._ended + [arm.given_up() for arm in self._arms.values()] or [Result(answer, 0, 0.0, 0, 0)]
        for result in results:
            if result.answer == "violation":
                return replace(result, seconds=self._budget.spent())
        return replace(max(results, key=lambda result: result.event), answer=answer, seconds=self._budget.spent())


@cache
def warm_up() -> None:
    """Compile the kernels of both arms, or load them from the cache; this process uses no others from then on."""
    kernels.use_compiled()
    depth_first.warm_up()
    breadth_first.warm_up()


def warm_up_if_kept() -> None:
    """The same where the largest kernels of both arms have been compiled before; nothing where they have not."""
    from splitbrain.checkers.kernel_cache import is_kept

    largest = (cast("kernels.Kernel", depth_first_advance), cast("kernels.Kernel", advance))
    if all(is_kept(each.py_func) for each in largest):
        warm_up()
