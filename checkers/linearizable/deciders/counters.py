"""Counters: exact where all adds are of one amount, otherwise bounds that can only refute.

With adds of one amount, a read says how many of them came before it. Reads of equal numbers are a *level*; between
level k - 1 and level k there is a *cut*, in which exactly as many adds take effect as the levels are apart. By the
reads that ended before an add was invoked, and those that were invoked after it had ended, each add fits into a range
of cuts, those after the last level included. The history is linearizable exactly if

- no read ends before one of a lower level begins, and
- adds can be assigned to cuts within their ranges such that each cut gets its number and no acknowledged add is left.

That adds of different cuts agree with each other's time need not be asked for: if one had ended before the other began
and they were assigned the wrong way round, they could be swapped, as their ranges show. The assignment is that of unit
jobs to days: take the most urgent first (Jackson's rule, earliest deadline first). Where it fails, reads and the adds
confined between them contradict each other (Hall's theorem).

Amounts that differ make this a subset sum problem. Then a read is refuted if it is less than all adds that had ended
before it began, or more than all that had begun before it ended. O(n log n).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np

from splitbrain.checkers.kernels import inlined, kernel
from splitbrain.checkers.linearizable.deciders import Decision
from splitbrain.checkers.linearizable.deciders.intervals import FOREVER, by_invocation, ends, name
from splitbrain.checkers.linearizable.ops import I64, Ops
from splitbrain.checkers.models import UNKNOWN, Model

CULPRITS: Final = 16
"""The largest number of adds that the reason lists; more are counted."""

LARGEST: Final = 1 << 62
"""Sums beyond this are left to others."""

_NONE: Final = -1

Int: TypeAlias = Any
"""A machine integer: Numba unifies Python's and NumPy's, type checkers do not."""


@dataclass(frozen=True)
class _Counted:
    """Adds of something and acknowledged reads, by invocation.

    Attributes:
        adds, reads: their ops.
        amount: what is added, by add.
        seen: how far the counter was from its beginning, by read.
        end: the row before which each op took effect, by op.
    """

    ops: Ops
    adds: I64
    reads: I64
    amount: I64
    seen: I64
    end: I64


def decide_by_levels(ops: Ops, model: Model) -> Decision | None:
    """Whether the ops are those of a counter; None if amounts differ, any op is an increment, or no integer."""
    counted = _count(ops, model.init())
    if counted is None or bool((counted.amount != counted.amount[:1]).any()):
        return None
    return _Levels(counted).decide()


def decide_by_bounds(ops: Ops, model: Model) -> Decision | None:
    """That the ops are not those of a counter; None if they are within the bounds, increments, or no integers."""
    counted = _count(ops, model.init())
    if counted is None:
        return None
    return _beyond_bounds(counted) or (_out_of_order(counted) if bool((counted.amount > 0).all()) else None)


def _count(ops: Ops, initial: Any) -> _Counted | None:
    numbers = [0] * len(ops.transitions)
    if any(transition.f == "increment" for transition in ops.transitions):
        return None  # what they answer pins the sum: the search has little to branch on
    for t, transition in enumerate(ops.transitions):
        if transition.f == "add":
            number = transition.value
        else:
            number = initial if transition.result is UNKNOWN else 0 if transition.result is None else transition.result
        if isinstance(number, bool) or not isinstance(number, int) or not isinstance(initial, int):
            return None
        if abs(number) >= LARGEST:
            return None
        numbers[t] = number if transition.f == "add" else number - initial
    number_of, adding = np.array(numbers, np.int64), np.array([t.f == "add" for t in ops.transitions], np.bool_)
    times = np.bincount(ops.transition, minlength=len(ops.transitions)).tolist()
    if sum(abs(number) * count for number, count in zip(numbers, times, strict=True)) >= LARGEST:
        return None
    is_add, number = adding[ops.transition], number_of[ops.transition]
    adds, reads = np.flatnonzero(is_add & (number != 0)), np.flatnonzero(~is_add & ~ops.crashed)
    return _Counted(ops, adds, reads, number[adds], number[reads], ends(ops))


# --- adds of one amount -----------------------------------------------------------------------------------------------


class _Levels:
    """Adds of one amount, and reads by level; level 0 is that of the beginning, whether it was read or not."""

    def __init__(self, counted: _Counted) -> None:
        self._counted = counted
        self._start, self._end = counted.ops.invoked, counted.end
        self._amount = int(counted.amount[0]) if counted.adds.size else 1

    def decide(self) -> Decision:
        if not self._counted.reads.size:
            return Decision(True)  # nothing says how many adds there were
        impossible = self._impossible()
        if impossible is not None:
            return impossible
        steps = self._counted.seen // self._amount
        self._height, level = np.unique(np.append(steps, 0), return_inverse=True)
        level = level[:-1]
        self._last = _latest(self._counted.reads, level, len(self._height))
        self._first = _earliest(self._counted.reads, level, self._end, len(self._height))
        return self._reads_in_order(level) or self._assigned()

    def _impossible(self) -> Decision | None:
        """The violation that no number of adds makes what was read."""
        seen, amount = self._counted.seen, self._amount
        wrong = np.flatnonzero((seen % amount != 0) | (seen // amount < 0))
        if not wrong.size:
            return None
        reader = int(self._counted.reads[wrong[0]])
        reason = f"{name(self._counted.ops, reader)} cannot be reached by adding {amount}"
        return Decision(False, (reader,), reason)

    def _reads_in_order(self, level: I64) -> Decision | None:
        reads = self._counted.reads
        lower = np.where(level > 0, self._last[level - 1], _NONE)
        wrong = np.flatnonzero((lower != _NONE) & (self._end[reads] < self._start[lower]))
        return _backwards(self._counted.ops, int(reads[wrong[0]]), int(lower[wrong[0]])) if wrong.size else None

    def _assigned(self) -> Decision:
        """Assign adds to cuts; cut k is the one before level k, and the one after the last level takes any number."""
        adds = self._counted.adds
        begun = np.where(self._last == _NONE, _NONE, self._start[self._last])
        ended = np.where(self._first == _NONE, FOREVER, self._end[self._first])
        lowest = 1 + np.searchsorted(ended[1:], self._start[adds])
        highest = np.searchsorted(begun, self._end[adds])
        empty = np.flatnonzero(lowest > highest)
        if empty.size:
            return self._excluded(int(adds[empty[0]]), int(lowest[empty[0]]), int(highest[empty[0]]))
        heap = np.zeros(adds.size, np.int64)
        demand = np.diff(self._height, prepend=0)
        failed = _most_urgent_first(lowest, highest, demand, heap)
        if failed > 0:
            return self._too_few(failed, lowest)
        return self._too_many(-failed, lowest, highest) if failed < 0 else Decision(True)

    def _excluded(self, add: int, lowest: int, highest: int) -> Decision:
        """An add between two reads of which the later saw no more than the earlier."""
        ops, after = self._counted.ops, int(self._last[highest])
        what = f"{name(ops, add)} had been acknowledged before {name(ops, after)} began"
        if lowest == 1:
            return Decision(False, by_invocation(add, after), what)
        before = int(self._first[lowest - 1])
        return Decision(False, by_invocation(add, before, after), f"{what}, and began after {name(ops, before)}")

    def _too_few(self, cut: int, lowest: I64) -> Decision:
        reader = int(self._first[cut])
        begun = int((lowest <= cut).sum())
        reason = f"{name(self._counted.ops, reader)} needs more adds than the {begun} that had begun before it ended"
        return Decision(False, (reader,), reason)

    def _too_many(self, cut: int, lowest: I64, highest: I64) -> Decision:
        """Adds that are confined between two levels, and more than these are apart."""
        within = highest <= cut
        from_low = np.cumsum(np.bincount(lowest[within], minlength=cut + 1)[::-1])[::-1]
        # The narrowest range of cuts up to this one that has more adds than it needs.
        since = int(np.flatnonzero(from_low[1:] > self._height[cut] - self._height[:cut])[-1])
        ops, confined = self._counted.ops, np.flatnonzero(within & (lowest > since))
        after = int(self._last[cut])
        about, start = [after], 0
        between = f"before {name(ops, after)} began"
        if since > 0:
            before = int(self._first[since])
            about.append(before)
            start = self._steps(before)
            between = f"between {name(ops, before)} and {name(ops, after)}"
        room = self._steps(after) - start
        reason = f"{confined.size} adds of {self._amount} happened {between}, where there is room for {room}"
        enough = self._counted.adds[confined[: room + 1]][:CULPRITS].tolist()
        return Decision(False, by_invocation(*about, *enough), reason)

    def _steps(self, reader: int) -> int:
        return int(self._counted.seen[np.searchsorted(self._counted.reads, reader)]) // self._amount


def _latest(reads: I64, level: I64, levels: int) -> I64:
    """By level, of the reads up to it the one that was invoked last; -1 if there are none."""
    latest = np.full(levels, _NONE, np.int64)
    latest[level] = reads  # by invocation, and of several the last one stays
    return np.maximum.accumulate(latest)


def _earliest(reads: I64, level: I64, end: I64, levels: int) -> I64:
    """By level, of the reads from it on the one that ended first; -1 if there are none."""
    by_end = reads[np.argsort(end[reads])]
    rank = np.full(levels, reads.size, np.int64)
    rank[level[np.argsort(end[reads])][::-1]] = np.arange(reads.size)[::-1]
    rank = np.minimum.accumulate(rank[::-1])[::-1]
    return np.append(by_end, _NONE)[rank]


@kernel
def _most_urgent_first(lowest: I64, highest: I64, demand: I64, heap: I64) -> int:
    """Give each cut its number of adds, the most urgent first.

    Args:
        lowest: the first cut that each add fits into, ascending.
        highest: the last one.
        demand: how many adds each cut needs; there is no cut 0.
        heap: room for the last cuts of all adds.

    Returns:
        0 if that succeeds; cut k if there are too few adds for it, -k if one is left over that fits into none after it.
    """
    size, following = 0, 0
    for cut in range(1, demand.size):
        while following < lowest.size and lowest[following] <= cut:
            _push(heap, size, highest[following])
            size += 1
            following += 1
        if size < demand[cut]:
            return cut
        for _ in range(demand[cut]):
            size -= 1
            _replace_top(heap, size, heap[size])
        if size > 0 and heap[0] <= cut:
            return -cut
    return 0


@inlined
def _push(heap: I64, size: Int, number: Int) -> None:
    at = size
    while at > 0 and heap[(at - 1) >> 1] > number:
        heap[at] = heap[(at - 1) >> 1]
        at = (at - 1) >> 1
    heap[at] = number


@inlined
def _replace_top(heap: I64, size: Int, number: Int) -> None:
    at = 0
    while 2 * at + 1 < size:
        child = 2 * at + 1
        if child + 1 < size and heap[child + 1] < heap[child]:
            child += 1
        if heap[child] >= number:
            break
        heap[at] = heap[child]
        at = child
    heap[at] = number


def warm_up() -> None:
    """Compile the kernel of this module, or load it from the cache."""
    none = np.zeros(0, np.int64)
    _most_urgent_first(none, none, none, none)


# --- adds of different amounts ----------------------------------------------------------------------------------------


def _beyond_bounds(counted: _Counted) -> Decision | None:
    """The violation that a read saw less, or more, than the adds around it allow."""
    start, end = counted.ops.invoked, counted.end
    began, ended = start[counted.reads], end[counted.reads]
    more, less = np.maximum(counted.amount, 0), np.minimum(counted.amount, 0)
    by_end = np.argsort(end[counted.adds])

    def before(rows: I64, amounts: I64) -> I64:
        """The sum of the adds that had been acknowledged before each row."""
        sums = np.append(0, np.cumsum(amounts[by_end]))
        return sums[np.searchsorted(end[counted.adds][by_end], rows)]

    def by(rows: I64, amounts: I64) -> I64:
        """The sum of the adds that had begun before each row."""
        return np.append(0, np.cumsum(amounts))[np.searchsorted(start[counted.adds], rows)]

    least = before(began, more) + by(ended, less)
    most = by(ended, more) + before(began, less)
    low, high = np.flatnonzero(counted.seen < least), np.flatnonzero(counted.seen > most)
    if low.size:
        return _beyond(counted, int(low[0]), int(least[low[0]]), 1)
    return _beyond(counted, int(high[0]), int(most[high[0]]), -1) if high.size else None


def _beyond(counted: _Counted, read: int, bound: int, sign: int) -> Decision:
    """Say that a read passed a bound, with the largest acknowledged adds that suffice for it."""
    ops, reader = counted.ops, int(counted.reads[read])
    acknowledged = np.flatnonzero((counted.end[counted.adds] < ops.invoked[reader]) & (sign * counted.amount > 0))
    largest = acknowledged[np.argsort(-sign * counted.amount[acknowledged], kind="stable")]
    excess = sign * (bound - int(counted.seen[read]))
    missing = np.cumsum(sign * counted.amount[largest])
    # The contradiction remains without adds of less than the excess.
    enough = int(missing[-1]) - excess if largest.size else -1
    needed = 0 if enough < 0 else int(np.searchsorted(missing, enough, side="right")) + 1
    adds = counted.adds[largest[:needed]][:CULPRITS].tolist()
    initial = int(ops.transitions[int(ops.transition[reader])].result or 0) - int(counted.seen[read])
    reason = f"{name(ops, reader)} is {'less' if sign > 0 else 'more'} than the {bound + initial} that adds allow"
    return Decision(False, by_invocation(reader, *adds), reason)


def _out_of_order(counted: _Counted) -> Decision | None:
    """The violation that a counter that only grows was read, and later less was read."""
    end = counted.end[counted.reads]
    by_end = np.argsort(end)
    highest = np.append(np.iinfo(np.int64).min, np.maximum.accumulate(counted.seen[by_end]))
    before = np.searchsorted(end[by_end], counted.ops.invoked[counted.reads])
    wrong = np.flatnonzero(highest[before] > counted.seen)
    if not wrong.size:
        return None
    later = int(wrong[0])
    earlier = int(by_end[np.flatnonzero(counted.seen[by_end[: before[later]]] > counted.seen[later])[0]])
    return _backwards(counted.ops, int(counted.reads[earlier]), int(counted.reads[later]))


def _backwards(ops: Ops, earlier: int, later: int) -> Decision:
    reason = f"{name(ops, later)} began after {name(ops, earlier)} had ended"
    return Decision(False, by_invocation(earlier, later), reason)
