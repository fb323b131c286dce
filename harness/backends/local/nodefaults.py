"""Faults of disks, clocks and processors of nodes that run on this machine: which there can be, and what they take."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

from splitbrain.harness.backends.agent import cgroups, volumes
from splitbrain.harness.backends.shared import disks, faketime
from splitbrain.harness.backends.shared.channel import Asked
from splitbrain.harness.backends.shared.faketime import FakeClock, Measured, NodeClock
from splitbrain.harness.backends.shared.ownership import this_controller
from splitbrain.harness.contract import faultkinds
from splitbrain.harness.contract.faults import FaultKind, Support
from splitbrain.harness.contract.nodes import NodeId, NodePlace
from splitbrain.harness.contract.test import Test
from splitbrain.results.errors import BackendError


def support(links: str) -> dict[FaultKind, Support]:
    """What works here of disks, power, clocks and processors, where links are carried like this."""
    without_volumes, without_groups = volumes.problem(), cgroups.problem()
    answer = disks.support(without_volumes and f"{without_volumes}: run this as root")
    if without_volumes is not None and links == "namespaces":
        answer["disk-full"] = Support(True, "a file system in memory, whose limits are lowered to what is used")
    works = faketime.find_library() is not None
    how = "libfaketime; the wall clock only" if works else faketime.INSTALL
    answer |= dict.fromkeys(faultkinds.CLOCK_KINDS, Support(works, how))
    how = f"{without_groups}: run this as root" if without_groups else "a quota of the node's control group"
    answer["cpu"] = Support(without_groups is None, how)
    return answer


async def lay_out_disks(test: Test, agent: Asked, folders: Mapping[NodeId, Path], links: str) -> None:
    """Make the file systems that the test's nemesis needs, below each node's folder.

    Raises:
        BackendError: they cannot be made here.
    """
    kind = _kind_of_disks(disks.needing_volumes(test), links)
    image = f"{this_controller().marker}.disk"
    requests = {node: disks.request(test, kind, folder, image, aside=folder) for node, folder in folders.items()}
    await agent.ask("lay_out_disks", disks=requests, private=kind == "volume" and links != "namespaces")


def make_clocks(
    test: Test, places: Mapping[NodeId, NodePlace], folders: Mapping[NodeId, Path]
) -> dict[NodeId, NodeClock]:
    """Make a clock for each node, if the test's nemesis needs them.

    Raises:
        FaultNotSupportedError: libfaketime does not reach the system's program.
        BackendError: libfaketime is not installed.
    """
    if not faketime.needed(test):
        return {}
    library = faketime.find_library()
    if library is None:
        raise BackendError(f"clocks cannot be faked: {faketime.INSTALL}.")
    for place in places.values():
        faketime.require_reach(test.system.command(test, place).argv[0])
    return {node: _clock(folder / "clock", library) for node, folder in folders.items()}


def _clock(file: Path, library: str) -> NodeClock:
    async def measured(clock: FakeClock) -> Measured:
        return await asyncio.to_thread(faketime.measure, clock, library, str(file))

    return NodeClock(file, faketime.environment(library, str(file)), measured)


def _kind_of_disks(needed: list[FaultKind], links: str) -> str:
    if not needed:
        return "directory"
    problem = volumes.problem()
    if problem is None:
        return "volume"
    if needed == ["disk-full"] and links == "namespaces":
        return "memory"
    raise BackendError(f"nodes cannot have file systems of their own, for {', '.join(needed)}: {problem}.")
