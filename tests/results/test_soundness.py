"""Histories and telemetry that no run wrote are refused as a whole, with what is wrong in them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from splitbrain.results.arrow import TELEMETRY_SCHEMA, to_table, write_parquet
from splitbrain.results.errors import HistoryFormatError
from splitbrain.results.formats import read_table
from splitbrain.results.formats.export import pieces
from splitbrain.results.history import HARNESS, NEMESIS, Op
from splitbrain.results.leaps import COLUMNS
from splitbrain.results.soundness import check_history_file, check_telemetry_file, sound_history, sound_telemetry


def note(f: str, value: Any, process: int = HARNESS) -> Op:
    return Op(index=0, time=0, process=process, type="ok" if process == NEMESIS else "info", f=f, value=value)


DAMAGED_NOTES = pytest.mark.parametrize(
    ("f", "value", "says"),
    [
        ("phase", None, "the harness's note 'phase' is damaged"),
        ("phase", {"phase": "lunch"}, "no phase of a run is named 'lunch'"),
        ("stall", {"gap_ms": "long"}, "the harness's note 'stall' is damaged"),
        ("crash", {"exit": "exit code 1"}, "the harness's note 'crash' is damaged"),
        ("recovered", {"seconds": -1.0}, "the harness's note 'recovered' is damaged"),
        ("clocks", {"walls_s": {"n1": 1e300}}, "the harness's note 'clocks' is damaged"),
        ("lunch", None, "the harness makes no note 'lunch'"),
    ],
)


@DAMAGED_NOTES
def test_a_stored_history_with_a_damaged_note_is_refused(tmp_path: Path, f: str, value: Any, says: str) -> None:
    table = to_table([note(f, value)])
    with pytest.raises(HistoryFormatError, match=f"h: op 0: {says}"):
        sound_history(table, "h")
    write_parquet(table, tmp_path / "history.parquet")
    with pytest.raises(HistoryFormatError, match=says):
        check_history_file(tmp_path / "history.parquet")


@DAMAGED_NOTES
@pytest.mark.parametrize("name", ["jsonl", "edn"])
def test_an_imported_history_with_a_damaged_note_is_refused(
    tmp_path: Path, name: str, f: str, value: Any, says: str
) -> None:
    path = tmp_path / "history"
    path.write_text("".join(text for _, text in pieces(to_table([note(f, value)]), name)), encoding="utf-8")
    with pytest.raises(HistoryFormatError, match=f"history: op 0: {says}"):
        read_table(path, name)


def test_a_stored_history_with_a_damaged_report_of_a_nemesis_is_refused() -> None:
    with pytest.raises(HistoryFormatError, match="op 0: the report of nemesis op 'kill' is damaged"):
        sound_history(to_table([note("kill", {"fault": "kill", "down": 1}, NEMESIS)]), "h")
    lacking = to_table([note("kill", {"fault": "kill", "down": ["n1"]}, NEMESIS)])
    assert sound_history(lacking, "h").equals(lacking)


def telemetry(name: str, *values: int | None) -> pa.Table:
    """A node's rows, with these values of a column."""
    rows = [{"time": at, "node": "n1", "life": 1, "event": "commit", name: each} for at, each in enumerate(values)]
    return pa.Table.from_pylist(rows, TELEMETRY_SCHEMA)


@pytest.mark.parametrize("name", COLUMNS)
@pytest.mark.parametrize("damaged", [2**63 - 1, 2**62 + 7, 7 - 2**63])
def test_an_index_that_no_log_reaches_is_damage_and_no_violation(tmp_path: Path, name: str, damaged: int) -> None:
    table = telemetry(name, 7, damaged, 8)
    with pytest.raises(HistoryFormatError, match=f"t: {name} is "):
        sound_telemetry(table, "t")
    write_parquet(table, tmp_path / "telemetry.parquet")
    with pytest.raises(HistoryFormatError, match=f"{name} is "):
        check_telemetry_file(tmp_path / "telemetry.parquet", {})


@pytest.mark.parametrize(
    "indexes",
    [
        (0, 1, 2, 2**53),
        (-1, 0, 1, None),
        (-(2**63), 1, 2),
        (0, 1_790_000_000 << 32, 1_790_086_400 << 32),
        (None, 2**63 - 2, 2**63 - 1),
    ],
    ids=["counted", "minus one for none", "the least number for none", "a clock for an index", "close to the end"],
)
def test_the_indexes_of_any_system_are_sound(indexes: tuple[int | None, ...]) -> None:
    table = telemetry("commit_index", *indexes)
    assert sound_telemetry(table, "t").equals(table)
