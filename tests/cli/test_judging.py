"""Judging a run right after it was recorded."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from splitbrain.harness.campaigns.compose import RunOptions, backend_of, compose
from splitbrain.harness.campaigns.judging import judge_inline
from splitbrain.harness.campaigns.record import record
from splitbrain.harness.cli.progress import Progress
from splitbrain.results import arrow, judgement, loaded, rundir
from splitbrain.results.rundir import RunDir
from tests.report.sample import sample_run

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
    collect = loaded.collect_telemetry

    def look(run: RunDir, *read: Any) -> bool:
        seen.append(RunDir(run.path).status())
        return collect(run, *read)

    monkeypatch.setattr(loaded, "collect_telemetry", look)
    with Progress("test") as progress:
        run, _ = record(compose(chosen), backend_of(chosen), tmp_path, progress)
    seen.append(RunDir(run.path).status())
    conclusion = judge_inline(run)
    seen.append(RunDir(run.path).status())
    assert seen == ["running", "running", "complete"]
    assert "This run has not ended" not in conclusion.report.read_text()
    assert all(verdict.seconds > 0 for verdict in conclusion.verdicts)


def test_judging_reads_each_file_of_a_run_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = sample_run(tmp_path, "violation", rate=50.0)
    read: Counter[str] = Counter()

    def counted(module: Any, name: str) -> None:
        original = getattr(module, name)

        def reader(path: Path, *rest: Any) -> Any:
            read[path.name] += path.exists()
            return original(path, *rest)

        monkeypatch.setattr(module, name, reader)

    counted(rundir, "read_document")
    counted(judgement, "read_document")
    counted(arrow, "read_parquet")
    run.amend_test(checkers=[{"name": "stats", "options": {}}, {"name": "coverage", "options": {}}])
    (run.path / "verdict.json").unlink()
    read.clear()
    judge_inline(RunDir(run.path))
    assert read["history.parquet"] == read["telemetry.parquet"] == read["test.json"] == 1
