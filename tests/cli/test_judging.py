"""Judging a run right after it was recorded."""

from __future__ import annotations

from pathlib import Path

import pytest

from splitbrain.harness.campaigns import judging
from splitbrain.harness.campaigns.compose import RunOptions, backend_of, compose
from splitbrain.harness.campaigns.judging import judge_inline
from splitbrain.harness.campaigns.record import record
from splitbrain.harness.cli.progress import Progress
from splitbrain.results.store import RunDir

OPTIONS = {
    "workload": "register",
    "nemesis": "partition",
    "system": "metadata",
    "backend": "sim",
    "bug": "",
    "nodes": "3",
    "concurrency": "2n",
    "rate": 20.0,
    "time_limit": 3.0,
    "interval": 1.0,
    "op_timeout": 2.0,
    "recovery": 20.0,
    "seed": 1,
}


def test_a_run_is_under_way_for_others_until_its_verdict_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = RunOptions.of(**OPTIONS)
    seen: list[str] = []
    collect = judging.collect_telemetry

    def look(run: RunDir) -> bool:
        seen.append(RunDir(run.path).status())
        return collect(run)

    monkeypatch.setattr(judging, "collect_telemetry", look)
    with Progress("test") as progress:
        run, _ = record(compose(chosen), backend_of(chosen), tmp_path, progress)
    seen.append(RunDir(run.path).status())
    conclusion = judge_inline(run)
    seen.append(RunDir(run.path).status())
    assert seen == ["running", "running", "complete"]
    assert "This run has not ended" not in conclusion.report.read_text()
    assert all(verdict.seconds > 0 for verdict in conclusion.verdicts)
