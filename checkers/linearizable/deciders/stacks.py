"""Stacks of distinct values.

A sequence of pushes and pops is a stack's if the stays of any two values are nested or apart. To decide whether
points within the ops can be chosen so, values are taken away one by one, such that the rest is linearizable if and
only if the whole is: the idea of decrease and conquer is Lee and Mathur's (Efficient decrease-and-conquer
linearizability monitoring, OOPSLA 2025), the proofs below are for the rules as they are here.

1. A value whose push and pop overlap can be pushed and popped at once, whatever the others do.
2. At a moment in which nothing is surely inside, everything can be cut in two: `moments.unfounded_empty` has the proof.
   So each stretch in which always something is surely inside is a matter of its own.
3. In such a stretch one value lies under all others: else there would be a moment between two outermost stays, and
   nothing surely inside at it. That value's push began before any push of the stretch had returned, and its pop
   returned after every pop had begun. Any value of which this is true will do, and can go: in a sequence of the
   others, cut their stays off where the first push has returned and where the last pop begins. They remain nested or
   apart, and lie within the stay of that value. What is left falls into smaller stretches. If there is no such value,
   it is not linearizable.

Three trees find stretches and values in O(log n) each. A value that began early enough for its stretch does so for
every stretch within, and is looked at once.
"""

from __future__ import annotations

import numpy as np

from splitbrain.checkers.kernels import kernel
from splitbrain.checkers.linearizable.deciders import Decision
from splitbrain.checkers.linearizable.deciders.containers import NEVER, NONE, Clash, Stays, decide, in_order, read_stays
from splitbrain.checkers.linearizable.deciders.crashed_takes import decide_crashed
from splitbrain.checkers.linearizable.deciders.minimum_trees import FAR, add, assign, first_zero, least, tree
from splitbrain.checkers.linearizable.deciders.moments import chain, free_from, unfounded_empty
from splitbrain.checkers.linearizable.deciders.queues import found_nothing
from splitbrain.checkers.linearizable.limits import WITHOUT_END, Budget
from splitbrain.checkers.linearizable.ops import I64, Ops
from splitbrain.checkers.models import Model


def stack(ops: Ops, model: Model, budget: Budget = WITHOUT_END) -> Decision | None:
    """Decide a stack, in O(n log n); None for values pushed twice and pops that crashed."""
    del model
    return decide(read_stays(ops, "push", "pop"), ops, _clash, _explain, budget)


def stack_crashed(ops: Ops, model: Model, budget: Budget = WITHOUT_END) -> Decision | None:
    """Decide a stack in which pops crashed; None for values pushed twice, and where that takes too long."""
    del model
    return decide_crashed(ops, "push", "pop", _clash, _explain, budget)


def _clash(stays: Stays) -> Clash | None:
    return _entangled(stays) or unfounded_empty(stays)


def _entangled(stays: Stays) -> Clash | None:
    """A stretch without a value that can lie under all others, as the values that keep it from falling apart.

    These suffice. Together they fill the stretch, and the first to be surely inside is one of them, as is one of the
    last: no value among them can lie under both, since none in the stretch can.
    """
    values = np.flatnonzero(stays.put_until < stays.take_from).astype(np.int64)
    if not len(values):
        return None
    values = values[np.argsort(stays.put_until[values])]
    times = np.unique(np.concatenate((stays.put_until[values], stays.take_from[values])))
    begin, end, opened, closed = (
        np.searchsorted(times, when[values]).astype(np.int64)
        for when in (stays.put_until, stays.take_from, stays.put_from, stays.take_until)
    )
    count = len(values)
    inside = np.cumsum(np.bincount(begin, minlength=len(times)) - np.bincount(end, minlength=len(times)))
    cover, cover_size = tree(inside.astype(np.int64))
    early, size = tree(opened)
    late, _ = tree(np.full(count, FAR, np.int64))
    alive = np.arange(count + 1, dtype=np.int64)
    stretches = np.empty(2 * (count + 2), np.int64)
    first_value = np.searchsorted(begin, np.arange(len(times) + 1)).astype(np.int64)
    failed = _take_apart(
        begin, end, closed, first_value, cover, np.zeros_like(cover), cover_size, early, late, size, alive, stretches
    )
    if not failed:
        return None
    first, until = int(stretches[0]), int(stretches[1])
    left = np.flatnonzero(alive[:-1] == np.arange(count))
    return Clash(values[left[chain(begin[left], end[left], first, until)]], NONE)


@kernel
def _take_apart(
    begin: I64,
    end: I64,
    closed: I64,
    first_value: I64,
    cover: I64,
    pending: I64,
    cover_size: int,
    early: I64,
    late: I64,
    size: int,
    alive: I64,
    stretches: I64,
) -> bool:
    """Take values away until none is left, or a stretch has none to take: then True, and `stretches` begins with it.

    Args:
        begin: rank of the end of each push, ascending. All ranks are among the ends of pushes and beginnings of pops.
        end: rank of the beginning of its pop.
        closed: how many of these times are before the end of its pop.
        first_value: by rank, the first value that begins then or later.
        cover: how many values are surely inside, by rank (a tree for `add`).
        pending: of that tree.
        cover_size: of that tree.
        early: how many of the times are before the beginning of the push; FAR once it is early enough for its stretch.
        late: minus `closed` of the values that are early enough, FAR for all others.
        size: of these two trees.
        alive: by value, itself, or one after it where it was taken away; one entry more than values.
        stretches: room for two entries per value, and four.
    """
    stretches[0], stretches[1] = 0, first_value.size - 2
    waiting = 1
    while waiting > 0:
        waiting -= 1
        start, stop = stretches[2 * waiting], stretches[2 * waiting + 1]
        value = free_from(alive, int(first_value[start]))
        if value >= first_value[stop]:
            continue
        start = begin[value]
        until = first_zero(cover, pending, cover_size, start)
        if until < stop:
            stretches[2 * waiting], stretches[2 * waiting + 1] = until, stop
            waiting += 1
        last = first_value[until]
        while True:
            earliest = least(early, size, value, last)
            if early[size + earliest] > start:
                break
            assign(early, size, earliest, FAR)
            assign(late, size, earliest, -closed[earliest])
        lowest = least(late, size, value, last)
        if late[size + lowest] >= -until:
            stretches[0], stretches[1] = start, until
            return True
        assign(late, size, lowest, FAR)
        alive[lowest] = lowest + 1
        add(cover, pending, cover_size, begin[lowest], end[lowest], -1)
        stretches[2 * waiting], stretches[2 * waiting + 1] = start, until
        waiting += 1
    return False


def _explain(stays: Stays, values: list[str]) -> str:
    if len(stays.empty):
        return found_nothing("pop", stays, values)
    order = in_order(values, stays.put_until)
    if len(order) == 2:
        under, upper = order
        came_out = "never popped" if NEVER in stays.take else "popped later"
        return f"{under} was popped from under {upper}, which had been pushed after it and was {came_out}"
    listed = ", ".join(order)
    return f"one of {listed} must lie under the others, and each was pushed too late or popped too early for that"


def warm_up() -> None:
    """Compile the kernel of this module, or load it from the cache."""
    one = np.zeros(1, np.int64)
    _entangled(Stays(3, one, one, one, one + 1, one + 2, one + 3, one, NONE, NONE, NONE))
