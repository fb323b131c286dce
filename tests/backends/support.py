"""What the tests of backends share: a system of gossiping nodes, and a look at processes from outside."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
import time
from collections.abc import AsyncGenerator, Collection, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn, Protocol, cast

import pytest

from splitbrain.harness.backends.local import Links, LocalBackend, LocalDeployment
from splitbrain.harness.backends.local.support import namespaces_problem
from splitbrain.harness.contract.capabilities import Capabilities
from splitbrain.harness.contract.clock import Runtime
from splitbrain.harness.contract.deployments import Deployment
from splitbrain.harness.contract.faults import ClockFault, DiskFault, FaultKind
from splitbrain.harness.contract.nodes import Link, NodeCommand, NodeId, NodePlace, NodeStatus
from splitbrain.harness.contract.test import Test
from splitbrain.results.errors import BackendError, FaultNotSupportedError

GOSSIP_NODE = Path(__file__).with_name("gossip_node.py")
NODES = ("n1", "n2", "n3")


def skip_without_namespaces() -> None:
    """Skip where the machine has no namespaces or tools; fail where it has them and they do not do what they should."""
    problem = namespaces_problem()
    if problem is not None and problem.startswith(("the kernel refuses", "there is no")):
        pytest.skip(f"namespaces do not work here: {problem}")
    assert problem is None, problem


def missing(reason: str) -> NoReturn:
    """Skip a test because of what this machine lacks; in CI nothing may be lacking."""
    if os.environ.get("CI"):
        pytest.fail(f"missing in CI: {reason}")
    pytest.skip(reason)


class GossipSystem:
    """Nodes that count what they hear from their peers; `argv` replaces the program."""

    name = "gossip"
    capabilities = Capabilities()

    def __init__(self, transport: str, argv: tuple[str, ...] = ()) -> None:
        self.transport = transport
        self.argv = argv

    def command(self, test: Test, place: NodePlace) -> NodeCommand:
        host, port = place.listen
        peers = [f"{peer}={address[0]}:{address[1]}" for peer, address in place.peers.items()]
        argv = self.argv or (
            sys.executable,
            "-S",
            "-E",
            str(GOSSIP_NODE),
            self.transport,
            place.node,
            host,
            str(port),
            *peers,
        )
        return NodeCommand(argv=argv, env={"GOSSIP_DATA": place.data_dir})

    def telemetry(self, test: Test, node_dir: Path) -> Path | None:
        return None


def gossip_test(system: GossipSystem, nodes: Sequence[NodeId] = NODES, faults: Collection[FaultKind] = ()) -> Test:
    """As much of a test as a backend looks at; `faults` are those that its nemesis needs."""
    nemesis = SimpleNamespace(faults=frozenset(faults))
    return cast(Test, SimpleNamespace(nodes=tuple(nodes), system=system, nemesis=nemesis, seed=1))


@asynccontextmanager
async def deployed(
    links: Links,
    run_dir: Path,
    system: GossipSystem | None = None,
    nodes: Sequence[NodeId] = NODES,
    faults: Collection[FaultKind] = (),
) -> AsyncGenerator[LocalDeployment, None]:
    """A deployment that is closed at the end; its nodes beat by datagrams where there is a network for that."""
    system = system or GossipSystem("udp" if links == "namespaces" else "tcp")
    deployment = await LocalBackend(links).deploy(gossip_test(system, nodes, faults), run_dir, cast(Runtime, None))
    try:
        yield deployment
    finally:
        await deployment.close()


class Gossiping(Protocol):
    """A deployment on whichever backend, of nodes that gossip."""

    nodes: Sequence[NodeId]

    async def start(self, node: NodeId) -> NodeStatus: ...

    async def dial(self, node: NodeId) -> socket.socket: ...


async def start_all(deployment: Gossiping) -> None:
    await asyncio.gather(*(deployment.start(node) for node in deployment.nodes))


def all_links(deployment: Gossiping) -> list[Link]:
    return [(source, to) for source in deployment.nodes for to in deployment.nodes if source != to]


async def ask(deployment: Gossiping, node: NodeId) -> dict[str, Any]:
    """A node's own report."""
    connection = await deployment.dial(node)
    with connection:
        received = b""
        async with asyncio.timeout(60):
            while not received.endswith(b"\n"):
                received += await asyncio.get_running_loop().sock_recv(connection, 65536)
    return json.loads(received)


