"""A small store with every kind of damage: sound runs are judged as alone, damaged ones named with their cause."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.cli.damaged_store import KINDS, analyzed, lay, problems

SLOW = ("a checker that waits for ever", "a checker that leaves a child")
"""Kinds that take seconds of real time."""

SAMPLE = (
    *("history with flipped bits", "history of millions of zeros", "test.json that is no UTF-8"),
    *("a checker that exits", "a checker that ends its process", "a checker that never ends"),
    *("a checker that eats memory", "a checker whose module ends the process", "telemetry that links to itself"),
)


@pytest.mark.slow
def test_inline_every_sound_run_is_judged_and_every_damage_is_named(tmp_path: Path) -> None:
    kinds = [kind for kind in KINDS if kind not in SLOW]
    laid = lay(tmp_path / "store", 2 * len(kinds), kinds)
    assert problems(laid, analyzed(tmp_path / "store", "--engine", "inline")) == []


@pytest.mark.slow
@pytest.mark.spark
def test_so_it_is_with_spark(tmp_path: Path) -> None:
    laid = lay(tmp_path / "store", 2 * len(KINDS), list(KINDS))
    assert problems(laid, analyzed(tmp_path / "store", "--master", "local[2]")) == []


@pytest.mark.slow
@pytest.mark.spark
def test_without_room_for_sparks_files_the_runs_are_judged_one_by_one(tmp_path: Path) -> None:
    """The folder of its temporary files is gone as soon as it is up, as if there were no room in it."""
    laid = lay(tmp_path / "store", 2 * len(SAMPLE), SAMPLE)
    done = analyzed(tmp_path / "store", "--master", "local[2]", before=_WITHOUT_ROOM)
    assert problems(laid, done) == []
    assert "are judged one by one, without Spark" in done.stderr


_WITHOUT_ROOM = """
import shutil, tempfile
from pathlib import Path
from splitbrain.checkers.spark import pipeline
judge_apart = pipeline.judge_apart
def without_room(spark, *arguments, **named):
    for folder in Path(tempfile.gettempdir()).glob("splitbrain-spark-*/blockmgr-*"):
        shutil.rmtree(folder)
        folder.write_text("a file in the place of a folder")
    return judge_apart(spark, *arguments, **named)
pipeline.judge_apart = without_room
"""


@pytest.mark.slow
def test_what_stands_beside_a_run_does_not_change_its_verdict(tmp_path: Path) -> None:
    laid = lay(tmp_path / "store", 10, ["a checker that raises", "history cut off", "test.json that is gone"])
    for each in laid[1::2]:
        shutil.rmtree(each.path)
    assert problems(laid[::2], analyzed(tmp_path / "store", "--engine", "inline")) == []
