"""Faults of disks, clocks and processors of nodes that run on this machine."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from harness import faultkinds
from harness.backends import faketime
from harness.backends.agent import cgroups, volumes
from harness.backends.channel import Agent
from harness.backends.local.clocks import Clocks
from harness.backends.ownership import this_controller
from harness.protocols import ClockFault, DiskFault, FaultKind, NodeCommand, NodeId, NodePlace, NodeStatus, Support
from harness.test import Test
from results.errors import BackendError, FaultNotSupportedError

_ON_VOLUMES: Final[Mapping[FaultKind, str]] = {
    "disk-full": "files that take all room of the node's own ext4 file system, loop-mounted",
    "disk-read-only": "an error of the node's own ext4 file system, mounted with errors=remount-ro",
    "disk-fails": "the node's own ext4 file system is shut down (EXT4_IOC_SHUTDOWN)",
    "disk-sync": "the device of the node's own ext4 file system ends before its data",
    "disk-slow": "the node's own ext4 file system is frozen in turns: writes and syncs wait",
    "power": "SIGKILL, and the node's own ext4 file system is shut down without a flush of its journal",
}
_ON_FILES: Final[Mapping[FaultKind, str]] = {
    "disk-rot": "bits are flipped in files of a node that is stopped",
    "disk-truncate": "the ends of files are cut off while their node is stopped",
}
_OF_CLOCKS: Final[Mapping[FaultKind, str]] = {
    "clock-jump": "libfaketime; the wall clock only",
    "clock-drift": "libfaketime; the wall clock only, timers keep their length",
    "clock-strobe": "libfaketime; the wall clock only",
}


def support(links: str) -> dict[FaultKind, Support]:
    """What works here of disks, power, clocks and processors, where links are carried like this."""
    answer: dict[FaultKind, Support] = {kind: Support(True, how) for kind, how in _ON_FILES.items()}
    problem = volumes.problem()
    for kind, how in _ON_VOLUMES.items():
        answer[kind] = Support(True, how) if problem is None else Support(False, f"{problem}: run this as root")
    if problem is not None and links == "namespaces":
        answer["disk-full"] = Support(True, "a file system in memory, whose limits are lowered to what is used")
    library = faketime.find_library()
    for kind, how in _OF_CLOCKS.items():
        answer[kind] = Support(True, how) if library else Support(False, faketime.INSTALL)
    problem = cgroups.problem()
    how = "a quota of the node's control group"
    answer["cpu"] = Support(True, how) if problem is None else Support(False, f"{problem}: run this as root")
    return answer


class NodeFaults:
    """What is wrong with the nodes of one deployment, beside their links and their states.

    A node gets a file system of its own, and a clock that can be wrong, only where the test's nemesis needs that.

    Args:
        test: says what its nemesis needs.
        agent: of the deployment.
        folders: of each node, with its data in "data".
        links: how links are carried.
    """

    def __init__(self, test: Test, agent: Agent, folders: Mapping[NodeId, Path], links: str) -> None:
        self._test = test
        self._agent = agent
        self._folders = folders
        self._links = links
        self._clocks: Clocks | None = None
        self._struck = 0

    async def lay_out(self, places: Mapping[NodeId, NodePlace]) -> None:
        """Make file systems and clocks.

        Raises:
            BackendError: what the nemesis needs cannot be made here, or not for this system.
        """
        needs = self._test.nemesis.faults
        kind = self._kind_of_disks([fault for fault in _ON_VOLUMES if fault in needs])
        disks = {
            node: {
                "path": places[node].data_dir,
                "kind": kind,
                "image": str(folder / f"{this_controller().marker}.disk"),
                "aside": self._telemetry(node, Path(places[node].data_dir)),
            }
            for node, folder in self._folders.items()
        }
        await self._agent.ask("lay_out_disks", disks=disks, private=kind == "volume" and self._links != "namespaces")
        if any(fault in needs for fault in faultkinds.CLOCK_KINDS):
            self._clocks = Clocks({node: folder / "clock" for node, folder in self._folders.items()})
            for place in places.values():
                faketime.require_reach(self._test.system.command(self._test, place).argv[0])

    # --- starting nodes -----------------------------------------------------------------------------------------------

    async def prepare(self, node: NodeId, command: NodeCommand) -> Mapping[str, str]:
        """Lay the files of a node that is about to start; the variables to start it with, beside its own."""
        if command.files:
            files = {name: base64.b64encode(content).decode() for name, content in command.files.items()}
            await self._agent.ask("write_files", name=node, files=files)
        if self._clocks is None:
            return {}
        self._clocks.begins(node)
        return self._clocks.environment(node)

    # --- faults -------------------------------------------------------------------------------------------------------

    async def spoil(
        self, node: NodeId, fault: DiskFault | None, status: NodeStatus, kill: Callable[[NodeId], Awaitable[object]]
    ) -> dict[str, Any]:
        """Give the node's disk this fault, or none. A node that holds a failed file system is killed for its heal.

        Raises:
            FaultNotSupportedError: its disk cannot do that, or not while it runs.
            BackendError: it did not take effect, or did not end.
        """
        did: dict[str, Any] = {}
        if status.state != "stopped":
            if fault is not None and (fault.rot or fault.truncate):
                raise FaultNotSupportedError(f"the files of {node} can be damaged only while it is stopped: kill it.")
            if await self._agent.ask("heals_stopped", name=node):
                await kill(node)
                did["killed"] = True
        self._struck += 1
        seed = zlib.crc32(f"{self._test.seed}/{node}/{self._struck}".encode())
        request = None if fault is None else msgspec.to_builtins(fault)
        return {**await self._agent.ask("spoil", name=node, fault=request, seed=seed), **did}

    async def lose_power(self, node: NodeId) -> dict[str, Any]:
        """Lose what a node that was killed did not sync; what was lost.

        Raises:
            BackendError: its disk cannot do that.
        """
        return await self._agent.ask("lose_power", name=node)

    async def skew(self, node: NodeId, fault: ClockFault | None) -> dict[str, Any]:
        """Give the node's clock this fault, or none.

        Raises:
            FaultNotSupportedError: the nodes were started with true clocks.
        """
        if self._clocks is not None:
            return await self._clocks.skew(node, fault)
        if fault is not None:
            raise FaultNotSupportedError(
                f"the clock of {node} cannot be faked: it was started without libfaketime, as this test's nemesis does "
                f"not need it."
            )
        return {}

    async def throttle(self, node: NodeId, share: float | None) -> dict[str, Any]:
        """Give the node this share of one CPU, or all that it wants; what the limit before did."""
        return await self._agent.ask("throttle", name=node, share=share)

    async def close(self) -> None:
        """Leave no task and no file; what the agent made ends with it."""
        if self._clocks is not None:
            await self._clocks.close()

    # --- how ----------------------------------------------------------------------------------------------------------

    def _kind_of_disks(self, needed: list[FaultKind]) -> str:
        if not needed:
            return "directory"
        problem = volumes.problem()
        if problem is None:
            return "volume"
        if needed == ["disk-full"] and self._links == "namespaces":
            return "memory"
        raise BackendError(f"nodes cannot have file systems of their own, for {', '.join(needed)}: {problem}.")

    def _telemetry(self, node: NodeId, data_dir: Path) -> dict[str, str]:
        """Where the node's telemetry is kept meanwhile: it is for those who watch, and no fault shall strike it."""
        found = self._test.system.telemetry(self._test, self._folders[node])
        if found is None or not found.is_relative_to(data_dir):
            return {}
        return {str(found.relative_to(data_dir)): str(self._folders[node] / found.name)}