async def beats(deployment: Gossiping, during_s: float = 0.25) -> dict[Link, int]:
    """Beats that crossed each link within a while, as their receivers counted them."""
    before = {node: (await ask(deployment, node))["heard"] for node in deployment.nodes}
    await asyncio.sleep(during_s)
    after = {node: (await ask(deployment, node))["heard"] for node in deployment.nodes}
    return {(source, to): after[to].get(source, 0) - before[to].get(source, 0) for source, to in all_links(deployment)}


async def until_silent(deployment: Gossiping, wanted: Sequence[Link], within_s: float = 60.0) -> None:
    """Wait until beats cross all links but the wanted ones, and none of those."""
    deadline = time.monotonic() + within_s
    while True:
        seen = await beats(deployment)
        silent = sorted(link for link, count in seen.items() if count == 0)
        if silent == sorted(wanted):
            return
        assert time.monotonic() < deadline, f"silent links are {silent}, not {sorted(wanted)}: {seen}"


async def refuses_what_was_not_asked_for(deployment: Deployment) -> None:
    """A deployment whose test needs no faults of disks and clocks has none, and says so by name."""
    with pytest.raises(BackendError, match="a directory cannot be made to fail"):
        await deployment.spoil("n1", DiskFault(full=True))
    with pytest.raises(BackendError, match="a directory cannot lose only what was not synced"):
        await deployment.power_off("n1")
    with pytest.raises(FaultNotSupportedError, match="started without libfaketime"):
        await deployment.skew("n1", ClockFault(offset_ms=1))
    assert await deployment.skew("n1", None) == {}
    assert await deployment.spoil("n1", None) == {}
    assert await deployment.throttle("n1", None) == {}


# --- processes, seen from outside ---------------------------------------------------------------------------------


def processes_with(token: str) -> dict[int, str]:
    """Every living process that has a text in its arguments or its environment, with its network namespace."""
    found: dict[int, str] = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        folder = Path("/proc", name)
        try:
            text = (folder / "cmdline").read_bytes() + (folder / "environ").read_bytes()
            if token.encode() in text and (folder / "stat").read_bytes().rsplit(b")", 1)[1].split()[0] not in b"ZX":
                found[int(name)] = os.readlink(folder / "ns/net")
        except OSError:
            continue
    return found


def residents(networks: Collection[str]) -> set[tuple[int, bytes]]:
    """Processes that live in these network namespaces: pid and start time, for the kernel gives both names again."""
    found: set[tuple[int, bytes]] = set()
    for name in filter(str.isdigit, os.listdir("/proc")):
        folder = Path("/proc", name)
        try:
            if os.readlink(folder / "ns/net") in networks:
                found.add((int(name), (folder / "stat").read_bytes().rsplit(b")", 1)[1].split()[19]))
        except OSError:
            continue
    return found


def wait_until_gone(token: str, within_s: float = 30.0) -> dict[int, str]:
    """Processes with a text that are still there when time is up."""
    deadline = time.monotonic() + within_s
    while (left := processes_with(token)) and time.monotonic() < deadline:
        time.sleep(0.02)
    return left


def mounts_below(folder: Path) -> list[str]:
    """What is mounted below a folder: lines of /proc/self/mounts."""
    lines = Path("/proc/self/mounts").read_text().splitlines()
    return [line for line in lines if line.split()[1].startswith(str(folder))]
