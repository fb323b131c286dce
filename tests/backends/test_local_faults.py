"""A controller is killed while a disk of the local backend has a fault. `conformance` has what nodes see of faults."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Collection
from pathlib import Path
from typing import Any

import msgspec
import pytest

from splitbrain.harness.backends.agent import cgroups, volumes
from splitbrain.harness.backends.local import Links, LocalBackend, LocalDeployment
from splitbrain.harness.contract.faults import DiskFault, FaultKind
from splitbrain.harness.contract.nodes import NodeCommand, NodeId, NodePlace
from splitbrain.harness.contract.test import Test
from tests.backends.support import GossipSystem, deployed, missing, wait_until_gone

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
        return NodeCommand(argv)

    def telemetry(self, test: Test, node_dir: Path) -> Path | None:
        return node_dir / "data" / "telemetry.jsonl"


async def told(deployment: LocalDeployment, node: NodeId = "n1") -> dict[str, Any]:
    """What a node says of what it did; "wrote" and "synced" are errors by name, or None."""
    connection = await deployment.dial(node)
    loop = asyncio.get_running_loop()
    with connection:
        await loop.sock_sendall(connection, b"write\n")
        received = b""
        async with asyncio.timeout(120):
            while not received.endswith(b"\n"):
                received += await loop.sock_recv(connection, 65536)
    return json.loads(received)


def needs_volumes() -> None:
    problem = volumes.problem()
    if problem is not None:
        missing(problem)


def writing(links: Links, run_dir: Path, faults: Collection[FaultKind]) -> Any:
    return deployed(links, run_dir, WritingSystem("tcp"), NODES, faults)


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
