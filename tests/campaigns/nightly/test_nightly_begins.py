"""How a night begins: which earlier one it continues, which cells come first, which defaults its runs have."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from splitbrain.harness.campaigns.nightly import night as nightly
from splitbrain.harness.campaigns.nightly.budget import neglected
from splitbrain.harness.campaigns.nightly.cells import DEFAULTS, Cell, options_of_cell
from splitbrain.harness.campaigns.nightly.matrix import load_matrix
from splitbrain.harness.campaigns.nightly.night import NightPlan, run_night
from splitbrain.harness.cli.run import command
from splitbrain.results.baseline import Baseline
from splitbrain.results.nights import CellOfNight, Night, NotReached

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
