"""The table of a night's figures: all columns, those of older versions too; damaged files are refused."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from splitbrain.results import runfigures
from splitbrain.results.errors import HistoryFormatError
from splitbrain.results.figures import Figures, Recovery
from splitbrain.results.runfigures import RunFigures, Took, run_figures
from tests.results.nightsupport import rows

FIGURES = Figures(
    duration_s=30.0,
    ops=100,
    ok=90,
    fail=5,
    info=5,
    ok_per_s=3.0000004,
    latency_ms={"p50": 1.0, "p95": 2.0, "p99": 3.0, "max": 4.0},
    available_time=0.9,
    available_ops=0.8,
    recoveries=(
        Recovery(fault="kill", action="start", target="n1", time_s=1.0, first_s=0.5, majority_s=None, all_s=None),
    ),
    healed_s=None,
    leader_changes=2,
    marks={"a": 0, "b": 3},
)


def test_what_is_kept_of_a_run_survives_the_journal_and_the_table(tmp_path: Path) -> None:
    kept = run_figures(FIGURES, 0.25, 12.5)
    assert (kept.ok_per_s, kept.p99_ms, kept.marks, kept.available) == (3.0, 3.0, 1, 0.9)
    assert kept.recoveries == (Took("kill", "start", 0.5, None, None),)
    assert msgspec.json.decode(msgspec.json.encode(kept), type=RunFigures) == kept
    path = runfigures.write(tmp_path, "1", [runfigures.row(kept, {"night": "1", "seed": 7, "folder": ""})])
    [row] = runfigures.read(path).to_pylist()
    assert (row["night"], row["seed"], row["folder"], row["checking_s"], row["sim_s_per_cpu_s"]) == (
        "1",
        7,
        None,
        0.25,
        12.5,
    )
    assert row["recoveries"] == [
        {"fault": "kill", "action": "start", "first_s": 0.5, "majority_s": None, "all_s": None}
    ]


def test_a_table_of_an_older_version_has_null_where_it_had_no_column(tmp_path: Path) -> None:
    path = runfigures.write(tmp_path, "1", rows("1", np.random.default_rng(1), runs=2))
    whole = runfigures.read(path)
    pq.write_table(whole.drop_columns(["why", "marks"]), path)
    found = runfigures.read(path)
    assert found.schema.equals(runfigures.SCHEMA)
    assert found["marks"].null_count == found.num_rows == 4
    assert found["p99_ms"] == whole["p99_ms"]


@pytest.mark.parametrize("content", [b"", b"PAR1", b"PAR1" + bytes(100) + b"PAR1"])
def test_a_damaged_table_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "1.parquet"
    path.write_bytes(content)
    with pytest.raises(HistoryFormatError, match="damaged"):
        runfigures.read(path)
    pq.write_table(pa.table({"seed": ["no number"]}), path)
    with pytest.raises(HistoryFormatError, match="damaged"):
        runfigures.read(path)


def test_tables_of_nights_are_listed_in_order_without_that_of_other_runs(tmp_path: Path) -> None:
    for name in ("2", "1", runfigures.OTHERS):
        runfigures.write(tmp_path, name, [])
    (tmp_path / "figures" / ".3.parquet").write_bytes(b"")
    assert [path.stem for path in runfigures.files(tmp_path)] == ["1", "2"]
