"""Verdicts of a run that are known stay, whatever becomes of its other checkers, and none is made twice."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from splitbrain.checkers import engine
from splitbrain.checkers.isolation.limits import DEFAULT
from splitbrain.checkers.spark import by_path
from splitbrain.checkers.spark.by_path import NONE, Beside, Found, Judged, judge_others
from splitbrain.checkers.stored import Ready, Unjudged
from splitbrain.checkers.verdict import CheckerSpec, Verdict
from splitbrain.results.rundir import RunDir

VIOLATED = Verdict(checker="list-append", valid="false", sentence="Not serializable.")
STATS = Verdict(checker="stats", valid="true")


def ready(name: str, *others: str) -> Ready:
    """A run whose first checker has its verdict."""
    specs = (NONE, *map(CheckerSpec, others))
    return Ready(RunDir(Path(name)), specs, 10, broken={0: engine.encode(VIOLATED)})


def others(monkeypatch: pytest.MonkeyPatch, answer: Found, *runs: Ready) -> tuple[list[Found], list[str]]:
    """What comes of runs if workers give that answer, and which runs workers were asked about."""
    asked: list[str] = []

    def judge(spark: Any, paths: Sequence[Path], *_: Any) -> list[Found]:
        asked.extend(map(str, paths))
        return [answer for _ in paths]

    monkeypatch.setattr(by_path, "_judge", judge)
    return judge_others(cast(Any, None), runs, DEFAULT), asked


def test_a_run_whose_verdicts_are_all_known_goes_to_no_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = Judged([Verdict(checker="", valid="unknown"), STATS], Beside())
    found, asked = others(monkeypatch, answer, ready("all"), ready("some", "stats"))
    assert asked == ["some"]
    assert found == [Judged([VIOLATED]), Judged([VIOLATED, STATS])]


def test_what_a_worker_says_beside_other_verdicts_is_not_taken_for_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    [found], _ = others(monkeypatch, Judged([STATS, STATS], Beside()), ready("some", "stats"))
    assert isinstance(found, Judged)
    assert found.beside is None, "who stores the verdicts has to work out what they were made from"


def test_a_violation_stays_if_no_worker_can_open_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    [found], _ = others(monkeypatch, Unjudged("some: the process ran out of memory"), ready("some", "stats"))
    assert isinstance(found, Judged)
    assert found.verdicts[0] == VIOLATED
    assert (found.verdicts[1].checker, found.verdicts[1].valid) == ("stats", "unknown")
    assert "ran out of memory" in found.verdicts[1].sentence
