"""The fault is drawn, takes effect, is healed, and leaves a cluster that is right."""

from __future__ import annotations

from pathlib import Path

from splitbrain import Metadata, Outcome, SimBackend, Test, run_and_judge
from splitbrain.nemesis import catalogue as nemeses
from splitbrain.results.arrow import from_table
from splitbrain.workloads import catalogue as workloads

NODES = ("n1", "n2", "n3")


def test_a_cluster_survives_it(tmp_path: Path) -> None:
    test = Test(
        name="starter",
        seed=1,
        nodes=NODES,
        system=Metadata(),
        workload=workloads.build("register", nodes=NODES, concurrency=6, rate=100.0, time_limit_s=30.0),
        nemesis=nemeses.build(
            ["splitbrain.harness.campaigns.starters.nemesis:STARTER"], interval_s=3.0, time_limit_s=30.0
        ),
        concurrency=6,
        time_limit_s=30.0,
    )
    conclusion = run_and_judge(test, SimBackend(), tmp_path)
    assert conclusion.outcome is Outcome.PASS
    faults = [op for op in from_table(conclusion.run.history()) if op.f == "starter" and op.type == "ok"]
    assert faults, "it was carried out, and seen to take effect"
