"""What a backend of real processes cannot do to its nodes so far: such a fault is refused, never quietly left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from splitbrain.harness.contract import faultkinds
from splitbrain.harness.contract.faults import ClockFault, DiskFault, FaultKind, LinkFault
from splitbrain.harness.contract.nodes import ClockOffset, Link, NodeId, NodeStatus
from splitbrain.results.errors import FaultNotSupportedError

SIMULATED_ONLY: Final[tuple[FaultKind, ...]] = (
    *faultkinds.LINK_KINDS,
    "cpu",
    *faultkinds.DISK_KINDS,
    "power",
    *faultkinds.CLOCK_KINDS,
)
SIMULATED_ONLY_WHY: Final = "this backend cannot do that so far: use --backend sim where that can."

MEMBERSHIP_HOW: Final = "the system takes the member off its list, its node is killed and its data directory emptied"
"""How backends of real processes do "membership", with systems whose members can leave and join."""


class OnlyCutsKillsAndPauses:
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
