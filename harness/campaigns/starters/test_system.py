"""The system runs in simulation and as processes of this machine, and keeps what it acknowledged."""

from __future__ import annotations

from pathlib import Path

import pytest

from splitbrain import LocalBackend, Outcome, SimBackend, Test, run_and_judge
from splitbrain.harness.campaigns.starters.system import Starter
from splitbrain.nemesis import catalogue as nemeses
from splitbrain.workloads import catalogue as workloads

NODES = ("n1", "n2", "n3")


def a_test(seconds: float, nemesis: list[str]) -> Test:
    return Test(
        name="starter",
        seed=1,
        nodes=NODES,
        system=Starter(),
        workload=workloads.build("register", nodes=NODES, concurrency=6, rate=50.0, time_limit_s=seconds),
        nemesis=nemeses.build(nemesis, interval_s=4.0, time_limit_s=seconds),
        concurrency=6,
        rate=50.0,
        time_limit_s=seconds,
    )


def test_nothing_acknowledged_is_lost_in_simulation(tmp_path: Path) -> None:
    assert run_and_judge(a_test(40.0, ["kill"]), SimBackend(), tmp_path).outcome is Outcome.PASS


@pytest.mark.filterwarnings("default::ResourceWarning")
def test_it_runs_as_processes_of_this_machine(tmp_path: Path) -> None:
    assert run_and_judge(a_test(10.0, []), LocalBackend(), tmp_path).outcome is Outcome.PASS
