"""Runs on a real etcd with real faults: it passes, and the two checks that must fail do."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.cli.support import judged, only_run, processes_of, splitbrain

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.usefixtures("etcd_program")]

ETCD = ["run", "--json", "--system", "etcd", "--nodes", "3", "--engine", "inline"]


def run_on_etcd(store: Path, options: Sequence[str], outcome: str, exit_code: int) -> Any:
    return judged(splitbrain(*ETCD, "--store", str(store), *options), outcome, exit_code)


@pytest.mark.parametrize("workload", ["register", "set"])
def test_it_passes_under_partitions_kills_and_pauses(tmp_path: Path, workload: str) -> None:
    found = run_on_etcd(
        tmp_path,
        [
            "--workload",
            workload,
            "--nemesis",
            "partition,kill,pause",
            "--time-limit",
            "30",
            "--interval",
            "3",
            "--seed",
            "3",
        ],
        "pass",
        0,
    )
    assert f"--system etcd --nodes 3 --time-limit 30 --interval 3 --seed {found['seed']}" in found["command"]
    assert processes_of(tmp_path) == []


@pytest.mark.parametrize("workload", ["create-once", "lock"])
def test_creations_and_locks_pass_under_partitions_and_kills(tmp_path: Path, workload: str) -> None:
    run_on_etcd(
        tmp_path,
        ["--workload", workload, "--nemesis", "partition,kill", "--time-limit", "20", "--interval", "2", "--seed", "3"],
        "pass",
        0,
    )


def test_serializable_reads_of_which_linearizability_is_demanded_are_found_stale_under_partitions(
    tmp_path: Path,
) -> None:
    found = run_on_etcd(
        tmp_path,
        ["--read-mode", "serializable", "--nemesis", "partition", "--time-limit", "30", "--interval", "4"],
        "violation",
        1,
    )
    guilty = next(verdict for verdict in found["verdicts"] if verdict["valid"] is False)
    assert guilty["anomalies"] == ["nonlinearizable"]
    assert "answered read" in guilty["sentence"]
    # A mode of its own is a test of its own, and its command line says so.
    assert only_run(tmp_path).parent.name == "test=etcd-serializable-register-partition"
    assert "--read-mode serializable" in found["command"]


def test_a_client_whose_lease_ran_out_is_found_to_work_beside_the_next_owner_of_its_lock(tmp_path: Path) -> None:
    """The second check that must fail. A run may miss it, as the faults may miss every client that holds a lock."""
    faults = ["--workload", "lease-lock", "--nemesis", "pause,partition", "--time-limit", "60"]
    five = ["5" if word == "3" else word for word in ETCD]
    runs = (splitbrain(*five, "--store", str(tmp_path), *faults, "--seed", str(seed)) for seed in (1, 2, 3))
    found = judged(next(done for done in runs if done.returncode == 1), "violation", 1)
    guilty = next(verdict for verdict in found["verdicts"] if verdict["valid"] is False)
    assert guilty["anomalies"] == ["nonlinearizable"]
    assert "acquire" in guilty["sentence"]
