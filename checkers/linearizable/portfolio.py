"""Two searches in turn, so that a history which is hard for one of them is left to the other (as Knossos does it).

The depth-first arm goes first: an explanation is found in a fraction of the time in which the frontier finds all of
them, and most histories have one. Where there is none the frontier is the better one, as it looks at each configuration
once and remembers few. The slices of time grow, so that whichever arm is right for a history has a fixed share of the
whole, and the other costs at most about as much again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Final, TypeAlias

from checkers import kernels
from checkers.linearizable import depth_first
from checkers.linearizable import search as breadth_first
from checkers.linearizable.depth_first import DepthFirst
from checkers.linearizable.encoding import events
from checkers.linearizable.ops import Ops
from checkers.linearizable.search import Answer, Limits, Result, Search
from checkers.linearizable.transitions import Stepper

SLICE_S: Final = 0.03
"""CPU seconds of an arm's first turn; each round of turns is twice as long as the one before."""

DEPTH_FIRST_SHARE: Final = 4
"""While there are two arms, the depth-first one has one part in so many of the memory: it can forget."""

DEPTH_FIRST: Final = depth_first.ALGORITHM
FRONTIER: Final = "frontier"

Arm: TypeAlias = DepthFirst | Search


def search(ops: Ops, stepper: Stepper, limits: Limits) -> Result:
    """Look for a linearization with both arms in turn; `Result.algorithm` names the one that answered.

    Args:
        ops: the partition.
        stepper: steps on its transitions. Both arms share it: what one has asked the model the other knows.
        limits: for both arms together.

    Returns:
        The first answer. Without one, what ran out, and how far the arm came that came farther.

    Raises:
        UsageError: the model failed, or contradicts itself.
    """
    return _Portfolio(ops, stepper, limits).run()


class _Portfolio:
    def __init__(self, ops: Ops, stepper: Stepper, limits: Limits) -> None:
        self._ops = ops
        self._stepper = stepper
        self._limits = limits
        self._began = kernels.cpu_s()
        self._makers: dict[str, Callable[[], Arm]] = {DEPTH_FIRST: self._depth_first, FRONTIER: self._frontier}
        self._arms: dict[str, Arm] = {}
        self._ended: list[Result] = []

    def run(self) -> Result:
        slice_s = SLICE_S
        while self._makers:
            for name in list(self._makers):
                left = self._limits.time_s - self._spent()
                if left <= 0:
                    return self._unknown("time")
                if name not in self._arms:
                    self._arms[name] = self._makers[name]()
                result = self._arms[name].advance(min(slice_s, left))
                if result is None:
                    continue
                if result.answer in ("linearizable", "violation"):
                    return replace(result, seconds=self._spent())
                self._end(name, result)
                if result.answer != "memory":
                    return self._unknown(result.answer)
            slice_s *= 2
        return self._unknown("memory")

    def _depth_first(self) -> DepthFirst:
        share = self._limits.memory_bytes // DEPTH_FIRST_SHARE
        return DepthFirst(self._ops, self._stepper, replace(self._limits, memory_bytes=share))

    def _frontier(self) -> Search:
        """It begins with what the other arm has explained, which is all of a legal prefix as a rule."""
        share, explained = self._limits.memory_bytes, 0
        other = self._arms.get(DEPTH_FIRST)
        if isinstance(other, DepthFirst):
            share -= share // DEPTH_FIRST_SHARE
            explained = other.furthest
        problem = events(self._ops, self._stepper.observer)
        return Search(problem, self._stepper, replace(self._limits, memory_bytes=share), explained=explained)

    def _end(self, name: str, result: Result) -> None:
        """Leave the rest to the other arm, and all the memory to the one that can take more."""
        self._ended.append(result)
        del self._makers[name], self._arms[name]
        for arm in self._arms.values():
            if isinstance(arm, DepthFirst):
                arm.limit_memory(self._limits.memory_bytes)

    def _unknown(self, answer: Answer) -> Result:
        results = self._ended + [arm.given_up() for arm in self._arms.values()] or [Result(answer, 0, 0.0, 0, 0)]
        return replace(max(results, key=lambda result: result.event), answer=answer, seconds=self._spent())

    def _spent(self) -> float:
        return kernels.cpu_s() - self._began


@cache
def warm_up() -> None:
    """Compile the kernels of both arms, or load them from the cache; this process uses no others from then on."""
    kernels.use_compiled()
    depth_first.warm_up()
    breadth_first.warm_up()
