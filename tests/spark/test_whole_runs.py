"""History and telemetry of a run meet in one group of Spark, and are judged there as in this process."""

from __future__ import annotations

from pathlib import Path

import pytest

from splitbrain.checkers import engine
from splitbrain.checkers.spark.hot_keys import Sizes
from splitbrain.checkers.spark.pipeline import judge_runs
from splitbrain.checkers.spark.session import Spark
from splitbrain.checkers.verdict import CheckerSpec
from splitbrain.results.arrow import from_table
from splitbrain.results.rundir import RunDir
from splitbrain.results.store import Store
from tests.checkers.quorum.story import OPTIONS, Story, between

from .support import IN_GROUPS, stored, timeless

pytestmark = pytest.mark.spark

QUORUM = CheckerSpec("quorum-progress", OPTIONS)


def story(answer_of: str = "", leaders: bool = False) -> Story:
    """n1 n2 n3 are cut off from n4 n5 for ten seconds; one of these may answer, or a term may have two leaders."""
    found = Story()
    found.ask("12345", 0.0, 2.0, term=2)
    found.fault(2.0, 2.1, cut=between("123", "45"))
    found.ask("123", 3.0, 11.9, term=2)
    found.fault(12.0, 12.1, action="stop")
    if answer_of:
        found.ask(answer_of, 5.0, 5.2, term=2)
    for number in range(40):
        found.tell(number / 4, "n1", role="leader", term=2, commit_index=number, applied_index=number)
        found.tell(number / 4 + 0.1, "n2", role="leader" if leaders else "follower", term=2, commit_index=number)
    return found


def run_of(
    store: Store, name: str, seed: int, told: Story | None, *specs: CheckerSpec, telemetry: bool = True
) -> RunDir:
    run = stored(store, name, seed, from_table(told.history()) if told else [], specs)
    if telemetry and told is not None:
        run.write_telemetry(told.telemetry())
    return run


@pytest.mark.slow
@IN_GROUPS
def test_spark_says_of_whole_runs_what_this_process_says(spark: Spark, sizes: Sizes, tmp_path: Path) -> None:
    one, other = Store(tmp_path / "one"), Store(tmp_path / "other")
    consensus, stats = CheckerSpec("election-safety"), CheckerSpec("stats")
    runs = [
        run_of(one, "good", 1, story(), QUORUM, stats),
        run_of(one, "good", 2, story("4"), QUORUM),
        run_of(one, "two", 3, story(leaders=True), stats, consensus, QUORUM, CheckerSpec("stats"), QUORUM),
        run_of(one, "untold", 4, story("5"), QUORUM, telemetry=False),
        run_of(one, "others", 5, story(), stats, consensus),
        run_of(other, "good", 1, story("45"), QUORUM),
        run_of(other, "nothing", 2, None, QUORUM, stats),
    ]
    verdicts = judge_runs(spark.session, [run.path for run in runs], sizes=sizes)
    for run in runs:
        specs = engine.specs_of(run.read_test(), str(run.path))
        assert timeless(verdicts[run.path]) == timeless(engine.judge(run.history(), specs, run.telemetry())), run
    broken = [[verdict.anomalies for verdict in verdicts[run.path] if verdict.checker == QUORUM.name] for run in runs]
    assert broken == [[()], [("Q2",)], [("Q5",), ("Q5",)], [("Q2",)], [], [("Q2",)], [()]]


@pytest.mark.slow
@IN_GROUPS
def test_without_any_telemetry_whole_runs_are_judged_all_the_same(spark: Spark, sizes: Sizes, tmp_path: Path) -> None:
    run = run_of(Store(tmp_path), "untold", 1, story("4"), QUORUM, telemetry=False)
    [verdict] = judge_runs(spark.session, [run.path], sizes=sizes)[run.path]
    assert verdict.anomalies == ("Q2",)


@pytest.mark.slow
@IN_GROUPS
def test_a_wrong_option_breaks_the_run_alone(spark: Spark, sizes: Sizes, tmp_path: Path) -> None:
    run = run_of(Store(tmp_path), "wrong", 1, story(), CheckerSpec("quorum-progress", {"attempt": 1}))
    [verdict] = judge_runs(spark.session, [run.path], sizes=sizes)[run.path]
    assert (verdict.valid, engine.crashed([verdict]) is not None) == ("unknown", True)
