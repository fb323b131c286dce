"""Sets whose ops are each about one element: linearizable exactly if the ops of every element are.

An element is there or not, an object of two states, and linearizability is local (Herlihy and Wing 1990). The
frontier decides about each element; with one element at a time few ops are under way at once. One search does it for
all: their histories are put one after the other, and between two of them the element is cleared. An op that crashed
ends with the history of its element: an add or remove that may have been without effect is always possible last.
Elements with many such ops get a search of their own, which knows better how to treat these.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from splitbrain.checkers.linearizable import witness
from splitbrain.checkers.linearizable.deciders import Decision
from splitbrain.checkers.linearizable.deciders.intervals import by_invocation, name
from splitbrain.checkers.linearizable.encoding import events
from splitbrain.checkers.linearizable.limits import WITHOUT_END, Budget
from splitbrain.checkers.linearizable.ops import I32, I64, B, Ops, Transition
from splitbrain.checkers.linearizable.search import Limits, Search
from splitbrain.checkers.linearizable.transitions import Stepper
from splitbrain.checkers.models import UNKNOWN, Assignment, AssignmentModel, Model, Special

LIMITS: Final = Limits(time_s=10.0, memory_bytes=256 << 20)
"""CPU time of all searches together, and memory of each; beyond them other algorithms may try."""

WITNESS_TIME_S: Final = 1.0

FEW_CRASHED: Final = 4
"""Crashed ops of an element that the common search takes: each may double the configurations of its element."""


class _Membership(AssignmentModel):
    """Whether an element is there; the value of an op is its assignment."""

    name = "membership"
    fs = frozenset({"assign"})
    initial = False

    def assignment(self, f: str, value: Any, result: Any) -> Assignment:
        """As given."""
        return value


_ADDED: Final = Assignment(requires=False, becomes=True)
_ADD: Final = Assignment(becomes=True)
_SEEN: Final = Assignment(requires=True)
_REMOVED: Final = Assignment(requires=True, becomes=False)
_REMOVE: Final = Assignment(becomes=False)
_MISSED: Final = Assignment(requires=False)
_STEPS: Final = [Transition("assign", step, None) for step in (_ADDED, _ADD, _SEEN, _REMOVED, _REMOVE, _MISSED)]
_NUMBER: Final = {step.value: number for number, step in enumerate(_STEPS)}
_SAYS_NOTHING: Final = -1


def decide_set(ops: Ops, _: Model, budget: Budget = WITHOUT_END) -> Decision | None:
    """Whether the ops are those of a set; near-linear where few ops are about the same element at once.

    None if all elements were read, which makes them depend on each other, if a `contains` answers neither true nor
    false, or if an element is too hard for the limits.
    """
    step, element = np.full(len(ops.transitions), _SAYS_NOTHING, np.int32), np.zeros(len(ops.transitions), np.int64)
    numbers: dict[Any, int] = {}
    for t, transition in enumerate(ops.transitions):
        assignment = _assignment(transition)
        if assignment is Special.IMPOSSIBLE:
            return None
        if assignment is not None:
            step[t] = _NUMBER[assignment]
            element[t] = numbers.setdefault(transition.value, len(numbers))
    with budget.part(1.0, LIMITS.time_s) as time:
        return _Elements(ops, step[ops.transition], element[ops.transition], len(numbers), time).decide()


def _assignment(transition: Transition) -> Assignment | Special | None:
    """What an op says of its element; None for nothing, IMPOSSIBLE for what is not about one element."""
    f, result = transition.f, transition.result
    if f in ("add", "remove"):
        if isinstance(result, bool):
            return ((_SEEN, _ADDED) if f == "add" else (_MISSED, _REMOVED))[result]
        return _ADD if f == "add" else _REMOVE
    if result is UNKNOWN:
        return None
    if f == "contains" and isinstance(result, bool):
        return _SEEN if result else _MISSED
    return Special.IMPOSSIBLE


@dataclass(frozen=True)
class _Elements:
    """Ops with what they say (a number of `_STEPS`) and the element that it is about; what is left for them."""

    ops: Ops
    step: I32
    element: I64
    count: int
    budget: Budget

    def _limits(self, most_s: float = LIMITS.time_s) -> Limits:
        return replace(LIMITS, time_s=min(self.budget.left(), most_s), clock=self.budget.clock)

    def decide(self) -> Decision | None:
        """Search in common first, then for each element with many crashed ops."""
        if not self.count:
            return Decision(True)
        order = np.flatnonzero(self._useful())
        order = order[np.argsort(self.element[order], kind="stable")]
        bounds = np.searchsorted(self.element[order], np.arange(self.count + 1))
        crashed = np.bincount(self.element[order[self.ops.crashed[order]]], minlength=self.count)
        alone = crashed > FEW_CRASHED
        common = self._search_in_common(order[~alone[self.element[order]]])
        if common is None:
            return None
        for element in [*common, *np.flatnonzero(alone).tolist()]:
            decision = self._search_alone(order[bounds[element] : bounds[element + 1]])
            if decision is None or not decision.valid:
                return decision
        return Decision(True)

    def _useful(self) -> B:
        """Ops that say something; those that crashed only if something of their element needs what they do."""
        acknowledged = ~self.ops.crashed
        needs = np.zeros((2, self.count), np.bool_)
        for number, step in enumerate(_STEPS):
            if step.value.requires is not Special.ANY:
                needs[int(step.value.requires), self.element[acknowledged & (self.step == number)]] = True
        becomes = np.array([int(step.value.becomes is True) for step in _STEPS])[self.step]
        return (self.step != _SAYS_NOTHING) & (acknowledged | needs[becomes, self.element])

    def _search_in_common(self, order: I64) -> list[int] | None:
        """Elements (one at most) that are not linearizable; None if a limit was reached. Ops come by element."""
        joined, op = self._joined(order)
        stepper = Stepper(_Membership(), _STEPS, cells=LIMITS.cells)
        problem = events(joined, stepper.observer)
        result = Search(problem, stepper, self._limits()).run()
        if result.answer == "violation":
            return [int(self.element[op[problem.op[result.event]]])]
        return [] if result.answer == "linearizable" else None

    def _joined(self, order: I64) -> tuple[Ops, I64]:
        """One history of all elements, and the op that each of its ops stands for.

        After each element comes an op that clears it, which stands for the last op of that element.
        """
        end_of_history = self.ops.table.num_rows
        last = order[np.flatnonzero(np.diff(self.element[order], append=self.count))]
        op = np.concatenate([order, last])
        first_row = self.element[op] * (end_of_history + 3)
        crashed = self.ops.crashed[order]
        begin = np.concatenate([self.ops.invoked[order], np.full(len(last), end_of_history + 1)])
        end = np.concatenate(
            [np.where(crashed, end_of_history, self.ops.completed[order]), np.full(len(last), end_of_history + 2)]
        )
        rows = np.concatenate([first_row + begin, first_row + end])
        position = np.empty(len(rows), np.int64)
        position[np.argsort(rows, kind="stable")] = np.arange(len(rows))
        begun = np.argsort(position[: len(op)])
        clearing = np.full(len(last), _NUMBER[_REMOVE], np.int32)
        joined = Ops(
            self.ops.table,
            position[: len(op)][begun],
            position[len(op) :][begun],
            np.zeros(len(op), np.bool_),
            np.concatenate([self.step[order], clearing])[begun],
            _STEPS,
        )
        return joined, op[begun]

    def _search_alone(self, order: I64) -> Decision | None:
        """Decide about one element; None if a limit was reached."""
        ops = self.ops
        alone = replace(
            ops,
            invoked=ops.invoked[order],
            completed=ops.completed[order],
            crashed=ops.crashed[order],
            transition=self.step[order],
            transitions=_STEPS,
        )
        stepper = Stepper(_Membership(), _STEPS, cells=LIMITS.cells)
        problem = events(alone, stepper.observer)
        result = Search(problem, stepper, self._limits()).run()
        if result.answer != "violation":
            return Decision(True) if result.answer == "linearizable" else None
        failing = int(problem.op[result.event])
        found = witness.find(alone, stepper, failing, self._limits(WITNESS_TIME_S))
        culprits = order[[failing] if found is None else found.ops].tolist()
        what = name(ops, int(order[failing]))
        others = "the others" if len(culprits) > 1 else "any order"
        return Decision(False, by_invocation(*culprits), f"{what} does not fit in with {others}")
