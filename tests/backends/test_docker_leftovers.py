"""A controller that is killed leaves containers behind: cuts in them expire, the next start removes all of it."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from harness import images
from harness.backends import ownership
from harness.backends.docker import DockerBackend, labels
from tests.backends import docker_support
from tests.backends.docker_support import inside, of_run
from tests.backends.support import wait_until_gone

engine = docker_support.engine
pytestmark = [pytest.mark.alone, pytest.mark.cluster, pytest.mark.usefixtures("engine")]

ROOT = Path(__file__).parents[2]


@contextmanager
def holding_controller(run_dir: Path) -> Generator[tuple[subprocess.Popen[str], dict[str, Any]], None, None]:
    """A controller with three nodes, one of them paused, and a cut; and what it says of them."""
    controller = subprocess.Popen(
        [sys.executable, "-m", "tests.backends.docker_controller", str(run_dir)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert controller.stdout is not None
    try:
        yield controller, json.loads(controller.stdout.readline())
    finally:
        controller.kill()
        controller.wait()
        controller.stdout.close()
        DockerBackend().sweep()


def test_what_a_killed_controller_leaves_behind_is_swept_and_its_cuts_expire(tmp_path: Path) -> None:
    with holding_controller(tmp_path) as (controller, seen):
        assert not [line for line in DockerBackend().sweep() if seen["run"] in line], "it lives: nothing is removed"
        controller.kill()
        controller.wait()
        assert wait_until_gone(f":{controller.pid}:") == {}, "the agent dies with its controller"
        assert len(of_run(seen["run"])) == 7, "six containers and a network are left"
        rule = inside(seen["pid of n3"], "nft", "list", "set", "inet", "splitbrain", "cut")
        assert re.search(rf"{re.escape(seen['address of n1'])} [^,}}]*expires \d", rule), "the cut ends by itself"
        assert len(_mounts_below(tmp_path)) == 6, "every node's file system, and its data out of it"
        lines = [line for line in DockerBackend().sweep() if seen["run"] in line or str(tmp_path) in line]
        found = sorted(line.split()[1] for line in lines)
        assert found[3:] == ["container"] * 6 + ["network"]
        assert all(path.startswith(str(tmp_path)) for path in found[:3]), "three file systems"
        assert all(line.endswith(("which is gone", "that is gone")) for line in lines)
        assert of_run(seen["run"]) == []
        assert _mounts_below(tmp_path) == []
    assert (tmp_path / "nodes/n1/log").read_text().startswith("n1 listens"), "logs and data stay"


def _mounts_below(folder: Path) -> list[str]:
    lines = Path("/proc/self/mounts").read_text().splitlines()
    return [line for line in lines if line.split()[1].startswith(str(folder))]


def marker_of(**changes: int) -> str:
    own = ownership.this_controller()
    fields = {"pid_namespace": own.pid_namespace, "pid": own.pid, "started": own.started}
    return ownership.Controller(**(fields | changes)).marker


@pytest.mark.parametrize(
    ("marker", "swept"),
    [
        (marker_of(started=1), True),
        (marker_of(), False),
        (marker_of(pid_namespace=1, started=1), False),
        ("somebody-else", False),
    ],
    ids=["dead, its pid used again", "alive", "in another PID namespace", "no marker"],
)
def test_a_sweep_tells_dead_controllers_from_living_and_foreign_ones(marker: str, swept: bool) -> None:
    with contextlib.closing(images.engine()) as client:
        name = f"splitbrain-test-{os.getpid()}"
        client.api.create_network(name, internal=True, labels={labels.CONTROLLER: marker, labels.RUN: name})
        try:
            lines = DockerBackend().sweep()
            assert (of_run(name) == []) == swept
            wanted = f"removed network {name} of controller {os.getpid()}, which is gone"
            assert (wanted in lines) == swept
        finally:
            if not swept:
                client.api.remove_network(name)
