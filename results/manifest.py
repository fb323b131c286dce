"""The table of a store: a row for each run, in one Parquet file that other tools read (docs/schema.md).

With it goes the table of the figures of all runs that no night has begun (`splitbrain.results.runfigures`).

It follows from the runs, and is written anew as a whole: a reader has the one of before or the one of now.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from splitbrain.results import runfigures
from splitbrain.results.atomic import replace_file
from splitbrain.results.errors import HistoryFormatError, SplitbrainError
from splitbrain.results.figures import stored_figures
from splitbrain.results.rundir import RunDir
from splitbrain.results.site.rows import Index, Row

MANIFEST: Final = "runs.parquet"
"""Its name in the folder of the store."""

_TYPES: Final[dict[str, Any]] = {
    "test": pa.string(),
    "run": pa.string(),
    "folder": pa.string(),
    "state": pa.string(),
    "says": pa.string(),
    "began": pa.timestamp("us", tz="UTC"),
    "seed": pa.int64(),
    "workload": pa.string(),
    "nemesis": pa.string(),
    "system": pa.string(),
    "backend": pa.string(),
    "bug": pa.string(),
    "duration_s": pa.float64(),
    "ops": pa.int64(),
    "ok_per_s": pa.float64(),
    "p99_ms": pa.float64(),
    "available": pa.float64(),
    "recovery_s": pa.float64(),
    "leader_changes": pa.int64(),
    "marks": pa.int64(),
}

SCHEMA: Final = pa.schema(_TYPES)
"""The columns; all that a run does not have is null. They are described in docs/schema.md."""

FORMAT: Final = b"1"


def write_manifest(store: Path) -> int:
    """Write the table of a store; how many runs it has.

    Raises:
        OSError: it cannot be written.
    """
    rows = sorted(Index(store).rows(), key=lambda row: (row.run, row.test))
    columns = {name: [_cell(row, name) for row in rows] for name in SCHEMA.names}
    table = pa.table(columns, SCHEMA).replace_schema_metadata({b"splitbrain.manifest": FORMAT})
    replace_file(store / MANIFEST, lambda aside: pq.write_table(table, aside, compression="zstd"))
    _write_figures(store, rows)
    return len(rows)


def _write_figures(store: Path, rows: Sequence[Row]) -> None:
    of_nights: set[str] = set()
    for path in runfigures.files(store):
        try:
            of_nights |= {folder for folder in runfigures.read(path)["folder"].to_pylist() if folder is not None}
        except HistoryFormatError:
            continue  # its runs are in no other table either: that is better than none
    others = [row for row in rows if "/".join(row.parts) not in of_nights]
    runfigures.write(store, runfigures.OTHERS, (_figures_row(store, row) for row in others))


def _figures_row(store: Path, row: Row) -> dict[str, Any]:
    path = store.joinpath(*row.parts)
    named = ("workload", "nemesis", "system", "backend", "bug", "seed", "outcome", "began", "folder")
    what = {name: row.state if name == "outcome" else _cell(row, name) for name in named}
    found = None if row.state == "damaged" else stored_figures(path)
    if found is None:
        return runfigures.row(None, what)
    return runfigures.row(runfigures.run_figures(found, _checking_s(path)), what)


def _checking_s(path: Path) -> float | None:
    """CPU seconds that the checkers of a run took; None if it was not judged."""
    try:
        judgement = RunDir(path).read_verdicts()
    except SplitbrainError:
        return None
    return None if judgement is None else sum(float(each.get("seconds") or 0.0) for each in judgement.verdicts)


def _cell(row: Row, name: str) -> Any:
    if name == "folder":
        return "/".join(row.parts)
    if name == "began":
        return _began(row.start)
    if name == "seed":
        return row.seed if row.seed is not None and abs(row.seed) < 1 << 63 else None
    value = msgspec.structs.asdict(row)[name]
    return None if value == "" else value


def _began(text: str) -> datetime | None:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found
