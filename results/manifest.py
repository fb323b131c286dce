"""The table of a store: a row for each run, in one Parquet file that other tools read (docs/schema.md).

It follows from the runs, and is written anew as a whole: a reader has the one of before or the one of now.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from splitbrain.results.atomic import replace_file
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
    return len(rows)


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
