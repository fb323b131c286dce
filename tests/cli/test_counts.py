""" "ops" counts one thing, operations that clients invoked, whichever command tells it and of whichever file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from splitbrain.harness.campaigns.compose import RunOptions, compose
from splitbrain.harness.campaigns.hunting.trial import carry_out
from splitbrain.harness.running.plan import figures as plan_figures
from splitbrain.harness.running.plan import load
from splitbrain.harness.running.simulate import simulate
from splitbrain.results.arrow import from_table, recovered_note
from splitbrain.results.figures import stored_figures
from splitbrain.results.rundir import RunDir
from splitbrain.results.store import Store
from tests.cli.support import analyzed, answer, only_run, splitbrain
from tests.cli.test_arguments import OPTIONS

CHOSEN: dict[str, Any] = {"backend": "sim", "nemesis": "kill", "time_limit": 4.0, "rate": 25.0, "seed": 3, "nodes": "3"}


def told_by(document: Any, checker: str) -> dict[str, Any]:
    return next(each["figures"] for each in document["verdicts"] if each["checker"] == checker)


def killed(run: RunDir, root: Path) -> RunDir:
    """The run as the death of its controller would have left it: a write-ahead file without an end."""
    left = Store(root).create("killed", 3, run.read_test(), 0)
    writer = left.history_writer()
    for op in from_table(run.history()):
        writer.record(op)
    writer.flush()
    writer.abandon()
    left.release()
    return left


@pytest.mark.slow
def test_every_command_counts_the_same_ops_in_the_same_history(tmp_path: Path) -> None:
    given = [part for name, value in CHOSEN.items() for part in (f"--{name.replace('_', '-')}", str(value))]
    ran = answer(splitbrain("run", *given, "--store", str(tmp_path / "store"), "--json"))
    run = RunDir(only_run(tmp_path / "store"))
    history = from_table(run.history())
    ops = sum(op.process >= 0 and op.type == "invoke" for op in history)
    rows = len(history)
    assert rows > 2 * ops > 0

    assert told_by(ran, "stats")["ops"] == ops
    assert (found := stored_figures(run.path)) is not None
    assert found.ops == found.ok + found.fail + found.info == ops
    assert plan_figures(load(run.plan_path)).ops == ops

    options = RunOptions.of(**{**OPTIONS, **CHOSEN})
    assert carry_out(options).ops == ops
    summary = simulate(compose(options)).summary
    assert summary is not None
    assert (summary.ops, summary.rows, summary.ok + summary.fail + summary.info) == (ops, rows, ops)

    exported = tmp_path / "history.jsonl"
    assert splitbrain("export", str(run.path), "--format", "jsonl", "--output", str(exported)).returncode == 0
    left = killed(run, tmp_path / "killed")
    for file in (run.path, run.history_path, exported, left.path):
        [checked] = answer(splitbrain("check", "--checker", "stats", str(file), "--json", "--no-picture"))
        assert (checked["ops"], checked["rows"], checked["figures"]["ops"]) == (ops, rows, ops), file

    done = splitbrain("analyze", "--store", str(tmp_path / "killed"), "--engine", "inline", "--json")
    [of_killed] = analyzed(done.stdout)
    assert told_by(of_killed, "stats")["ops"] == ops
    assert f"recovered {ops} ops ({rows} rows)" in str(recovered_note(left.history()))
    assert (recovered := stored_figures(left.path)) is not None
    assert recovered.ops == ops
