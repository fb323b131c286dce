"""What a backend of real processes cannot do to its nodes so far: such a fault is refused, never quietly left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from harness.protocols import ClockFault, DiskFault, FaultKind, Link, LinkFault, NodeId, NodeStatus
from results.errors import FaultNotSupportedError

SIMULATED_ONLY: Final[Sequence[FaultKind]] = ("power", "packet", "disk", "clock")
SIMULATED_ONLY_WHY: Final = "only the simulation can do that so far: use --backend sim."


class OnlyCutsKillsAndPauses:
    """A part of a deployment that can cut links, and kill and pause nodes, and nothing else."""

    async def power_off(self, node: NodeId) -> NodeStatus:
        """Not possible here.

        Raises:
            FaultNotSupportedError: always.
        """
        raise _refusal("power")

    async def disturb(self, faults: Mapping[Link, LinkFault]) -> None:
        """Not possible here, except for no fault at all.

        Raises:
            FaultNotSupportedError: a link shall have a fault.
        """
        if faults:
            raise _refusal("packet")

    async def disturbed(self) -> Mapping[Link, Mapping[str, int]]:
        """No link has a fault."""
        return {}

    async def spoil(self, node: NodeId, fault: DiskFault | None) -> Mapping[str, Any]:
        """Not possible here, except for no fault at all.

        Raises:
            FaultNotSupportedError: the disk shall have a fault.
        """
        if fault is not None:
            raise _refusal("disk")
        return {}

    async def skew(self, node: NodeId, fault: ClockFault | None) -> Mapping[str, Any]:
        """Not possible here, except for no fault at all.

        Raises:
            FaultNotSupportedError: the clock shall have a fault.
        """
        if fault is not None:
            raise _refusal("clock")
        return {}


def _refusal(kind: FaultKind) -> FaultNotSupportedError:
    return FaultNotSupportedError(f"this backend cannot do what nemeses need for {kind!r}: {SIMULATED_ONLY_WHY}")
