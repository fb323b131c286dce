"""Nodes that never become usable: in a simulation only their own code can be the cause, and a checker names it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest

from splitbrain.checkers import engine
from splitbrain.checkers.verdict import Outcome
from splitbrain.harness.campaigns.compose import RunOptions, compose
from splitbrain.harness.contract.deployments import Surroundings
from splitbrain.harness.running.runner import recovery_limit_s
from splitbrain.harness.running.simulate import simulate

OPTIONS: Final[dict[str, Any]] = {
    "system": "metadata",
    "backend": "sim",
    "workload": "register",
    "nemesis": "none",
    "nodes": "2",
    "concurrency": "1n",
    "rate": 50.0,
    "time_limit": 5.0,
    "interval": 1.0,
    "op_timeout": 1.0,
    "recovery": 20.0,
    "world": "lan",
}


def judged(bug: str, seed: int) -> tuple[Outcome, dict[str, tuple[str, ...]]]:
    """The outcome of a run, and who found what."""
    test = compose(RunOptions.of(**{**OPTIONS, "bug": bug, "seed": seed}))
    left = simulate(test)
    assert left.failure is None
    verdicts = engine.judge(left.history, test.workload.checkers, left.telemetry)
    outcome, error = engine.judged_outcome(verdicts, None)
    assert error is None
    return outcome, {verdict.checker: verdict.anomalies for verdict in verdicts if verdict.anomalies}


@pytest.mark.parametrize("seed", [1, 2])
def test_m05_two_nodes_that_refuse_each_others_pre_votes_for_ever_are_a_violation(seed: int) -> None:
    assert judged("M05", seed) == (Outcome.VIOLATION, {"recovery": ("no-start",)})
    assert judged("", seed)[0] is not Outcome.VIOLATION


def test_who_says_that_a_start_takes_long_has_as_long_once_everything_is_healed(tmp_path: Path) -> None:
    """A node that is started then needs what it needs at first."""
    schedule = tmp_path / "kill.schedule"
    schedule.write_text('[5.0, "kill", {"spec": "one"}]\n')
    system = "tests.simulation.slow_starter:SlowStarter"
    wanted = {**OPTIONS, "bug": "", "seed": 1, "system": system, "nemesis": "", "schedule": str(schedule)}
    test = compose(RunOptions.of(**wanted))
    (coverage,) = (spec for spec in test.workload.checkers if spec.name == "coverage")
    assert coverage.options["load"]["recovery_s"] == 20.0, "silence is judged as ever"
    assert recovery_limit_s(test, Surroundings(links="namespaces")) == 20.0
    left = simulate(test)
    assert left.failure is None
    found = [v for v in engine.judge(left.history, test.workload.checkers, left.telemetry) if v.checker == "recovery"]
    assert [(v.valid, v.figures["bound_s"]) for v in found] == [("true", 40.0)]
