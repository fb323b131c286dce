"""Whole tests on containers: a correct cluster passes under faults, a broken one is found, nothing is left behind."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from splitbrain.harness.backends.docker import labels
from tests.backends import docker_support
from tests.backends.docker_support import leftovers
from tests.cli.support import comes_out, only_run, start

engine = docker_support.engine
pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.usefixtures("engine")]

ENDS_WITHIN_S = 300


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a test of five nodes to its end, after which nothing of it is in the engine."""
    always = ("--backend", "docker", "--nodes", "5", "--workload", "register", "--json")
    process = start("run", *always, "--store", str(folder), *arguments, cwd=folder)
    try:
        out, err = process.communicate(timeout=ENDS_WITHIN_S)
    finally:
        process.kill()
        process.wait()
    mine = [name for name in leftovers(labels.CONTROLLER) if name.startswith(f"splitbrain-{process.pid}-")]
    assert mine == []
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def test_the_cluster_passes_under_faults_of_links_processes_and_disks_judged_by_spark(tmp_path: Path) -> None:
    """A fault of which there is no evidence would make the run inconclusive."""
    faults = ("--nemesis", "partition,kill,pause,packet,disk", "--interval", "2", "--time-limit", "30", "--seed", "11")
    found, _ = comes_out("pass", lambda store: run(store, *faults, "--engine", "spark"), tmp_path)
    assert {window["fault"] for window in windows(found)} == {"partition", "kill", "pause", "packet", "disk"}


def test_the_cluster_passes_on_disks_that_fail_and_links_that_lose(tmp_path: Path) -> None:
    faults = ("--nemesis", "packet-loss,disk-full,power", "--interval", "2", "--time-limit", "30", "--seed", "12")
    found, store = comes_out("pass", lambda store: run(store, *faults, "--engine", "inline"), tmp_path)
    assert {window["fault"] for window in windows(found)} == {"packet", "disk", "power"}
    document = json.loads((only_run(store) / "test.json").read_text())
    assert document["links"] == "receivers"
    assert document["image"]["id"].startswith("sha256:")


def windows(found: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The fault windows of a run that was judged."""
    [coverage] = [verdict for verdict in found["verdicts"] if verdict["checker"] == "coverage"]
    return coverage["figures"]["windows"]


def test_stale_reads_are_found_under_partitions(tmp_path: Path) -> None:
    faults = ("--bug", "M23", "--nemesis", "partition", "--time-limit", "30", "--engine", "inline")

    def stale(found: Any, _: Path) -> bool:
        return any("Not linearizable" in verdict["sentence"] for verdict in found["verdicts"])

    found, store = comes_out("violation", lambda store: run(store, *faults), tmp_path, shows=stale)
    assert stale(found, store)
