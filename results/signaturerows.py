"""Of a stored history only what signatures need: ops of nemesis and harness, and the times of ops that evidence names.

A history may be larger than the memory of the process that keeps its verdict (Spark's driver): it is read in batches,
without its micro-operations, and only few rows stay.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from splitbrain.results.arrow import HISTORY_SCHEMA, parquet_batches
from splitbrain.results.calls import ints
from splitbrain.results.columns import array
from splitbrain.results.faults import run_events
from splitbrain.results.signatures import Setting, named_rows

BATCH_ROWS: Final = 1 << 17


def setting_in(path: Path, verdicts: Iterable[Mapping[str, Any]]) -> Setting:
    """What the history in a file says of the violations among these verdicts.

    Raises:
        HistoryFormatError: it cannot be read.
        StoreVersionError: a newer splitbrain wrote it.
    """
    named = {row for verdict in verdicts for row in named_rows(verdict.get("evidence"))}
    wanted = np.array(sorted(named), np.int64)
    columns = [name for name in HISTORY_SCHEMA.names if name != "mops"]
    kept: list[pa.Table] = []
    for batch in parquet_batches(path, BATCH_ROWS, columns=columns):
        table = pa.Table.from_batches([batch])
        kept.append(table.filter(array((ints(table, "process") < 0) | np.isin(ints(table, "index"), wanted))))
    rows = pa.concat_tables(kept) if kept else HISTORY_SCHEMA.empty_table()
    times = dict(zip(ints(rows, "index").tolist(), ints(rows, "time").tolist(), strict=True))
    return Setting(times.get, run_events(rows).windows)
