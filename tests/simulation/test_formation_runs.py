"""Formation of clusters as simulated runs: they pass, and find the switches of their checker."""

from __future__ import annotations

from typing import Any

import pytest

from splitbrain.checkers import engine
from splitbrain.checkers.verdict import Verdict
from splitbrain.harness.campaigns.compose import RunOptions, compose
from splitbrain.harness.running.simulate import Simulated, simulate

OPTIONS: dict[str, Any] = {
    "system": "formation",
    "backend": "sim",
    "workload": "formation",
    "nemesis": "discovery,kill-one,partition",
    "bug": "",
    "nodes": "5",
    "concurrency": "1n",
    "rate": 10.0,
    "time_limit": 15.0,
    "interval": 2.0,
    "op_timeout": 2.0,
    "recovery": 20.0,
    "settings": "discovery=etcd,discovery-retries=3",
    "seed": 1,
}


def judged(**given: Any) -> tuple[Verdict, Simulated]:
    test = compose(RunOptions.of(**{**OPTIONS, **given}))
    left = simulate(test)
    assert left.failure is None
    verdicts = engine.judge(left.history, test.workload.checkers, left.telemetry)
    (found,) = [verdict for verdict in verdicts if verdict.checker == "one-cluster"]
    assert not [verdict for verdict in verdicts if verdict.checker == "crashes" and verdict.valid == "false"]
    return found, left


def test_five_nodes_form_one_cluster_while_the_service_is_ill() -> None:
    found, left = judged()
    assert found.valid == "true", found.sentence
    assert {"trouble-discovery", "mend-discovery"} <= {op.f for op in left.ops}


def test_the_same_seed_gives_the_same_run_of_a_system_that_was_used_before() -> None:
    test = compose(RunOptions.of(**OPTIONS))
    assert simulate(test).ops == simulate(test).ops


SEEDS = 12


@pytest.mark.slow
@pytest.mark.parametrize("bug", ["M68", "M69"])
def test_a_switch_is_found(bug: str) -> None:
    for seed in range(1, SEEDS + 1):
        if judged(bug=bug, seed=seed)[0].valid == "false":
            assert judged(seed=seed)[0].valid != "false"
            return
    pytest.fail(f"{SEEDS} seeds without it")
