"""Simulated nodes say which of their links are up, and a link that comes up late is found."""

from __future__ import annotations

import pytest

from splitbrain.checkers.links import Links
from splitbrain.checkers.verdict import Verdict
from splitbrain.cluster import peers
from splitbrain.harness.campaigns.compose import RunOptions, compose
from splitbrain.harness.running.simulate import simulate

LIMIT_S = 2.0


def judged() -> Verdict:
    """A run with cuts that last for fifteen seconds on average."""
    options = RunOptions.of(
        workload="register",
        nemesis="partition-one",
        system="metadata",
        backend="sim",
        bug="",
        nodes="3",
        concurrency="3",
        rate=5,
        time_limit=60,
        interval=15,
        op_timeout=2.0,
        recovery=20.0,
        seed=3,
    )
    found = simulate(compose(options))
    assert found.failure is None
    return Links().check(found.history, found.telemetry, {"limit_s": LIMIT_S})


def test_links_are_up_soon_after_a_cut() -> None:
    verdict = judged()
    assert verdict.valid == "true"
    assert verdict.figures["stretches"] > 3
    assert 0.05 < verdict.figures["longest_s"] < 0.8, "see splitbrain.cluster.peers"


def test_a_pause_between_dials_that_doubles_without_a_bound_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "BACK_OFF_MAX_MS", 10**9)
    assert judged().anomalies == ("not-connected",)
