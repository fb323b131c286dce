"""Faults of disks, clocks and processors of nodes on hosts, and which of them hosts can have."""

from __future__ import annotations

import base64
import shlex
import zlib
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from harness import faultkinds
from harness.backends import faketime
from harness.backends.limits import FIXED_MEMBERS_WHY
from harness.backends.ssh import machine
from harness.backends.ssh.agents import RemoteAgent, look_command
from harness.backends.ssh.clocks import HostClock
from harness.backends.ssh.connection import Connection, HostError
from harness.protocols import ClockFault, DiskFault, FaultKind, NodeCommand, NodeId, NodePlace, NodeStatus, Support
from harness.test import Test
from results.errors import FaultNotSupportedError

ON_VOLUMES: Final[tuple[FaultKind, ...]] = (
    "disk-full",
    "disk-read-only",
    "disk-fails",
    "disk-sync",
    "disk-slow",
    "power",
)
"""What takes a file system of the node's own."""

_HOW: Final[Mapping[FaultKind, str]] = {
    "cut": "nftables on each receiving host",
    **dict.fromkeys(faultkinds.LINK_KINDS, "NFQUEUE on each sending host"),
    "kill": "SIGKILL, until the process is reaped",
    "pause": "SIGSTOP, until the kernel shows state T",
    "cpu": "a quota of the node's control group on its host",
    "disk-full": "files that take all room of the node's own ext4 file system, loop-mounted on its host",
    "disk-read-only": "an error of the node's own ext4 file system, mounted with errors=remount-ro",
    "disk-fails": "the node's own ext4 file system is shut down (EXT4_IOC_SHUTDOWN)",
    "disk-sync": "the device of the node's own ext4 file system ends before its data",
    "disk-slow": "the node's own ext4 file system is frozen in turns: writes and syncs wait",
    "disk-rot": "bits are flipped in files of a node that is stopped",
    "disk-truncate": "the ends of files are cut off while their node is stopped",
    "power": "SIGKILL, and the node's own ext4 file system is shut down without a flush of its journal",
    **dict.fromkeys(faultkinds.CLOCK_KINDS, "libfaketime on the host; the wall clock only"),
}


class Means(msgspec.Struct, frozen=True):
    """What keeps a host from kinds of fault, None where nothing does; and where its libfaketime is, if it has one."""

    packets: str | None
    volumes: str | None
    processors: str | None
    library: str | None

    def problem(self, kind: FaultKind) -> str | None:
        """Why the host cannot have a kind of fault; None if it can."""
        if kind in faultkinds.LINK_KINDS:
            return self.packets
        if kind in ON_VOLUMES:
            return self.volumes
        if kind in faultkinds.CLOCK_KINDS:
            return None if self.library else faketime.INSTALL
        return self.processors if kind == "cpu" else None


def means(connection: Connection) -> Means:
    """Find out what faults a host can have: an agent tries it there, and leaves nothing.

    Raises:
        HostError: it did not work.
    """
    home = machine.upload(connection, {})
    try:
        done = connection.run(f"{look_command(home)} {shlex.join(faketime.LIBRARY_PLACES)}")
    finally:
        machine.remove(connection, home)
    try:
        return msgspec.json.decode(done.output, type=Means)
    except msgspec.MsgspecError:
        said = " ".join(done.errors.split())[-300:]
        raise HostError(connection.host, f"the look for faults failed with code {done.code}: {said}.") from None


def support(found: Mapping[NodeId, Means]) -> Mapping[str, Support]:
    """What works on all of these hosts; of what does not, the first host with its reason."""
    answer: dict[str, Support] = {"membership": Support(False, FIXED_MEMBERS_WHY)}
    for kind, how in _HOW.items():
        problems = {node: problem for node, host in found.items() if (problem := host.problem(kind)) is not None}
        answer[kind] = Support(True, how)
        if problems:
            node, problem = next(iter(problems.items()))
            others = f", and {len(problems) - 1} hosts more" if len(problems) > 1 else ""
            answer[kind] = Support(False, f"the host of {node} cannot{others}: {problem}")
    return answer


