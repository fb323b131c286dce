"""A name that is declared once, and then read: exactly one create takes effect, at one moment."""

from __future__ import annotations

import numpy as np

from splitbrain.checkers.linearizable.deciders import Decision
from splitbrain.checkers.linearizable.deciders.intervals import by_invocation, ends, name
from splitbrain.checkers.linearizable.ops import I64, Ops, show
from splitbrain.checkers.models import UNKNOWN, Model


def decide_create_once(ops: Ops, _: Model) -> Decision | None:
    """Whether the ops are those of a name that is declared once; O(n). None if null was created, which is no name.

    All reads that answer something answer the same, and if a create was acknowledged, what that one created. The
    create that took effect is the acknowledged one, else the first of those that crashed and had the value that was
    read: whenever a later one could have taken effect, so could this. It must be possible at a moment after every read
    of null has begun and before any read of the value, or the create itself, has ended.
    """
    if any(t.f == "create" and t.value is None for t in ops.transitions):
        return None
    creating = np.array([t.f == "create" for t in ops.transitions], np.bool_)[ops.transition]
    of_null = np.array([t.f == "read" and t.result is None for t in ops.transitions], np.bool_)[ops.transition]
    declared = np.flatnonzero(creating & ~ops.crashed)
    absent = np.flatnonzero(of_null & ~ops.crashed)
    present = np.flatnonzero(~creating & ~of_null & ~ops.crashed)
    if declared.size > 1:
        return Decision(False, by_invocation(int(declared[0]), int(declared[1])), "two creates were acknowledged")
    if not declared.size and not present.size:
        return Decision(True)
    if present.size:
        disagreeing = _disagreeing(ops, present)
        if disagreeing is not None:
            return disagreeing
    if not declared.size:
        return _by_a_crashed_create(ops, creating, absent, present)
    create = int(declared[0])
    if present.size and _answer(ops, int(present[0])) != ops.transitions[int(ops.transition[create])].value:
        what, instead = name(ops, create), name(ops, int(present[0]))
        return Decision(
            False, by_invocation(create, int(present[0])), f"{what} was acknowledged, yet there was {instead}"
        )
    return _at_one_moment(ops, create, absent, present)


def _by_a_crashed_create(ops: Ops, creating: np.ndarray, absent: I64, present: I64) -> Decision:
    seen = _answer(ops, int(present[0]))
    same = np.array([t.f == "create" and t.value == seen for t in ops.transitions], np.bool_)[ops.transition]
    creates = np.flatnonzero(creating & same)
    if not creates.size:
        return Decision(False, (int(present[0]),), f"{show(seen)} was read and never created")
    return _at_one_moment(ops, int(creates[0]), absent, present)


def _disagreeing(ops: Ops, present: I64) -> Decision | None:
    """Two reads that saw different values, if there are such."""
    seen = _answer(ops, int(present[0]))
    other = np.array([t.result is not UNKNOWN and t.result != seen for t in ops.transitions], np.bool_)
    differing = present[other[ops.transition[present]]]
    if not differing.size:
        return None
    shown = f"{show(seen)} and {show(_answer(ops, int(differing[0])))}"
    return Decision(False, by_invocation(int(present[0]), int(differing[0])), f"{shown} were both read")


def _at_one_moment(ops: Ops, create: int, absent: I64, present: I64) -> Decision:
    """Whether `create` can have taken effect between the reads of null and those of its value."""
    end = ends(ops)
    late = max(create, int(absent[-1]) if absent.size else create)
    ended_first = int(present[np.argmin(end[present])]) if present.size else create
    early = create if end[create] < end[ended_first] else ended_first
    if early == late or end[early] > ops.invoked[late]:
        return Decision(True)
    reason = f"{name(ops, early)} had ended before {name(ops, late)} began"
    return Decision(False, by_invocation(early, late), reason)


def _answer(ops: Ops, op: int) -> object:
    return ops.transitions[int(ops.transition[op])].result
