"""Containers of distinct values: when each value was put in and taken out, and what a decider says of that.

Queues, stacks and priority queues are alike here. Every value goes in once and comes out at most once, so an op
belongs to a value, and what counts is the *stay* of each value: put in at some time within one op, taken out at some
time within another. Taking all ops of a value out of a sequence that such a container allows leaves one that it
allows. Therefore

- the ops of a few values that cannot be placed convict the whole history (that is what culprits are),
- a put that crashed and whose value no op took out can be left out, and
- so can a take that crashed if every value that surely went in was taken by another.

Times are rows of the history. *Moment* i lies between row i and the next. A value is surely inside in the moments from
the end of its put until the beginning of its take; there are none where these two overlap.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias, cast

import numpy as np

from splitbrain.checkers.linearizable.deciders import Decision
from splitbrain.checkers.linearizable.limits import EXPLAIN_LEAST_S, Budget
from splitbrain.checkers.linearizable.ops import I64, Ops, show
from splitbrain.checkers.models import UNKNOWN
from splitbrain.results.columns import distinct

NEVER: Final = -1
"""The take of a value that stayed in."""

ATTEMPTS: Final = 1000
"""Parts that are tried when a clash is made small."""

PUT, TAKE, EMPTY, CRASHED_TAKE = range(4)
"""What an op does: a take is one that returned a value, an empty one saw that there was none."""


@dataclass(frozen=True)
class Stays:
    """The values that were put in, and the takes that found nothing.

    A put that never returned ends at `end`. A value that was never taken is taken at `end`, by an op of its own, so
    that every order of those is possible. Where both are so the value goes in after all that matters, as if left out.

    Attributes:
        end: a time after all that happened.
        put: the op that put the value in, by value.
        take: the op that took it out, or NEVER.
        put_from: when the put was invoked.
        put_until: when it returned.
        take_from: when the take was invoked, or `end`.
        take_until: when it returned, or `end` + 1.
        value: index of the put's transition.
        empty: the takes that found nothing (op numbers).
        empty_from: when they were invoked.
        empty_until: when they returned.
    """

    end: int
    put: I64
    take: I64
    put_from: I64
    put_until: I64
    take_from: I64
    take_until: I64
    value: I64
    empty: I64
    empty_from: I64
    empty_until: I64

    @property
    def ops(self) -> tuple[int, ...]:
        """All ops, by number."""
        numbers = np.concatenate((self.put, self.take[self.take != NEVER], self.empty))
        return tuple(sorted(numbers.tolist()))

    def part(self, values: I64, empties: I64) -> Stays:
        """Some values and empty takes only, in times that are as near to each other as their order allows."""
        lasting = self.take[values] == NEVER
        unending = self.put_until[values] == self.end
        unreturned = self.take_until[values] > self.end
        times = np.concatenate(
            (
                self.put_from[values],
                self.put_until[values][~unending],
                self.take_from[values][~lasting],
                self.take_until[values][~unreturned],
                self.empty_from[empties],
                self.empty_until[empties],
            )
        )
        known = np.sort(times)
        end = len(known)

        def rank(when: I64) -> I64:
            return np.searchsorted(known, when).astype(np.int64)

        return Stays(
            end=end,
            put=self.put[values],
            take=self.take[values],
            put_from=rank(self.put_from[values]),
            put_until=np.where(unending, end, rank(self.put_until[values])),
            take_from=np.where(lasting, end, rank(self.take_from[values])),
            take_until=np.where(unreturned, end + 1, rank(self.take_until[values])),
            value=self.value[values],
            empty=self.empty[empties],
            empty_from=rank(self.empty_from[empties]),
            empty_until=rank(self.empty_until[empties]),
        )


@dataclass(frozen=True)
class Clash:
    """Values and empty takes (indices into `Stays`) whose ops cannot all be placed."""

    values: I64
    empties: I64


NONE: Final[I64] = np.zeros(0, np.int64)

Find: TypeAlias = Callable[[Stays], Clash | None]
Explain: TypeAlias = Callable[[Stays, list[str]], str]


def decide(stays: Stays | Decision | None, ops: Ops, find: Find, explain: Explain, budget: Budget) -> Decision | None:
    """The decision on stays that were read, by what `find` says of them.

    Args:
        stays: the answer of `read_stays`.
        ops: for the values to name.
        find: a clash, or None if there is none; exact.
        explain: gives the reason of a smallest clash, from its stays and their values as text.
        budget: for making a clash small, for which no more time is taken than for finding it, or a little.
    """
    if not isinstance(stays, Stays):
        return stays
    with budget.part(1.0) as time:
        clash = find(stays)
    if clash is None:
        return Decision(True)
    with budget.part(1.0, max(EXPLAIN_LEAST_S, time.spent())) as time:
        small = shrink(stays, clash, find, time)
    return Decision(False, small.ops, explain(small, names(ops, small)))


def names(ops: Ops, stays: Stays) -> list[str]:
    """The values as text."""
    return [show(ops.transitions[transition].value) for transition in stays.value.tolist()]


def in_order(names: list[str], when: I64) -> list[str]:
    """Names by the times that belong to them."""
    return [names[which] for which in cast("list[int]", np.argsort(when).tolist())]


def read_stays(ops: Ops, put: str, take: str, *, though_taken: bool = False) -> Stays | Decision | None:
    """The stays of a history, or why it needs none: a take that no put explains.

    None where a value was put in more than once, or a take crashed although a value that surely went in was never seen
    to come out: it may have been the one that the crashed op took.

    Args:
        ops: the history.
        put: the function that puts a value in; its value is that.
        take: the function that takes one out; its result is the value, or null where there was none.
        though_taken: give the stays, as if no take had crashed, where a crashed one may have taken a value.
    """
    known = by_transition(ops, put, take)
    if known is None:
        return None
    put_op, put_value = known.of_kind(ops, PUT)
    if len(distinct(put_value)) < len(put_value):
        return None
    putter = np.full(known.values, NEVER, np.int64)
    putter[put_value] = put_op
    take_op, take_value = known.of_kind(ops, TAKE)
    wrong = _unexplained(ops, putter[take_value], take_op, take_value, take)
    if wrong is not None:
        return wrong
    taker = np.full(known.values, NEVER, np.int64)
    taker[take_value] = take_op
    missing = (taker[put_value] == NEVER) & ~ops.crashed[put_op]
    if not though_taken and bool(np.any(missing)) and len(known.of_kind(ops, CRASHED_TAKE)[0]) > 0:
        return None
    return stays_of(ops, put_op, taker[put_value], known.of_kind(ops, EMPTY)[0])


@dataclass(frozen=True)
class Known:
    """What the distinct transitions do.

    Attributes:
        kind: PUT, TAKE, EMPTY or CRASHED_TAKE, by transition.
        value: number of the value that goes in or comes out, by transition; equal values have one number.
        values: how many numbers there are.
    """

    kind: I64
    value: I64
    values: int

    def of_kind(self, ops: Ops, kind: int) -> tuple[I64, I64]:
        """The ops of a kind, and the numbers of their values."""
        found = np.flatnonzero(self.kind[ops.transition] == kind).astype(np.int64)
        return found, self.value[ops.transition[found]]


def by_transition(ops: Ops, put: str, take: str) -> Known | None:
    """What each distinct transition does; None if one of them puts null in, which stands for nothing."""
    kinds: list[int] = []
    values: list[int] = []
    numbers: dict[object, int] = {}
    for transition in ops.transitions:
        kind, value = PUT, transition.value
        if transition.f == take:
            value = transition.result
            kind = CRASHED_TAKE if value is UNKNOWN else EMPTY if value is None else TAKE
        elif transition.f != put or value is None:
            return None
        kinds.append(kind)
        values.append(numbers.setdefault(value, len(numbers)))
    return Known(np.asarray(kinds, np.int64), np.asarray(values, np.int64), len(numbers))


def _unexplained(ops: Ops, putter: I64, take_op: I64, take_value: I64, take: str) -> Decision | None:
    """The take that returned first among those of a value that was not there or had been taken already."""
    order = np.argsort(ops.completed[take_op])
    taken_first = np.zeros(len(take_op), np.bool_)
    taken_first[order[np.unique(take_value[order], return_index=True)[1]]] = True
    unknown = putter == NEVER
    too_early = ~unknown & (ops.completed[take_op] < ops.invoked[putter])
    wrong = unknown | too_early | ~taken_first
    if not bool(np.any(wrong)):
        return None
    which = int(order[np.argmax(wrong[order])])
    op = int(take_op[which])
    value = show(ops.transitions[ops.transition[op]].result)
    if unknown[which]:
        return Decision(False, (op,), f"{take} returned {value}, which no op had put in")
    first_put = int(putter[which])
    if too_early[which]:
        return Decision(False, tuple(sorted((op, first_put))), f"{take} returned {value} before it was put in")
    others = order[(take_value[order] == take_value[which]) & taken_first[order]]
    culprits = tuple(sorted((op, first_put, int(take_op[int(others[0])]))))
    return Decision(False, culprits, f"{take} returned {value} twice, and it had been put in once")


def stays_of(ops: Ops, put: I64, take: I64, empty: I64) -> Stays:
    """The stays of puts and their takes, NEVER for none, with takes that found nothing; all by number."""
    end = 1 + int(max(ops.invoked.max(initial=0), ops.completed.max(initial=0)))
    lasting = take == NEVER
    return Stays(
        end=end,
        put=put,
        take=take,
        put_from=ops.invoked[put],
        put_until=np.where(ops.crashed[put], end, ops.completed[put]),
        take_from=np.where(lasting, end, ops.invoked[take]),
        take_until=np.where(lasting, end + 1, ops.completed[take]),
        value=ops.transition[put].astype(np.int64),
        empty=empty,
        empty_from=ops.invoked[empty],
        empty_until=ops.completed[empty],
    )


def shrink(stays: Stays, clash: Clash, find: Find, budget: Budget) -> Stays:
    """A part of the clash that is a clash still: no value in it can be left out, if attempts and time suffice.

    Values are left out in halves, quarters and so on down to one by one, as in Zeller and Hildebrandt's delta
    debugging.
    """
    values, empties = clash.values, clash.empties
    attempts = ATTEMPTS
    size = max(1, len(values) // 2)
    while attempts > 0 and not budget.is_over():
        start = 0
        smaller = False
        while start < len(values) and attempts > 0 and not budget.is_over():
            rest = np.delete(values, slice(start, start + size))
            attempts -= 1
            if find(stays.part(rest, empties)) is None:
                start += size
            else:
                values, smaller = rest, True
        if size == 1 and not smaller:
            break
        size = max(1, size // 2)
    part = stays.part(values, empties)
    rest = find(part)
    return part if rest is None else part.part(rest.values, rest.empties)
