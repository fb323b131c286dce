"""`analyze --json` prints each run as soon as it is judged, and ends in silence when nobody reads it any more."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from splitbrain.checkers.verdict import CheckerSpec
from splitbrain.results.store import Store
from tests.cli.support import SPLITBRAIN, environment
from tests.spark.support import SET, set_history, stored

WAITS = """
import os
import time
from splitbrain.checkers.verdict import Verdict


class Waits:
    name = "waits"
    partition = "run"

    def check(self, history, options):
        while not os.path.exists(options["until"]):
            time.sleep(0.02)
        return Verdict(checker="waits", valid="true", sentence="")

    def merge(self, verdicts, options):
        return next(iter(verdicts))
"""


def started(folder: Path, *words: str, store: str = "store") -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, *SPLITBRAIN, "analyze", "--json", "--store", store, *words],
        cwd=folder,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def lay(folder: Path, until: Path, before: int) -> None:
    """Runs that are judged at once, and a last one that waits for a file."""
    (folder / "waiting_checkers.py").write_text(WAITS)
    for seed in range(before):
        stored(Store(folder / "store"), "t", seed, set_history(20), SET)
    spec = CheckerSpec("waiting_checkers:Waits", {"until": str(until)})
    run = stored(Store(folder / "store"), "t", before, set_history(20), [spec])
    run.path.rename(run.path.with_name("run=30000101T000000.000Z-1"))


def test_a_line_is_there_before_the_next_run_is_judged(tmp_path: Path) -> None:
    until = tmp_path / "go on"
    lay(tmp_path, until, before=2)
    process = started(tmp_path, "--engine", "inline")
    assert process.stdout is not None
    first = [json.loads(process.stdout.readline()) for _ in range(2)]
    assert [each["outcome"] for each in first] == ["pass", "pass"]
    assert process.poll() is None
    until.touch()
    *rest, sums = [json.loads(line) for line in process.communicate(timeout=120)[0].splitlines()]
    assert [each["kind"] for each in rest] == ["run"]
    assert {
        name: sums[name] for name in ("kind", "format", "runs", "judged", "unchanged", "outcomes", "exit_code")
    } == {
        "kind": "sums",
        "format": 2,
        "runs": 3,
        "judged": 3,
        "unchanged": 0,
        "outcomes": {"pass": 3},
        "exit_code": 0,
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    "engine",
    [
        pytest.param(["--engine", "inline"], id="inline"),
        pytest.param(["--master", "local[1]"], id="spark", marks=[pytest.mark.spark, pytest.mark.slow]),
    ],
)
def test_a_reader_that_goes_away_ends_the_analysis(tmp_path: Path, engine: list[str]) -> None:
    until = tmp_path / "go on"
    lay(tmp_path, until, before=40)
    until.touch()
    process = started(tmp_path, *engine)
    assert process.stdout is not None
    assert json.loads(process.stdout.readline())["kind"] == "run"
    process.stdout.close()
    assert process.stderr is not None
    said = process.stderr.read()
    process.stderr.close()
    assert process.wait(120) == 255
    for word in ("Traceback", "Exception ignored", "BrokenPipe"):
        assert word not in said
