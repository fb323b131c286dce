"""A run that has lost its test.json, or that this user may not read, is named and never passed over."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from splitbrain.harness.cli.main import splitbrain
from splitbrain.results.errors import SplitbrainError
from splitbrain.results.rundir import RunDir
from splitbrain.results.store import Store
from tests import plain_user
from tests.cli.support import SPLITBRAIN
from tests.spark.support import SET, set_history, stored


def invoke(*words: str) -> Result:
    return CliRunner().invoke(splitbrain, [*words])


def lay(root: Path) -> list[RunDir]:
    """Three judged runs of one test, oldest first."""
    runs = [stored(Store(root), "t", seed, set_history(20), SET) for seed in range(3)]
    assert invoke("analyze", "--engine", "inline", "--pages", "none", "--store", str(root)).exit_code == 0
    return runs


@pytest.mark.parametrize("words", [["analyze", "--engine", "inline"], ["report"], ["check"], ["replay"], ["push"]])
def test_the_latest_run_is_no_other_one_where_it_is_damaged(words: list[str], tmp_path: Path) -> None:
    runs = lay(tmp_path / "store")
    (runs[-1].path / "test.json").unlink()
    more = ["--to", f"file://{tmp_path}/there"] if words == ["push"] else []
    where = [] if words == ["check"] else ["--store", str(tmp_path / "store")]
    latest = str(runs[-1].path) if words == ["check"] else "latest"
    done = invoke(*words, latest, *where, *more)
    assert done.exit_code not in (0, 1, 2) or isinstance(done.exception, SplitbrainError)
    assert f"{runs[-1].path} is not the folder of a run" in f"{done.output}{done.exception}".replace("\n", "")


def test_it_takes_no_place_of_a_sound_run_where_runs_are_removed(tmp_path: Path) -> None:
    runs = lay(tmp_path / "store")
    (runs[-1].path / "test.json").unlink()
    done = invoke("prune", "--keep", "1", "--store", str(tmp_path / "store"))
    assert done.exit_code == 0
    assert [run.path.exists() for run in runs] == [False, True, True]
    assert f"skipped: {runs[-1].path}: in progress, damaged, or of a newer version" in done.stderr
    assert "removed 1 of 3 runs" in done.output


def test_a_store_is_not_made_smaller_without_a_word_on_it(tmp_path: Path) -> None:
    runs = lay(tmp_path / "store")
    (runs[-1].path / "test.json").unlink()
    assert invoke("report", str(runs[0].path)).exit_code == 0
    done = invoke("compact", "--store", str(tmp_path / "store"))
    assert "compacted 1 of 3 runs" in done.output


@pytest.mark.parametrize("command", ["report", "push"])
def test_a_run_that_this_user_may_not_read_is_named_with_the_reason(command: str) -> None:
    if (problem := plain_user.problem()) is not None:
        pytest.skip(problem)
    with plain_user.folder() as folder:
        run = folder / "store" / "test=t" / "run=20260101T000000.000Z-1"
        run.mkdir(parents=True)
        run.chmod(0)
        words = [command, str(run), *(["--to", f"file://{folder}/there"] if command == "push" else [])]
        done = subprocess.run(
            plain_user.as_plain_user([*SPLITBRAIN, *words]),
            env=plain_user.environment(),
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        os.chmod(run, 0o755)
    assert done.returncode in (254, 255)
    assert "Permission denied" in done.stderr
    assert str(run) in done.stderr
    assert "bug of splitbrain" not in done.stderr


@pytest.mark.parametrize("name", ["test.json", "verdict.json"])
def test_what_to_do_about_a_damaged_document_is_said(name: str, tmp_path: Path) -> None:
    run = lay(tmp_path / "store")[-1]
    (run.path / name).write_bytes((run.path / name).read_bytes()[:-20])
    done = invoke("analyze", str(run.path), "--engine", "inline")
    assert done.exit_code == 255
    assert f"{run.path / name}: damaged: " in done.stderr
    assert "Restore it from a copy" in done.stderr
    assert ("remove it and judge the run again" in done.stderr) == (name == "verdict.json")
