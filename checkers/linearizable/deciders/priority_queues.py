"""Priority queues of distinct values, the smallest first.

A dequeue is right if nothing smaller than its value is inside; larger values do not matter. So values are placed in
ascending order, each where it is inside as briefly as it can be: dequeued in the first moment that is free of smaller
values, and enqueued as late as possible. By induction every sequence that explains the history has each value inside
for at least that long: its dequeue needs a moment that is free of all smaller ones, and these are inside for at least
as long as they were placed. A value without such a moment is therefore a proof, and if every value has one, this is a
linearization (within a moment: dequeues in ascending order, each after its own enqueue if that is not past, then the
other enqueues). A dequeue that found nothing is placed like that of the largest value of all.

The next moment that is free is found by union-find over moments: O(n log n) for sorting, and nearly linear otherwise.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from splitbrain.checkers.kernels import kernel
from splitbrain.checkers.linearizable.deciders import Decision
from splitbrain.checkers.linearizable.deciders.containers import NONE, Clash, Stays, decide, in_order, read_stays
from splitbrain.checkers.linearizable.deciders.crashed_takes import decide_crashed
from splitbrain.checkers.linearizable.deciders.moments import free_from
from splitbrain.checkers.linearizable.deciders.queues import found_nothing
from splitbrain.checkers.linearizable.deciders.ranks import decide_ranked
from splitbrain.checkers.linearizable.limits import WITHOUT_END, Budget
from splitbrain.checkers.linearizable.ops import I64, B, Ops
from splitbrain.checkers.models import Model


def smallest_first(ops: Ops, model: Model, budget: Budget = WITHOUT_END) -> Decision | None:
    """Decide a priority queue, in O(n log n).

    None for values enqueued twice, dequeues that crashed, and values without one order for all.
    """
    del model
    if _holds_booleans(ops):
        return None
    stays = read_stays(ops, "enqueue", "dequeue")
    if not isinstance(stays, Stays):
        return stays
    ascending = _ascending(ops, stays)
    if ascending is None:
        return None
    return decide(stays.part(ascending, np.arange(len(stays.empty), dtype=np.int64)), ops, _clash, _explain, budget)


def smallest_first_crashed(ops: Ops, model: Model, budget: Budget = WITHOUT_END) -> Decision | None:
    """Decide a priority queue in which dequeues crashed; None as above, and where that takes too long."""
    del model
    if _holds_booleans(ops):
        return None
    return decide_crashed(ops, "enqueue", "dequeue", _clash, _explain, budget, _ascending)


def smallest_first_ranked(ops: Ops, model: Model, budget: Budget = WITHOUT_END) -> Decision | None:
    """Decide a priority queue in which values repeat; None where it is not certain which of the equal ones is which."""
    del model
    if _holds_booleans(ops):
        return None
    return decide_ranked(ops, "enqueue", "dequeue", _clash, _explain, budget, _ascending)


def _ascending(ops: Ops, stays: Stays) -> I64 | None:
    """The values' indices from the smallest value on, None where they are not all of one kind."""
    values: list[Any] = [ops.transitions[transition].value for transition in stays.value.tolist()]
    if not values:
        return NONE
    if not _ordered(_kind(values[0])) or len({_kind(value) for value in values}) > 1:
        return None
    return np.array(sorted(range(len(values)), key=values.__getitem__), np.int64)


def _holds_booleans(ops: Ops) -> bool:
    """Whether some value has no order: that is for the model to refuse."""
    return any(_boolean(transition.value) or _boolean(transition.result) for transition in ops.transitions)


def _boolean(value: Any) -> bool:
    """Whether a value is true or false, or holds one: Python gives them a place among numbers."""
    if isinstance(value, tuple):
        return any(_boolean(item) for item in cast("tuple[Any, ...]", value))
    return isinstance(value, bool)


def _kind(value: Any) -> Any:
    """What values must have in common to have an order: numbers, strings, or lists of the same kinds in turn."""
    if isinstance(value, tuple):
        return tuple(_kind(item) for item in cast("tuple[Any, ...]", value))
    return "number" if isinstance(value, int | float) else "string" if isinstance(value, str) else None


