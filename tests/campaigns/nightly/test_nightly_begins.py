"""How a night begins: which earlier one it continues, which cells come first, which defaults its runs have."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from splitbrain.harness.campaigns.nightly import night as nightly
from splitbrain.harness.campaigns.nightly.budget import neglected
from splitbrain.harness.campaigns.nightly.cells import DEFAULTS, Cell, options_of_cell
from splitbrain.harness.campaigns.nightly.journal import FILE as JOURNAL
from splitbrain.harness.campaigns.nightly.journal import Journal
from splitbrain.harness.campaigns.nightly.matrix import load_matrix
from splitbrain.harness.campaigns.nightly.night import NightPlan, run_night
from splitbrain.harness.cli.run import command
from splitbrain.results import nights
from splitbrain.results.baseline import Baseline
from splitbrain.results.nights import Began, CellOfNight, Night, NotReached, Ran
from splitbrain.results.runfigures import RunFigures

IMPOSSIBLE = """
[axes]
workload = "register"
nemesis = "kill"
system = ["metadata", "etcd"]
bug = "M23"
[[exclude]]
system = "metadata"
"""
"""A matrix whose night is over at once."""


def test_a_night_that_came_to_its_end_is_never_continued_however_old_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nightly, "NIGHTS_MAX", 2)
    (tmp_path / "night.toml").write_text(IMPOSSIBLE)
    matrix = load_matrix(tmp_path / "night.toml")
    plan = NightPlan(matrix=matrix, store=tmp_path / "store", baseline=Baseline(), jobs=1, budget_s=60.0, resume=True)
    assert len({run_night(plan)[1] for _ in range(4)}) == 4


def _plan(tmp_path: Path, matrix: str = IMPOSSIBLE) -> NightPlan:
    (tmp_path / "night.toml").write_text(matrix)
    return NightPlan(
        matrix=load_matrix(tmp_path / "night.toml"),
        store=tmp_path / "store",
        baseline=Baseline(),
        jobs=1,
        budget_s=60.0,
        resume=True,
    )


def test_a_night_that_a_newer_version_ended_is_not_continued_in_an_older_format(tmp_path: Path) -> None:
    plan = _plan(tmp_path)
    newer = run_night(plan)[1]
    (newer / nights.FILE).write_text('{"format": 99}')
    before = {path.name: path.read_bytes() for path in newer.iterdir()}
    assert run_night(plan)[1] != newer
    assert {path.name: path.read_bytes() for path in newer.iterdir()} == before


def _begun(tmp_path: Path, plan: NightPlan, *lines: Ran) -> Path:
    """A night that was killed after these runs."""
    folder = plan.store / nights.FOLDER / "20260101T000000.000Z"
    began = Began(matrix=plan.matrix.digest, seed=1, began="2026-01-01T00:00:00+00:00")
    with Journal(folder / JOURNAL) as journal:
        for each in (began, *lines):
            journal.append(each)
    return folder


CELL = Cell("register", "kill", "etcd", bug="M23").name
LOST = Ran(
    cell=CELL, seed=1, why="fresh", outcome="violation", command="c", signatures=("linearizable/nonlinearizable/read",)
)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (LOST, ""),
        (msgspec.structs.replace(LOST, outcome="viola|ion"), "line 2 is damaged: 'viola.ion' is not a valid Outcome"),
        (msgspec.structs.replace(LOST, signatures=()), "line 2 is damaged: a violation without a signature"),
        (msgspec.structs.replace(LOST, signatures=("read",)), "line 2 is damaged: 'read' is no signature"),
        (msgspec.structs.replace(LOST, seed=1 << 63), "line 2 is damaged: a number of more than 64 bits"),
        (
            msgspec.structs.replace(LOST, figures=RunFigures(marks=1 << 63)),
            "line 2 is damaged: a number of more than 64",
        ),
        (msgspec.structs.replace(LOST, run=""), "line 2 is damaged: a run without a folder"),
        (msgspec.structs.replace(LOST, cell="register/jill"), "line 2 is damaged: this splitbrain knows no cell"),
    ],
)
def test_a_night_whose_journal_is_damaged_is_not_continued_and_that_is_said(
    tmp_path: Path, line: Ran, why: str
) -> None:
    """What was no violation any more would let it pass."""
    plan, warned = _plan(tmp_path), list[str]()
    begun = _begun(tmp_path, plan, line)
    night, folder = run_night(plan, warn=warned.append)
    if why:
        assert folder != begun
        [said] = warned
        assert str(begun / JOURNAL) in said
        assert re.search(why, said)
        assert night.violations == ()
    else:
        assert folder == begun
        assert [each.seed for each in night.violations] == [1], (
            "its cell became impossible since: it is kept all the same"
        )
        assert not warned


def test_a_damaged_night_of_another_matrix_is_not_spoken_of(tmp_path: Path) -> None:
    plan, warned = _plan(tmp_path), list[str]()
    folder = plan.store / nights.FOLDER / "20260101T000000.000Z"
    with Journal(folder / JOURNAL) as journal:
        journal.append(Began(matrix="of another", seed=1, began="2026-01-01T00:00:00+00:00"))
    with (folder / JOURNAL).open("ab") as file:
        file.write(b"xx\n")
    assert run_night(plan, warn=warned.append)[1] != folder
    assert not warned


def test_a_pipe_in_the_place_of_a_journal_keeps_no_night_waiting(tmp_path: Path) -> None:
    plan, warned = _plan(tmp_path), list[str]()
    journal = plan.store / nights.FOLDER / "20260101T000000.000Z" / JOURNAL
    journal.parent.mkdir(parents=True)
    os.mkfifo(journal)
    with signal_after(20):
        assert run_night(plan, warn=warned.append)[1] != journal.parent
    assert "not a plain file" in warned[0]


def test_a_night_that_began_at_no_time_is_not_continued(tmp_path: Path) -> None:
    plan, warned = _plan(tmp_path), list[str]()
    journal = _begun(tmp_path, plan, LOST) / JOURNAL
    journal.write_text(journal.read_text().replace("2026-01-01T", "2026-01-O1T"))
    assert run_night(plan, warn=warned.append)[1] != journal.parent
    assert "line 1 is damaged: Invalid isoformat string" in warned[0]


@contextmanager
def signal_after(seconds: int) -> Generator[None]:
    """What waits for ever ends this test with an error."""

    def give_up(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def _night(name: str, ran: str, missed: str) -> Night:
    cells = [
        CellOfNight(
            name=Cell(workload, "kill").name,
            **msgspec.structs.asdict(Cell(workload, "kill")),
            outcomes={"pass": 1} if workload in ran else {},
            seconds=1.0,
            weight=1.0,
        )
        for workload in ran + missed
    ]
    return Night(
        name=name,
        matrix="m",
        matrix_digest="d",
        began="",
        ended="",
        ended_by="budget",
        budget_s=1.0,
        elapsed_s=1.0,
        outcome="pass",
        exit_code=0,
        strict=False,
        outcomes={},
        cells=tuple(cells),
        violations=(),
        errors=(),
        fixed=(),
        expired=(),
        not_reached=NotReached(cells=tuple(Cell(workload, "kill").name for workload in missed)),
        stored_bytes=0,
    )


def test_a_cell_that_got_no_run_comes_first_although_another_matrix_was_run_since() -> None:
    def workloads(*before: Night) -> str:
        return "".join(name.partition("/")[0] for name in neglected(before))

    assert workloads() == ""
    assert workloads(_night("1", "a", "bc"), _night("2", "xy", "z")) == "bcz"
    assert workloads(_night("1", "a", "bc"), _night("2", "xy", "z"), _night("3", "b", "ac")) == "zac"


def test_runs_of_a_night_have_the_defaults_of_the_command_run() -> None:
    of_run = {parameter.name: parameter.default for parameter in command.params}
    assert {name: of_run[name] for name in DEFAULTS} == dict(DEFAULTS)


def test_nodes_are_those_of_the_hosts_if_no_number_is_given() -> None:
    cell = Cell("register", "kill", backend="ssh")
    assert options_of_cell(cell, {"hosts": "a=10.0.0.1,b=10.0.0.2,c=10.0.0.3"}, 1).nodes == "a,b,c"
    assert options_of_cell(cell, {}, 1).nodes == "5"
