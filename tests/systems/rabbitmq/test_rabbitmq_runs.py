"""Whole runs of RabbitMQ in containers, after which nothing of them is left."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from splitbrain.harness.backends.docker import labels
from splitbrain.results.store import RunDir
from tests.backends import docker_support
from tests.backends.docker_support import leftovers
from tests.cli.support import answer, start

engine = docker_support.engine
pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.usefixtures("engine")]

ENDS_WITHIN_S = 600


def in_containers(store: Path, *options: str) -> Any:
    """The answer of a run to its end, after which nothing of it is in the engine."""
    always = ("run", "--json", "--backend", "docker", "--system", "rabbitmq", "--nodes", "3", "--engine", "inline")
    process = start(*always, "--recovery", "120", "--store", str(store), *options, cwd=store)
    try:
        out, err = process.communicate(timeout=ENDS_WITHIN_S)
    finally:
        process.kill()
        process.wait()
    assert [name for name in leftovers(labels.CONTROLLER) if name.startswith(f"splitbrain-{process.pid}-")] == []
    return answer(subprocess.CompletedProcess(process.args, process.returncode, out, err))


def verdicts(found: Any) -> dict[str, Any]:
    """By checker."""
    assert found["harness_error"] is None
    return {verdict["checker"]: verdict for verdict in found["verdicts"]}


def test_quorum_queues_lose_nothing_when_a_node_is_killed(tmp_path: Path) -> None:
    """A busy machine may leave a run inconclusive; what there is to judge is right."""
    schedule = tmp_path / "one.schedule"
    schedule.write_text('[3.0, "kill", {"spec": "one"}]\n[8.0, "start"]\n')
    words = ["--workload", "queue", "--schedule", str(schedule), "--time-limit", "20", "--rate", "30", "--seed", "3"]
    judged = verdicts(in_containers(tmp_path, *words))["queue"]
    assert judged["valid"] is True, judged["sentence"]
    assert judged["figures"]["acknowledged"] > 20
    assert judged["figures"]["drained"] == 3


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_queues_are_declared_once_while_nothing_fails(tmp_path: Path, kind: str) -> None:
    words = ["--workload", "declare", "--nemesis", "none", "--settings", f"queue-type={kind}", "--time-limit", "10"]
    found = verdicts(in_containers(tmp_path, *words, "--rate", "30", "--seed", "4"))
    assert found["declare"]["valid"] is True, found["declare"]["sentence"]
    assert found["linearizable"]["valid"] is True, found["linearizable"]["sentence"]


def test_the_metadata_move_from_mnesia_to_khepri_while_clients_declare(tmp_path: Path) -> None:
    schedule = tmp_path / "one.schedule"
    schedule.write_text('[4.0, "migrate", {}]\n')
    words = ["--workload", "declare", "--schedule", str(schedule), "--settings", "release=4.0,store=mnesia"]
    found = in_containers(tmp_path, *words, "--time-limit", "20", "--rate", "30", "--seed", "5")
    judged = verdicts(found)
    assert judged["declare"]["valid"] is True, judged["declare"]["sentence"]
    ops: list[dict[str, Any]] = RunDir(Path(found["run"])).history().to_pylist()
    (done,) = [json.loads(op["value"]) for op in ops if op["f"] == "migrate" and op["type"] == "ok"]
    assert set(done["evidence"]["before"].values()) == {"mnesia"}
    assert set(done["evidence"]["after"].values()) == {"khepri"}
