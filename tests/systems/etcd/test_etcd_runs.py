"""Runs on a real etcd with real faults: it passes, and the two checks that must fail do."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import pytest

from tests.cli.support import comes_out, only_run, processes_of, splitbrain

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.usefixtures("etcd_program")]


def run_on_etcd(folder: Path, outcome: Literal["pass", "violation"], *options: str, nodes: int = 3) -> tuple[Any, Path]:
    words = ["run", "--json", "--system", "etcd", "--nodes", str(nodes), "--engine", "inline", *options]
    return comes_out(outcome, lambda store: splitbrain(*words, "--store", str(store)), folder)


@pytest.mark.parametrize("workload", ["register", "set", "list-append", "predicates"])
def test_it_passes_under_partitions_kills_and_pauses(tmp_path: Path, workload: str) -> None:
    faults = ["--nemesis", "partition,kill,pause", "--time-limit", "30", "--interval", "3", "--seed", "3"]
    found, store = run_on_etcd(tmp_path, "pass", "--workload", workload, *faults)
    assert f"--system etcd --nodes 3 --time-limit 30 --interval 3 --seed {found['seed']}" in found["command"]
    assert processes_of(store) == []


@pytest.mark.parametrize("workload", ["create-once", "lock"])
def test_creations_and_locks_pass_under_partitions_and_kills(tmp_path: Path, workload: str) -> None:
    faults = ["--nemesis", "partition,kill", "--time-limit", "20", "--interval", "2", "--seed", "3"]
    run_on_etcd(tmp_path, "pass", "--workload", workload, *faults)


def test_serializable_reads_of_which_linearizability_is_demanded_are_found_stale_under_partitions(
    tmp_path: Path,
) -> None:
    faults = ["--nemesis", "partition", "--time-limit", "30", "--interval", "4"]
    found, store = run_on_etcd(tmp_path, "violation", "--read-mode", "serializable", *faults)
    guilty = next(verdict for verdict in found["verdicts"] if verdict["valid"] is False)
    assert guilty["anomalies"] == ["nonlinearizable"]
    assert "answered read" in guilty["sentence"]
    # A mode of its own is a test of its own, and its command line says so.
    assert only_run(store).parent.name == "test=etcd-serializable-register-partition"
    assert "--read-mode serializable" in found["command"]


def test_a_client_whose_lease_ran_out_is_found_to_work_beside_the_next_owner_of_its_lock(tmp_path: Path) -> None:
    """The second check that must fail. A run may miss it, as the faults may miss every client that holds a lock."""
    faults = ["--workload", "lease-lock", "--nemesis", "pause,partition", "--time-limit", "60"]
    found, _ = run_on_etcd(tmp_path, "violation", *faults, nodes=5)
    guilty = next(verdict for verdict in found["verdicts"] if verdict["valid"] is False)
    assert guilty["anomalies"] == ["nonlinearizable"]
    assert "acquire" in guilty["sentence"]
