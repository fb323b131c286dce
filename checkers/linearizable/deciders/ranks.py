"""Queues in which values repeat: which of the equal ones is which, where that follows from when they went in and out.

In a FIFO queue equal values come out in the order in which they went in; in a queue of another kind they are alike, so
that nothing is lost by assuming it. So the i-th put of a value belongs to its i-th take, and has *rank* i. Value and
rank together are distinct values, for which there are deciders.

What is i-th is not always known. But two puts of one value of which neither lies within the other can be taken in the
order of their invocations: where a linearization has them the other way round they can be exchanged. Takes likewise.
Puts of a value that overlap, one with the next, are a group; all of it comes after the groups before. So a rank is
*certain* if no put of its group lies within another, no take of its take's group within another, and no take crashed
that may have taken the value. Therefore

- if any ranks make the history linearizable, it is; those are tried that a schedule by deadlines gives;
- if the values whose ranks are certain cannot be placed on their own, the history is not linearizable: leaving out all
  ops on a value takes nothing away from the others (`containers`);
- a value that came out k times before it had begun to go in k times is a proof by itself.

Otherwise nothing is known. All of it takes O(n log n).
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final, TypeAlias, cast

import numpy as np

from splitbrain.checkers.linearizable.deciders import Decision
from splitbrain.checkers.linearizable.deciders.containers import (
    CRASHED_TAKE,
    EMPTY,
    NEVER,
    PUT,
    TAKE,
    Explain,
    Find,
    Known,
    Stays,
    by_transition,
    names,
    shrink,
    stays_of,
)
from splitbrain.checkers.linearizable.deciders.repeated_values import reason_by_count
from splitbrain.checkers.linearizable.limits import EXPLAIN_LEAST_S, Budget
from splitbrain.checkers.linearizable.ops import I64, B, Ops

EXCHANGES: Final = 300
"""The largest number of exchanges of uncertain ranks."""

EXCHANGES_SHARE: Final = 0.25
"""Of a decider's time, the most that goes into them."""

NEAR: Final = 3
"""The largest difference of ranks that are exchanged."""

Arrange: TypeAlias = Callable[[Ops, Stays], I64 | None]
"""An order of the values, or None where they have none."""


def decide_ranked(
    ops: Ops, put: str, take: str, find: Find, explain: Explain, budget: Budget, arrange: Arrange | None = None
) -> Decision | None:
    """Decide a queue by ranks; None where they are not certain enough.

    Args:
        ops: the history.
        put: the function that puts a value in.
        take: the function that takes one out; one that crashed may have taken nothing.
        find: a clash of stays, or None if there is none; exact for distinct values.
        explain: the reason of a smallest clash.
        budget: for making a clash small, for which no more time is taken than for finding it, or a little.
        arrange: an order of the values that `find` relies on, in which equal ones stay as they are.
    """
    known = by_transition(ops, put, take)
    if known is None:
        return None
    with budget.part(1.0) as time:
        excess = _excess(ops, known, put)
        if excess is not None:
            return excess
        ranked = _ranked(ops, known)
        order = np.arange(len(ranked.rank), dtype=np.int64) if arrange is None else arrange(ops, ranked.stays)
        if order is None:
            return None
        empties = np.arange(len(ranked.stays.empty), dtype=np.int64)
        certain = ranked.stays.part(order[ranked.certain[order]], empties)
        clash = find(certain)
        if clash is None:
            with time.part(EXCHANGES_SHARE) as least:
                fits = _Exchanges(ops, ranked, order, find, least).fit()
            return Decision(True) if fits else None
    with budget.part(1.0, max(EXPLAIN_LEAST_S, time.spent())) as time:
        small = shrink(certain, clash, find, time)
    return Decision(False, ranked.culprits(ops, small), explain(small, ranked.names(ops, small)))


