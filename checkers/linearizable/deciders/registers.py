"""Registers, compare-and-set registers and keys of a string store, where each observed value was written once."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np

from splitbrain.checkers.linearizable.deciders import Decision, zones
from splitbrain.checkers.linearizable.deciders.zones import INITIAL, NONE, Accesses
from splitbrain.checkers.linearizable.ops import Ops, show
from splitbrain.checkers.models import UNKNOWN, Model, ReadModes


def decide_register(ops: Ops, model: Model) -> Decision | None:
    """Whether the ops are those of a register, with or without compare-and-set; O(n log n).

    None if an observed value was written more than once, the initial one at all, or if a compare-and-set was seen not
    to match a value that may have been there: the time of that is unknown.
    """
    numbers: dict[Hashable, int] = {model.init(): INITIAL}
    requires, becomes = [NONE] * len(ops.transitions), [NONE] * len(ops.transitions)
    mismatches: list[int] = []
    for t, transition in enumerate(ops.transitions):
        f = model.plain(transition.f) if isinstance(model, ReadModes) else transition.f
        if f is None:
            continue
        if f == "read":
            if transition.result is not UNKNOWN:
                requires[t] = numbers.setdefault(transition.result, len(numbers))
        elif f == "write":
            becomes[t] = numbers.setdefault(transition.value, len(numbers))
        elif f != "cas" or not _is_pair(transition.value):
            return None
        elif transition.result is False:
            mismatches.append(t)
        else:
            expected, new = (numbers.setdefault(value, len(numbers)) for value in transition.value)
            requires[t] = expected
            becomes[t] = NONE if expected == new else new
    possible = {INITIAL, *becomes}
    if any(numbers.get(ops.transitions[t].value[0], NONE - 1) in possible for t in mismatches):
        return None
    return zones.decide(ops, _accesses(ops, requires, becomes, list(numbers)))


def decide_kv(ops: Ops, model: Model) -> Decision | None:
    """Whether the ops are those of one key of a string store; O(n log n).

    None if there is an append, if an observed string was put more than once, the empty one at all, or if anything is
    no text.
    """
    numbers: dict[Hashable, int] = {model.init(): INITIAL}
    requires, becomes = [NONE] * len(ops.transitions), [NONE] * len(ops.transitions)
    for t, transition in enumerate(ops.transitions):
        getting = transition.f == "get"
        if getting and transition.result is UNKNOWN:
            continue
        text = _text(transition.result if getting else transition.value)
        if text is None or transition.f not in ("get", "put"):
            return None
        (requires if getting else becomes)[t] = numbers.setdefault(text, len(numbers))
    return zones.decide(ops, _accesses(ops, requires, becomes, list(numbers)))


def _is_pair(value: Any) -> bool:
    return isinstance(value, tuple) and len(value) == 2  # pyright: ignore[reportUnknownArgumentType]


def _text(value: Any) -> str | None:
    """What was put or answered: null is the empty string; None for what is no text."""
    if value is None:
        return ""
    return value if isinstance(value, str) else None


def _accesses(ops: Ops, requires: list[int], becomes: list[int], values: list[Hashable]) -> Accesses:
    of = ops.transition
    return Accesses(
        np.array(requires, np.int64)[of],
        np.array(becomes, np.int64)[of],
        len(values),
        lambda number: show(values[number]),
    )
