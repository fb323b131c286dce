"""Faults of nodes beside those of links: disks, the share of the processor, and which programs see a wrong clock."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

from . import syscalls
from .cgroups import CpuGroups
from .disks import Disk, run_all
from .freezer import Freezer
from .programs import has_loaded_library
from .refusals import Refusals
from .tools import AgentError


class NodeFaults:
    """What is wrong with each node.

    Args:
        owner: marks what is made outside the agent's own namespaces (`ownership`).
        members: the pids of a node's processes.
        freezer: for slow disks, where there can be any.
    """

    def __init__(self, owner: str, members: Callable[[str], Iterable[int]], freezer: Freezer | None) -> None:
        self._owner = f"{owner}.{os.urandom(4).hex()}"  # one controller may have many agents
        self._members = members
        self._freezer = freezer
        self._disks: dict[str, Disk] = {}
        self._refusals: dict[str, Refusals] = {}
        self._groups: CpuGroups | None = None

    def handlers(self) -> dict[str, Callable[..., Awaitable[Any]]]:
        """What can be asked of it, by name."""
        return {
            "lay_out_disks": self._lay_out_disks,
            "write_files": self._write_files,
            "heals_stopped": self._heals_stopped,
            "spoil": self._spoil,
            "lose_power": self._lose_power,
            "throttle": self._throttle,
            "clock_reaches": self._clock_reaches,
        }

    def enter(self, node: str) -> None:
        """Put this process, which is about to become the node, under the limit of the node."""
        if self._groups is not None:
            self._groups.join(node, [os.getpid()])

    def close(self) -> None:
        """Leave every node's data in a plain directory, and no control group. The nodes must have ended.

        Raises:
            AgentError: some of it could not be done.
        """
        disks, self._disks = self._disks, {}
        groups, self._groups = self._groups, None
        try:
            run_all(disks, Disk.close)
        finally:
            if groups is not None:
                groups.close()

    async def _lay_out_disks(self, disks: Mapping[str, Mapping[str, Any]], private: bool) -> None:
        """Make a `Disk` for every node, of the arguments that it takes; where `private`, in mounts of its own."""
        if private:
            try:
                syscalls.keep_mounts_private()
            except OSError as error:
                raise AgentError(f"the kernel refuses mounts of an agent's own: {error.strerror}") from None
        for node, arguments in disks.items():
            self._disks[node] = Disk(**arguments, freezer=self._freezer)

    async def _write_files(self, name: str, files: Mapping[str, str]) -> None:
        self._disks[name].write_files(files)

    async def _heals_stopped(self, name: str) -> bool:
        return self._disks[name].heals_stopped

    async def _spoil(
        self, name: str, fault: Mapping[str, Any] | None, seed: int, life: int, pid: int | None, halted: bool
    ) -> dict[str, Any]:
        """As a `Disk` does it. `Refusals` has the rest: what there is of the node now, and what the fault did to it."""
        begins = Refusals(fault, pid, life) if fault is not None and Refusals.can_come(fault) else None
        try:
            found = await self._disks[name].spoil(fault, seed)
        except BaseException:
            if begins is not None:
                begins.close()
            raise
        ends = self._refusals.pop(name, None)
        if begins is not None:
            self._refusals[name] = begins
        if ends is None:
            return found
        try:
            return {**found, **ends.evidence(life, halted)}
        finally:
            ends.close()

    async def _lose_power(self, name: str) -> dict[str, int]:
        return await self._disks[name].lose_power()

    async def _throttle(self, name: str, share: float | None) -> dict[str, int]:
        if self._groups is None:
            if share is None:
                return {}
            self._groups = CpuGroups(self._owner)
        return self._groups.throttle(name, self._members(name), share)

    async def _clock_reaches(self, pid: int) -> bool:
        return has_loaded_library(pid)
