"""Ops by how their errors begin."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from splitbrain.results.calls import OPEN, Calls, Ints
from splitbrain.results.columns import array, flags


def that_begin(calls: Calls, beginning: str) -> Ints:
    """The rows of completions whose error begins so, in the order of the history."""
    rows = np.sort(calls.complete[calls.complete != OPEN])
    if not len(rows):
        return rows
    errors = calls.table["error"].take(array(rows.tolist(), pa.int64()))
    return rows[flags(pc.and_kleene(pc.is_valid(errors), pc.starts_with(errors, beginning)))]
