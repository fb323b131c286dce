"""A controller that is killed leaves containers behind: cuts in them expire, the next start removes all of it."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from splitbrain.harness import images
from splitbrain.harness.backends.docker import DockerBackend, labels
from splitbrain.harness.backends.docker import engine as engine_module
from splitbrain.harness.backends.shared import ownership
from tests.backends import docker_support
from tests.backends.conformance.controller import holding_controller
from tests.backends.docker_support import of_run
from tests.backends.support import mounts_below, wait_until_gone
from tests.cli.support import answer, splitbrain

engine = docker_support.engine
pytestmark = [pytest.mark.alone, pytest.mark.cluster, pytest.mark.usefixtures("engine")]

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_clean_tells_what_a_killed_controller_left_in_the_engine_and_then_removes_it(tmp_path: Path) -> None:
    with holding_controller("docker", tmp_path) as (controller, seen):
        assert _cleaned(tmp_path, seen, "--dry-run") == [], "it lives: nothing would be removed"
        controller.kill()
        controller.wait()
        assert wait_until_gone(f":{controller.pid}:") == {}
        would = _cleaned(tmp_path, seen, "--dry-run")
        assert sorted(line.split()[2] for line in would if seen["run"] in line) == ["container"] * 6 + ["network"]
        assert len(of_run(seen["run"])) == 7, "it was only told"
        assert len(mounts_below(tmp_path)) == 6
        done = _cleaned(tmp_path, seen)
        assert {_thing(line) for line in done} == {_thing(line) for line in would}
        assert of_run(seen["run"]) == []
        assert mounts_below(tmp_path) == []
        assert _cleaned(tmp_path, seen) == []


def _thing(line: str) -> str:
    """What a line of `clean` is about, without what was done to it."""
    return line.removeprefix("would ").partition(" ")[2].split(" of ")[0]


def _cleaned(folder: Path, seen: Mapping[str, Any], *words: str) -> list[str]:
    """What `splitbrain clean` says that it removed, or would, of this run."""
    found: list[str] = answer(splitbrain("clean", "--json", "--store", str(folder), *words))["removed"]
    return [line for line in found if seen["run"] in line or str(folder) in line]


def marker_of(**changes: Any) -> str:
    return dataclasses.replace(ownership.this_controller(), **changes).marker


@pytest.mark.parametrize(
    ("marker", "swept"),
    [
        (marker_of(started=1), True),
        (marker_of(), False),
        (marker_of(started=1, boot=None), True),
        (marker_of(pid_namespace=1, started=1), False),
        (marker_of(started=1, boot="0" * 32), False),
        ("somebody-else", False),
    ],
    ids=[
        "dead, its pid used again",
        "alive",
        "dead, of an earlier version",
        "in another PID namespace",
        "on another machine, since this one was booted",
        "no marker",
    ],
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


@pytest.mark.parametrize("boot", [None, "0" * 32], ids=["of an earlier version", "of an earlier boot"])
def test_what_is_older_than_the_machine_is_up_is_swept(boot: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Containers and networks outlive the end of a machine, which no controller does."""
    monkeypatch.setattr(labels, "_booted_at_s", lambda: time.time() + 60)
    marker = marker_of(pid=1 << 30, boot=boot)
    with contextlib.closing(images.engine()) as client:
        name = f"splitbrain-test-{os.getpid()}"
        client.api.create_network(name, internal=True, labels={labels.CONTROLLER: marker, labels.RUN: name})
        client.api.create_container(
            images.ensure("node"), name=name, labels={labels.CONTROLLER: marker, labels.RUN: name}
        )
        lines = DockerBackend().sweep()
        assert {line.split()[1] for line in lines if name in line} == {"container", "network"}
        assert of_run(name) == []


@pytest.mark.slow
def test_several_sweeps_of_the_same_leftovers_disturb_each_other_no_more_than_they_disturb_a_run() -> None:
    """They do not even take turns here, as those of controllers in containers with an engine's socket would not."""
    marker, name = marker_of(started=1), f"splitbrain-test-{os.getpid()}"
    with contextlib.closing(images.engine()) as client, ThreadPoolExecutor(4) as pool:
        image = images.ensure("node")
        marked = {labels.CONTROLLER: marker, labels.RUN: name}
        for _ in range(3):
            client.api.create_network(name, internal=True, labels=marked)
            for number in range(4):
                made = client.containers.create(
                    image, ["sleep", "60"], name=f"{name}-{number}", labels=marked, network=name
                )
                made.start()
            sweeps = [pool.submit(labels.sweep, client.api) for _ in range(4)]
            lines = [line for sweep in sweeps for line in sweep.result()]
            assert of_run(name) == []
            assert not [line for line in lines if line.startswith("left")]


def test_a_network_that_somebody_still_uses_is_left_and_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_module, "NETWORK_IS_FREE_WITHIN_S", 0.2)
    name = f"splitbrain-test-{os.getpid()}"
    with contextlib.closing(images.engine()) as client:
        labelled = {labels.CONTROLLER: marker_of(started=1), labels.RUN: name}
        client.api.create_network(name, internal=True, labels=labelled)
        guest = client.containers.create(images.ensure("node"), ["sleep", "60"], network=name)
        guest.start()
        try:
            [line] = [line for line in DockerBackend().sweep() if name in line]
            assert line.startswith(f"left network {name} (")
            assert "active endpoints" in line
        finally:
            guest.remove(force=True)
            DockerBackend().sweep()
        assert of_run(name) == []
