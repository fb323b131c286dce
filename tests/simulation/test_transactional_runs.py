"""Workloads of transactions on the simulated cluster: they pass under faults, and are tested enough."""

from __future__ import annotations

from typing import Any

import pytest

from splitbrain.harness.campaigns.compose import RunOptions
from splitbrain.harness.campaigns.planned import Task, play
from splitbrain.workloads.catalogue import WORKLOADS, needs

OPTIONS: dict[str, Any] = {
    "nemesis": "partition-leader,kill-leader",
    "system": "metadata",
    "backend": "sim",
    "bug": "",
    "nodes": "3",
    "concurrency": "5n",
    "rate": 100.0,
    "time_limit": 10.0,
    "interval": 2.5,
    "op_timeout": 2.0,
    "recovery": 20.0,
    "seed": 4,
}


@pytest.mark.slow
@pytest.mark.parametrize("workload", [name for name in WORKLOADS if {"transactions", "predicates"} & needs(name)])
def test_it_passes_while_leaders_are_killed_and_cut_off(workload: str) -> None:
    found = play(Task(0, RunOptions.of(**OPTIONS, workload=workload)))
    assert found.outcome.value == "pass", found.sentences
