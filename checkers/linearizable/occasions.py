"""Whether any op of a history could have been wrong: writes alone are possible in any order, and prove nothing.

An acknowledged op could have been wrong if the model refuses another answer of it, or the op itself in a state that
the other ops lead to. What cannot be seen so is taken for an op that could have been wrong: the answer here is never
the reason for a violation, and a history that was tested is not called untested.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import numpy as np

from splitbrain.checkers.linearizable.ops import Ops, Transition
from splitbrain.checkers.models import UNKNOWN, AdditiveModel, AssignmentModel, Model, Special
from splitbrain.checkers.models.model import IMPOSSIBLE, State, is_built_in

_WALKED: Final = 8
"""Ops whose states the others are asked in, and whose answers are tried in their place."""

_ASKED: Final = 1_000
"""The most transitions that are looked at where steps may take long."""

_FIRST: Final = 64
"""About so many, from all over the history, are looked at first."""

_OTHER: Final = "an answer that no op has given"


def could_be_wrong(ops: Ops, model: Model) -> bool:
    """Whether any op of a key could have been wrong, by what the model says.

    Args:
        ops: of the key.
        model: that judges them.
    """
    found: list[int] = np.flatnonzero(np.bincount(ops.transition[~ops.crashed])).tolist()
    some = found[:: max(1, len(found) // _FIRST)]
    if not is_built_in(model):
        found = found[:_ASKED]
    try:
        if any(_says_something(model, ops.transitions[each]) for numbers in (some, found) for each in numbers):
            return True
        return _has_guards(ops, model, found) and _is_refused_anywhere(ops, model)
    except Exception:  # a model that fails on what it is not used to: it looks at the answer
        return True


def _says_something(model: Model, op: Transition) -> bool:
    """Whether the model looks at the answer of an op."""
    state, answers = model.init(), [op.result, _OTHER]
    if isinstance(op.result, bool):  # a model may look at these two alone
        answers.append(not op.result)
    return op.result is not UNKNOWN and any(
        model.step(state, op.f, op.value, answer) is IMPOSSIBLE for answer in answers
    )


def _has_guards(ops: Ops, model: Model, found: Iterable[int]) -> bool:
    """Whether there may be a state in which one of these is impossible: quickly, where the model says it."""
    acknowledged = (ops.transitions[each] for each in found)
    if isinstance(model, AssignmentModel):
        assigned = (model.assignment(op.f, op.value, op.result) for op in acknowledged)
        return any(each.requires is not Special.ANY or each.refuses is not UNKNOWN for each in assigned)
    if isinstance(model, AdditiveModel):
        return any(model.addition(op.f, op.value, op.result).requires is not Special.ANY for op in acknowledged)
    return True


def _is_refused_anywhere(ops: Ops, model: Model) -> bool:
    """Whether an op, or one that answers what another one answered, is impossible where the first ops lead."""
    walked: list[int] = ops.transition[:_WALKED].tolist()
    answers: dict[str, set[Any]] = {}
    for place, number in enumerate(walked):
        if not ops.crashed[place]:
            op = ops.transitions[number]
            answers.setdefault(op.f, set()).add(op.result)
    for place, number in enumerate(walked):
        op = ops.transitions[number]
        if not ops.crashed[place] and _is_refused(model, op, answers[op.f], _states(model, ops, walked, place)):
            return True
    states = list(_states(model, ops, walked, None))
    rest = ops.transition[_WALKED:][~ops.crashed[_WALKED:]]
    others: list[int] = np.flatnonzero(np.bincount(rest))[:_ASKED].tolist()
    return any(_is_refused(model, ops.transitions[number], (), states) for number in others)


def _is_refused(model: Model, op: Transition, answers: Iterable[Any], states: Iterable[State]) -> bool:
    return any(
        model.step(state, op.f, op.value, answer) is IMPOSSIBLE for state in states for answer in (op.result, *answers)
    )


def _states(model: Model, ops: Ops, walked: Sequence[int], without: int | None) -> Iterator[State]:
    """The states that some ops lead to, one after the other, where they are possible."""
    state = model.init()
    yield state
    for place, number in enumerate(walked):
        if place == without:
            continue
        op = ops.transitions[number]
        following = model.step(state, op.f, op.value, op.result)
        if following is not IMPOSSIBLE:
            state = following
            yield state
