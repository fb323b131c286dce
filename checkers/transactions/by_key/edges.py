"""Edges between transactions of a history that is taken apart, as rows of a table.

A node is a number of 64 bits: a transaction is the index of the op that invoked it, barriers and joints are negative.
Beside it is its place in time: cycles are looked for where edges lead back in time.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from splitbrain.checkers.transactions.columns import COMMITTED, Ints
from splitbrain.results.columns import array

EDGES: Final = pa.schema(
    [
        ("source", pa.int64()),
        ("target", pa.int64()),
        ("kind", pa.int32()),
        ("begins", pa.int64()),
        ("ends", pa.int64()),
        ("note", pa.binary()),
    ]
)
"""Source, target and kind (of `splitbrain.checkers.transactions.graph`) of an edge, and the places in time of its
source and its target. Rows of kind NOTE and KEYS are no edges; `note` is what they say."""

NOTE: Final = -1
"""What was found in a group of keys beside its edges (`parts.Note`)."""

KEYS: Final = -2
"""The versions of its registers whose order is open."""

_JOINTS: Final = -(1 << 62)
_ROOM: Final = 1 << 40


def joint(bucket: int, number: int) -> int:
    """The node of a joint of a group of keys."""
    return _JOINTS + bucket * _ROOM + number


def barrier(index: int | Ints) -> Any:
    """The node of the barrier before the op with that index."""
    return -1 - index


def time_of_barrier(index: int | Ints) -> Any:
    """Its place in time: behind every op before it."""
    return 2 * index


def times_of(invoked: Ints, completed: Ints, status: npt.NDArray[Any]) -> Ints:
    """Places in time of transactions: where they completed, or, of unknown outcome, where they were invoked."""
    return 2 * np.where(status == COMMITTED, completed, invoked) + 1


def edge_rows(source: Any, target: Any, kind: Any, begins: Any, ends: Any) -> pa.Table:
    """Rows of edges."""
    columns = [np.asarray(source, np.int64), np.asarray(target, np.int64), np.asarray(kind, np.int32)]
    columns += [np.asarray(begins, np.int64), np.asarray(ends, np.int64)]
    notes: Any = pa.nulls(len(columns[0]), pa.binary())
    return pa.Table.from_arrays([*(array(each) for each in columns), notes], schema=EDGES)


def note_row(kind: int, bucket: int, note: bytes) -> pa.Table:
    """A row that is no edge."""
    return pa.table(
        {"source": [bucket], "target": [0], "kind": [kind], "begins": [0], "ends": [0], "note": [note]}, EDGES
    )
