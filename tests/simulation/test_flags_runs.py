"""The workload of feature flags on simulated clusters: it passes, and finds the switch of its checker."""

from __future__ import annotations

from typing import Any

import pytest

from splitbrain.checkers import engine
from splitbrain.checkers.verdict import Verdict
from splitbrain.harness.campaigns.compose import RunOptions, compose
from splitbrain.harness.running.simulate import simulate

OPTIONS: dict[str, Any] = {
    "system": "metadata",
    "backend": "sim",
    "workload": "flags",
    "nemesis": "kill-one",
    "bug": "",
    "nodes": "3",
    "concurrency": "2n",
    "rate": 40.0,
    "time_limit": 20.0,
    "interval": 3.0,
    "op_timeout": 2.0,
    "recovery": 20.0,
    "seed": 2,
}


def judged(**given: Any) -> Verdict:
    test = compose(RunOptions.of(**{**OPTIONS, **given}))
    left = simulate(test)
    assert left.failure is None
    verdicts = engine.judge(left.history, test.workload.checkers, left.telemetry)
    (found,) = [verdict for verdict in verdicts if verdict.checker == "flags"]
    return found


@pytest.mark.slow
def test_a_controller_that_decides_alone_is_found_and_without_the_switch_the_same_run_passes() -> None:
    found = judged(bug="M67")
    assert found.valid == "false"
    assert {"subset", "disagreement"} & set(found.anomalies)
    well = judged()
    assert well.valid == "true", well.sentence


@pytest.mark.slow
def test_an_operation_that_no_member_takes_over_stays_half_way_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """D6: the controller dies half way, and the other members wait for it."""
    monkeypatch.setattr("splitbrain.cluster.flags.machine.TAKEOVER_MS", 10**9)
    found = judged(interval=1.0, seed=3)
    assert found.valid == "false", found.sentence
    assert found.anomalies == ("half-way",)
