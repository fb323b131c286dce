"""A night whose disk or store is full: the journal stays whole, and the answer says why the night ended."""

from __future__ import annotations

import resource
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from splitbrain.harness.campaigns.interrupts import Interrupts
from splitbrain.harness.campaigns.nightly.journal import FILE, Journal, read
from splitbrain.harness.campaigns.nightly.matrix import load_matrix
from splitbrain.harness.campaigns.nightly.night import NightPlan, _Night  # pyright: ignore[reportPrivateUsage]
from splitbrain.harness.cli.nightly import MARKS_SHOWN, show
from splitbrain.results.baseline import Baseline
from splitbrain.results.errors import UsageError
from splitbrain.results.nightmarkdown import first_line
from splitbrain.results.nights import Began, NotReached, Ran
from tests.results.nightsupport import night_document


@contextmanager
def no_more_than(size: int) -> Generator[None]:
    """Files of this process cannot grow beyond a size."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("room", [0, 10])
def test_a_journal_that_cannot_grow_is_an_answer_and_stays_as_it_was(tmp_path: Path, room: int) -> None:
    began = Began(matrix="m", seed=1, began="2026-01-01T00:00:00+00:00")
    ran = Ran(cell="c", seed=1, why="fresh", outcome="pass", command="splitbrain run")
    with Journal(tmp_path / FILE) as journal:
        journal.append(began)
        whole = (tmp_path / FILE).read_bytes()
        with no_more_than(len(whole) + room), pytest.raises(UsageError, match=r"Make room .*--resume"):
            journal.append(ran)
        assert (tmp_path / FILE).read_bytes() == whole
        assert journal.entries == [began]
        journal.append(ran)
    assert read(tmp_path / FILE) == [began, ran]


class _Idle:
    """Workers that are free."""

    free = 1

    @property
    def tasks(self) -> dict[int, Any]:
        return {}


def _explored(folder: Path, backend: str, *, full: bool) -> str:
    (folder / "night.toml").write_text(
        f'[axes]\nworkload = "register"\nnemesis = "kill"\nbackend = "{backend}"\n[seeds]\nfixed = [1]\nfresh = false\n'
    )
    plan = NightPlan(
        matrix=load_matrix(folder / "night.toml"), store=folder, baseline=Baseline(), jobs=1, budget_s=60.0
    )
    with Journal(folder / FILE) as journal:
        night = _Night(plan, folder / "n", journal, [], Interrupts(), lambda _: None)
        night._is_full = full  # pyright: ignore[reportPrivateUsage]
        for cell in night.cells.values():
            if full:
                night.shares.plan(cell, iter([1]))
        lanes: Any = {True: _Idle(), False: _Idle()}
        return night._explore(lanes)  # pyright: ignore[reportPrivateUsage]


def test_a_night_that_had_no_room_for_runs_on_real_nodes_does_not_say_that_all_were_done(tmp_path: Path) -> None:
    assert _explored(tmp_path, "local", full=True) == "disk"
    (tmp_path / FILE).unlink()
    assert _explored(tmp_path, "local", full=False) == "runs"
    assert "as large as it may be" in first_line(night_document("n", [], ended_by="disk"))


def test_the_terminal_counts_marks_that_were_not_reached_and_shows_the_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    marks = tuple(f"mark {number:02}" for number in range(40))
    show(night_document("n", [], not_reached=NotReached(marks=marks)), tmp_path)
    [line] = [line for line in capsys.readouterr().out.splitlines() if line.startswith("never reached")]
    assert line.startswith("never reached: 40 marks: mark 00, mark 01")
    assert f"mark {MARKS_SHOWN - 1:02}" in line
    assert f"mark {MARKS_SHOWN:02}" not in line
    assert "and 34 more" in line
