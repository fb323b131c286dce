"""What a night says of its figures: in its summary, on its page, in the terminal; tables that cannot be read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from splitbrain.harness.campaigns.nightly import trends
from splitbrain.harness.cli.nightly import show
from splitbrain.results import nightmarkdown, nightpage, runfigures
from splitbrain.results.nights import Night
from tests.results.nightsupport import night_document, rows

CELLS = (("register", "kill"), ("set|<b>", "partition"))


def _nights(store: Path, count: int, runs: int = 60) -> list[Night]:
    """Nights that are written and compared one after the other; in the last one elections are slower."""
    draw = np.random.default_rng(1)
    found: list[Night] = []
    for number in range(count):
        name = f"2026010{number}"
        listed = rows(name, draw, cells=CELLS, runs=runs, slower=1.3 if number == count - 1 else 1.0)
        written = runfigures.write(store, name, listed)
        found.append(night_document(name, listed, trends=trends.since(found, written)))
    return found


def test_summary_page_and_terminal_say_what_changed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    *before, last = _nights(tmp_path, 4)
    assert [night.trends.changes for night in before] == [()] * 3
    summary, page = nightmarkdown.document(last), nightpage.document(last, tmp_path)
    show(last, tmp_path)
    terminal = capsys.readouterr().out
    for text in (summary, page, terminal):
        assert "after kill: a majority answers (s), metadata/default/sim/none" in text
        assert "120 runs against 360 runs of 3 nights before" in text
        assert "since 20260103" in text
    assert "set|<b>" not in page
    assert "no figure changed" in nightmarkdown.document(before[1])
    assert "### Figures" not in nightmarkdown.document(before[0])


def test_too_few_runs_are_said_to_be_too_few(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    *_, last = _nights(tmp_path, 2, runs=3)
    assert last.trends.changes == ()
    show(last, tmp_path)
    assert "too few runs or nights to say of" in capsys.readouterr().out
    assert "too few runs or nights to say of: " in nightmarkdown.document(last)


def test_a_table_that_is_gone_or_damaged_counts_for_nothing_and_is_named(tmp_path: Path) -> None:
    nights = _nights(tmp_path, 4)
    (tmp_path / "figures" / "20260100.parquet").unlink()
    (tmp_path / "figures" / "20260101.parquet").write_bytes(b"PAR1")
    found = trends.since(nights[:3], tmp_path / "figures" / "20260103.parquet")
    assert found.nights == 1
    [problem] = found.problems
    assert "20260101.parquet" in problem
    assert [change.nights_before for change in found.changes] == [1]
