"""A store is judged batch by batch, and its pages are written by processes of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Never

import pytest

from splitbrain.checkers.isolation.judging import judge
from splitbrain.checkers.isolation.limits import DEFAULT, PER_CORE
from splitbrain.checkers.spark.session import Spark
from splitbrain.checkers.verdict import CheckerSpec, Outcome
from splitbrain.harness.campaigns import many
from splitbrain.harness.campaigns.judging import judge_with_spark
from splitbrain.results.rundir import RunDir
from splitbrain.results.store import Store

from .support import SET, set_history, stored

pytestmark = pytest.mark.spark

LOST = (1, 4)
"""Runs that lose an element."""


def lay(root: Path) -> list[RunDir]:
    store = Store(root)
    return [stored(store, "set", n, set_history(20, lost=[17] if n in LOST else []), SET) for n in range(5)]


@pytest.mark.slow
def test_all_runs_are_judged_in_any_batches_and_with_any_writer_of_pages(
    spark: Spark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(many, "RUNS_PER_CORE", 1)
    monkeypatch.setattr(many, "ALONE_RUNS", 5)
    runs, shown = lay(tmp_path), list[int]()
    warned = list[str]()
    judged = many.judge_in_batches(runs, spark, 2, shown.append, warned.append)
    assert warned == []
    assert shown == [2, 4, 5]
    assert [each.run.path for each in judged] == [run.path for run in runs]
    violations = [number for number, each in enumerate(judged) if each.outcome is Outcome.VIOLATION]
    assert tuple(violations) == LOST
    assert "17" in judged[1].said
    for run, each in zip(runs, judged, strict=True):
        kept = run.read_verdicts()
        assert kept is not None
        assert (kept.outcome, kept.engine) == (each.outcome.value, "spark")
        assert (run.path / "figures.json").exists()
    again = [many.unchanged(run, DEFAULT) for run in runs]
    assert [each.outcome for each in again if each is not None] == [each.outcome for each in judged]
    first, second = ((runs[number].path / "report.html").read_text() for number in LOST)
    assert runs[1].name in second, "a page knows what earlier runs came to"
    assert "violation" in first.lower()


@pytest.mark.slow
def test_what_demo_has_judged_need_not_be_judged_by_analyze(spark: Spark, tmp_path: Path) -> None:
    runs = lay(tmp_path)[:2]
    judge_with_spark(runs, spark)
    assert [many.unchanged(run, DEFAULT) is not None for run in runs] == [True, True]


@pytest.mark.slow
def test_spark_gets_the_runs_that_changed_and_the_pages_of_the_others_are_written(spark: Spark, tmp_path: Path) -> None:
    runs = lay(tmp_path)
    many.judge_in_batches(runs[:3], spark, 1, lambda _: None, lambda _: None)
    before = [each for run in runs[:3] if (each := many.unchanged(run, PER_CORE)) is not None]
    assert [each.run.path for each in before] == [run.path for run in runs[:3]]
    shown = list[int]()
    found = many.judge_in_batches(runs[3:], spark, 1, shown.append, lambda _: None, before)
    assert shown == [2], "the runs that are judged, and no other"
    assert [each.run.path for each in found] == [run.path for run in runs]
    assert [each.since is None for each in found] == [False, False, False, True, True]
    assert all(runs[4].name in (run.path / "report.html").read_text() for run in runs)


@pytest.mark.slow
@pytest.mark.parametrize("alone", [5, 100])
def test_a_page_that_cannot_be_written_is_an_error_of_its_run_alone(
    spark: Spark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, alone: int
) -> None:
    monkeypatch.setattr(many, "ALONE_RUNS", alone)
    monkeypatch.setattr(many, "RUNS_PER_CORE", 1)
    runs = lay(tmp_path)
    for number in (0, 1):
        (runs[number].path / "report.html").mkdir()
    warned = list[str]()
    judged = many.judge_in_batches(runs, spark, 2, lambda _: None, warned.append)
    assert [run.name in line for run, line in zip(runs, warned, strict=False)] == [True, True]
    expected = [Outcome.HARNESS_ERROR, Outcome.VIOLATION, Outcome.PASS, Outcome.PASS, Outcome.VIOLATION]
    assert [each.outcome for each in judged] == expected
    assert runs[0].name in judged[0].said
    assert "17" in judged[1].said, "an error of the page hides no violation"
    assert all(run.read_verdicts() is not None for run in runs)
    assert all((run.path / "report.html").is_file() for run in runs[2:])


@pytest.mark.slow
def test_one_by_one_a_wrong_request_of_a_run_keeps_no_other_from_its_verdict(tmp_path: Path) -> None:
    wrong = [CheckerSpec("quorum-progress", {"recovery_bound_s": -1})]
    store = Store(tmp_path)
    runs = [stored(store, "set", n, set_history(20), specs) for n, specs in enumerate((SET, wrong, SET))]
    warned = list[str]()
    judged = many.judge_one_by_one(runs, lambda _: None, warned.append)
    assert warned == [], "a checker that breaks is a verdict, and none is missing"
    assert [each.outcome for each in judged] == [Outcome.PASS, Outcome.HARNESS_ERROR, Outcome.PASS]
    assert "recovery" in judged[1].said
    assert all((run.path / "report.html").is_file() for run in runs)


def test_few_pages_need_no_processes() -> None:
    with many.page_writers(many.ALONE_RUNS - 1, 8) as pages:
        assert pages is None


def test_no_process_is_started_for_pages_that_are_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started = list[int]()

    def start(_: object, jobs: int, **__: object) -> Never:
        started.append(jobs)
        raise AssertionError("it is started")

    monkeypatch.setattr(many, "ALONE_RUNS", 1)
    monkeypatch.setattr(many, "Workers", start)
    judged = many.judge_one_by_one(lay(tmp_path), lambda _: None, lambda _: None, paged="none")
    with judge(DEFAULT) as by:
        assert many.with_pages(judged, 2, by, lambda _: None, "none") == judged
        assert started == []
        with pytest.raises(AssertionError, match="it is started"):
            many.with_pages(judged, 2, by, lambda _: None, "all")
    assert started == [2]
