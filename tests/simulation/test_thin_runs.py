"""Runs that did next to nothing do not pass; the commands are those of real runs that once did."""

from __future__ import annotations

from typing import Any

import pytest

from splitbrain.checkers import engine
from splitbrain.checkers.verdict import Outcome, reasons
from splitbrain.harness.campaigns.compose import RunOptions, compose
from splitbrain.harness.running.simulate import simulate

OPTIONS: dict[str, Any] = {
    "system": "metadata",
    "backend": "sim",
    "bug": "",
    "nodes": "5",
    "concurrency": "1n",
    "rate": 100.0,
    "interval": 8.0,
    "op_timeout": 2.0,
    "recovery": 20.0,
    "seed": 1,
    "world": "swarm",
}


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (
            {"workload": "lock", "nemesis": "kill-majority", "time_limit": 12.0},
            "the system answered in only 4 of 10 equal parts of the faults phase",
        ),
        (
            {"workload": "set", "nemesis": "power-all", "time_limit": 15.0},
            "the system answered in only 4 of 10 equal parts of the faults phase",
        ),
    ],
    ids=["a lock that was taken six times", "a set of a hundred ops"],
)
def test_a_thin_run_is_inconclusive_and_says_what_to_change(given: dict[str, Any], sentence: str) -> None:
    test = compose(RunOptions.of(**{**OPTIONS, **given}))
    left = simulate(test)
    verdicts = engine.judge(left.history, test.workload.checkers, left.telemetry)
    outcome, error = engine.judged_outcome(verdicts, None)
    assert (outcome, error) == (Outcome.INCONCLUSIVE, None)
    few = [reason for reason in reasons(verdicts) if sentence in reason.sentence]
    assert [reason.cause for reason in few] == ["test"]
    assert "--time-limit" in few[0].advice
