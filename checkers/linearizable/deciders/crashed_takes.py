"""Containers of distinct values in which takes crashed: which of the missing values they took.

A value is *missing* if it surely went in and was never seen to come out. A take that crashed took one of these, or
nothing that matters. The earlier it began, the more it allows: everything that is linearizable if a value was taken by
a take that began at some time is so if it was taken by one that began earlier. So what is looked for is, for each
missing value, the latest beginning of its take that will do (never taken is the latest of all), such that there are
enough takes that began by then: for every time, no more values than crashed takes before it (Hall's condition).

That is searched by narrowing. At first no value need be taken. Where values clash, the missing ones among them are
taken earlier: a bound that must hold even if all others were taken as early as they can be is certain, as nearly all
are; where there is none, one missing value's range is cut in two.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, TypeAlias, cast

import numpy as np

from splitbrain.checkers.linearizable.deciders import Decision
from splitbrain.checkers.linearizable.deciders.containers import (
    CRASHED_TAKE,
    NEVER,
    Clash,
    Explain,
    Find,
    Stays,
    by_transition,
    names,
    read_stays,
    shrink,
)
from splitbrain.checkers.linearizable.limits import EXPLAIN_LEAST_S, Budget
from splitbrain.checkers.linearizable.ops import I64, B, Ops

QUESTIONS: Final = 3000
"""How often clashes are looked for in the whole history; then the history is left to others."""

Arrange: TypeAlias = Callable[[Ops, Stays], I64 | None]
"""An order of the values, or None where they have none."""

ATTEMPTS: Final = 100
"""Parts of the culprits that are tried to make them fewer."""


VERDICT_SHARE: Final = 0.75
"""Of a decider's time, the most that goes into the verdict; the rest is for the culprits."""


def decide_crashed(
    ops: Ops, put: str, take: str, find: Find, explain: Explain, budget: Budget, arrange: Arrange | None = None
) -> Decision | None:
    """Decide a container of distinct values in which takes crashed; None for others, and where it would take too long.

    Args:
        ops: the history.
        put: the function that puts a value in.
        take: the function that takes one out.
        find: a clash of stays, or None if there is none; exact.
        explain: the reason of a smallest clash.
        budget: for the verdict and for the culprits. Of that no more than the verdict took, or a little.
        arrange: an order of the values that `find` relies on.
    """
    stays = read_stays(ops, put, take, though_taken=True)
    known = by_transition(ops, put, take)
    if not isinstance(stays, Stays) or known is None:
        return stays if isinstance(stays, Decision) else None
    if arrange is not None:
        order = arrange(ops, stays)
        if order is None:
            return None
        stays = _only(stays, order, np.arange(len(stays.empty), dtype=np.int64))
    crashed = known.of_kind(ops, CRASHED_TAKE)[0]
    with budget.part(VERDICT_SHARE) as time:
        narrowing = _Narrowing(stays, ops.invoked[crashed], find, time)
        fits = narrowing.fits()
    if fits is None or fits:
        return None if fits is None else Decision(True)
    with budget.part(1.0, max(EXPLAIN_LEAST_S, time.spent())) as time:
        blamed = _fewer(stays, narrowing.blamed, ops.invoked[crashed], find, time)
        clash = find(blamed)
        if clash is None:
            raise AssertionError("what is impossible with crashed takes is so without them")
        small = shrink(blamed, clash, find, time)
    reason = explain(small, names(ops, small))
    missing = bool(np.any((blamed.take == NEVER) & (blamed.put_until < stays.end)))
    began = crashed[missing & (ops.invoked[crashed] < int(ops.completed[list(blamed.ops)].max()))]
    if len(began):
        takes = f"the {take} that crashed" if len(began) == 1 else f"the {len(began)} {take}s that crashed"
        reason += f", and {takes} cannot have taken all that would have to be gone"
    return Decision(False, tuple(sorted((*blamed.ops, *cast("list[int]", began.tolist())))), reason)


def _only(stays: Stays, values: I64, empties: I64) -> Stays:
    """Some values and empty takes only, at the same times."""
    return replace(
        stays,
        put=stays.put[values],
        take=stays.take[values],
        put_from=stays.put_from[values],
        put_until=stays.put_until[values],
        take_from=stays.take_from[values],
        take_until=stays.take_until[values],
        value=stays.value[values],
        empty=stays.empty[empties],
        empty_from=stays.empty_from[empties],
        empty_until=stays.empty_until[empties],
    )


