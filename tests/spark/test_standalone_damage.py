"""A damaged store on a standalone cluster of which one worker is killed: the rest judges every run as it must be."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.damaged_store import KINDS, lay, modules, problems

from .killed_worker import analyzed_with_a_worker_killed
from .standalone import LOOPBACK

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def test_a_worker_that_is_killed_in_between_costs_no_run_its_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    modules(tmp_path / "modules")
    monkeypatch.syspath_prepend(tmp_path / "modules")
    monkeypatch.setenv("SPARK_LOCAL_IP", LOOPBACK)
    laid = lay(tmp_path / "store", 2 * len(KINDS), list(KINDS))
    done, log = analyzed_with_a_worker_killed(tmp_path / "store", tmp_path / "daemons")
    assert problems(laid, done) == []
    assert "without Spark" not in done.stderr
    assert "Removing worker" in log
