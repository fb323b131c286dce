"""Faults of disks, power, clocks and processors on the local backend, as the nodes themselves feel them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Collection
from pathlib import Path
from typing import Any

import msgspec
import pytest

from splitbrain.harness.backends.agent import cgroups, volumes
from splitbrain.harness.backends.local import Links, LocalBackend, LocalDeployment, support
from splitbrain.harness.backends.shared import faketime
from splitbrain.harness.contract.faults import ClockFault, DiskFault, FaultKind
from splitbrain.harness.contract.nodes import NodeCommand, NodeId, NodePlace
from splitbrain.harness.contract.sessions import DefiniteError
from splitbrain.harness.contract.test import Test
from splitbrain.results.errors import FaultNotSupportedError
from tests.backends.support import GossipSystem, deployed, missing, refuses_what_was_not_asked_for, wait_until_gone

pytestmark = pytest.mark.cluster

WRITER = Path(__file__).with_name("writing_node.py")
NODES = ("n1", "n2")
ROOT = Path(__file__).parents[2]
_CPU_GROUPS = "/sys/fs/cgroup/cpu"


class WritingSystem(GossipSystem):
    """Nodes that write to their disk and tell a client what came of it."""

    def command(self, test: Test, place: NodePlace) -> NodeCommand:
        host, port = place.listen
        argv = (sys.executable, "-S", "-E", str(WRITER), host, str(port), place.data_dir)
        return NodeCommand(argv, files={"laid": b"before the start"})

    def telemetry(self, test: Test, node_dir: Path) -> Path | None:
        return node_dir / "data" / "telemetry.jsonl"


async def told(deployment: LocalDeployment, node: NodeId = "n1", request: str = "write") -> dict[str, Any]:
    """What a node says of what it did; "wrote" and "synced" are errors by name, or None."""
    connection = await deployment.dial(node)
    loop = asyncio.get_running_loop()
    with connection:
        await loop.sock_sendall(connection, f"{request}\n".encode())
        received = b""
        async with asyncio.timeout(120):
            while not received.endswith(b"\n"):
                received += await loop.sock_recv(connection, 65536)
    return json.loads(received)


async def listens(deployment: LocalDeployment) -> None:
    """Wait until the first node takes connections: one that gets little of a busy processor needs long for that."""
    async with asyncio.timeout(120):
        while True:
            with contextlib.suppress(DefiniteError):
                (await deployment.dial("n1")).close()
                return
            await asyncio.sleep(0.1)


def needs_volumes() -> None:
    problem = volumes.problem()
    if problem is not None:
        missing(problem)


def writing(links: Links, run_dir: Path, faults: Collection[FaultKind]) -> Any:
    return deployed(links, run_dir, WritingSystem("tcp"), NODES, faults)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "kind", "wrote", "synced", "survives"),
    [
        (DiskFault(full=True), "disk-full", "ENOSPC", None, True),
        (DiskFault(sync_fails=True), "disk-sync", None, "EIO", True),
        (DiskFault(read_only=True), "disk-read-only", "EROFS", "EROFS", False),
        (DiskFault(fails=True), "disk-fails", "EIO", "EIO", False),
    ],
)
def test_a_disk_fails_one_node_as_it_should_and_is_well_again(
    links: Links,
    tmp_path: Path,
    fault: DiskFault,
    kind: FaultKind,
    wrote: str | None,
    synced: str | None,
    survives: bool,
) -> None:
    needs_volumes()

    async def scenario() -> None:
        async with writing(links, tmp_path, [kind]) as deployment:
            await deployment.start("n1")
            await deployment.start("n2")
            assert (await told(deployment))["laid"] == "before the start"
            found = await deployment.spoil("n1", fault)
            assert found["errno"] == (wrote or synced)
            said = await told(deployment)
            assert (said["wrote"], said["synced"]) == (wrote, synced)
            other = await told(deployment, "n2")
            assert (other["wrote"], other["synced"]) == (None, None)
            did = await deployment.spoil("n1", None)
            assert did["errno"] == (wrote or synced)
            assert did["failed_calls"] >= 1
            status = await deployment.status("n1")
            assert (status.state == "running") is survives
            assert bool(did.get("killed")) is not survives
            await deployment.start("n1")
            said = await told(deployment)
            assert (said["wrote"], said["synced"]) == (None, None)
            assert await deployment.spoil("n1", None) == {}

    asyncio.run(scenario())


@pytest.mark.slow
def test_a_loss_of_power_takes_what_was_not_synced_and_the_data_and_telemetry_are_left_in_the_end(
    links: Links, tmp_path: Path
) -> None:
    needs_volumes()

    async def scenario() -> None:
        async with writing(links, tmp_path, ["power"]) as deployment:
            await deployment.start("n1")
            synced = (await told(deployment))["size"]
            await told(deployment, request="no sync")
            status = await deployment.power_off("n1")
            assert status.state == "stopped"
            assert status.evidence["exit"] == "SIGKILL"
            assert status.evidence["bytes_lost"] == 100
            await deployment.start("n1")
            assert (await told(deployment))["size"] == synced + 5000

    asyncio.run(scenario())
    data = tmp_path / "nodes" / "n1" / "data"
    assert sorted(path.name for path in data.iterdir()) == ["laid", "telemetry.jsonl", "wal"]
    assert (data / "wal").stat().st_size == 10_000
    assert (data / "telemetry.jsonl").read_text() == "start\nstart\n", "power takes nothing from who watches"
    assert sorted(path.name for path in data.parent.iterdir()) == ["data", "log"]


def test_rot_and_truncation_need_a_stopped_node_and_rot_heals(links: Links, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with writing(links, tmp_path, ["disk-rot"]) as deployment:
            await deployment.start("n1")
            await told(deployment)
            with pytest.raises(FaultNotSupportedError, match="only while it is stopped"):
                await deployment.spoil("n1", DiskFault(rot=1))
            await deployment.kill("n1")
            data = tmp_path / "nodes" / "n1" / "data"
            before = {path.name: path.read_bytes() for path in data.iterdir()}
            found = await deployment.spoil("n1", DiskFault(rot=1))
            (name, offset, mask), *others = found["rotten"]
            assert others == []
            assert (data / name).read_bytes()[offset] == before[name][offset] ^ mask
            assert await deployment.spoil("n1", None) == {"mended": 1}
            assert {path.name: path.read_bytes() for path in data.iterdir()} == before
            ((name, size, left),) = (await deployment.spoil("n1", DiskFault(truncate=1)))["truncated"]
            assert (len(before[name]), (data / name).stat().st_size) == (size, left)

    asyncio.run(scenario())


@pytest.mark.slow
def test_a_slow_disk_is_counted_and_a_killed_node_on_it_is_reaped(links: Links, tmp_path: Path) -> None:
    needs_volumes()

    async def scenario() -> None:
        async with writing(links, tmp_path, ["disk-slow"]) as deployment:
            await deployment.start("n1")
            await deployment.spoil("n1", DiskFault(slow_ms=200))
            for _ in range(5):
                await told(deployment)
            assert (await deployment.kill("n1")).state == "stopped"
            did = await deployment.spoil("n1", None)
            assert did["freezes"] >= 1
            assert did["slowed_syncs"] >= 1

    asyncio.run(scenario())


@pytest.mark.slow
def test_a_clock_is_wrong_for_one_node_only_also_after_its_restart(links: Links, tmp_path: Path) -> None:
    if faketime.find_library() is None:
        missing(faketime.INSTALL)

    async def scenario() -> None:
        async with writing(links, tmp_path, ["clock-jump"]) as deployment:
            await deployment.start("n1")
            await deployment.start("n2")
            seen = await deployment.skew("n1", ClockFault(offset_ms=60_000))
            assert seen["after"]["offset_ms"] - seen["before"]["offset_ms"] == pytest.approx(60_000, abs=5)
            assert (await told(deployment))["time"] - time.time() == pytest.approx(60, abs=20)
            assert (await told(deployment, "n2"))["time"] - time.time() == pytest.approx(0, abs=20)
            await deployment.kill("n1")
            await deployment.start("n1")
            assert (await told(deployment))["time"] - time.time() == pytest.approx(60, abs=20)
            await deployment.skew("n1", None)
            assert (await told(deployment))["time"] - time.time() == pytest.approx(0, abs=20)

    asyncio.run(scenario())


@pytest.mark.slow
def test_a_strobing_clock_jumps_to_and_fro_until_it_is_set_right(links: Links, tmp_path: Path) -> None:
    if faketime.find_library() is None:
        missing(faketime.INSTALL)

    async def scenario() -> None:
        async with writing(links, tmp_path, ["clock-strobe"]) as deployment:
            await deployment.start("n1")
            await deployment.skew("n1", ClockFault(offset_ms=600_000, strobe_ms=50))
            seen: set[bool] = set()
            async with asyncio.timeout(120):
                while len(seen) < 2:
                    seen.add((await told(deployment))["time"] - time.time() > 300)
            did = await deployment.skew("n1", None)
            assert did["jumps"] >= 1
            assert did["after"]["offset_ms"] == pytest.approx(0, abs=5)

    asyncio.run(scenario())


@pytest.mark.slow
def test_a_node_gets_its_share_of_the_processor_also_after_its_restart(links: Links, tmp_path: Path) -> None:
    problem = cgroups.problem()
    if problem is not None:
        missing(problem)

    async def scenario() -> None:
        async with writing(links, tmp_path, ["cpu"]) as deployment:
            await deployment.start("n1")
            assert await deployment.throttle("n1", 0.1) == {}
            for _ in range(2):
                await listens(deployment)
                await told(deployment, request="work")
                await deployment.kill("n1")
                await deployment.start("n1")
            did = await deployment.throttle("n1", None)
            assert did["throttled"] >= 4
            assert did["throttled_ms"] > 0

    asyncio.run(scenario())
    assert [name for name in cpu_groups() if f":{os.getpid()}:" in name] == []


def test_what_a_test_did_not_ask_for_is_refused_by_name(links: Links, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with writing(links, tmp_path, []) as deployment:
            await refuses_what_was_not_asked_for(deployment)

    asyncio.run(scenario())


def test_what_is_missing_is_named_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(volumes, "problem", lambda: "there are no loop devices here")
    monkeypatch.setattr(cgroups, "problem", lambda: "the CPU controller is not mounted here")
    monkeypatch.setattr(faketime, "find_library", lambda: None)
    by_proxy = support.of_nodes("proxy")
    broken = {kind for kind, found in by_proxy.items() if not found.works}
    assert broken == set(by_proxy) - {"disk-rot", "disk-truncate"}
    assert by_proxy["power"].how == "there are no loop devices here: run this as root"
    assert "apt install libfaketime" in by_proxy["clock-drift"].how
    assert support.of_nodes("namespaces")["disk-full"].works, "in memory"
    assert set(LocalBackend("proxy").support()) >= set(by_proxy)
    assert json.dumps({kind: found.how for kind, found in by_proxy.items()})


# --- when the controller is killed --------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", ["slow_ms", "full", "sync_fails", "read_only", "fails"])
@pytest.mark.alone
def test_a_killed_controller_leaves_no_node_no_mount_and_nothing_frozen(
    links: Links, tmp_path: Path, fault: str
) -> None:
    """Also no control group, once the next controller has swept."""
    needs_volumes()
    program = (
        "import asyncio, sys; from tests.backends import test_local_faults as this;"
        "asyncio.run(this.hold_fault(sys.argv[1], sys.argv[2], sys.argv[3]))"
    )
    controller = subprocess.Popen(
        [sys.executable, "-c", program, links, str(tmp_path), fault], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    assert controller.stdout is not None
    try:
        assert controller.stdout.readline() == "held\n"
    finally:
        controller.kill()
        controller.wait()
        controller.stdout.close()
    assert wait_until_gone(str(tmp_path), within_s=60) == {}, "a process that waits for a frozen disk cannot end"
    assert wait_until_gone(f":{controller.pid}:", within_s=60) == {}
    assert str(tmp_path) not in Path("/proc/self/mounts").read_text()
    LocalBackend(links).sweep()
    assert [name for name in cpu_groups() if f":{controller.pid}:" in name] == []


async def hold_fault(links: Links, run_dir: str, fault: str) -> None:
    """Give a node's disk a fault and its processes a limit, let it write, and wait to be killed."""
    kinds: dict[str, FaultKind] = {
        "slow_ms": "disk-slow",
        "full": "disk-full",
        "sync_fails": "disk-sync",
        "read_only": "disk-read-only",
        "fails": "disk-fails",
    }
    async with writing(links, Path(run_dir), [kinds[fault]]) as deployment:
        await deployment.start("n1")
        if cgroups.problem() is None:
            await deployment.throttle("n1", 0.5)
        value = 3.6e6 if fault == "slow_ms" else True
        await deployment.spoil("n1", msgspec.convert({fault: value}, DiskFault))
        request = asyncio.create_task(told(deployment))
        await asyncio.sleep(0.3)
        print("held", flush=True)
        await asyncio.sleep(60)
        await request


def cpu_groups() -> list[str]:
    return os.listdir(_CPU_GROUPS) if os.path.isdir(_CPU_GROUPS) else []
