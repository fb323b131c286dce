"""Recovery side by side: which schedule both systems meet, and that its figures are those of the history."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from benchmarks.recovery import NODES, RATE, SHAPES, SYSTEMS, schedule, write_schedule
from benchmarks.recovery_figures import (
    Recovered,
    longest,
    measured,
    recoveries,
    recovery_table,
    run_table,
    silent,
    unserved_s,
)
from splitbrain.checkers.quorum.answers import answers
from splitbrain.harness.campaigns.schedules import read
from splitbrain.harness.systems import catalogue
from splitbrain.results.errors import HarnessError
from splitbrain.results.faults import run_events
from splitbrain.results.rundir import RunDir
from tests.checkers.quorum.story import FIVE, Story, between
from tests.cli.support import ROOT, answer, only_run, splitbrain

EXAMPLE = ROOT / "examples" / "partitions.schedule"


def cut_and_healed() -> Story:
    """n1 and n2 are cut off at 2 s; n3 to n5 answer from 3.5 s, n5 from 4 s; all is healed at 10 s, n1 answers last.

    At 20 s the nemesis heals again, what is not broken.
    """
    story = Story()
    story.ask("12345", 0.0, 2.0)
    story.fault(2.0, 2.5, cut=between("12", "345"))
    story.ask("12", 2.5, 10.0, "fail", error="no leader")
    story.ask("34", 3.5, 10.0)
    story.ask("5", 4.0, 10.0)
    story.fault(10.0, 10.5, action="stop")
    story.ask("345", 10.5, 20.0)
    story.ask("2", 11.0, 20.0)
    story.ask("1", 15.0, 20.0)
    story.fault(20.0, 20.5, action="stop")
    story.ask("12345", 21.0, 25.0)
    story.note(26.0, "phase", {"phase": "heal"})
    return story


def recovered(story: Story) -> list[Recovered]:
    return recoveries(run_events(story.history()), story.judged().figures)


def test_a_partition_is_over_for_its_core_and_its_heal_for_all() -> None:
    cut, healed = recovered(cut_and_healed())
    assert (cut.healed, cut.set_s, cut.nodes) == (False, 0.5, {"n3": 1.51, "n4": 1.51, "n5": 2.01})
    assert (cut.first_s, cut.all_s) == (1.51, 2.01)
    assert (healed.healed, healed.set_s, healed.first_s, healed.all_s) == (True, 0.5, 0.51, 5.01)
    assert list(healed.nodes) == list(FIVE)


def test_of_two_cores_the_one_counts_that_is_back_first() -> None:
    story = Story()
    story.fault(2.0, 2.5, cut=between("12", "45"))
    story.ask("3", 3.0, 10.0)
    story.ask("45", 4.0, 10.0)
    story.ask("1", 6.0, 10.0)
    [bridge] = recovered(story)
    assert list(bridge.nodes) == ["n3", "n4", "n5"]
    assert bridge.all_s == 2.01


def test_a_node_that_stays_silent_is_told_and_is_no_recovery() -> None:
    story = Story()
    story.fault(2.0, 2.5, cut=between("12", "345"))
    story.ask("34", 3.0, 10.0)
    [cut] = recovered(story)
    assert (cut.nodes["n5"], cut.first_s, cut.all_s) == (None, 1.01, None)


def test_unserved_is_what_lies_between_answers() -> None:
    history = cut_and_healed().history()
    found = unserved_s(run_events(history), answers(history, FIVE, None, ()))
    assert found["cluster"] == pytest.approx(3.51 - 1.91 + 21.01 - 19.91 + 26.0 - 24.91)
    assert found["n2"] == pytest.approx(11.01 - 1.91 + 21.01 - 19.91 + 26.0 - 24.91)
    assert found["n1"] == pytest.approx(15.01 - 1.91 + 21.01 - 19.91 + 26.0 - 24.91)


def test_both_systems_have_elections_and_each_shape_comes_once() -> None:
    assert all(catalogue.build(system).capabilities.elections is not None for system in SYSTEMS)
    ops = schedule(5, 8.0, 14.0)
    shapes = [request["shape"] for _, f, request in ops if f == "start-partition" and request is not None]
    assert sorted(shapes) == sorted(SHAPES)
    assert schedule(5, 8.0, 14.0) == ops != schedule(6, 8.0, 14.0)


def test_the_example_is_the_schedule_that_is_written(tmp_path: Path) -> None:
    written = tmp_path / "partitions.schedule"
    write_schedule(written, schedule(1, 8.0, 14.0))
    assert read(str(written), NODES, 114.0) == read(str(EXAMPLE), NODES, 114.0)


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> RunDir:
    """A run of the example's schedule in simulation, as its comments say."""
    folder = tmp_path_factory.mktemp("partitions")
    words = ["--schedule", str(EXAMPLE), "--time-limit", "114", "--rate", str(RATE), "--concurrency", "15n"]
    done = splitbrain("run", *words, "--backend", "sim", "--seed", "1", "--json", "--store", str(folder), timeout_s=300)
    assert answer(done)["outcome"] == "pass", answer(done)["verdicts"]
    return RunDir(only_run(folder))


@pytest.mark.slow
def test_in_a_run_of_the_example_every_shape_strikes_and_is_recovered_from(simulated: RunDir) -> None:
    found = measured(simulated, 0.0)
    assert [(one.shape, one.healed) for one in found.recovered] == [
        (shape, healed)
        for shape in ("halves", "leader-in-minority", "bridge", "one-way-mute-leader", "one-way-deaf-leader")
        for healed in (False, True)
    ]
    assert silent([found]) == []
    assert found.terms >= 3, "a leader in a minority, a mute and a deaf one are replaced"
    assert 0 < found.unserved_s["cluster"] < found.unserved_s["n1"] + found.unserved_s["n2"]
    for healed in (False, True):
        took_s = longest([found], healed=healed)
        assert took_s is not None
        assert 0 < took_s < found.bound_s
    slowest = max((one.all_s or 0.0) - one.set_s for one in found.recovered if one.healed)
    assert longest([found, found], healed=True) == slowest


@pytest.mark.slow
def test_the_tables_have_a_row_for_each_kind_and_a_column_for_each_system(simulated: RunDir) -> None:
    one = measured(simulated, 0.0)
    rows = recovery_table({"metadata": [one], "etcd": [one, one]})
    assert len(rows) == 2 + 3 * 2 * len(SHAPES)
    halves = next(row for row in rows if row.startswith("| halves cut: a whole core |"))
    assert halves.count("(1)") == 1
    assert halves.count("(2)") == 1
    cells = {len(row.split("|")) for row in [*rows, *run_table({"metadata": [one], "etcd": [one, one]})]}
    assert cells == {5}


@pytest.mark.slow
def test_a_run_that_was_not_judged_so_is_refused(simulated: RunDir, tmp_path: Path) -> None:
    bare = RunDir(Path(shutil.copytree(simulated.path, tmp_path / "test=bare" / simulated.path.name)))
    (bare.path / "verdict.json").unlink()
    with pytest.raises(HarnessError, match="no verdict of quorum-progress"):
        measured(bare, 0.0)
