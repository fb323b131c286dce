"""A simulated node that is killed says how far its log was durable, so that no early acknowledgement goes unseen."""

from __future__ import annotations

from typing import Any

import pytest

from splitbrain.checkers.consensus import CommitMonotonic, Durability
from splitbrain.checkers.verdict import Verdict
from splitbrain.harness.campaigns.compose import RunOptions, compose
from splitbrain.harness.running.simulate import simulate

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
    "settings": "snapshot-interval=16",
}


def run(seed: int, bug: str = "") -> tuple[list[dict[str, Any]], Verdict]:
    left = simulate(compose(RunOptions.of(**OPTIONS, seed=seed, bug=bug)))
    assert left.failure is None
    return left.telemetry.to_pylist(), Durability().check(left.history, left.telemetry, {})


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_each_life_ends_with_a_word_and_the_next_has_what_it_said(seed: int) -> None:
    rows, verdict = run(seed)
    lives = {(row["node"], row["life"]) for row in rows}
    ends = [(row["node"], row["life"]) for row in rows if row["event"] == "end"]
    assert len(ends) == len(set(ends))
    assert set(ends) == lives, "the last ones end with the simulation"
    assert (verdict.valid, verdict.figures["restarts"]) == ("true", len(lives) - 3)
    assert verdict.figures["restarts"] >= 8


def test_an_acknowledgement_before_the_sync_is_seen_at_the_next_start() -> None:
    rows, verdict = run(1, "M15")
    assert rows
    assert verdict.anomalies == ("log-forgotten",)


def test_a_node_that_is_killed_while_it_applies_an_entry_says_nothing_that_contradicts_itself() -> None:
    """A moment comes in the middle of a step: the entry was applied, and not counted yet."""
    options = OPTIONS | {
        "workload": "counter",
        "nemesis": "bounce-at-moments-kill,bounce-at-moments",
        "nodes": "6",
        "concurrency": "10n",
        "rate": 50.0,
        "op_timeout": 2.0,
        "world": "swarm",
        "settings": "learners-first=1,max-pipeline=2",
    }
    left = simulate(compose(RunOptions.of(**options, seed=16, bug="")), world=str(options["world"]))
    assert left.failure is None
    ends = [row for row in left.telemetry.to_pylist() if row["event"] == "end"]
    assert len(ends) > 6, "nodes were bounced"
    assert CommitMonotonic().check(left.telemetry, {}).valid == "true"
