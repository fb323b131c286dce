"""Which engine judges a store, if none is asked for: Spark costs a start, and so is for many runs."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from splitbrain.checkers.isolation.limits import Limits
from splitbrain.harness.campaigns import many
from splitbrain.harness.cli import options
from splitbrain.harness.cli.main import splitbrain
from splitbrain.results.store import Store
from tests.spark.support import SET, set_history, stored


@pytest.mark.parametrize(
    ("engine", "runs", "found"),
    [
        ("auto", options.SPARK_RUNS - 1, "inline"),
        ("auto", options.SPARK_RUNS, "spark"),
        ("inline", 10**6, "inline"),
        ("spark", 1, "spark"),
    ],
)
def test_auto_is_spark_for_many_runs(engine: str, runs: int, found: str) -> None:
    assert options.engine_for(engine, runs) == found


def test_without_spark_any_number_of_runs_is_judged_inline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("splitbrain.checkers.spark.session.is_installed", lambda: False)
    assert options.engine_for("auto", 10**6) == "inline"


@pytest.mark.parametrize(
    ("given", "said"),
    [([], ""), (["--master", "local[2]"], "starting Spark (local[2])"), (["--engine", "spark"], "starting Spark")],
)
def test_a_master_or_the_engine_itself_gives_spark(
    given: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_session(*_: Any, **__: Any) -> Any:
        raise AssertionError("Spark")

    monkeypatch.setattr("splitbrain.checkers.spark.session.session", no_session)
    stored(Store(tmp_path), "set", 1, set_history(5), SET)
    done = CliRunner().invoke(splitbrain, ["analyze", "--store", str(tmp_path), *given])
    assert (said in done.stderr) if said else done.exit_code in (0, 2)
    assert isinstance(done.exception, AssertionError) == bool(said)


@pytest.mark.parametrize("engine", ["auto", "spark"])
def test_a_spark_that_does_not_start_for_want_of_room_keeps_no_run_from_its_verdict_if_it_was_not_asked_for(
    engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(options, "SPARK_RUNS", 1)
    monkeypatch.setattr(tempfile, "mkdtemp", _no_room)
    run = stored(Store(tmp_path), "set", 1, set_history(5), SET)
    done = CliRunner().invoke(splitbrain, ["analyze", "--store", str(tmp_path), "--engine", engine])
    said = f"{done.stderr} {done.exception}"
    assert "Spark does not start: it cannot write to" in said
    assert (run.read_verdicts() is not None) == (engine == "auto")


_mkdtemp = tempfile.mkdtemp


def _no_room(prefix: str = "", **given: Any) -> str:
    if prefix.startswith("splitbrain-spark-"):
        raise OSError(28, "No space left on device")
    return _mkdtemp(prefix=prefix, **given)


def test_the_limits_of_checkers_reach_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Limits] = []

    def judge_one_by_one(*_: Any, limits: Limits, **__: Any) -> list[Any]:
        asked.append(limits)
        return []

    monkeypatch.setattr(many, "judge_one_by_one", judge_one_by_one)
    stored(Store(tmp_path), "set", 1, set_history(5), SET)
    words = ["analyze", "--store", str(tmp_path), "--checker-time", "7", "--checker-memory", "100"]
    CliRunner().invoke(splitbrain, words)
    [limits] = asked
    assert (limits.cpu_s, limits.memory_bytes, limits.stuck_s) == (7.0, 100 << 20, 10.0)