@dataclass(frozen=True)
class _Ranked:
    """Stays of values with their ranks.

    Attributes:
        stays: a stay for each put, those of one value together, by rank.
        number: of the value, by stay.
        rank: from 0, by stay.
        certain: whether it is certain, by stay.
        may_shift: whether takes crashed, which would shift ranks if they could take a value: none is left for them as
            long as all its takes are known.
    """

    stays: Stays
    number: I64
    rank: I64
    certain: B
    may_shift: bool

    def culprits(self, ops: Ops, small: Stays) -> tuple[int, ...]:
        """The ops of some stays, and those that make their ranks certain: of a lower rank as a rule."""
        which = self.places(ops, small)
        last = np.full(1 + int(self.number.max(initial=0)), -1, np.int64)
        np.maximum.at(last, self.number[which], self.rank[which])
        up_to = last[self.number] >= (0 if self.may_shift else self.rank)
        take = self.stays.take[up_to]
        found = np.concatenate((self.stays.put[up_to], take[take != NEVER], small.empty))
        return tuple(cast("list[int]", np.sort(found).tolist()))

    def names(self, ops: Ops, small: Stays) -> list[str]:
        """The values as text, with their ranks where a value was put in more than once."""
        which = self.places(ops, small)
        several = np.bincount(self.number)[self.number[which]] > 1
        ranks = cast("list[int]", (1 + self.rank[which]).tolist())
        return [
            f"{name} (no. {rank} of that value)" if more else name
            for name, rank, more in zip(names(ops, small), ranks, several.tolist(), strict=True)
        ]

    def places(self, ops: Ops, small: Stays) -> I64:
        """Which of the stays some stays are."""
        place = np.zeros(len(ops.invoked), np.int64)
        place[self.stays.put] = np.arange(len(self.stays.put))
        return place[small.put]


class _Exchanges:
    """Other ranks where those at hand clash: a put, or a take, is moved before or behind others of its value."""

    def __init__(self, ops: Ops, ranked: _Ranked, order: I64, find: Find, budget: Budget) -> None:
        self._ops = ops
        self._ranked = ranked
        self._order = order
        self._find = find
        self._budget = budget
        self._empties = np.arange(len(ranked.stays.empty), dtype=np.int64)

    def fit(self) -> bool:
        """Whether ranks were found with which the history is linearizable."""
        for _ in range(EXCHANGES):
            stays = self._ranked.stays.part(self._order, self._empties)
            clash = self._find(stays)
            if clash is None:
                return True
            small = shrink(stays, clash, self._find, self._budget)
            found = None if self._budget.is_over() else self._exchanged(small)
            if found is None:
                return False
            self._ranked = replace(self._ranked, stays=found)
        return False

    def _exchanged(self, small: Stays) -> Stays | None:
        """The stays after a move with which a clash is none any more, and every put has begun before its take ends."""
        ranked, which = self._ranked, self._ranked.places(self._ops, small)
        empties = np.flatnonzero(np.isin(ranked.stays.empty, small.empty)).astype(np.int64)
        for place in cast("list[int]", which[~ranked.certain[which]].tolist()):
            for moved in self._moves(place):
                concerned = np.isin(self._order, np.append(which, place))
                begun = bool(np.all(moved.put_from < moved.take_until))
                if begun and self._find(moved.part(self._order[concerned], empties)) is None:
                    return moved
        return None

    def _moves(self, place: int) -> Iterator[Stays]:
        """The stays with a put or take of a value moved to that rank, or from there to another, and others shifted."""
        stays = self._ranked.stays
        for other in self._near(place, stays.put_from, stays.put_until):
            yield stays_of(self._ops, _moved(stays.put, other, place), stays.take, stays.empty)
            yield stays_of(self._ops, _moved(stays.put, place, other), stays.take, stays.empty)
        for other in self._near(place, stays.take_from, stays.take_until):
            if NEVER not in (stays.take[place], stays.take[other]):
                yield stays_of(self._ops, stays.put, _moved(stays.take, other, place), stays.empty)
                yield stays_of(self._ops, stays.put, _moved(stays.take, place, other), stays.empty)

    def _near(self, place: int, begin: I64, until: I64) -> list[int]:
        """Stays of the value of one, of ranks that are near or with ops within which its op lies, not too many."""
        number = self._ranked.number
        value = int(number[place])
        first, last = int(np.searchsorted(number, value)), int(np.searchsorted(number, value, side="right"))
        own = np.arange(first, last, dtype=np.int64)
        around = own[(begin[own] < begin[place]) & (until[own] > until[place])][:NEAR]
        near = np.arange(max(first, place - NEAR), min(last, place + NEAR + 1), dtype=np.int64)
        found = np.unique(np.concatenate((near, around)))
        return cast("list[int]", found[found != place].tolist())


def _moved(ops: I64, one: int, to: int) -> I64:
    """One op moved to another place, and those between by one."""
    found = ops.copy()
    if one < to:
        found[one:to] = ops[one + 1 : to + 1]
    else:
        found[to + 1 : one + 1] = ops[to:one]
    found[to] = ops[one]
    return found