class HostFaults:
    """What is wrong with the node on one host, beside its links and its state.

    A node gets a file system of its own, and a clock that can be wrong, only where the test's nemesis needs that.

    Args:
        test: says what its nemesis needs.
        agent: on the host.
        place: where the node lives there.
        folder: of the node, on this machine.
    """

    def __init__(self, test: Test, agent: RemoteAgent, place: NodePlace, folder: Path) -> None:
        self._test = test
        self._agent = agent
        self._place = place
        self._folder = folder
        self._clock: HostClock | None = None
        self._struck = 0

    async def lay_out(self, library: str | None) -> None:
        """Make the file system and the clock.

        Raises:
            BackendError: what the nemesis needs cannot be made there, or not for this system.
        """
        needs = self._test.nemesis.faults
        node, home = self._place.node, self._place.home_dir
        kind = "volume" if any(fault in needs for fault in ON_VOLUMES) else "directory"
        disk = {
            "path": self._place.data_dir,
            "kind": kind,
            "image": f"{home}/disk",
            "aside": self._telemetry(home) if kind == "volume" else {},
        }
        await self._agent.ask("lay_out_disks", disks={node: disk}, private=kind == "volume")
        if any(fault in needs for fault in faultkinds.CLOCK_KINDS):
            if library is None:
                raise FaultNotSupportedError(f"the clock of {node} cannot be faked: {faketime.INSTALL} on its host.")
            self._clock = HostClock(self._agent, library, f"{home}/clock", self._folder / "clock")
            await self._clock.require_reach(self._test.system.command(self._test, self._place).argv[0])

    async def prepare(self, command: NodeCommand) -> Mapping[str, str]:
        """Lay the files of the node, which is about to start; the variables to start it with, beside its own."""
        if command.files:
            files = {name: base64.b64encode(content).decode() for name, content in command.files.items()}
            await self._agent.ask("write_files", name=self._place.node, files=files)
        return {} if self._clock is None else await self._clock.begins()

    async def spoil(
        self, fault: DiskFault | None, status: NodeStatus, kill: Callable[[NodeId], Awaitable[object]]
    ) -> dict[str, Any]:
        """Give the node's disk this fault, or none. A node that holds a failed file system is killed for its heal.

        Raises:
            FaultNotSupportedError: its files can be damaged only while it is stopped.
            BackendError: it did not take effect, or did not end.
        """
        node = self._place.node
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

    async def lose_power(self) -> dict[str, Any]:
        """Lose what the node, which was killed, did not sync; what was lost."""
        return await self._agent.ask("lose_power", name=self._place.node)

    async def skew(self, fault: ClockFault | None) -> dict[str, Any]:
        """Give the node's clock this fault, or none.

        Raises:
            FaultNotSupportedError: the node was started with a true clock.
        """
        if self._clock is not None:
            return await self._clock.skew(fault)
        if fault is not None:
            raise FaultNotSupportedError(
                f"the clock of {self._place.node} cannot be faked: it was started without libfaketime, as this test's "
                "nemesis does not need it."
            )
        return {}

    async def throttle(self, share: float | None) -> dict[str, Any]:
        """Give the node this share of one CPU, or all that it wants; what the limit before did."""
        return await self._agent.ask("throttle", name=self._place.node, share=share)

    async def close(self) -> None:
        """Leave no task and no file here; what the agent made ends with it."""
        if self._clock is not None:
            await self._clock.close()

    def _telemetry(self, home: str) -> dict[str, str]:
        """Where the node's telemetry is kept meanwhile: it is for those who watch, and no fault shall strike it."""
        found = self._test.system.telemetry(self._test, Path(home))
        data = Path(self._place.data_dir)
        if found is None or not found.is_relative_to(data):
            return {}
        return {str(found.relative_to(data)): f"{home}/{found.name}"}
