"""Whole runs of Redis with Sentinel, here and in containers, after which nothing of them is left."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
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
ALWAYS = ("run", "--json", "--system", "redis", "--nodes", "3", "--engine", "inline")
LOSING = ("--workload", "set", "--nemesis", "partition-leader", "--interval", "8", "--time-limit", "30")


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


@pytest.mark.parametrize("workload", ["register", "set", "lock"])
def test_without_faults_a_workload_passes(tmp_path: Path, workload: str) -> None:
    options = ("--workload", workload, "--nemesis", "none", "--time-limit", "12", "--rate", "60", "--seed", "2")
    comes_out("pass", lambda store: here(store, *options), tmp_path)


def loses_what_it_acknowledged(run: Callable[..., subprocess.CompletedProcess[str]], folder: Path) -> None:
    found, store = comes_out("violation", lambda store: run(store, *LOSING), folder, shows=loses_after_a_failover)
    assert "Lost: element" in verdict(found, "set")["sentence"]
    assert {row["node"] for row in RunDir(only_run(store)).telemetry().to_pylist()} == {"n1", "n2", "n3"}
    assert len(primaries(store)) > 1, "no replica was promoted"


def loses_after_a_failover(found: Any, store: Path) -> bool:
    return "Lost: element" in verdict(found, "set")["sentence"] and len(primaries(store)) > 1


def primaries(store: Path) -> set[str]:
    rows = RunDir(only_run(store)).telemetry().to_pylist()
    return {row["node"] for row in rows if row["role"] == "leader"}


def test_a_failover_is_found_to_lose_what_was_acknowledged(tmp_path: Path) -> None:
    loses_what_it_acknowledged(here, tmp_path)


@pytest.mark.usefixtures("engine")
def test_in_containers_a_failover_is_found_to_lose_what_was_acknowledged(tmp_path: Path) -> None:
    loses_what_it_acknowledged(in_containers, tmp_path)


@pytest.mark.usefixtures("engine")
def test_in_containers_no_write_is_acknowledged_without_the_replicas_that_it_waits_for(tmp_path: Path) -> None:
    """The primary alone: with WAIT all its writes are unknown, with min-replicas they are refused after a while."""
    schedule = tmp_path / "alone.schedule"
    schedule.write_text('[1.0, "kill", {"spec": "follower"}]\n[1.2, "kill", {"spec": "follower"}]\n[12.0, "start"]\n')
    words = ("--workload", "set", "--schedule", str(schedule), "--time-limit", "14", "--rate", "40", "--seed", "3")
    found = answer(in_containers(tmp_path, *words, "--settings", "wait=2"))
    assert found["harness_error"] is None
    errors = [
        op["error"]
        for op in RunDir(only_run(tmp_path)).history().to_pylist()
        if op["type"] == "info" and op["f"] == "add"
    ]
    assert any("of 2 replicas had it after 1000 ms" in error for error in errors if error)