def _excess(ops: Ops, known: Known, put: str) -> Decision | None:
    """The take that returned first of those that no put explains: its value came out oftener than it had gone in."""
    put_op, put_number = known.of_kind(ops, PUT)
    take_op, take_number = known.of_kind(ops, TAKE)
    by_put = np.argsort(put_number, kind="stable")
    by_take = np.lexsort((ops.completed[take_op], take_number))
    first_put = np.searchsorted(put_number[by_put], take_number[by_take])
    first_take = np.searchsorted(take_number[by_take], take_number[by_take])
    rank = np.arange(len(take_op)) - first_take
    at = first_put + rank
    there = at < np.searchsorted(put_number[by_put], take_number[by_take], side="right")
    begun = np.full(len(take_op), np.iinfo(np.int64).max)
    begun[there] = ops.invoked[put_op[by_put[at[there]]]]
    returned = ops.completed[take_op[by_take]]
    wrong = np.flatnonzero(begun > returned)
    if not len(wrong):
        return None
    worst = int(wrong[np.argmin(returned[wrong])])
    culprits = cast("list[int]", np.sort(take_op[by_take[first_take[worst] : worst + 1]]).tolist())
    reason = reason_by_count(ops, known, int(take_op[by_take[worst]]), put)
    assert reason is not None, "the take is one of those that no put explains"
    return Decision(False, tuple(culprits), reason)


def _ranked(ops: Ops, known: Known) -> _Ranked:
    put, number = known.of_kind(ops, PUT)
    take, taken = known.of_kind(ops, TAKE)
    end = 1 + int(max(ops.invoked.max(initial=0), ops.completed.max(initial=0)))
    until = np.where(ops.crashed, end, ops.completed)
    by_number = np.argsort(number, kind="stable")
    put, number = put[by_number], number[by_number]
    by_return = np.lexsort((until[take], taken))
    take, taken = take[by_return], taken[by_return]
    values = np.arange(known.values + 1)
    first_put, first_take = np.searchsorted(number, values), np.searchsorted(taken, values)
    puts, takes = np.diff(first_put), np.diff(first_take)
    nested_puts = _nested(ops.invoked[put], until[put], number)
    by_invocation = np.lexsort((ops.invoked[take], taken))
    own_takes = take[by_invocation]
    nested_takes = np.zeros(len(ops.invoked), np.bool_)
    nested_takes[own_takes] = _nested(ops.invoked[own_takes], until[own_takes], taken[by_invocation])
    for value in cast("list[int]", np.unique(number[nested_puts]).tolist()):
        own = slice(first_put[value], first_put[value + 1])
        returns = until[take[first_take[value] : first_take[value + 1]]]
        put[own] = _scheduled(ops.invoked, until, put[own], returns)
    rank = np.arange(len(put)) - first_put[number]
    taker = np.full(len(put), NEVER, np.int64)
    there = rank < takes[number]
    taker[there] = take[(first_take[number] + rank)[there]]
    certain = ~nested_puts & ~(there & nested_takes[taker])
    may_shift = len(known.of_kind(ops, CRASHED_TAKE)[0]) > 0
    if may_shift:
        certain &= (puts <= takes)[number]
    return _Ranked(stays_of(ops, put, taker, known.of_kind(ops, EMPTY)[0]), number, rank, certain, may_shift)


def _nested(begin: I64, until: I64, number: I64) -> B:
    """Whether ops overlap, directly or by others of their value, of which one lies within another.

    Ranks are certain all the same before and after such a group: all of it comes after the ones, and before the others.

    Args:
        begin: when each begins; by value, and for each value in the order of this.
        until: when it ends.
        number: of the value.
    """
    if not len(begin):
        return np.zeros(0, np.bool_)
    width = 1 + int(until.max())
    latest = np.maximum.accumulate(number * width + until) - number * width
    starts = np.append(True, (number[1:] != number[:-1]) | (begin[1:] > latest[:-1]))
    group = np.cumsum(starts) - 1
    within = ~starts & (until < np.append(0, latest[:-1]))
    return np.isin(group, group[within])


def _scheduled(invoked: I64, until: I64, puts: I64, takes_until: I64) -> I64:
    """An order of puts of one value: by return, but the k-th one has begun when the k-th take returns, if it can."""
    begin, end = cast("list[int]", invoked[puts].tolist()), cast("list[int]", until[puts].tolist())
    deadlines = cast("list[int]", takes_until.tolist())
    found: list[int] = []
    begun: list[tuple[int, int]] = []
    at = 0
    for k in range(len(puts)):
        while at < len(puts) and (
            not begun or begin[at] < min(begun[0][0], deadlines[k] if k < len(deadlines) else begun[0][0])
        ):
            heapq.heappush(begun, (end[at], at))
            at += 1
        found.append(heapq.heappop(begun)[1])
    return puts[found]
