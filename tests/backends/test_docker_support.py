"""The docker backend says what is missing, in one line, before anything is left behind."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import os
from collections.abc import Generator
from pathlib import Path
from typing import Any

import docker
import docker.errors
import pytest

from splitbrain.harness import images
from splitbrain.harness.backends.docker import DockerBackend, nodes, subnets
from splitbrain.harness.backends.docker.engine import ContainerState, Engine
from splitbrain.results.errors import BackendError, UsageError
from tests.backends import docker_support
from tests.backends.docker_support import deploy, leftovers
from tests.backends.support import GossipSystem
from tests.cli.support import splitbrain

engine = docker_support.engine
pytestmark = pytest.mark.cluster


@pytest.fixture
def nothing_stays(engine: None) -> Generator[None, None, None]:
    """What this process has in the engine afterwards is what it had before."""
    of_this_process = "splitbrain.controller=" + docker_support.own_marker()
    before = leftovers(of_this_process)
    yield
    assert leftovers(of_this_process) == before


def test_without_an_engine_whatever_is_asked_says_so_and_nothing_starts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nothing.sock")
    with pytest.raises(BackendError, match=r"^the docker backend does not work here: [^\n]*no Docker engine[^\n]*$"):
        DockerBackend().support()
    with pytest.raises(BackendError, match=r"^[^\n]*no Docker engine[^\n]*$"):
        DockerBackend().sweep()
    with pytest.raises(BackendError, match=r"^[^\n]*no Docker engine[^\n]*$"):
        asyncio.run(deploy(tmp_path / "run"))
    assert not (tmp_path / "run").exists()


@pytest.mark.usefixtures("engine")
def test_who_is_not_root_is_told_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(BackendError, match="only root may: run splitbrain as root"):
        DockerBackend().support()
    with pytest.raises(BackendError, match="run splitbrain as root"):
        asyncio.run(deploy(tmp_path))


def test_a_system_without_an_image_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="'gossip' comes in no container image"):
        asyncio.run(deploy(tmp_path, GossipSystem("udp")))


@pytest.mark.usefixtures("nothing_stays")
def test_an_image_that_is_missing_is_named_and_nothing_is_left(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def ensure(name: str) -> str:
        raise BackendError(f"image {name} is not built: run `splitbrain images build {name}`.")

    monkeypatch.setattr(images, "ensure", ensure)
    with pytest.raises(BackendError, match="image node is not built"):
        asyncio.run(deploy(tmp_path))


@pytest.mark.slow
@pytest.mark.usefixtures("nothing_stays")
@pytest.mark.parametrize(
    ("script", "message"),
    [("exit 3", r"keeps the network of n1 ended \(exit code 3\)"), (None, "could not start the container")],
    ids=["ends at once", "is not there"],
)
def test_a_deployment_that_fails_halfway_removes_what_it_made(
    script: str | None, message: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(nodes, "_KEEP", ("sh", "-c", script) if script else ("no-such-program",))
    with pytest.raises(BackendError, match=message):
        asyncio.run(deploy(tmp_path, nodes=("n1",)))


@pytest.mark.usefixtures("nothing_stays")
def test_an_engine_that_refuses_is_quoted_in_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def ensure(name: str) -> str:
        return f"splitbrain-{name}:nothing-here"

    monkeypatch.setattr(images, "ensure", ensure)
    refused = r"^the Docker engine could not look at the image [^\n]*No such image[^\n]*$"
    with pytest.raises(BackendError, match=refused):
        asyncio.run(deploy(tmp_path, nodes=("n1",)))


@pytest.mark.slow
@pytest.mark.parametrize("nemesis", ["none", "partition"])
def test_the_command_line_ends_with_one_line_and_255_where_there_is_no_engine(
    nemesis: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nothing.sock")
    done = splitbrain("run", "--backend", "docker", "--nodes", "2", "--nemesis", nemesis, "--store", str(tmp_path))
    assert done.returncode == 255, done.stderr
    *progress, error = done.stderr.splitlines()
    assert "no Docker engine" in error
    assert "--nemesis" not in error, "leaving faults out would not help"
    assert not [line for line in progress if not line.endswith("starting")]
    assert list(tmp_path.iterdir()) == []


# --- subnets --------------------------------------------------------------------------------------------------------

ROUTES = """Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT
eth0\t00000000\t0100A8C0\t0003\t0\t0\t0\t00000000\t0\t0\t0
eth0\t0000A8C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0
vpn0\t0000CC0A\t00000000\t0001\t0\t0\t0\t0000FEFF\t0\t0\t0
"""


def test_subnets_with_a_route_and_subnets_of_other_networks_are_avoided() -> None:
    taken = subnets.routed(ROUTES)
    assert taken == [ipaddress.IPv4Network("192.168.0.0/24"), ipaddress.IPv4Network("10.204.0.0/15")]
    taken.append(ipaddress.IPv4Network("10.206.0.0/24"))
    assert str(next(subnets.free_subnets(taken, start=0))) == "10.206.1.0/24"
    assert str(next(subnets.free_subnets(taken, start=1023))) == "10.207.255.0/24"
    assert list(subnets.free_subnets([subnets.RANGE], start=5)) == []


class Refusing:
    """As much of an engine as makes networks: each one that is tried is refused."""

    def __init__(self, problem: str) -> None:
        self.problem = problem
        self.tried: list[str] = []

    def networks(self) -> list[dict[str, Any]]:
        return [{"IPAM": {"Config": [{"Subnet": "10.204.0.0/24"}]}}, {"IPAM": {"Config": None}}]

    def create_network(self, name: str, *, ipam: Any, **options: Any) -> None:
        self.tried.append(ipam["Config"][0]["Subnet"])
        raise docker.errors.APIError(self.problem)


def test_a_subnet_that_somebody_else_took_meanwhile_is_not_the_end() -> None:
    engine: Any = Refusing("Pool overlaps with other one on this address space")
    with pytest.raises(BackendError, match=r"there is no free /24 in 10.204.0.0/14 .* overlaps with another network"):
        subnets.create_network(engine, "name", {}, routes=lambda: ROUTES)
    assert len(set(engine.tried)) == len(engine.tried) == subnets.MOST_TRIES
    engine = Refusing("no driver of that name")
    with pytest.raises(docker.errors.APIError):
        subnets.create_network(engine, "name", {}, routes=lambda: ROUTES)
    assert len(engine.tried) == 1, "another reason does not go away with another subnet"


@pytest.mark.parametrize(
    ("code", "oom", "how"),
    [(0, False, "exit code 0"), (137, False, "SIGKILL"), (137, True, "out of memory"), (255, False, "exit code 255")],
)
def test_how_a_container_ended_is_told_in_the_words_of_processes(code: int, oom: bool, how: str) -> None:
    assert nodes.ended_how(ContainerState("exited", 0, code, oom)) == how


class Freezing:
    """As much of a client as pauses containers: so often it is refused, in the engine's words."""

    def __init__(self, problem: str, refusals: int) -> None:
        self.api = self
        self.problem = problem
        self.refusals = refusals

    def pause(self, container: str) -> None:
        if self.refusals:
            self.refusals -= 1
            raise docker.errors.APIError(self.problem)

    def close(self) -> None:
        pass


def test_a_pause_that_the_runtime_gave_up_is_tried_again_and_nothing_else_is() -> None:
    async def pause(client: Any) -> None:
        with contextlib.closing(Engine(client)) as engine:
            await engine.pause("c")

    busy = Freezing("Cannot pause container c: OCI runtime pause failed: unable to freeze: unknown", 3)
    asyncio.run(pause(busy))
    assert busy.refusals == 0
    broken = Freezing("Cannot pause container c: no freezer", 3)
    with pytest.raises(BackendError, match=r"could not pause the container c: .* no freezer"):
        asyncio.run(pause(broken))
    assert broken.refusals == 2
