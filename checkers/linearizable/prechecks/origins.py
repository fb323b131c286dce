"""Where values come from: from nowhere, from the future, or from before they were certainly replaced.

A model says what each op sees and what it leaves, place by place (`Facts`). A place comes to hold a value only by an op
that leaves it there, so an op that saw one contradicts the history

- if no op that was invoked before it returned leaves that value, and it was not there at first, or
- if all ops that leave it (and were invoked before the seer returned) had returned before another op was invoked that
  proves the place to hold something else, and that returned before the seer was invoked. At the moment of the proof the
  value is gone, and nothing brings it back.

A crashed op never returns: it may leave its value at any later time, so that no value that one leaves is ever gone.
An op that sees what it leaves brings nothing. All of it is one reading of the history, row by row.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, Final, NamedTuple

import numpy as np

from splitbrain.checkers.kernels import inlined, kernel
from splitbrain.checkers.linearizable.deciders import Decision
from splitbrain.checkers.linearizable.deciders.intervals import by_invocation, name
from splitbrain.checkers.linearizable.frontier import Int
from splitbrain.checkers.linearizable.ops import I32, I64, B, Ops, show
from splitbrain.checkers.linearizable.transitions import assignments, steps_by_assignment
from splitbrain.checkers.models import Facts, Model, Special
from splitbrain.checkers.models.model import is_built_in
from splitbrain.results.errors import ModelError

ALGORITHM: Final = "value-origins"
NONE: Final = -1
_REGISTERS: Final = 4


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
    """The facts of each transition, and what a place holds at first; None if the model does not say."""
    if steps_by_assignment(model):
        initial = model.init()
        each = [_of_assignment(a.requires, a.refuses, a.becomes) for a in assignments(model, ops.transitions)]
        return each, lambda _: initial
    get_facts = getattr(model, "facts", None)
    if get_facts is None:
        return None
    found: list[Facts] = []
    for number, what in enumerate(ops.transitions):
        try:
            facts = get_facts(what.f, what.value, what.result)
        except Exception as error:
            if is_built_in(model):
                return None  # its step refuses the same op, and says why
            raise ModelError(
                f"model {model.name!r} failed on the facts of {what}: {type(error).__name__}: {error}", number
            ) from error
        if facts is None:
            return None
        found.append(facts)
    return found, getattr(model, "at_first", lambda _: Special.UNKNOWN)


def _of_assignment(requires: Hashable, refuses: Hashable, becomes: Hashable) -> Facts:
    return Facts(
        sees={} if requires is Special.ANY else {None: requires},
        misses={} if refuses is Special.UNKNOWN else {None: refuses},
        leaves={} if becomes is Special.ANY else {None: becomes},
    )


class _Said(NamedTuple):
    """What ops say, flat by transition: of transition t, from `first[t]` on, the number of a place and of a value."""

    first: I64
    place: I64
    value: I64


class _Origins:
    def __init__(self, ops: Ops, facts: list[Facts], at_first: Callable[[Hashable], Hashable]) -> None:
        self._ops = ops
        self._places: dict[Hashable, int] = {}
        self._values: dict[tuple[int, Hashable], int] = {}
        self._sees = self._said([each.sees for each in facts])
        self._misses = self._said([each.misses for each in facts])
        self._leaves = self._said([_changed(each) for each in facts])
        self._initial = np.zeros(max(1, len(self._values)), np.bool_)
        for place, number in self._places.items():
            first = at_first(place)
            value = self._values.get((number, first))
            if first is Special.UNKNOWN:
                for (of, _), each in self._values.items():
                    self._initial[each] |= of == number
            elif value is not None:
                self._initial[value] = True

    def _said(self, of_transition: list[Any]) -> _Said:
        places: list[int] = []
        values: list[int] = []
        first = [0]
        for said in of_transition:
            for place, value in said.items():
                number = self._places.setdefault(place, len(self._places))
                places.append(number)
                values.append(self._values.setdefault((number, value), len(self._values)))
            first.append(len(places))
        return _Said(np.array(first, np.int64), np.array(places, np.int64), np.array(values, np.int64))

    def refuted(self) -> Decision | None:
        ops, sees = self._ops, self._sees
        if not len(sees.value):
            return None
        most = int(np.diff(sees.first).max())
        misses = most if len(self._misses.value) else 0
        best = np.full((2, max(1, len(self._places))), NONE, np.int64)
        wrong = np.full(_REGISTERS, NONE, np.int64)
        last_writer, last_missing = np.full((2, len(self._initial)), NONE, np.int64)
        seen = _Seen(
            self._initial,
            last_writer,
            last_missing,
            best,
            best.copy(),
            np.empty((len(ops.invoked), most), np.int32),
            np.empty((len(ops.invoked), misses), np.int32),
        )
        history = _History(ops.by_row, ops.invoked, ops.completed, ops.crashed, ops.transition)
        _first_wrong(history, _Facts(sees, self._misses, self._leaves), seen, wrong)
        op, sight, proof, writer = map(int, wrong)
        if op == NONE:
            return None
        value = int(sees.value[sight])
        what = self._called(value)
        if proof == NONE:
            later = f"{what} was not there at first, and ops brought it about only later"
            never = f"no op that may have happened brought {what} about"
            return Decision(False, (op,), later if value in self._leaves.value else never)
        brought = (writer,) if writer != NONE else ()
        reason = (
            f"{name(ops, proof)} shows that {what} was gone before {name(ops, op)} began, and no op brought it back"
        )
        return Decision(False, by_invocation(*brought, proof, op), reason)

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


class _Seen(NamedTuple):
    """What is known of values at a row of the history.

    Attributes:
        initial: whether it may have been there at first, by value.
        writer: of the ops invoked so far that leave the value the one that returns last, by value. A crashed one
            returns after all others.
        missing: of the ops that returned and did not find the value the one that began last, by value.
        best: by place, of the ops that returned the two last beginners that speak of different values.
        of: the values that these speak of.
        other: when an op began, which of `best` spoke of another value than it saw; by op and by sight of an op.
        missed: when it began, the op that was `missing` the value; no columns where no op misses a value.
    """

    initial: B
    writer: I64
    missing: I64
    best: I64
    of: I64
    other: I32
    missed: I32


class _History(NamedTuple):
    """By row, the op that is invoked or returns there (negative without one); and by op, as in `Ops`."""

    at: I32
    invoked: I64
    completed: I64
    crashed: B
    transition: I32


class _Facts(NamedTuple):
    """What ops say."""

    sees: _Said
    misses: _Said
    leaves: _Said


@kernel
def _first_wrong(history: _History, facts: _Facts, seen: _Seen, wrong: I64) -> None:
    """Read the history up to the first return of an op that saw what cannot have been there.

    Args:
        history: its rows and ops.
        facts: what they say.
        seen: as nothing was seen yet.
        wrong: becomes that op, the place in `sees` of what it saw, the op that proves it to be gone (NONE where nothing
            brought it about), and the op that brought it about last.
    """
    for row in range(history.at.size):
        op = np.int64(history.at[row])
        if op < 0:
            continue
        if history.invoked[op] == row:
            _begins(history, facts, seen, op)
        elif not history.crashed[op]:
            if _is_wrong(history, facts.sees, seen, op, wrong):
                return
            _ends(history, facts, seen, op)


@inlined
def _begins(history: _History, facts: _Facts, seen: _Seen, op: Int) -> None:
    """From here on an op may leave what it leaves; and what had been said by now counts against what it sees."""
    sees, leaves, what = facts.sees, facts.leaves, history.transition[op]
    for k in range(leaves.first[what], leaves.first[what + 1]):
        before = seen.writer[leaves.value[k]]
        if before < 0 or _returns_later(history, op, before):
            seen.writer[leaves.value[k]] = op
    if not history.crashed[op]:
        for k in range(sees.first[what], sees.first[what + 1]):
            seen.other[op, k - sees.first[what]] = _other(seen, sees.place[k], sees.value[k])
            if seen.missed.shape[1] > 0:
                seen.missed[op, k - sees.first[what]] = seen.missing[sees.value[k]]


@inlined
def _returns_later(history: _History, op: Int, other: Int) -> Int:
    if history.crashed[op] or history.crashed[other]:
        return not history.crashed[other]
    return history.completed[op] > history.completed[other]


@inlined
def _is_wrong(history: _History, sees: _Said, seen: _Seen, op: Int, wrong: I64) -> bool:
    """Whether an op that returns saw what cannot have been there; then `wrong` says why."""
    first = sees.first[history.transition[op]]
    for k in range(first, sees.first[history.transition[op] + 1]):
        writer = seen.writer[sees.value[k]]
        if writer >= 0 and history.crashed[writer]:
            continue
        wrong[0], wrong[1], wrong[3] = op, k, writer
        if writer < 0 and not seen.initial[sees.value[k]]:
            return True
        last = history.completed[writer] if writer >= 0 else np.int64(NONE)
        proof = np.int64(seen.other[op, k - first])
        if (proof < 0 or history.invoked[proof] <= last) and seen.missed.shape[1] > 0:
            proof = np.int64(seen.missed[op, k - first])
        if proof >= 0 and history.invoked[proof] > last:
            wrong[2] = proof
            return True
    wrong[0] = NONE
    return False


@inlined
def _ends(history: _History, facts: _Facts, seen: _Seen, op: Int) -> None:
    """An op has returned: what it said was so at some moment before."""
    sees, misses, leaves, what = facts.sees, facts.misses, facts.leaves, history.transition[op]
    for k in range(sees.first[what], sees.first[what + 1]):
        _speaks(seen, history.invoked, op, sees.place[k], sees.value[k])
    for k in range(leaves.first[what], leaves.first[what + 1]):
        _speaks(seen, history.invoked, op, leaves.place[k], leaves.value[k])
    for k in range(misses.first[what], misses.first[what + 1]):
        before = seen.missing[misses.value[k]]
        if before < 0 or history.invoked[op] > history.invoked[before]:
            seen.missing[misses.value[k]] = op


@inlined
def _other(seen: _Seen, place: Int, value: Int) -> Int:
    """The last beginner, of those that returned, that speaks of another value in the place; NONE without one."""
    # Two of different values suffice: the value that is asked for is one of them at most.
    if seen.best[0, place] >= 0 and seen.of[0, place] != value:
        return seen.best[0, place]
    if seen.best[1, place] >= 0 and seen.of[1, place] != value:
        return seen.best[1, place]
    return np.int64(NONE)


@inlined
def _speaks(seen: _Seen, invoked: I64, op: Int, place: Int, value: Int) -> None:
    """An op has returned that saw or left the value in the place."""
    best, of = seen.best, seen.of
    if best[0, place] < 0 or of[0, place] == value:
        if best[0, place] < 0 or invoked[op] > invoked[best[0, place]]:
            best[0, place], of[0, place] = op, value
    elif invoked[op] > invoked[best[0, place]]:
        best[1, place], of[1, place] = best[0, place], of[0, place]
        best[0, place], of[0, place] = op, value
    elif best[1, place] < 0 or invoked[op] > invoked[best[1, place]]:
        best[1, place], of[1, place] = op, value


def warm_up() -> None:
    """Compile the kernel of this module, or load it from the cache."""
    none, few = np.zeros(0, np.int64), np.zeros(0, np.int32)
    said = _Said(np.zeros(1, np.int64), none, none)
    pairs, flags = np.full((2, 1), NONE, np.int64), np.zeros(0, np.bool_)
    seen = _Seen(flags, none, none, pairs, pairs, np.zeros((0, 1), np.int32), np.zeros((0, 0), np.int32))
    history = _History(few, none, none, flags, few)
    _first_wrong(history, _Facts(said, said, said), seen, np.zeros(_REGISTERS, np.int64))
