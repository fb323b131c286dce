"""Whole runs of ZooKeeper: synced reads pass, plain reads keep what a session is promised and no more."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from splitbrain.harness.backends.docker import labels
from splitbrain.results.rundir import RunDir
from tests.backends import docker_support
from tests.backends.docker_support import leftovers
from tests.backends.support import skip_without_namespaces
from tests.cli.support import answer, comes_out, only_run, processes_of, splitbrain, start

engine = docker_support.engine
pytestmark = [pytest.mark.cluster, pytest.mark.slow]

ENDS_WITHIN_S = 300
ALWAYS = ("run", "--json", "--system", "zookeeper", "--nodes", "3", "--engine", "inline")
FAULTS = ("--interval", "5", "--time-limit", "35", "--rate", "80")


def here(store: Path, *options: str) -> subprocess.CompletedProcess[str]:
    skip_without_namespaces()
    done = splitbrain(*ALWAYS, "--store", str(store), *options, cwd=store, timeout_s=ENDS_WITHIN_S)
    assert processes_of(store) == []
    return done


def in_containers(store: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """A run to its end, after which nothing of it is in the engine."""
    process = start(*ALWAYS, "--backend", "docker", "--store", str(store), *options, cwd=store)
    try:
        out, err = process.communicate(timeout=ENDS_WITHIN_S)
    finally:
        process.kill()
        process.wait()
    assert [name for name in leftovers(labels.CONTROLLER) if name.startswith(f"splitbrain-{process.pid}-")] == []
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def verdict(found: Any, checker: str) -> Any:
    [wanted] = [each for each in found["verdicts"] if each["checker"] == checker]
    return wanted


@pytest.mark.parametrize("workload", ["set", "lock"])
def test_without_faults_a_workload_passes(tmp_path: Path, workload: str) -> None:
    options = ("--workload", workload, "--nemesis", "none", "--time-limit", "12", "--rate", "60", "--seed", "2")
    comes_out("pass", lambda store: here(store, *options), tmp_path)


@pytest.mark.usefixtures("engine")
def test_in_containers_synced_reads_stay_linearizable_under_partitions_and_kills(tmp_path: Path) -> None:
    options = ("--workload", "register", "--nemesis", "partition,kill", "--seed", "3", *FAULTS)
    found, store = comes_out("pass", lambda store: in_containers(store, *options), tmp_path)
    assert verdict(found, "quorum-progress")["valid"] is True
    rows = RunDir(only_run(store)).telemetry().to_pylist()
    assert {row["node"] for row in rows} == {"n1", "n2", "n3"}
    assert {row["role"] for row in rows} == {"leader", "follower"}


@pytest.mark.usefixtures("engine")
def test_in_containers_plain_reads_are_found_to_be_stale(tmp_path: Path) -> None:
    options = ("--workload", "register", "--nemesis", "partition", "--read-mode", "serializable", *FAULTS)
    comes_out("violation", lambda store: in_containers(store, *options), tmp_path)


@pytest.mark.usefixtures("engine")
def test_in_containers_plain_reads_keep_what_a_session_is_promised(tmp_path: Path) -> None:
    options = ("--workload", "read-modes", "--nemesis", "partition", "--seed", "4", *FAULTS)
    found = answer(in_containers(tmp_path, *options))
    assert found["harness_error"] is None
    judged = verdict(found, "session")
    assert judged["valid"] is not False, judged["sentence"]
