"""An agent stops nodes that are more than one process: nothing is left, and it says whether all had their time."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import pytest

from splitbrain.harness.backends.shared.deployed import Deployed
from splitbrain.harness.contract.nodes import NodePlace, NodeStatus


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What the agent said of each node."""
    script = Path(__file__).with_name("stopped_families.py")
    folder = tmp_path_factory.mktemp("stopped")
    done = subprocess.run([sys.executable, script, folder], capture_output=True, text=True, check=True, timeout=60)
    return json.loads(done.stdout)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["left in its own session", "left in its session"])
def test_a_server_whose_wrapper_does_not_wait_for_it_is_killed_and_that_is_said(said: Any, name: str) -> None:
    found = said[name]
    assert (found["state"], found["members"], found["left"]) == ("stopped", 2, 0)
    assert found["evidence"] == {"exit": "SIGTERM", "killed": True}


@pytest.mark.slow
def test_a_wrapper_that_waits_ends_in_good_order(said: Any) -> None:
    found = said["waits"]
    assert (found["state"], found["members"], found["left"]) == ("stopped", 2, 0)
    assert found["evidence"] == {"exit": "exit code 0"}


@pytest.mark.slow
def test_all_nodes_are_stopped_whatever_one_of_them_leaves(said: Any) -> None:
    assert {status["state"] for status in said["all"].values()} == {"stopped"}


@pytest.mark.slow
def test_how_a_node_ended_by_an_error_of_its_own_is_said(said: Any) -> None:
    assert said["aborts"]["evidence"]["exit"] == "SIGABRT"


@pytest.mark.parametrize(
    ("exit_", "failed"),
    [("SIGABRT", True), ("exit code 139", True), ("exit code 143", False), ("exit code 1", False), ("SIGKILL", False)],
)
def test_a_signal_of_its_own_makes_a_stop_a_failure_on_every_backend(exit_: str, failed: bool) -> None:
    class Control:
        async def stop(self, grace_s: float) -> NodeStatus:
            return NodeStatus("stopped", 1, {"exit": exit_})

    deployment: Any = object.__new__(cast("type[Any]", Deployed))
    deployment._controls = {"n1": Control()}
    deployment.places = {"n1": NodePlace("n1", "/data", ("n1", 1), {})}
    assert asyncio.run(deployment.stop("n1")).evidence.get("failed", False) is failed
