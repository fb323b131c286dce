"""What distinguishes one backend from another for the tests of the contract: an adapter per row of the suite."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Final, cast

import msgspec
import pytest

from splitbrain.harness.backends.docker import DockerBackend, DockerDeployment
from splitbrain.harness.backends.local import Links, LocalBackend
from splitbrain.harness.backends.sim import SimBackend
from splitbrain.harness.backends.ssh.backend import SshBackend
from splitbrain.harness.contract import faultkinds
from splitbrain.harness.contract.deployments import Deployment
from splitbrain.harness.contract.faults import FaultKind
from splitbrain.harness.contract.nodes import NodeId
from splitbrain.harness.contract.test import Backend
from tests.backends import docker_support, ssh_support
from tests.backends.conformance.nodes import Seen
from tests.backends.support import processes_with

_NOT_TO_STREAMS: Final[frozenset[FaultKind]] = frozenset(faultkinds.LINK_KINDS) - {"delay", "rate", "reset", "hold"}

FOREIGN: Final = (
    "table inet somebody { chain input { type filter hook input priority 0; tcp dport 4242 counter drop; }; }"
)
"""A table of rules of somebody else."""


class Adapter:
    """A row of the suite: one backend, in one of its ways.

    Attributes:
        name: of the row.
        backend_name: in the catalogue.
        packets: whether links carry packets.
        never: kinds of fault that it has on no machine.
        python: the interpreter of nodes.
        seen: what the evidence of its nodes has.
    """

    name: ClassVar[str]
    backend_name: ClassVar[str]
    packets: ClassVar[bool] = True
    never: ClassVar[frozenset[FaultKind]] = frozenset()
    python: ClassVar[str] = "python3"
    seen: ClassVar[Seen] = Seen({"exit": "SIGKILL"}, {"stat": "T"})

    def backend(self) -> Backend:
        """The backend, on which the nodes of the row live."""
        raise NotImplementedError

    def apart(self) -> Backend:
        """A backend for deployments of one node beside those of the row."""
        return self.backend()

    def traces(self, deployment: Deployment, folder: Path) -> Sequence[str]:
        """What there is of a deployment outside its folder, seen by others than the backend."""
        raise NotImplementedError

    async def in_network_of(self, deployment: Deployment, node: NodeId, command: str) -> str:
        """Run a shell command as root in the network of a node; what it printed."""
        raise NotImplementedError

    def works(self) -> dict[FaultKind, bool]:
        """Which kinds of fault work here."""
        return {cast(FaultKind, kind): found.works for kind, found in self.backend().support().items()}


class Local(Adapter):
    """Processes of this machine."""

    backend_name = "local"
    python = sys.executable
    links: ClassVar[Links]
    seen = Seen({"exit": "SIGKILL"}, {"stat": "T"}, pids="node")

    def backend(self) -> Backend:
        return LocalBackend(self.links)

    def traces(self, deployment: Deployment, folder: Path) -> Sequence[str]:
        return [str(pid) for pid in processes_with(str(folder)) if pid != os.getpid()]


class Namespaces(Local):
    """Links between network namespaces."""

    name = "local"
    links = "namespaces"


class Proxies(Local):
    """Links through proxies."""

    name = "local by proxies"
    links = "proxy"
    packets = False
    never = _NOT_TO_STREAMS


class Docker(Adapter):
    """Containers."""

    name = "docker"
    backend_name = "docker"
    seen = Seen({"exit": "SIGKILL"}, {"frozen": True}, pids="machine", refuses_programs=False)

    def backend(self) -> Backend:
        return DockerBackend()

    def traces(self, deployment: Deployment, folder: Path) -> Sequence[str]:
        return docker_support.of_run(cast(DockerDeployment, deployment).run)

    async def in_network_of(self, deployment: Deployment, node: NodeId, command: str) -> str:
        pid = (await deployment.status(node)).evidence["pid"]
        return docker_support.inside(pid, "sh", "-c", command)


class Ssh(Adapter):
    """Hosts: three for the nodes of the row, and one for deployments apart."""

    name = "ssh"
    backend_name = "ssh"

    def __init__(self, hosts: ssh_support.Hosts) -> None:
        self.hosts = hosts

    def backend(self) -> Backend:
        return SshBackend(self.hosts.of(0, 1, 2))

    def apart(self) -> Backend:
        spare = msgspec.structs.replace(self.hosts.inventory.hosts[3], node="n1")
        return SshBackend(self.hosts.of(hosts=(spare,)))

    def traces(self, deployment: Deployment, folder: Path) -> Sequence[str]:
        return [trace for trace in self.hosts.traces() if trace.startswith(f"{self.hosts.addresses[3]}: ")]

    async def in_network_of(self, deployment: Deployment, node: NodeId, command: str) -> str:
        return self.hosts.on(deployment.nodes.index(node), command)


class Simulation(Adapter):
    """Objects of this process."""

    name = "sim"
    backend_name = "sim"
    packets = False
    seen = Seen({}, {})

    def backend(self) -> Backend:
        return SimBackend()


ROWS: Final[Mapping[str, type[Adapter]]] = {each.name: each for each in (Namespaces, Proxies, Docker, Ssh, Simulation)}
ALL: Final = [pytest.param(name, marks=pytest.mark.slow) if name == "ssh" else name for name in ROWS]
"""Parameters of tests. To start hosts takes seconds, of each process of tests."""
REAL: Final = ALL[:-1]
"""Rows of nodes that are processes."""
