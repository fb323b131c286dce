"""Figures of each run of a night: kept for runs that are not stored, too, so that nights can be compared for years.

A night's journal has them run by run; when the night is over they are a table, `STORE/figures/NIGHT.parquet`, a row for
each run (docs/schema.md). All these tables have the same columns: other tools read the folder as one table. The file
`runs.parquet` in it has the runs of the store that no night has begun; `splitbrain manifest` writes it anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from splitbrain.results.atomic import replace_file
from splitbrain.results.errors import HistoryFormatError
from splitbrain.results.figures import Figures
from splitbrain.results.plainfile import DOCUMENT_BYTES, refuse_others

FOLDER: Final = "figures"
"""Its name in the folder of a store."""

OTHERS: Final = "runs"
"""The name of the table with the runs that no night has begun."""

FORMAT: Final = b"1"


class Took(msgspec.Struct, frozen=True, array_like=True):
    """How soon the system answered after one operation of the nemesis, as in `splitbrain.results.figures.Recovery`.

    Attributes:
        fault: its kind, e.g. "partition".
        action: "start", or "stop" where it was healed.
        first_s, majority_s, all_s: until some node, a majority, every node had answered; None if that did not happen
            before the next operation of the nemesis.
    """

    fault: str
    action: str
    first_s: float | None
    majority_s: float | None
    all_s: float | None


class RunFigures(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is kept of a run's figures.

    Attributes:
        duration_s, ops, ok, info, ok_per_s, available, leader_changes, healed_s: as in
            `splitbrain.results.figures.Figures`.
        p50_ms, p95_ms, p99_ms, max_ms: latency of ok ops.
        marks: how many coverage marks it reached.
        checking_s: CPU seconds that its checkers took.
        sim_s_per_cpu_s: virtual seconds for each CPU second, judging included; None on real nodes.
        recoveries: one for each operation of the nemesis that hit a node, in order.
    """

    duration_s: float | None = None
    ops: int | None = None
    ok: int | None = None
    info: int | None = None
    ok_per_s: float | None = None
    p50_ms: float | None = None
    p95_ms: float | None = None
    p99_ms: float | None = None
    max_ms: float | None = None
    available: float | None = None
    healed_s: float | None = None
    leader_changes: int | None = None
    marks: int | None = None
    checking_s: float | None = None
    sim_s_per_cpu_s: float | None = None
    recoveries: tuple[Took, ...] = ()


def run_figures(found: Figures, checking_s: float | None = None, sim_s_per_cpu_s: float | None = None) -> RunFigures:
    """What is kept of a run, rounded to microseconds.

    Args:
        found: its figures.
        checking_s: CPU seconds that its checkers took.
        sim_s_per_cpu_s: how fast it was simulated.
    """
    latency = {name: _rounded(value) for name, value in found.latency_ms.items()}
    return RunFigures(
        duration_s=_rounded(found.duration_s),
        ops=found.ops,
        ok=found.ok,
        info=found.info,
        ok_per_s=_rounded(found.ok_per_s),
        p50_ms=latency.get("p50"),
        p95_ms=latency.get("p95"),
        p99_ms=latency.get("p99"),
        max_ms=latency.get("max"),
        available=_rounded(found.available_time),
        healed_s=_rounded(found.healed_s),
        leader_changes=found.leader_changes,
        marks=None if found.marks is None else sum(count > 0 for count in found.marks.values()),
        checking_s=_rounded(checking_s),
        sim_s_per_cpu_s=_rounded(sim_s_per_cpu_s),
        recoveries=tuple(
            Took(each.fault, each.action, _rounded(each.first_s), _rounded(each.majority_s), _rounded(each.all_s))
            for each in found.recoveries
        ),
    )


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 6)


# --- the table --------------------------------------------------------------------------------------------------------

_RECOVERY: Final = pa.struct(
    [
        ("fault", pa.string()),
        ("action", pa.string()),
        ("first_s", pa.float64()),
        ("majority_s", pa.float64()),
        ("all_s", pa.float64()),
    ]
)

_TYPES: Final[dict[str, Any]] = {
    "night": pa.string(),
    "began": pa.timestamp("us", tz="UTC"),
    "revision": pa.string(),
    "cell": pa.string(),
    "workload": pa.string(),
    "nemesis": pa.string(),
    "system": pa.string(),
    "version": pa.string(),
    "backend": pa.string(),
    "bug": pa.string(),
    "seed": pa.int64(),
    "why": pa.string(),
    "outcome": pa.string(),
    "folder": pa.string(),
    "duration_s": pa.float64(),
    "ops": pa.int64(),
    "ok": pa.int64(),
    "info": pa.int64(),
    "ok_per_s": pa.float64(),
    "p50_ms": pa.float64(),
    "p95_ms": pa.float64(),
    "p99_ms": pa.float64(),
    "max_ms": pa.float64(),
    "available": pa.float64(),
    "healed_s": pa.float64(),
    "leader_changes": pa.int64(),
    "marks": pa.int64(),
    "checking_s": pa.float64(),
    "sim_s_per_cpu_s": pa.float64(),
    "recoveries": pa.list_(_RECOVERY),
}

SCHEMA: Final = pa.schema(_TYPES)
"""The columns; all that a run does not have is null. They are described in docs/schema.md."""

_OF_FIGURES: Final = tuple(name for name in SCHEMA.names if name in RunFigures.__struct_fields__)


def row(figures: RunFigures | None, what: Mapping[str, Any]) -> dict[str, Any]:
    """A row of the table.

    Args:
        figures: of the run; None if it has none.
        what: its other columns, by name; those that are missing or empty are null.
    """
    had = {} if figures is None else {name: getattr(figures, name) for name in _OF_FIGURES}
    took = () if figures is None else figures.recoveries
    return {
        **{name: value for name, value in what.items() if value != ""},
        **had,
        "recoveries": [msgspec.structs.asdict(each) for each in took],
    }


def write(store: Path, name: str, rows: Iterable[Mapping[str, Any]]) -> Path:
    """Write the table of a night, or of the other runs; the file.

    Raises:
        OSError: it cannot be written.
    """
    path = store / FOLDER / f"{name}.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    table = pa.Table.from_pylist(list(rows), SCHEMA).replace_schema_metadata({b"splitbrain.figures": FORMAT})
    replace_file(path, lambda aside: pq.write_table(table, aside, compression="zstd"))
    return path


def files(store: Path) -> list[Path]:
    """The tables of all nights, the oldest first."""
    found = (store / FOLDER).glob("*.parquet")
    return sorted(path for path in found if path.stem != OTHERS and not path.name.startswith("."))


def read(path: Path) -> pa.Table:
    """The table in a file.

    Raises:
        HistoryFormatError: it is damaged, or no plain file.
    """
    refuse_others(path, DOCUMENT_BYTES)
    try:
        return parse(path.read_bytes(), str(path))
    except OSError as error:
        raise HistoryFormatError(str(path), f"cannot be read: {error.strerror}") from error


def parse(content: bytes, path: str) -> pa.Table:
    """The table in a file's content; columns that it does not have yet are null. `path` is for messages.

    Raises:
        HistoryFormatError: it is damaged.
    """
    try:
        with pq.ParquetFile(pa.BufferReader(content)) as file:
            found = file.read()
        columns: list[Any] = [
            found[name] if name in found.column_names else pa.nulls(found.num_rows, kind)
            for name, kind in _TYPES.items()
        ]
        return pa.table(columns, names=SCHEMA.names).cast(SCHEMA)
    except (OSError, pa.ArrowException, ValueError, KeyError) as error:
        raise HistoryFormatError(path, f"damaged: {error}") from error
