"""What is shown of a violation: the sentence, and the facts with which a person can verify it by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec
import numpy as np

from splitbrain.checkers.linearizable import paths as final
from splitbrain.checkers.linearizable import witness as smallest
from splitbrain.checkers.linearizable.deciders import Decision
from splitbrain.checkers.linearizable.encoding import Problem
from splitbrain.checkers.linearizable.failed import set_by_failed
from splitbrain.checkers.linearizable.frontier import STATE
from splitbrain.checkers.linearizable.limits import Budget, Limits
from splitbrain.checkers.linearizable.ops import OPEN, Ops, show
from splitbrain.checkers.linearizable.paths import Path, Paths
from splitbrain.checkers.linearizable.search import Result
from splitbrain.checkers.linearizable.transitions import Stepper, assignments, steps_by_assignment
from splitbrain.checkers.linearizable.witness import Witness
from splitbrain.checkers.models import Assignment, AssignmentModel, Model, Special
from splitbrain.results.columns import distinct

WINDOW: Final = 10
PENDING: Final = 50
STATES: Final = 20
WITNESS_IN_WORDS: Final = 6
WITNESS_SHARE: Final = 0.6
"""Of the time for an explanation, the most that goes into making the witness small; the final paths have the rest."""
IN_WORDS: Final = 80


@dataclass(frozen=True)
class Violation:
    """A search that found a violation, with all that it was about.

    Of a violation that was found without configurations nothing is said about states.
    """

    key: str | None
    ops: Ops
    problem: Problem
    stepper: Stepper
    result: Result

    @property
    def failing(self) -> int:
        """The op that cannot be placed; its return ends the smallest failing prefix, as far as that is exact."""
        return int(self.problem.op[self.result.event])

    def states(self) -> list[str]:
        """The states in which the object can have been when the failing op returned, as text."""
        numbers = distinct(self.result.reachable[:, 0] & STATE)
        return [_state(self.stepper, int(number)) for number in numbers]

    @property
    def has_every_state(self) -> bool:
        """Whether there can have been no state but these."""
        return len(self.result.reachable) > 0 and self.result.covering

    def pending(self) -> list[int]:
        """Ops under way when the failing op returned, without it: live ones, then crashed ones, by invocation."""
        ops, row = self.ops, int(self.ops.completed[self.failing])
        begun = slice(int(np.searchsorted(ops.invoked, row)))
        crashed = ops.crashed[begun]
        said = ~self.stepper.observer[ops.transition[begun]]
        live = np.flatnonzero(~crashed & (ops.completed[begun] > row))
        return [*live.tolist(), *np.flatnonzero(crashed & said).tolist()]


@dataclass(frozen=True)
class Explanation:
    """A violation for a person (`sentence`) and for programs and pictures (`facts`, JSON only)."""

    sentence: str
    facts: dict[str, Any]


def explain(violation: Violation, limits: Limits, decision: Decision | None = None) -> Explanation:
    """Why there is no order of the ops.

    Args:
        violation: what a search found, or is known to be there.
        limits: for making the witness small and for finding the final paths, together; without time neither is tried.
        decision: the proof of a decider, if there is one: its reason is used, and its culprits are the witness where no
            smaller one was found.
    """
    ops, stepper, failing = violation.ops, violation.stepper, violation.failing
    budget = Budget(limits.time_s, limits.clock)
    witness, paths = None, None
    if limits.time_s > 0:
        with budget:
            witness = smallest.find(ops, stepper, failing, replace(limits, time_s=limits.time_s * WITNESS_SHARE))
            paths = final.find(ops, stepper, failing, replace(limits, time_s=budget.left()))
    if witness is None and decision is not None and fails_last(ops, decision.culprits) == failing:
        witness = Witness(_by_return(ops, decision.culprits), minimal=False)
    reason = "" if decision is None else decision.reason
    found = facts(violation, witness, paths)
    return Explanation(sentence(violation, witness, decision), {**found, "reason": reason} if reason else found)


def _by_return(ops: Ops, culprits: Sequence[int]) -> list[int]:
    return sorted(culprits, key=lambda op: OPEN if ops.crashed[op] else int(ops.completed[op]))


def fails_last(ops: Ops, culprits: Sequence[int]) -> int:
    """Of ops that contradict each other the one that returned last: with its return the contradiction is there."""
    return _by_return(ops, culprits)[-1]


def explain_decision(key: str | None, ops: Ops, model: Model, decision: Decision) -> Explanation:
    """Why a decider proved that no order exists: its culprits are the witness, the last of them to return fails.

    The prefix up to that return is impossible; a smaller one may be, unless the decision is exact.
    """
    culprits = _by_return(ops, decision.culprits)
    failing = culprits[-1]
    reason = decision.reason or "no order of the ops lets it take effect at any moment since its invocation"
    return Explanation(
        f"{_accusation(key, ops, failing)}, but {reason}.{_contradiction(ops, culprits)}",
        {
            **_common(key, ops, model, failing, exact=decision.exact),
            "reason": decision.reason,
            "witness": {"ops": [describe(ops, op) for op in culprits], "minimal": False},
        },
    )


def facts(violation: Violation, witness: Witness | None, paths: Paths | None = None) -> dict[str, Any]:
    """The evidence of a verdict: JSON only; indexes are those of the history."""
    ops = violation.ops
    states, pending = violation.states(), violation.pending()
    return {
        **_common(violation.key, ops, violation.stepper.model, violation.failing, exact=violation.result.exact),
        "possible_states": states[:STATES],
        "possible_states_count": len(states),
        "every_state": violation.has_every_state,
        "pending": [describe(ops, op) for op in pending[:PENDING]],
        "pending_count": len(pending),
        "witness": None
        if witness is None
        else {
            "ops": [describe(ops, op) for op in witness.ops],
            "minimal": witness.minimal,
            "since_index": None if witness.since is None else ops.cell("index", witness.since),
            "states_before": None if witness.states is None else _known(violation.stepper, witness.states),
        },
        "final_paths": None if paths is None else _paths(violation, paths),
    }


def _common(key: str | None, ops: Ops, model: Model, failing: int, *, exact: bool) -> dict[str, Any]:
    row = int(ops.completed[failing])
    before = np.flatnonzero((ops.completed != OPEN) & (ops.completed <= row) & ~ops.crashed)
    window = before[np.argsort(ops.completed[before])][-WINDOW:]
    return {
        "key": key,
        "model": model.name,
        "prefix": {
            "ops": int(np.count_nonzero(ops.invoked <= row)),
            "last_index": ops.cell("index", row),
            "time_ns": ops.cell("time", row),
        },
        "prefix_is_smallest": exact,
        "failing_op": describe(ops, failing),
        "window": [describe(ops, int(op)) for op in window],
    }


def _paths(violation: Violation, paths: Paths) -> dict[str, Any]:
    ops = violation.ops
    return {
        "since_index": ops.cell("index", paths.since),
        "ops_before": int(np.count_nonzero((ops.completed != OPEN) & (ops.completed < paths.since))),
        "paths": [_path(violation, path) for path in paths.paths],
        "states_left_out": paths.states - len(paths.paths),
        "every_beginning": paths.every,
    }


def _path(violation: Violation, path: Path) -> dict[str, Any]:
    ops, states = violation.ops, violation.stepper.states

    def named(state: Any) -> str:
        return _state(violation.stepper, states.number(state), state)

    end = named(path.ends)
    return {
        "begins": named(path.begins),
        "already": [_step(ops, op) for op in path.already],
        "steps": [{**_step(ops, op), "state": named(state)} for op, state in path.steps],
        "ends": end,
        "then": f"{_what(ops, violation.failing)} cannot follow: the state is {_brief(end)}",
    }


def _step(ops: Ops, op: int) -> dict[str, Any]:
    row = int(ops.invoked[op])
    what = str(ops.transitions[int(ops.transition[op])])
    return {"op": what, "process": ops.cell("process", row), "invoked_index": ops.cell("index", row)}


def _known(stepper: Stepper, states: Sequence[int]) -> list[str]:
    return [_state(stepper, state) for state in states[:STATES]]


def _state(stepper: Stepper, number: int, state: Any = Special.UNKNOWN) -> str:
    """A state as text, by its number or one of those that have it."""
    alike = " (or another that no op distinguishes from it)" if number in stepper.states.several else ""
    return show(stepper.states.known[number] if state is Special.UNKNOWN else state) + alike


def describe(ops: Ops, op: int) -> dict[str, Any]:
    """One op as JSON: what was asked and answered, by whom, where and when. `completed_*` are None for a crashed op."""
    invoked, completed = int(ops.invoked[op]), int(ops.completed[op])
    ended = completed != OPEN
    return {
        "op": str(ops.transitions[int(ops.transition[op])]),
        "f": ops.cell("f", invoked),
        "value": _json(ops.cell("value", invoked)),
        "type": ops.cell("type", completed) if ended else "info",
        "result": _json(ops.cell("value", completed)) if ended else None,
        "process": ops.cell("process", invoked),
        "node": ops.cell("node", invoked),
        "invoked_index": ops.cell("index", invoked),
        "invoked_ns": ops.cell("time", invoked),
        "completed_index": ops.cell("index", completed) if ended else None,
        "completed_ns": ops.cell("time", completed) if ended else None,
    }


def _json(text: str | None) -> Any:
    return None if text is None else msgspec.json.decode(text)


# --- the sentence ---------------------------------------------------------------------------------------------------


def sentence(violation: Violation, witness: Witness | None, decision: Decision | None = None) -> str:
    """What is wrong, for a person: key, node and times, and the shortest true reason."""
    ops, model = violation.ops, violation.stepper.model
    who = _accusation(violation.key, ops, violation.failing)
    reason = _assignment_reason(violation, model) if steps_by_assignment(model) else None
    if reason is not None:
        return f"{who}, but {reason}."
    culprits = [] if witness is None else witness.ops
    given = "" if witness is None else _given(violation, witness)
    proven = "" if decision is None else decision.reason
    if proven and decision is not None and fails_last(ops, decision.culprits) == violation.failing:
        return f"{who}, but {proven}{_states_left(violation)}.{_contradiction(ops, culprits, given)}"
    later = f" Later ops contradict each other too: {proven}." if proven else ""
    return f"{who}, but {_general_reason(violation)}.{_contradiction(ops, culprits, given)}{later}"


def _accusation(key: str | None, ops: Ops, failing: int) -> str:
    row = int(ops.completed[failing])
    where = "Not linearizable" + (f": key {_brief(show(key))}. " if key is not None else ". ")
    began = _at(ops, int(ops.invoked[failing])).replace(" at ", "begun at ")
    place = f"({began and began + ', '}process {ops.cell('process', row)}, op {ops.cell('index', row)})"
    return f"{where}{_who(ops, failing)} answered {_what(ops, failing)}{_at(ops, row)} {place}"


def _general_reason(violation: Violation) -> str:
    return f"no order of the ops lets it take effect at any moment since its invocation{_states_left(violation)}"


def _states_left(violation: Violation) -> str:
    """What the state could only be when the failing op returned, where that is known."""
    if not violation.has_every_state:
        return ""
    holder = "the value" if isinstance(violation.stepper.model, AssignmentModel) else "the state"
    return f"; when it returned, {holder} could only be {_any_of([_brief(state) for state in violation.states()])}"


def _given(violation: Violation, witness: Witness) -> str:
    """The states that a witness sets out from, where it rests on them."""
    if witness.states is None or witness.since is None:
        return ""
    states = _any_of([_brief(state) for state in _known(violation.stepper, witness.states)])
    return f" Before op {violation.ops.cell('index', witness.since)} the state could only be {states}."


def _contradiction(ops: Ops, culprits: Sequence[int], given: str = "") -> str:
    """Ops that contradict each other in words, where they are few enough to be read."""
    if not 2 <= len(culprits) <= WITNESS_IN_WORDS:
        return ""
    listed = [
        f"{_who(ops, op)}'s {_what(ops, op)} (op {ops.cell('index', row)})"
        for op in culprits
        for row in [int(ops.invoked[op] if ops.crashed[op] else ops.completed[op])]
    ]
    return (
        f"{given} These {len(listed)} ops contradict each other, also without the other ops: "
        f"{', '.join(listed[:-1])} and {listed[-1]}."
    )


def _assignment_reason(violation: Violation, model: AssignmentModel) -> str | None:
    """Why the value that the failing op required cannot have been held; None if that takes more than one other op."""
    ops, failing = violation.ops, violation.failing
    each = assignments(model, ops.transitions)
    required = each[int(ops.transition[failing])].requires
    if required is Special.ANY:
        return None
    row = int(ops.completed[failing])
    setters = np.flatnonzero(
        _which(ops, [a.becomes is not Special.ANY and a.becomes == required for a in each]) & (ops.invoked < row)
    )
    setters = setters[setters != failing]
    if len(setters) == 0 and required != violation.stepper.states.known[0]:
        text = show(required)
        return f"nothing had set it to {_brief(text)} by then{set_by_failed(ops, model, text, row)}"
    if ops.crashed[setters].any() or (ops.completed[setters] == OPEN).any():
        return None
    last = int(ops.completed[setters].max(initial=-1))
    elsewhere = _which(ops, [_excludes(a, required) for a in each]) & ~ops.crashed
    between = np.flatnonzero(elsewhere & (ops.invoked > last) & (ops.completed < ops.invoked[failing]))
    if len(between) == 0:
        return None
    proof = int(between[np.argmax(ops.completed[between])])
    done = int(ops.completed[proof])
    verb = "acknowledged" if each[int(ops.transition[proof])].becomes is not Special.ANY else "answered"
    f = ops.transitions[int(ops.transition[failing])].f
    return (
        f"{_what(ops, proof)} had been {verb} by {_who(ops, proof)}{_at(ops, done)} (op "
        f"{ops.cell('index', done)}) before that {f} began, and nothing set it to {_brief(show(required))} "
        f"afterwards"
    )


def _which(ops: Ops, of_transition: Sequence[bool]) -> Any:
    return np.array([*of_transition, False], np.bool_)[ops.transition]


def _excludes(assignment: Assignment, value: Any) -> bool:
    """Whether the value was certainly another one at the moment when the op took effect, or just after."""
    if assignment.becomes is not Special.ANY:
        return assignment.becomes != value
    if assignment.requires is not Special.ANY:
        return assignment.requires != value
    return assignment.refuses == value


def _who(ops: Ops, op: int) -> str:
    row = int(ops.invoked[op])
    return ops.cell("node", row) or f"process {ops.cell('process', row)}"


def _what(ops: Ops, op: int) -> str:
    return _brief(str(ops.transitions[int(ops.transition[op])]))


def _brief(text: str) -> str:
    """A value as it stands in a sentence; the evidence has it whole."""
    if len(text) <= IN_WORDS:
        return text
    return f"{text[: IN_WORDS // 2]}...{text[-IN_WORDS // 4 :]} ({len(text)} characters)"


def _at(ops: Ops, row: int) -> str:
    """When it happened, with tenths of a millisecond, which separate the answers of a fast cluster."""
    time_ns = ops.cell("time", row)
    return "" if time_ns < 0 else f" at {time_ns / 1e9:.4f} s"


def _any_of(states: list[str]) -> str:
    if len(states) > 5:
        more = len(states) - 5
        return ", ".join(states[:5]) + (f" or one of {more} others" if more > 1 else " or another one")
    return " or ".join([", ".join(states[:-1]), states[-1]]) if len(states) > 1 else states[0]
