"""What is wrong with one node beside its links and its state: its disk, its power, its clock.

`OnlyCutsKillsAndPauses` is the part of a deployment that can do none of that.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from splitbrain.harness.backends.shared.channel import Asked
from splitbrain.harness.backends.shared.disks import ON_VOLUMES
from splitbrain.harness.backends.shared.faketime import NodeClock
from splitbrain.harness.backends.shared.links import SEEDS
from splitbrain.harness.contract import faultkinds
from splitbrain.harness.contract.faults import ClientFault, ClockFault, DiskFault, FaultKind, LinkFault, Support
from splitbrain.harness.contract.nodes import ClockOffset, Link, NodeCommand, NodeId, NodeStatus
from splitbrain.harness.contract.rng import Streams
from splitbrain.results.errors import BackendError, FaultNotSupportedError


class NodeFaults:
    """The disk and the clock of one node. One thing is done to them at a time.

    Args:
        node: its name.
        agent: has its disk.
        status: asks for the state of its process.
        kill: ends its process with SIGKILL.
        streams: draw what is damaged.
        clock: None if the node runs with a true one.
        changing: held meanwhile; one of its own without it.
    """

    def __init__(
        self,
        node: NodeId,
        agent: Asked,
        status: Callable[[], Awaitable[NodeStatus]],
        kill: Callable[[], Awaitable[NodeStatus]],
        streams: Streams,
        clock: NodeClock | None = None,
        changing: asyncio.Lock | None = None,
    ) -> None:
        self._node = node
        self._agent = agent
        self._status = status
        self._kill = kill
        self._seeds = streams[f"disks/{node}"]
        self._clock = clock
        self._changing = changing or asyncio.Lock()

    async def prepare(self, command: NodeCommand) -> Mapping[str, str]:
        """Lay the files of the node, which is about to start; the variables to start it with, beside its own.

        Raises:
            BackendError: they cannot be written.
        """
        if command.files:
            files = {name: base64.b64encode(content).decode() for name, content in command.files.items()}
            await self._agent.ask("write_files", name=self._node, files=files)
        return {} if self._clock is None else await self._clock.begins()

    async def spoil(self, fault: DiskFault | None) -> dict[str, Any]:
        """Give the disk this fault, or none. A node that holds a failed file system is killed for its heal.

        The effects of the previous fault on the node are in the evidence, if they were counted: "failed_calls", system
        calls that it refused, or "uncounted", the reason why they were not counted; "halted", if the node ended by
        itself; "slowed_syncs".

        Raises:
            FaultNotSupportedError: it can be done only to the disk of a stopped node.
            BackendError: the disk cannot do that, it did not take effect, or did not end.
        """
        async with self._changing:
            killed: dict[str, Any] = {}
            status = await self._status()
            if status.state != "stopped":
                if fault is not None and any(kind not in ON_VOLUMES for kind in faultkinds.of_disk(fault)):
                    raise FaultNotSupportedError(
                        f"the files of {self._node} can be damaged only while it is stopped: kill it first."
                    )
                if await self._agent.ask("heals_stopped", name=self._node):
                    await self._kill()
                    killed["killed"] = True
            seed = self._seeds.below(SEEDS)
            request = None if fault is None else msgspec.to_builtins(fault)
            node = {
                "life": status.life,
                "pid": status.evidence.get("pid"),
                "halted": bool(status.evidence.get("by_itself")),
            }
            return {**await self._agent.ask("spoil", name=self._node, fault=request, seed=seed, **node), **killed}

    async def power_off(self) -> NodeStatus:
        """End the node with SIGKILL, and lose what it did not sync.

        The evidence has "bytes_lost" and "names_lost": compared with what it had written.

        Raises:
            BackendError: the disk cannot do that.
        """
        async with self._changing:
            status = await self._kill()
            lost: dict[str, Any] = await self._agent.ask("lose_power", name=self._node)
            return msgspec.structs.replace(status, evidence={**status.evidence, **lost})

    async def skew(self, fault: ClockFault | None) -> dict[str, Any]:
        """Give the clock this fault, or none; what it showed "before" and shows "after".

        That is what a probe sees which runs like the node. The process "reached" is the node's own: it runs with the
        library that reads this clock. A node that is stopped finds the fault when it is started.

        Raises:
            FaultNotSupportedError: the node was started with a true clock.
            BackendError: the clock could not be measured, or the node's own process does not read it.
        """
        if self._clock is not None:
            async with self._changing:
                reached = {} if fault is None else await self._reached()
                return {**await self._clock.skew(fault), **reached}
        if fault is not None:
            raise FaultNotSupportedError(
                f"the clock of {self._node} cannot be faked: it was started without libfaketime, as the test's nemesis "
                "does not need it."
            )
        return {}

    async def _reached(self) -> dict[str, Any]:
        status = await self._status()
        if status.state == "stopped":
            return {}
        pid = status.evidence.get("pid")
        if not await self._agent.ask("clock_reaches", pid=pid):
            raise BackendError(
                f"the clock of {self._node} cannot be made wrong: its process {pid} runs without libfaketime, which "
                "something took from its environment (LD_PRELOAD). Start it as it is, or leave clocks out of --nemesis."
            )
        return {"reached": pid}

    async def close(self) -> None:
        """Leave no task and no file here; what the agent made ends with it."""
        if self._clock is not None:
            await self._clock.close()


# --- what a simpler backend leaves out --------------------------------------------------------------------------------

SIMULATED_ONLY: Final[tuple[FaultKind, ...]] = (
    *faultkinds.LINK_KINDS,
    "client-links",
    "cpu",
    *faultkinds.DISK_KINDS,
    "power",
    *faultkinds.CLOCK_KINDS,
)
SIMULATED_ONLY_WHY: Final = "this backend cannot do that so far: use --backend sim where that can."

CLIENT_LINKS: Final = Support(
    False, "clients of real nodes reach them outside of the links that can be cut: use --backend sim."
)
"""What backends of real processes say of faults on links between clients and nodes."""

MEMBERSHIP_HOW: Final = "the system takes the member off its list, its node is killed and its data directory emptied"
"""How backends of real processes do "membership", with systems whose members can leave and join."""

MOMENT_WHY: Final = "marks that nodes pass are heard here on no backend but sim and local: use one of them."
"""Why backends of real processes cannot do "moment"."""


class ClientLinksStayWhole:
    """A part of a deployment whose clients reach nodes over no link that it controls."""

    async def disturb_clients(self, faults: Mapping[NodeId, ClientFault]) -> Mapping[NodeId, Mapping[str, int]]:
        """Not possible here, except for no fault at all.

        Raises:
            FaultNotSupportedError: a link shall have a fault.
        """
        if faults:
            raise _refusal(["client-links"])
        return {}


class OnlyCutsKillsAndPauses(ClientLinksStayWhole):
    """A part of a deployment that can cut links, and kill and pause nodes, and nothing else."""

    async def power_off(self, node: NodeId) -> NodeStatus:
        """Not possible here.

        Raises:
            FaultNotSupportedError: always.
        """
        raise _refusal(["power"])

    async def disturb(self, faults: Mapping[Link, LinkFault]) -> None:
        """Not possible here, except for no fault at all.

        Raises:
            FaultNotSupportedError: a link shall have a fault.
        """
        if faults:
            raise _refusal([kind for fault in faults.values() for kind in faultkinds.of_link(fault)])

    async def disturbed(self) -> Mapping[Link, Mapping[str, int]]:
        """No link has a fault."""
        return {}

    async def spoil(self, node: NodeId, fault: DiskFault | None) -> Mapping[str, Any]:
        """Not possible here, except for no fault at all.

        Raises:
            FaultNotSupportedError: the disk shall have a fault.
        """
        if fault is not None:
            raise _refusal(faultkinds.of_disk(fault))
        return {}

    async def skew(self, node: NodeId, fault: ClockFault | None) -> Mapping[str, Any]:
        """Not possible here, except for no fault at all.

        Raises:
            FaultNotSupportedError: the clock shall have a fault.
        """
        if fault is not None:
            raise _refusal(faultkinds.of_clock(fault))
        return {}

    async def throttle(self, node: NodeId, share: float | None) -> Mapping[str, Any]:
        """Not possible here, except for no limit at all.

        Raises:
            FaultNotSupportedError: the node shall have a limit.
        """
        if share is not None:
            raise _refusal(["cpu"])
        return {}

    async def offsets(self) -> Mapping[NodeId, ClockOffset]:
        """Nothing is known of the nodes' clocks."""
        return {}


def _refusal(kinds: Sequence[FaultKind]) -> FaultNotSupportedError:
    named = ", ".join(repr(kind) for kind in dict.fromkeys(kinds)) or "a fault"
    return FaultNotSupportedError(f"this backend cannot inject {named}: use --backend sim where that can.")