def _fewer(stays: Stays, blamed: Clash, crashed: I64, find: Find, budget: Budget) -> Stays:
    """A part of the values that cannot be placed, of which none can be left out, if attempts and time suffice."""
    values, empties = blamed.values, blamed.empties
    attempts, size = ATTEMPTS, max(1, len(values) // 2)
    while attempts > 0 and not budget.is_over():
        start, smaller = 0, False
        while start < len(values) and attempts > 0 and not budget.is_over():
            rest = np.delete(values, slice(start, start + size))
            attempts -= 1
            if _Narrowing(_only(stays, rest, empties), crashed, find, budget, ATTEMPTS).fits() is False:
                values, smaller = rest, True
            else:
                start += size
        if size == 1 and not smaller:
            break
        size = max(1, size // 2)
    return _only(stays, values, empties)


@dataclass(frozen=True)
class _Ranges:
    """By value, which crashed takes may have taken it, by number in the order of their beginnings.

    Attributes:
        least: the first one.
        most: the last one: the value's take began no later. As many as there are for a value that need not be taken.
    """

    least: I64
    most: I64


class _Narrowing:
    def __init__(self, stays: Stays, crashed: I64, find: Find, budget: Budget, questions: int = QUESTIONS) -> None:
        self._stays = stays
        self._began = np.append(np.sort(crashed), stays.end)
        self._missing: B = (stays.take == NEVER) & (stays.put_until < stays.end)
        self._find = find
        self._left = questions
        self._budget = budget
        self._blamed: B = np.zeros(len(stays.put), np.bool_)
        self._blamed_empties: B = np.zeros(len(stays.empty), np.bool_)

    @property
    def blamed(self) -> Clash:
        """Values and empty takes that cannot be placed, once that is known."""
        values, empties = np.flatnonzero(self._blamed), np.flatnonzero(self._blamed_empties)
        return Clash(values.astype(np.int64), empties.astype(np.int64))

    def fits(self) -> bool | None:
        """Whether all can be placed; None if that takes too many questions, or too long."""
        never = len(self._began) - 1
        count = len(self._missing)
        waiting = [_Ranges(np.zeros(count, np.int64), np.full(count, never, np.int64))]
        while waiting:
            ranges = waiting.pop()
            if not self._enough(ranges):
                continue
            if self._left <= 0 or self._budget.is_over():
                return None
            self._left -= 1
            clash = self._find(self._taken(self._stays, self._missing, ranges.most))
            if clash is None:
                return True
            waiting += self._narrowed(ranges, clash)
        return False

    def _enough(self, ranges: _Ranges) -> bool:
        """Whether there are crashed takes enough for the values that need one; if not these are to blame."""
        never = len(self._began) - 1
        needs = np.bincount(ranges.most[self._missing], minlength=never + 1)[:never]
        if bool(np.all(np.cumsum(needs) <= np.arange(1, never + 1))):
            return True
        self._blamed |= self._missing & (ranges.most < never)
        return False

    def _taken(self, stays: Stays, missing: B, by: I64) -> Stays:
        """The stays if the missing values were taken by crashed takes that began when those did."""
        taken = missing & (by < len(self._began) - 1)
        return replace(
            stays,
            take=np.where(taken, stays.put, stays.take),
            take_from=np.where(taken, self._began[by], stays.take_from),
        )

    def _narrowed(self, ranges: _Ranges, clash: Clash) -> list[_Ranges]:
        """The ranges without what a clash excludes, in parts of which one must hold; none if it excludes everything."""
        values = np.sort(clash.values)
        self._blamed[values] = True
        self._blamed_empties[clash.empties] = True
        small, missing = _only(self._stays, values, clash.empties), self._missing[values]
        least, most = ranges.least[values], ranges.most[values]

        def clashes(by: I64) -> bool:
            return self._find(self._taken(small, missing, by)) is not None

        if clashes(least):
            return []
        bounds = most.copy()
        for at in np.flatnonzero(missing).tolist():
            if self._budget.is_over():
                break
            low, high, by = int(least[at]), int(most[at]), least.copy()
            while low < high:
                by[at] = (low + high + 1) // 2
                if clashes(by):
                    high = int(by[at]) - 1
                else:
                    low = int(by[at])
            bounds[at] = low
        if bool(np.any(bounds < most)):
            narrower = ranges.most.copy()
            narrower[values] = bounds
            return [_Ranges(ranges.least, narrower)]
        widest = int(values[np.argmax(np.where(missing, most - least, -1))])
        middle = int(ranges.least[widest] + ranges.most[widest]) // 2
        below, above = ranges.most.copy(), ranges.least.copy()
        below[widest], above[widest] = middle, middle + 1
        return [_Ranges(ranges.least, below), _Ranges(above, ranges.most)]
