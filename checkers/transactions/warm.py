"""Compiling the kernels of this package ahead of the first check."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from splitbrain.checkers.kernels import use_compiled
from splitbrain.checkers.transactions.assumptions import Assumptions
from splitbrain.checkers.transactions.by_key.parts import time_joints
from splitbrain.checkers.transactions.derived_edges import DerivedEdges
from splitbrain.checkers.transactions.graph import no_edges
from splitbrain.checkers.transactions.judging import Expected, Workload
from splitbrain.checkers.transactions.report import judged
from splitbrain.results.arrow import to_table
from splitbrain.results.history import Mop, Op

_SKEWED: Final[tuple[tuple[str, ...], ...]] = (
    ("read x []", "append y 1"),
    ("read y []", "append x 2"),
    ("append x 5", "read x [2,5]"),
    ("read x [2]", "append z 3"),
    ("append z 4", "read y [1]"),
    ("read x [2,5]", "read y []"),
)
"""Lists: a cycle of every sort, an unseen append, and reads of all lengths."""

_FORKED: Final[tuple[tuple[str, ...], ...]] = (
    ("w x 1", "w y 1"),
    ("r x 1", "w x 2", "w y 2"),
    ("r x 1", "w x 3"),
    ("r y 2", "r x 1", "w z 4"),
    ("w u 6", "w x 5"),
    ("r z 4", "r y 1"),
    ("r u 6", "r x 2"),
)
"""Registers: a lost update, fractured reads, and versions whose order is open."""

_MODELS: Final[dict[Workload, tuple[str, ...]]] = {
    "list-append": ("strong-session-serializable", "strict-serializable"),
    "rw-register": (
        "strict-serializable",
        "strong-session-serializable",
        "read-atomic",
        "strong-session-monotonic-atomic-view",
        "causal",
    ),
}


def warm_up() -> None:
    """Compile the kernels of this package, or load them from the cache; this process uses no others then."""
    use_compiled()
    for workload, asked in _MODELS.items():
        history = _history(_SKEWED if workload == "list-append" else _FORKED)
        for model in asked:
            judged(history, workload, Expected((model,)), Assumptions())
    none = no_edges()
    DerivedEdges().make_room(1000)
    time_joints(none.source, none.target, 0, np.zeros(0, np.int64))


def _history(transactions: Iterable[Sequence[str]]) -> pa.Table:
    """Transactions as a history, one after the other, two of each process."""
    ops: list[Op] = []
    for place, words in enumerate(transactions):
        mops = tuple(map(_mop, words))
        asked = tuple(Mop(mop.f, mop.key, None if mop.f == "r" else mop.value) for mop in mops)
        at, process = len(ops), place // 2
        ops.append(Op(index=at, time=at, process=process, type="invoke", f="txn", mops=asked))
        ops.append(Op(index=at + 1, time=at + 1, process=process, type="ok", f="txn", mops=mops))
    return to_table(ops)


def _mop(words: str) -> Mop:
    f, key, value = words.split()
    if f == "read":
        return Mop("r", key, values=tuple(int(each) for each in value.strip("[]").split(",") if each))
    return Mop(f, key, int(value))
