"""Unique ids: linearizable exactly if no two acknowledged ids are equal."""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np

from splitbrain.checkers.linearizable.deciders import Decision
from splitbrain.checkers.linearizable.ops import Ops, show
from splitbrain.checkers.models import Model


def decide_unique_ids(ops: Ops, _: Model) -> Decision | None:
    """Whether no id was given twice; O(n). Ids that no op saw prove nothing: there is always another."""
    numbers: dict[Hashable, int] = {}
    id_of = np.array([numbers.setdefault(t.result, len(numbers)) for t in ops.transitions], np.int64)[ops.transition]
    acknowledged = np.flatnonzero(~ops.crashed)
    given = id_of[acknowledged]
    first = np.empty(len(numbers), np.int64)
    first[given[::-1]] = acknowledged[::-1]
    repeated = np.flatnonzero(first[given] != acknowledged)
    if not repeated.size:
        return Decision(True)
    again = int(acknowledged[repeated[0]])
    shown = show(ops.transitions[int(ops.transition[again])].result)
    return Decision(False, (int(first[id_of[again]]), again), f"{shown} was given twice")
