"""Disks of nodes in containers: file systems on this machine, mounted before they are bound into a container.

A container finds the mount that is there when it starts. So a fault whose heal takes a new mount is healed while the
node is stopped; it is then started with the new one.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from harness.backends.agent import volumes
from harness.backends.channel import Agent
from harness.backends.docker.nodes import Node
from harness.backends.docker.runners import Runners
from harness.backends.ownership import this_controller
from harness.protocols import DiskFault, FaultKind, NodeStatus, Support
from harness.rng import Streams
from harness.test import Test
from results.errors import FaultNotSupportedError

SEEDS: Final = 2**32
_HOW: Final[Mapping[FaultKind, str]] = {
    "disk-full": "files that take all room of the node's own ext4 file system, loop-mounted",
    "disk-read-only": "an error of the node's own ext4 file system, mounted with errors=remount-ro",
    "disk-fails": "the node's own ext4 file system is shut down (EXT4_IOC_SHUTDOWN)",
    "disk-sync": "the device of the node's own ext4 file system ends before its data",
    "disk-slow": "the node's own ext4 file system is frozen in turns: writes and syncs wait",
    "power": "SIGKILL, and the node's own ext4 file system is shut down without a flush of its journal",
}
_HOW_AT_REST: Final[Mapping[FaultKind, str]] = {
    "disk-rot": "bits are flipped in files of a node that is stopped",
    "disk-truncate": "the ends of files are cut off while their node is stopped",
}


class Disks:
    """The disks of the nodes of a deployment: file systems of their own where the test's nemesis needs that.

    Args:
        test: says what its nemesis needs.
        agent: makes and spoils them.
        runners: kill nodes.
    """

    def __init__(self, test: Test, agent: Agent, runners: Runners) -> None:
        self._test = test
        self._agent = agent
        self._runners = runners
        self._streams = Streams(test.seed)

    def prepare(self, node: Node) -> None:
        """To be called before the node has a container: files that no fault shall strike lie beside its data.

        The link that stands for such a file must mean the same in the container, so the directory is bound to its own
        path.
        """
        aside = self._aside(node)
        aside.mkdir(exist_ok=True)
        node.binds[str(aside)] = aside

    async def lay_out(self, nodes: list[Node]) -> None:
        """Make the file systems.

        Raises:
            BackendError: they cannot be had here.
        """
        own = any(kind in _HOW for kind in self._test.nemesis.faults)
        disks = {
            node.name: {
                "path": str(node.data),
                "kind": "volume" if own else "directory",
                "image": str(node.folder / f"{this_controller().marker}.disk"),
                "aside": self._telemetry(node),
            }
            for node in nodes
        }
        await self._agent.ask("lay_out_disks", disks=disks, private=False)

    async def spoil(self, node: Node, fault: DiskFault | None) -> dict[str, Any]:
        """Give a node's disk this fault, or none. A node that holds a failed file system is killed for its heal.

        Raises:
            FaultNotSupportedError: it can be done only to the disk of a stopped node.
            BackendError: it did not take effect, or did not end.
        """
        killed: dict[str, Any] = {}
        if (await self._runners.status(node)).state != "stopped":
            if fault is not None and (fault.rot or fault.truncate):
                raise FaultNotSupportedError(
                    f"the files of {node.name} can be damaged only while it is stopped: kill it first."
                )
            if await self._agent.ask("heals_stopped", name=node.name):
                await self._runners.kill(node)
                killed["killed"] = True
        seed = self._streams[f"disks/{node.name}"].below(SEEDS)
        request = None if fault is None else msgspec.to_builtins(fault)
        return {**await self._agent.ask("spoil", name=node.name, fault=request, seed=seed), **killed}

    async def lose_power(self, node: Node) -> NodeStatus:
        """End a node with SIGKILL, and lose what it did not sync; evidence: what was lost.

        Raises:
            BackendError: it has no file system of its own.
        """
        status = await self._runners.kill(node)
        lost: dict[str, Any] = await self._agent.ask("lose_power", name=node.name)
        return msgspec.structs.replace(status, evidence={**status.evidence, **lost})

    def _aside(self, node: Node) -> Path:
        return node.folder / "aside"

    def _telemetry(self, node: Node) -> dict[str, str]:
        """The node's telemetry is for those who watch it: where it is kept meanwhile, by its name among the data."""
        found = self._test.system.telemetry(self._test, node.folder)
        if found is None or not found.is_relative_to(node.data):
            return {}
        return {str(found.relative_to(node.data)): str(self._aside(node) / found.name)}


def support() -> dict[FaultKind, Support]:
    """What can be done to disks here, as far as can be seen without making a file system."""
    problem = volumes.problem()
    answer: dict[FaultKind, Support] = {kind: Support(True, how) for kind, how in _HOW_AT_REST.items()}
    for kind, how in _HOW.items():
        answer[kind] = Support(True, how) if problem is None else Support(False, f"{problem}.")
    return answer
