"""The disks of the nodes of an agent: which file system each node's data are on, and what is wrong with it now."""

from __future__ import annotations

import asyncio
import base64
import os
from collections.abc import Callable, Mapping
from pathlib import PurePosixPath
from typing import Any, Literal

from . import damage
from .freezer import Freezer
from .memory import MemoryVolume
from .tools import AgentError
from .volumes import Volume

Kind = Literal["volume", "memory", "directory"]
"""A file system of the node's own, from a file or in memory; or just a directory, whose files can be damaged."""

_AT_REST = ("rot", "truncate", "wipe")


class Disk:
    """The disk of one node.

    Args:
        path: the node's data directory.
        kind: what it shall be on.
        image: the file that holds the file system, for a volume.
        aside: files of the data directory that no fault may hit, by name, and their other places (not in a directory).
        freezer: for slow disks.
    """

    def __init__(
        self,
        path: str,
        kind: Kind,
        image: str = "",
        aside: Mapping[str, str] | None = None,
        freezer: Freezer | None = None,
    ) -> None:
        self.path = path
        self._spared = tuple(aside or ())
        self._volume: Volume | MemoryVolume | None = None
        self._rot: damage.Rot | None = None
        self._busy = asyncio.Lock()
        if kind == "volume":
            self._volume = Volume(path, image, freezer, aside=aside)
        elif kind == "memory":
            self._volume = MemoryVolume(path, aside)
        if self._volume is not None:
            self._volume.mount()

    @property
    def heals_stopped(self) -> bool:
        """Whether what is wrong now can be healed only while the node is stopped."""
        return self._volume is not None and self._volume.heals_stopped

    async def spoil(self, fault: Mapping[str, Any] | None, seed: int) -> dict[str, Any]:
        """Give the disk a fault (fields of a DiskFault) instead of the one that it has, or none.

        Args:
            fault: for "rot", "truncate" and "wipe" the node must be stopped.
            seed: draws what is damaged.

        Returns:
            What the fault that ends did, and what the new one found: see `volumes.Volume`; "rotten", "truncated" and
            "wiped" (files) of `damage`; "mended", how many flipped bits were flipped back.

        Raises:
            AgentError: it cannot be done on this kind of disk, or did not take effect.
        """
        async with self._busy:
            return await asyncio.to_thread(self._spoil, dict(fault or {}), seed)

    async def lose_power(self) -> dict[str, int]:
        """Lose what was not synced; the node must be stopped. What was lost: see `volumes.Volume`.

        Raises:
            AgentError: this kind of disk cannot.
        """
        volume = self._volume
        if volume is None:
            raise AgentError("a directory cannot lose only what was not synced")
        async with self._busy:
            return await asyncio.to_thread(volume.lose_power)

    def write_files(self, files: Mapping[str, str]) -> None:
        """Lay files into the data directory, by name, each in base64.

        Raises:
            AgentError: one would lie elsewhere.
        """
        for name, encoded in files.items():
            if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts:
                raise AgentError(f"a node's file must lie in its data directory, not at {name!r}")
            path = os.path.join(self.path, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as file:
                file.write(base64.b64decode(encoded))
                file.flush()
                os.fsync(file.fileno())  # what is lost with the power shall be the node's own

    def close(self) -> None:
        """Leave the data in a plain directory. No process may have a file open there."""
        if self._volume is not None:
            self._volume.unmount()

    def _spoil(self, fault: dict[str, Any], seed: int) -> dict[str, Any]:
        did = self._heal()
        at_rest = {name: fault.pop(name) for name in _AT_REST if fault.get(name)}
        in_force = {name: value for name, value in fault.items() if value and name not in _AT_REST}
        if in_force:
            if self._volume is None:
                raise AgentError(f"a directory cannot be made to fail ({', '.join(in_force)})")
            did |= self._volume.spoil(in_force)
        if "rot" in at_rest:
            self._rot = damage.Rot(self.path, at_rest["rot"], seed, self._spared)
            did["rotten"] = self._rot.places
        if "truncate" in at_rest:
            did["truncated"] = damage.truncate(self.path, at_rest["truncate"], seed, self._spared)
        if "wipe" in at_rest:
            did["wiped"] = damage.wipe(self.path, self._spared)
        return did

    def _heal(self) -> dict[str, Any]:
        did = {} if self._volume is None else self._volume.heal()
        if self._rot is not None:
            did["mended"] = self._rot.heal()
            self._rot = None
        return did


def run_all(disks: Mapping[str, Disk], what: Callable[[Disk], object]) -> None:
    """Do something with every disk, also after one failed.

    Raises:
        AgentError: what went wrong with all of them.
    """
    problems: list[str] = []
    for name, disk in disks.items():
        try:
            what(disk)
        except (AgentError, OSError) as error:
            problems.append(f"{name}: {error}")
    if problems:
        raise AgentError("; ".join(problems))
