"""Histories and telemetry that no run wrote are refused as a whole, with what is wrong in them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from splitbrain.results.arrow import to_table, write_parquet
from splitbrain.results.errors import HistoryFormatError
from splitbrain.results.formats import read_table
from splitbrain.results.formats.export import pieces
from splitbrain.results.history import HARNESS, NEMESIS, Op
from splitbrain.results.soundness import check_history_file, sound_history


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
