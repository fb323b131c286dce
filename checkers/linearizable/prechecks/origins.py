"""Where values come from: from nowhere, from the future, or from before they were certainly replaced.

A model says what each op sees and what it leaves, place by place (`Facts`). A place comes to hold a value only by an op
that leaves it there, so an op that saw one contradicts the history

- if no op that was invoked before it returned leaves that value, and it was not there at first, or
- if all ops that leave it (and were invoked before the seer returned) had returned before another op was invoked that
  proves the place to hold something else, and that returned before the seer was invoked. At the moment of the proof the
  value is gone, and nothing brings it back.

A crashed op never returns: it may leave its value at any later time, so that no value that one leaves is ever gone.
An op that sees what it leaves brings nothing. Time is linear but for sorting.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from checkers.kernels import kernel
from checkers.linearizable.deciders import Decision
from checkers.linearizable.deciders.intervals import by_invocation, name
from checkers.linearizable.ops import I64, Ops, show
from checkers.linearizable.transitions import assignments, steps_by_assignment
from checkers.models import Facts, Model, Special
from results.errors import ModelError

ALGORITHM: Final = "value-origins"
NONE: Final = -1


def refuted(ops: Ops, model: Model) -> Decision | None:
    """The proof that ends first, of an op that saw what cannot have been there; None if there is none.

    Raises:
        UsageError: the model cannot make sense of a value.
    """
    facts = _facts_of(ops, model)
    if facts is None or not len(ops.invoked):
        return None
    return _Origins(ops, *facts).refuted()


def _facts_of(ops: Ops, model: Model) -> tuple[list[Facts], Callable[[Hashable], Hashable]] | None:
    """The facts of each transition, and what a place holds at first; None if the model does not tell."""
    if steps_by_assignment(model):
        initial = model.init()
        each = [_of_assignment(a.requires, a.refuses, a.becomes) for a in assignments(model, ops.transitions)]
        return each, lambda _: initial
    tell = getattr(model, "facts", None)
    if tell is None:
        return None
    told: list[Facts] = []
    for number, what in enumerate(ops.transitions):
        try:
            facts = tell(what.f, what.value, what.result)
        except Exception as error:
            if type(model).__module__.startswith("checkers."):
                return None  # its step refuses the same op, and says why
            raise ModelError(
                f"model {model.name!r} cannot tell the facts of {what}: {type(error).__name__}: {error}", number
            ) from error
        if facts is None:
            return None
        told.append(facts)
    return told, getattr(model, "at_first", lambda _: Special.UNKNOWN)


def _of_assignment(requires: Hashable, refuses: Hashable, becomes: Hashable) -> Facts:
    return Facts(
        sees={} if requires is Special.ANY else {None: requires},
        misses={} if refuses is Special.UNKNOWN else {None: refuses},
        leaves={} if becomes is Special.ANY else {None: becomes},
    )


@dataclass(frozen=True)
class _Said:
    """What ops say, flat: an op, the number of a place, and that of a value there."""

    op: I64
    place: I64
    value: I64


class _Origins:
    def __init__(self, ops: Ops, facts: list[Facts], at_first: Callable[[Hashable], Hashable]) -> None:
        self._ops = ops
        self._places: dict[Hashable, int] = {}
        self._values: dict[tuple[int, Hashable], int] = {}
        self._rows = ops.table.num_rows
        self._end = np.where(ops.crashed, self._rows, ops.completed)
        sees = self._said([each.sees for each in facts], completed=True)
        self._misses = self._said([each.misses for each in facts], completed=True)
        leaves = [_changed(each) for each in facts]
        self._leaves = self._said(leaves)
        self._sees = sees
        self._initial = np.zeros(max(1, len(self._values)), np.bool_)
        for place, number in self._places.items():
            first = at_first(place)
            value = self._values.get((number, first))
            if first is Special.UNKNOWN:
                for (of, _), each in self._values.items():
                    self._initial[each] |= of == number
            elif value is not None:
                self._initial[value] = True

    def _said(self, of_transition: list[Any], *, completed: bool = False) -> _Said:
        """What is said by op; `completed`: by those that returned only."""
        places: list[int] = []
        values: list[int] = []
        count = np.zeros(len(of_transition) + 1, np.int64)
        for t, said in enumerate(of_transition):
            count[t + 1] = len(said)
            for place, value in said.items():
                number = self._places.setdefault(place, len(self._places))
                places.append(number)
                values.append(self._values.setdefault((number, value), len(self._values)))
        first = np.cumsum(count)
        numbers = np.flatnonzero(~self._ops.crashed) if completed else np.arange(len(self._ops.invoked))
        of = self._ops.transition[numbers].astype(np.int64)
        many = count[of + 1]
        op = np.repeat(numbers, many)
        at = np.arange(len(op)) - np.repeat(np.cumsum(many) - many, many) + np.repeat(first[of], many)
        return _Said(op.astype(np.int64), np.array(places, np.int64)[at], np.array(values, np.int64)[at])

    def refuted(self) -> Decision | None:
        sees, ops = self._sees, self._ops
        if not len(sees.op):
            return None
        last, writer, any_writer = self._last_end()
        proof = self._proofs(last)
        unfounded = last == NONE - 1
        wrong = np.flatnonzero(unfounded | (proof != NONE))
        if not len(wrong):
            return None
        first = int(wrong[np.argmin(ops.completed[sees.op[wrong]])])
        op = int(sees.op[first])
        what = self._called(int(sees.value[first]))
        if unfounded[first]:
            later = f"{what} was brought about only later, and was not there at first"
            never = f"no op that may have happened brought {what} about"
            return Decision(False, (op,), later if any_writer[first] else never)
        by = int(proof[first])
        brought = (int(writer[first]),) if writer[first] != NONE else ()
        since = "and nothing brought it back" if brought else "and nothing brought it about"
        reason = f"{name(ops, by)} shows that {what} was gone before that began, {since}"
        return Decision(False, by_invocation(*brought, by, op), reason)

    def _last_end(self) -> tuple[I64, I64, Any]:
        """By sight: the row by which all that may have left the value had returned, the last of these, and if any is.

        NONE without one where the value was there at first, and one less where it was not.
        """
        sees, leaves, width = self._sees, self._leaves, self._rows + 2
        begin, end = self._ops.invoked[leaves.op], self._end[leaves.op]
        order = np.argsort(leaves.value * width + begin, kind="stable")
        value, begin, end, op = leaves.value[order], begin[order], end[order], leaves.op[order]
        latest = np.maximum.accumulate(value * width + end) if len(order) else value
        until = np.searchsorted(value * width + begin, sees.value * width + self._ops.completed[sees.op], side="left")
        at = until - 1
        known = (at >= 0) & (value[at] == sees.value) if len(order) else np.zeros(len(sees.op), np.bool_)
        last = np.where(self._initial[sees.value], NONE, NONE - 1)
        last[known] = latest[at[known]] - sees.value[known] * width
        writer = np.full(len(sees.op), NONE, np.int64)
        by_end = np.argsort(value * width + end, kind="stable")
        place = np.searchsorted((value * width + end)[by_end], sees.value[known] * width + last[known])
        writer[known] = op[by_end[place]]
        any_writer = np.isin(sees.value, value)
        return last, writer, any_writer

    def _proofs(self, last: I64) -> I64:
        """By sight, an op that proves the value to be gone; NONE without one."""
        sees, ops = self._sees, self._ops
        done = ~ops.crashed[self._leaves.op]
        op = np.concatenate([sees.op, self._leaves.op[done]])
        place = np.concatenate([sees.place, self._leaves.place[done]])
        value = np.concatenate([sees.value, self._leaves.value[done]])
        by_end = np.argsort(self._end[op], kind="stable")
        op, place, value = op[by_end], place[by_end], value[by_end]
        start = ops.invoked[sees.op]
        by_start = np.argsort(start, kind="stable")
        found = np.full(len(sees.op), NONE, np.int64)
        places = max(1, len(self._places))
        best = np.full((2, places), NONE, np.int64)
        _sweep(
            op,
            place,
            value,
            ops.invoked,
            self._end,
            by_start,
            sees.op,
            sees.place,
            sees.value,
            best,
            best.copy(),
            found,
        )
        found[(last < NONE) | (found == NONE) | (ops.invoked[found] <= last)] = NONE
        missed = self._missed(start)
        better = (found == NONE) & (missed != NONE) & (last >= NONE) & (ops.invoked[missed] > last)
        return np.where(better, missed, found)

    def _missed(self, start: I64) -> I64:
        """By sight, the op that began last of those that returned before it and did not find that value; or NONE."""
        misses, sees, width = self._misses, self._sees, self._rows + 2
        found = np.full(len(sees.op), NONE, np.int64)
        if not len(misses.op):
            return found
        key = misses.value * width + self._end[misses.op]
        order = np.argsort(key, kind="stable")
        latest = np.maximum.accumulate(misses.value[order] * width + self._ops.invoked[misses.op[order]])
        at = np.searchsorted(key[order], sees.value * width + start, side="left") - 1
        known = (at >= 0) & (misses.value[order][at] == sees.value)
        rows = latest[at[known]] - sees.value[known] * width
        found[known] = np.searchsorted(self._ops.invoked, rows)
        return found

    def _called(self, number: int) -> str:
        """A value, with its place where there are several."""
        place, value = next(key for key, each in self._values.items() if each == number)
        if len(self._places) == 1:
            return show(value)
        where = next(key for key, each in self._places.items() if each == place)
        return show(where) if value is True else f"{show(value)} in {show(where)}"


def _changed(facts: Facts) -> dict[Hashable, Hashable]:
    """What an op leaves that it did not see there."""
    return {
        place: value for place, value in facts.leaves.items() if place not in facts.sees or facts.sees[place] != value
    }


@kernel
def _sweep(
    op: I64,
    place: I64,
    value: I64,
    begin: I64,
    end: I64,
    by_start: I64,
    seer: I64,
    seen_place: I64,
    seen: I64,
    best: I64,
    of: I64,
    found: I64,
) -> None:
    """By sight, the op that began last of those that returned before it and saw or left another value in that place.

    Of each place the two last beginners that speak of different values are kept: `best` are the ops, `of` their values.
    """
    passed = 0
    for k in range(by_start.size):
        sight = by_start[k]
        while passed < op.size and end[op[passed]] < begin[seer[sight]]:
            each, at, what = op[passed], place[passed], value[passed]
            if best[0, at] < 0 or of[0, at] == what:
                if best[0, at] < 0 or begin[each] > begin[best[0, at]]:
                    best[0, at], of[0, at] = each, what
            elif begin[each] > begin[best[0, at]]:
                best[1, at], of[1, at] = best[0, at], of[0, at]
                best[0, at], of[0, at] = each, what
            elif best[1, at] < 0 or begin[each] > begin[best[1, at]]:
                best[1, at], of[1, at] = each, what
            passed += 1
        at = seen_place[sight]
        if best[0, at] >= 0 and of[0, at] != seen[sight]:
            found[sight] = best[0, at]
        elif best[1, at] >= 0 and of[1, at] != seen[sight]:
            found[sight] = best[1, at]


def warm_up() -> None:
    """Compile the kernel of this module, or load it from the cache."""
    none = np.zeros(0, np.int64)
    pairs = np.full((2, 1), NONE, np.int64)
    _sweep(none, none, none, none, none, none, none, none, none, pairs, pairs.copy(), none)
