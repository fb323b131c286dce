"""A run that `splitbrain prune` removes while another command works on the store is left out there, with a line."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from splitbrain.harness.campaigns import many
from splitbrain.harness.cli import analyze, push
from splitbrain.harness.cli.main import splitbrain
from splitbrain.results.errors import RunNotFoundError
from splitbrain.results.rundir import RunDir
from splitbrain.results.store import Store
from tests.spark.support import SET, set_history, stored


@pytest.fixture
def runs(tmp_path: Path) -> list[RunDir]:
    return [stored(Store(tmp_path / "store"), "t", seed, set_history(20), SET) for seed in range(2)]


def invoke(*words: str) -> Result:
    return CliRunner().invoke(splitbrain, [*words])


def removing(does: Callable[..., Any], *gone: RunDir) -> Callable[..., Any]:
    """A function that removes runs before it does what it does."""

    def removes(*arguments: Any, **named: Any) -> Any:
        for run in gone:
            shutil.rmtree(run.path, ignore_errors=True)
        return does(*arguments, **named)

    return removes


def test_before_it_is_judged(runs: list[RunDir], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(analyze, "_judge", removing(analyze._judge, runs[0]))  # pyright: ignore[reportPrivateUsage]
    done = invoke("analyze", "--engine", "inline", "--store", str(tmp_path / "store"))
    assert done.exit_code == 0, done.stderr
    assert f"left out: t/{runs[0].name} was removed meanwhile" in done.stderr
    assert "1 run judged" in done.output
    assert not runs[0].path.exists()


def test_before_its_page_is_written(runs: list[RunDir], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(many, "_write_here", removing(many._write_here, runs[0]))  # pyright: ignore[reportPrivateUsage]
    done = invoke("analyze", "--engine", "inline", "--pages", "all", "--store", str(tmp_path / "store"))
    assert done.exit_code == 0, done.stderr
    assert not runs[0].path.exists(), "what writes its page does not make its folder again"
    assert (runs[1].path / "report.html").exists()


def test_all_of_them(runs: list[RunDir], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(analyze, "_judge", removing(analyze._judge, *runs))  # pyright: ignore[reportPrivateUsage]
    done = invoke("analyze", "--engine", "inline", "--store", str(tmp_path / "store"))
    assert isinstance(done.exception, RunNotFoundError), "nothing was judged: this is no pass"
    assert "2 runs removed meanwhile" in str(done.exception)


def test_before_it_is_pushed(runs: list[RunDir], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(push, "_finished", removing(push._finished, runs[0]))  # pyright: ignore[reportPrivateUsage]
    words = ["push", "--to", f"file://{tmp_path}/there"]
    done = invoke(*words, "--store", str(tmp_path / "store"))
    assert done.exit_code == 0, done.stderr
    assert f"left out: t/{runs[0].name} was removed meanwhile" in done.stderr
    named = invoke(*words, str(runs[1].path))
    assert named.exit_code == 0, named.stderr
    monkeypatch.setattr(push, "_push", removing(push._push, runs[1]))  # pyright: ignore[reportPrivateUsage]
    assert invoke(*words, str(runs[1].path)).exit_code != 0, "what was named must be there"
