"""When ops can have taken effect: what deciders share."""

from __future__ import annotations

from typing import Final

import numpy as np

from splitbrain.checkers.linearizable.ops import I64, Ops

FOREVER: Final = int(np.iinfo(np.int64).max)
"""The end of an op that may take effect at any time after its invocation."""


def ends(ops: Ops) -> I64:
    """The row before which each op took effect, if it did: its completion's, FOREVER where it crashed."""
    return np.where(ops.crashed, FOREVER, ops.completed)


def by_invocation(*ops: int) -> tuple[int, ...]:
    """Distinct ops in the order of their invocations, which is that of their numbers."""
    return tuple(sorted(set(ops)))


def name(ops: Ops, op: int) -> str:
    """What an op was, as in "read -> 3"."""
    return str(ops.transitions[int(ops.transition[op])])
