"""A controller is killed while faults are in force: much ends with it, and the next start sweeps the rest."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from subprocess import Popen
from typing import Any

import pytest

from splitbrain.harness.backends.docker import DockerBackend
from splitbrain.harness.backends.local import LocalBackend
from tests.backends import docker_support, ssh_support
from tests.backends.conformance.controller import holding_controller
from tests.backends.docker_support import inside, of_run
from tests.backends.ssh_support import Hosts, deployed
from tests.backends.support import mounts_below, processes_with, residents, skip_without_namespaces, wait_until_gone

hosts = ssh_support.hosts
engine = docker_support.engine
pytestmark = pytest.mark.cluster

ROWS = [
    pytest.param("local", marks=pytest.mark.alone),
    pytest.param("local by proxies", marks=pytest.mark.alone),
    pytest.param("docker", marks=pytest.mark.alone),
    pytest.param("ssh", marks=pytest.mark.slow),
]

Killed = Callable[[], None]


@pytest.mark.parametrize("name", ROWS)
def test_nothing_is_left_of_a_killed_controller_once_the_next_has_started(
    name: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    if name == "local":
        skip_without_namespaces()
    if name == "docker":
        request.getfixturevalue("engine")
    hosts: Hosts | None = request.getfixturevalue("hosts") if name == "ssh" else None
    with holding_controller(name, tmp_path / "killed", hosts and hosts.inventory) as (controller, seen):

        def kill() -> None:
            controller.kill()
            controller.wait()
            assert wait_until_gone(f":{controller.pid}:") == {}, "an agent here dies with its controller"

        if hosts is not None:
            on_hosts(hosts, seen["homes"], kill, tmp_path)
        elif name == "docker":
            in_containers(seen, kill, tmp_path)
        else:
            on_this_machine(name, controller, seen, kill, tmp_path)


def on_this_machine(row: str, controller: Popen[str], seen: Mapping[str, Any], kill: Killed, folder: Path) -> None:
    """All of it ends at once, and control groups are removed by the next sweep."""
    living = processes_with(str(folder))
    assert len(living) == 4, "the controller and three nodes name the run's folder"
    assert seen["agent"] in processes_with(f":{controller.pid}:")
    networks = set(living.values()) - {os.readlink("/proc/self/ns/net")}
    assert len(networks) == (3 if row == "local" else 0)
    before = residents(networks)
    assert not [line for line in LocalBackend().sweep() if f":{controller.pid}:" in line], "it lives"
    kill()
    assert wait_until_gone(str(folder)) == {}
    assert not residents(networks) & before
    assert mounts_below(folder) == []
    LocalBackend().sweep()
    assert [name for name in _cpu_groups() if f":{controller.pid}:" in name] == []


def in_containers(seen: Mapping[str, Any], kill: Killed, folder: Path) -> None:
    """Containers, networks and file systems stay, cuts in them expire, and the next sweep removes them."""
    try:
        assert not [line for line in DockerBackend().sweep() if seen["run"] in line], "it lives: nothing is removed"
        kill()
        assert len(of_run(seen["run"])) == 7, "six containers and a network are left"
        rule = inside(seen["pid of n3"], "nft", "list", "set", "inet", "splitbrain", "cut")
        assert re.search(rf"{re.escape(seen['address of n1'])} [^,}}]*expires \d", rule), "the cut ends by itself"
        assert len(mounts_below(folder)) == 6, "every node's file system, and its data out of it"
    finally:
        lines = [line for line in DockerBackend().sweep() if seen["run"] in line or str(folder) in line]
    found = sorted(line.split()[1] for line in lines)
    assert found[3:] == ["container"] * 6 + ["network"]
    assert all(path.startswith(str(folder)) for path in found[:3]), "three file systems"
    assert all(line.endswith(("which is gone", "that is gone")) for line in lines)
    assert of_run(seen["run"]) == []
    assert mounts_below(folder) == []
    assert (folder / "killed/nodes/n1/log").read_text().startswith("n1 listens"), "logs and data stay"


def on_hosts(hosts: Hosts, homes: Mapping[str, str], kill: Killed, folder: Path) -> None:
    """Processes, rules and file systems end with the agents, and the next run removes directories."""
    traces = "\n".join(hosts.traces())
    for trace in ("agent.remote", "table inet splitbrain", "-A POSTROUTING -j SPLITBRAIN", "/splitbrain-host"):
        assert trace in traces
    assert len(mounted_from(homes)) == 3
    kill()
    left = hosts.wait_until_clear(but="/var/tmp/splitbrain-")
    assert left == [], left
    assert mounted_from(homes) == []
    assert {trace.split(": ")[1] for trace in hosts.traces()} == set(homes.values())

    async def next_run() -> None:
        async with deployed(hosts.inventory, folder / "next"):
            pass

    asyncio.run(next_run())
    assert hosts.wait_until_clear() == []
    assert "which a dead controller left behind" in (folder / "next/nodes/n1/ssh.log").read_text()


def mounted_from(homes: Mapping[str, str]) -> list[str]:
    """Files in these directories of hosts that are file systems: hosts that are containers share this kernel."""
    files = [path.read_text().strip() for path in Path("/sys/block").glob("loop*/loop/backing_file")]
    return [file for file in files if any(file.startswith(f"{home}/") for home in homes.values())]


def _cpu_groups() -> list[str]:
    folder = "/sys/fs/cgroup/cpu"
    return os.listdir(folder) if os.path.isdir(folder) else []
