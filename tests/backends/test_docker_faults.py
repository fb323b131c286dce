"""Faults of disks, power, clocks and processors of nodes in containers, as the nodes themselves feel them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from splitbrain.harness.backends.docker import DockerDeployment, runners
from splitbrain.harness.contract.faults import ClockFault, DiskFault, FaultKind
from splitbrain.harness.contract.nodes import NodeCommand, NodeId, NodePlace
from splitbrain.harness.contract.sessions import DefiniteError
from splitbrain.harness.contract.test import Test
from splitbrain.results.errors import FaultNotSupportedError, NodeStartError
from tests.backends import docker_support
from tests.backends.docker_support import ContainerGossip, deployed
from tests.backends.support import refuses_what_was_not_asked_for

engine = docker_support.engine
pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.usefixtures("engine")]

WRITER = Path(__file__).with_name("writing_node.py")
NODES = ("n1", "n2")
FAULTS: tuple[FaultKind, ...] = ("disk-full", "power", "clock-jump", "cpu")


class WritingSystem(ContainerGossip):
    """Nodes that write to their disk and tell a client what came of it; `program` replaces the interpreter."""

    program = "python3"

    def command(self, test: Test, place: NodePlace) -> NodeCommand:
        host, port = place.listen
        argv = (self.program, "-S", "-E", f"{place.data_dir}/node.py", host, str(port), place.data_dir)
        return NodeCommand(argv, files={"laid": b"before the start", "node.py": WRITER.read_bytes()})

    def telemetry(self, test: Test, node_dir: Path) -> Path | None:
        return node_dir / "data" / "telemetry.jsonl"


class Cluster:
    """Two writing nodes for all tests of this module, and the event loop in which they are controlled."""

    def __init__(self, runner: asyncio.Runner, deployment: DockerDeployment, data: Path) -> None:
        self.runner = runner
        self.deployment = deployment
        self.data = data

    async def told(self, node: NodeId = "n1", request: str = "write") -> dict[str, Any]:
        """What a node says of what it did; "wrote" and "synced" are errors by name, or None."""
        connection = await self._dialled(node)
        loop = asyncio.get_running_loop()
        with connection:
            await loop.sock_sendall(connection, f"{request}\n".encode())
            received = b""
            async with asyncio.timeout(120):
                while not received.endswith(b"\n"):
                    received += await loop.sock_recv(connection, 65536)
        return json.loads(received)

    async def _dialled(self, node: NodeId) -> socket.socket:
        """A connection, as soon as the node listens: on a busy machine a start may return before that."""
        async with asyncio.timeout(120):
            while True:
                with contextlib.suppress(DefiniteError):
                    return await self.deployment.dial(node)
                await asyncio.sleep(0.05)


@pytest.fixture(scope="module")
def shared(engine: None, tmp_path_factory: pytest.TempPathFactory) -> Generator[Cluster, None, None]:
    folder = tmp_path_factory.mktemp("shared")
    with asyncio.Runner() as runner:
        deployment = runner.run(docker_support.deploy(folder, WritingSystem(), NODES, FAULTS))
        try:
            yield Cluster(runner, deployment, folder / "nodes/n1/data")
        finally:
            runner.run(deployment.close())
    files = sorted(path.name for path in (folder / "nodes/n1/data").iterdir())
    assert files == ["laid", "node.py", "telemetry.jsonl", "wal"], "data and telemetry are left in a plain folder"
    assert not os.path.ismount(folder / "nodes/n1/data")


@pytest.fixture
def cluster(shared: Cluster) -> Cluster:
    """The shared nodes: both run, and nothing is wrong with them."""

    async def tidy() -> None:
        for node in NODES:
            await shared.deployment.spoil(node, None)
            await shared.deployment.skew(node, None)
            await shared.deployment.throttle(node, None)
            await shared.deployment.start(node)

    shared.runner.run(tidy())
    return shared


@pytest.mark.parametrize(
    ("fault", "wrote", "synced", "survives"),
    [
        (DiskFault(full=True), "ENOSPC", None, True),
        (DiskFault(sync_fails=True), None, "EIO", True),
        (DiskFault(read_only=True), "EROFS", "EROFS", False),
        (DiskFault(fails=True), "EIO", "EIO", False),
    ],
    ids=["full", "sync fails", "read-only", "fails"],
)
def test_a_disk_fails_one_node_as_it_should_and_is_well_again(
    cluster: Cluster, fault: DiskFault, wrote: str | None, synced: str | None, survives: bool
) -> None:
    deployment = cluster.deployment

    async def run() -> None:
        assert (await cluster.told())["laid"] == "before the start"
        found = await deployment.spoil("n1", fault)
        assert found["errno"] == (wrote or synced)
        said = await cluster.told()
        assert (said["wrote"], said["synced"]) == (wrote, synced)
        other = await cluster.told("n2")
        assert (other["wrote"], other["synced"]) == (None, None)
        did = await deployment.spoil("n1", None)
        assert did["errno"] == (wrote or synced)
        assert did["failed_calls"] >= 1
        assert ((await deployment.status("n1")).state == "running") is survives
        assert bool(did.get("killed")) is not survives
        await deployment.start("n1")
        said = await cluster.told()
        assert (said["wrote"], said["synced"]) == (None, None)
        assert await deployment.spoil("n1", None) == {}

    cluster.runner.run(run())


def test_a_node_that_is_started_on_a_disk_that_fails_says_why(cluster: Cluster) -> None:
    async def run() -> None:
        await cluster.deployment.kill("n1")
        await cluster.deployment.spoil("n1", DiskFault(fails=True))
        with pytest.raises(NodeStartError, match="n1 cannot be started"):
            await cluster.deployment.start("n1")
        await cluster.deployment.spoil("n1", None)
        await cluster.deployment.start("n1")
        assert (await cluster.told())["synced"] is None

    cluster.runner.run(run())


def test_a_slow_disk_makes_syncs_wait(cluster: Cluster) -> None:
    async def run() -> None:
        await cluster.deployment.spoil("n1", DiskFault(slow_ms=200))
        for _ in range(5):
            await cluster.told()
        assert (await cluster.deployment.kill("n1")).state == "stopped", "what waits for a disk can be killed"
        did = await cluster.deployment.spoil("n1", None)
        assert did["freezes"] >= 1
        assert did["slowed_syncs"] >= 1

    cluster.runner.run(run())


def test_a_loss_of_power_takes_what_was_not_synced(cluster: Cluster) -> None:
    async def run() -> None:
        synced = (await cluster.told())["size"]
        await cluster.told(request="no sync")
        status = await cluster.deployment.power_off("n1")
        assert (status.state, status.evidence["exit"]) == ("stopped", "SIGKILL")
        assert status.evidence["bytes_lost"] == 100
        started = (cluster.data.parent / "aside/telemetry.jsonl").read_text().count("start\n")
        await cluster.deployment.start("n1")
        assert (await cluster.told())["size"] == synced + 5000
        telemetry = (cluster.data / "telemetry.jsonl").read_text()
        assert telemetry == "start\n" * (started + 1), "power takes nothing from who watches"

    cluster.runner.run(run())


def test_rot_and_truncation_need_a_stopped_node_and_rot_heals(cluster: Cluster) -> None:
    deployment = cluster.deployment

    async def run() -> None:
        await cluster.told()
        with pytest.raises(FaultNotSupportedError, match="only while it is stopped"):
            await deployment.spoil("n1", DiskFault(rot=1))
        await deployment.kill("n1")
        before = {path.name: path.read_bytes() for path in cluster.data.iterdir()}
        ((name, offset, mask),) = (await deployment.spoil("n1", DiskFault(rot=1)))["rotten"]
        assert (cluster.data / name).read_bytes()[offset] == before[name][offset] ^ mask
        assert await deployment.spoil("n1", None) == {"mended": 1}
        assert {path.name: path.read_bytes() for path in cluster.data.iterdir()} == before
        ((name, size, left),) = (await deployment.spoil("n1", DiskFault(truncate=1)))["truncated"]
        assert (len(before[name]), (cluster.data / name).stat().st_size) == (size, left)

    cluster.runner.run(run())


def test_a_clock_is_wrong_for_one_node_only_also_after_its_restart(cluster: Cluster) -> None:
    deployment = cluster.deployment

    async def ahead_s(node: NodeId = "n1") -> float:
        return (await cluster.told(node))["time"] - time.time()

    async def run() -> None:
        seen = await deployment.skew("n1", ClockFault(offset_ms=60_000))
        assert seen["after"]["offset_ms"] - seen["before"]["offset_ms"] == pytest.approx(60_000, abs=5)
        assert await ahead_s() == pytest.approx(60, abs=20)
        assert await ahead_s("n2") == pytest.approx(0, abs=20)
        await deployment.kill("n1")
        await deployment.start("n1")
        assert await ahead_s() == pytest.approx(60, abs=20)
        await deployment.skew("n1", None)
        assert await ahead_s() == pytest.approx(0, abs=20)
        await deployment.skew("n1", ClockFault(offset_ms=600_000, strobe_ms=50))
        seen_ahead: set[bool] = set()
        async with asyncio.timeout(120):
            while len(seen_ahead) < 2:
                seen_ahead.add(await ahead_s() > 300)
        did = await deployment.skew("n1", None)
        assert did["jumps"] >= 1
        assert did["after"]["offset_ms"] == pytest.approx(0, abs=5)

    cluster.runner.run(run())


def test_a_node_gets_its_share_of_the_processor_also_after_its_restart(cluster: Cluster) -> None:
    deployment = cluster.deployment

    async def run() -> None:
        assert await deployment.throttle("n1", 0.05) == {}
        for _ in range(2):
            await cluster.told(request="work")
            await deployment.kill("n1")
            await deployment.start("n1")
        did = await deployment.throttle("n1", None)
        assert did["throttled"] >= 4
        pid = (await deployment.status("n1")).evidence["pid"]
        before = runners.throttled(pid)
        await cluster.told(request="work")
        assert runners.throttled(pid) == before, "without a limit it never waits"

    cluster.runner.run(run())


def test_what_a_test_did_not_ask_for_is_refused_by_name(engine: None, tmp_path: Path) -> None:
    async def run() -> None:
        async with deployed(tmp_path, WritingSystem(), ("n1",)) as deployment:
            await refuses_what_was_not_asked_for(deployment)

    asyncio.run(run())
