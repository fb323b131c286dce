"""What the tests of the docker backend share: gossiping nodes in containers, and a look at the engine from outside."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

import docker
import pytest

from splitbrain.harness import images
from splitbrain.harness.backends.docker import DockerBackend, DockerDeployment, labels
from splitbrain.harness.backends.docker.engine import containers_with, networks_with
from splitbrain.harness.backends.shared import ownership
from splitbrain.harness.contract.capabilities import Capabilities
from splitbrain.harness.contract.clock import Runtime
from splitbrain.harness.contract.faults import FaultKind
from splitbrain.harness.contract.nodes import NodeCommand, NodeId, NodePlace
from splitbrain.harness.contract.test import Test
from splitbrain.results.errors import BackendError
from tests.backends.support import GOSSIP_NODE, NODES, GossipSystem, gossip_test, missing


@pytest.fixture(scope="session")
def engine() -> None:
    """What the docker backend needs: an engine, root, and the image of the metadata cluster's node."""
    if os.geteuid() != 0:
        missing("the docker backend needs root")
    try:
        images.ensure("node")
    except BackendError as error:
        missing(str(error))


class ContainerGossip(GossipSystem):
    """Gossiping nodes in containers."""

    capabilities = Capabilities(image="node")

    def telemetry(self, test: Test, node_dir: Path) -> Path | None:
        return None

    def __init__(self, transport: str = "udp") -> None:
        super().__init__(transport)

    def command(self, test: Test, place: NodePlace) -> NodeCommand:
        host, port = place.listen
        peers = [f"{peer}={address[0]}:{address[1]}" for peer, address in place.peers.items()]
        program = f"{place.data_dir}/gossip_node.py"
        argv = ("python3", "-S", "-E", program, self.transport, place.node, host, str(port), *peers)
        return NodeCommand(argv, env={"GOSSIP": place.node}, files={"gossip_node.py": GOSSIP_NODE.read_bytes()})


async def deploy(
    run_dir: Path,
    system: GossipSystem | None = None,
    nodes: Sequence[NodeId] = NODES,
    faults: Sequence[FaultKind] = (),
) -> DockerDeployment:
    test = gossip_test(system or ContainerGossip(), nodes, faults)
    return await DockerBackend().deploy(test, run_dir, cast(Runtime, None))


@asynccontextmanager
async def deployed(
    run_dir: Path,
    system: GossipSystem | None = None,
    nodes: Sequence[NodeId] = NODES,
    faults: Sequence[FaultKind] = (),
) -> AsyncGenerator[DockerDeployment, None]:
    """A deployment that is closed at the end."""
    deployment = await deploy(run_dir, system, nodes, faults)
    try:
        yield deployment
    finally:
        await deployment.close()


def leftovers(*wanted: str) -> list[str]:
    """Names of the containers and networks that carry such a label ("name" or "name=value")."""
    client: docker.DockerClient = images.engine()
    with contextlib.closing(client):
        found = [*containers_with(client.api, wanted), *networks_with(client.api, wanted)]
    return sorted(thing.shown for thing in found)


def of_run(run: str) -> list[str]:
    """Names of what a run has in the engine."""
    return leftovers(f"{labels.RUN}={run}")


def inside(pid: int, *command: str) -> str:
    """Run a command of this machine in the network namespace of a process; what it printed."""
    argv = ["nsenter", "-t", str(pid), "-n", *command]
    return subprocess.run(argv, check=True, capture_output=True, text=True, timeout=60).stdout


def own_marker() -> str:
    """How everything that this process makes is marked."""
    return ownership.this_controller().marker
