"""Nodes that never become usable: in a simulation only their own code can be the cause, and a checker names it."""

from __future__ import annotations

from typing import Any, Final

import pytest

from splitbrain.checkers import engine
from splitbrain.checkers.verdict import Outcome
from splitbrain.harness.campaigns.compose import RunOptions, compose
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
