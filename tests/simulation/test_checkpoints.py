"""Simulated nodes write and promote checkpoints under kills and losses of power, and lose nothing (RA-38, RA-40)."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from splitbrain.checkers.consensus import Durability, LeaderCompleteness, ReplicaAgreement
from splitbrain.harness.campaigns.compose import RunOptions, compose
from splitbrain.harness.running.simulate import Simulated, simulate

OPTIONS: dict[str, Any] = {
    "workload": "register",
    "nemesis": "power,kill",
    "system": "metadata",
    "backend": "sim",
    "nodes": "3",
    "concurrency": "2n",
    "rate": 100.0,
    "time_limit": 8.0,
    "interval": 0.5,
    "op_timeout": 1.0,
    "recovery": 20.0,
    "world": "lan",
    "settings": "snapshot-interval=64,checkpoint-interval=4,wal-bytes=1000",
}

MARKS = (
    "checkpoint written",
    "checkpoint promoted",
    "recovered from a checkpoint",
    "segment written",
    "write-ahead log rolled over",
)
"""States that these runs must reach."""


def run(seed: int) -> Simulated:
    return simulate(compose(RunOptions.of(**OPTIONS, seed=seed, bug="")))


@pytest.mark.parametrize(
    "seeds", [range(1, 4), pytest.param(range(4, 16), marks=pytest.mark.slow)], ids=["some", "many"]
)
def test_ra38_nodes_that_crash_between_checkpoint_and_promotion_lose_nothing(seeds: range) -> None:
    reached: Counter[str] = Counter()
    for seed in seeds:
        left = run(seed)
        assert left.failure is None
        reached.update(left.marks)
        history, telemetry = left.history, left.telemetry
        for verdict in (
            Durability().check(history, telemetry, {}),
            LeaderCompleteness().check(telemetry, {}),
            ReplicaAgreement().check(telemetry, {}),
        ):
            assert (seed, verdict.checker, verdict.valid, verdict.anomalies) == (seed, verdict.checker, "true", ())
    assert [mark for mark in MARKS if not reached[mark]] == [], "what no run reached, none has tested"


@pytest.mark.slow
def test_ra38_the_same_seed_writes_the_same_checkpoints() -> None:
    first, second = run(1), run(1)
    assert first.telemetry.equals(second.telemetry)
    assert (first.marks, first.fingerprint) == (second.marks, second.fingerprint)
