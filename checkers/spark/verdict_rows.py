"""Verdicts on their way back from Spark's workers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from splitbrain.checkers import engine
from splitbrain.checkers.verdict import Verdict

VERDICTS: Final = "run_id string, position int, verdict string"
"""One row per group and checker; `position` is the checker's place among those of its run, `verdict` is JSON."""

_SCHEMA: Final = pa.schema({"run_id": pa.string(), "position": pa.int32(), "verdict": pa.string()})


def verdict_rows(run_id: str, found: Sequence[tuple[int, Verdict]]) -> pa.Table:
    """Rows of `VERDICTS`: some verdicts on a run, each with its checker's place."""
    columns = {
        "run_id": [run_id] * len(found),
        "position": [position for position, _ in found],
        "verdict": [engine.encode(verdict).decode() for _, verdict in found],
    }
    return pa.table(columns, _SCHEMA)
