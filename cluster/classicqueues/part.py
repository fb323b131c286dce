"""A part of a node's directory, as a directory of its own: the files whose names begin in one way."""

from __future__ import annotations

from splitbrain.cluster.runtime import Disk, File


class Part:
    """A `splitbrain.cluster.runtime.Disk`.

    Args:
        disk: the whole directory.
        prefix: of the names of the files of this part.
    """

    def __init__(self, disk: Disk, prefix: str) -> None:
        self._disk = disk
        self._prefix = prefix

    def names(self) -> list[str]:
        """Names without the prefix, sorted."""
        begins = len(self._prefix)
        return [name[begins:] for name in self._disk.names() if name.startswith(self._prefix)]

    def has(self, name: str) -> bool:
        """Whether there is a file of that name."""
        return self._disk.has(self._prefix + name)

    def read(self, name: str) -> bytes | None:
        """The content of a file, None if there is none."""
        return self._disk.read(self._prefix + name)

    def open(self, name: str) -> File:
        """Open for appending."""
        return self._disk.open(self._prefix + name)

    async def replace(self, name: str, data: bytes) -> None:
        """Give a file a new content, atomically and durably."""
        await self._disk.replace(self._prefix + name, data)

    def rename(self, source: str, target: str) -> None:
        """Name a file otherwise."""
        self._disk.rename(self._prefix + source, self._prefix + target)

    def remove(self, name: str) -> None:
        """Remove a file."""
        self._disk.remove(self._prefix + name)

    async def sync_names(self) -> None:
        """Make creations, renames and removals durable."""
        await self._disk.sync_names()