def _ordered(kind: Any) -> bool:
    if isinstance(kind, tuple):
        return all(_ordered(item) for item in cast("tuple[Any, ...]", kind))
    return kind is not None


def _clash(stays: Stays) -> Clash | None:
    """The smallest value that cannot be dequeued, or an empty dequeue, with the values that were inside all the while.

    Values are in ascending order; parts of the stays keep it.
    """
    count = len(stays.put)
    wanted = np.maximum(stays.put_from, stays.take_from)
    following = np.arange(stays.end + 2, dtype=np.int64)
    keeper = np.full(stays.end + 2, count, np.int64)
    taken = np.empty(count, np.int64)
    placed = _place(stays.put_until, wanted, stays.take_until, following, keeper, taken)
    if placed < count:
        seed = Clash(np.array([placed], np.int64), NONE)
        first, until = int(wanted[placed]), int(stays.take_until[placed])
    else:
        empty = _first_unfounded(stays.empty_from, stays.empty_until, following)
        if empty < 0:
            return None
        seed = Clash(NONE, np.array([empty], np.int64))
        first, until = int(stays.empty_from[empty]), int(stays.empty_until[empty])
    links = np.zeros(count, np.bool_)
    _links(first, until, wanted, taken, keeper, links, np.empty(2 * (count + 1), np.int64))
    return Clash(np.union1d(np.flatnonzero(links), seed.values).astype(np.int64), seed.empties)


@kernel
def _place(put_until: I64, wanted: I64, take_until: I64, following: I64, keeper: I64, taken: I64) -> int:
    """Place one value after another; the first that has no place, or how many there are.

    Args:
        put_until: by value, ascending, the end of its enqueue.
        wanted: the first moment in which its dequeue could take it.
        take_until: the end of its dequeue.
        following: by moment, itself if no value is inside then, else one after it.
        keeper: the value that is inside at each moment: the smallest.
        taken: when each value was placed to leave.
    """
    for value in range(put_until.size):
        leaves = free_from(following, wanted[value])
        if leaves >= take_until[value]:
            return value
        taken[value] = leaves
        moment = free_from(following, put_until[value])
        while moment < leaves:
            following[moment] = moment + 1
            keeper[moment] = value
            moment = free_from(following, moment + 1)
    return put_until.size


@kernel
def _first_unfounded(begin: I64, end: I64, following: I64) -> int:
    """The empty dequeue that returned first among those without a free moment, or -1."""
    found = -1
    for empty in range(begin.size):
        if free_from(following, begin[empty]) >= end[empty] and (found < 0 or end[empty] < end[found]):
            found = empty
    return found


@kernel
def _links(first: int, until: int, wanted: I64, taken: I64, keeper: I64, links: B, ranges: I64) -> None:
    """Mark the values that are inside from `first` until `until`, and those that made them stay for so long."""
    ranges[0], ranges[1] = first, until
    waiting = 1
    while waiting > 0:
        waiting -= 1
        moment, stop = ranges[2 * waiting], ranges[2 * waiting + 1]
        while moment < stop:
            value = keeper[moment]
            moment = taken[value]
            if not links[value]:
                links[value] = True
                ranges[2 * waiting], ranges[2 * waiting + 1] = moment, stop
                waiting += 1
                moment, stop = wanted[value], taken[value]


def _explain(stays: Stays, values: list[str]) -> str:
    if len(stays.empty):
        return found_nothing("dequeue", stays, values)
    inside = in_order(values[:-1], stays.put_until[:-1])
    if len(inside) == 1:
        return f"{values[-1]} was dequeued while {inside[0]} was inside, which is smaller"
    smaller = ", ".join(inside)
    return f"{values[-1]} was dequeued, and at every moment of that one of the smaller {smaller} was inside"


def warm_up() -> None:
    """Compile the kernels of this module, or load them from the cache."""
    one = np.zeros(1, np.int64)
    for take_until in (0, 3):
        _clash(Stays(3, one, one, one, one + 1, one + 2, one + take_until, one, one, one, one + 1))
