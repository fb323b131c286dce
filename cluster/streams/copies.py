"""The copies of streams in a node's directory.

    stream-NUMBER.meta      what the copy has promised (`splitbrain.cluster.streams.member.Meta`)
    stream-NUMBER.log       its chunks (`splitbrain.cluster.streams.chunks`)

A copy of a member that the node was before (RA-33) is removed, and read by none.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import msgspec

from splitbrain.cluster.errors import CorruptStorageError
from splitbrain.cluster.runtime import Disk, File
from splitbrain.cluster.streams.chunks import Chunk, chunks_in
from splitbrain.cluster.streams.member import Meta

_META: Final = re.compile(r"stream-([0-9]+)\.meta")
_ANY: Final = re.compile(r"stream-[0-9]+\.(meta|log)")


class CopyFiles:
    """The files of one copy.

    Args:
        disk: of the node.
        stream: its number.
    """

    def __init__(self, disk: Disk, stream: int) -> None:
        self._disk = disk
        self._meta = f"stream-{stream}.meta"
        self._log = f"stream-{stream}.log"
        self._file: File | None = None

    async def create(self, meta: Meta) -> None:
        """Begin them.

        Raises:
            OSError: it is not known what is durable; the node must stop. So with all methods.
        """
        self._file = self._disk.open(self._log)
        self._file.truncate(0)
        await self._file.sync()
        await self._disk.sync_names()
        await self.persist(meta)

    async def read(self) -> Sequence[Chunk]:
        """The chunks, durable from now on; the rest of an unfinished write is cut off.

        Raises:
            CorruptStorageError: the log is damaged.
            OSError: as above.
        """
        content = self._disk.read(self._log) or b""
        chunks, size = chunks_in(self._log, content)
        self._file = self._disk.open(self._log)
        if size < len(content):
            self._file.truncate(size)
        await self._file.sync()  # the process before may have been killed between a write and its sync
        return chunks

    async def persist(self, meta: Meta) -> None:
        """Make the promises durable."""
        await self._disk.replace(self._meta, msgspec.msgpack.encode(meta))

    async def append(self, records: Sequence[bytes]) -> None:
        """Append records, durably."""
        assert self._file is not None, "they are open"
        self._file.append(b"".join(records))
        await self._file.sync()

    async def truncate(self, size: int) -> None:
        """Cut the log, durably."""
        assert self._file is not None, "they are open"
        self._file.truncate(size)
        await self._file.sync()

    async def replace(self, content: bytes) -> None:
        """Write the log anew, at once and durably."""
        assert self._file is not None, "they are open"
        self._file.close()
        await self._disk.replace(self._log, content)
        self._file = self._disk.open(self._log)

    async def remove(self) -> None:
        """Remove them; the promises last, as a log without them is none."""
        if self._file is not None:
            self._file.close()
        there = self._disk.names()
        for name in (self._log, self._meta):
            if name in there:
                self._disk.remove(name)
        await self._disk.sync_names()


async def found_copies(disk: Disk, member: str) -> list[tuple[Meta, Sequence[Chunk], CopyFiles]]:
    """The copies of a member in a node's directory; what is there of others is removed.

    Raises:
        CorruptStorageError: a file is damaged.
        OSError: the disk failed.
    """
    found: list[tuple[Meta, Sequence[Chunk], CopyFiles]] = []
    kept: set[int] = set()
    for name in disk.names():
        match = _META.fullmatch(name)
        meta = None if match is None else _meta_of(name, disk.read(name) or b"")
        if meta is not None and meta.member == member:
            files = CopyFiles(disk, meta.stream)
            found.append((meta, await files.read(), files))
            kept.add(meta.stream)
    if found:
        await disk.sync_names()  # likewise between a rename and its sync
    rest = [name for name in disk.names() if _ANY.fullmatch(name) and int(name[7 : name.index(".")]) not in kept]
    for name in rest:
        disk.remove(name)
    if rest:
        await disk.sync_names()
    return found


def _meta_of(name: str, content: bytes) -> Meta:
    try:
        return msgspec.msgpack.decode(content, type=Meta)
    except msgspec.MsgspecError as error:
        raise CorruptStorageError(f"{name} is damaged: {error}.") from error
