"""What a node keeps on disk: term and vote, and the log. A promise to others is durable before it is sent.

Two files: `meta` is replaced as a whole and synced before anything else goes on; `log` is appended to at once and
synced by a task of its own, one sync at a time, so that all that was appended during one sync is covered by the next
(group commit). See `splitbrain.cluster.logfile` for the format of the log.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final
from zlib import crc32

import msgspec

from splitbrain.cluster.errors import CorruptStorageError, StorageError, WrongNodeError
from splitbrain.cluster.logfile import HEADER, decode, encode_entries, encode_mark, encode_truncation
from splitbrain.cluster.marks import reached
from splitbrain.cluster.raft import Entry, Recovered
from splitbrain.cluster.raft.events import Written
from splitbrain.cluster.runtime import Disk, File

META: Final = "meta"
LOG: Final = "log"

_META_MAGIC: Final = b"SBMT"
_META_VERSION: Final = 1


class _Meta(msgspec.Struct, frozen=True):
    node: str
    term: int
    voted_for: str | None


class Storage:
    """The files of one node. Open it with `open_storage`."""

    def __init__(self, disk: Disk, node: str, file: File, size: int, last_index: int) -> None:
        self._disk = disk
        self._node = node
        self._file = file
        self._size = size
        self._last_index = last_index
        self._done: Written | None = None
        self._dirty = asyncio.Event()

    async def save_vote(self, term: int, voted_for: str | None) -> None:
        """Make term and vote durable.

        Raises:
            OSError: it is not known what is durable; the node must stop.
        """
        await self._disk.replace(META, _encode_meta(_Meta(self._node, term, voted_for)))

    def append(self, entries: Sequence[Entry], done: Written) -> None:
        """Append entries behind the last one. Once they are durable `sync_log` hands on `done`, or a later one.

        Raises:
            OSError: they could not be written; the node must stop.
        """
        for entry in entries:
            assert entry.index == self._last_index + 1, f"entry {entry.index} appended after {self._last_index}"
            self._last_index = entry.index
        self._write(encode_entries(entries))
        self._done = done
        self._dirty.set()

    def truncate(self, from_index: int) -> None:
        """Void every entry from `from_index` on. Durable once a later append is.

        Raises:
            OSError: it could not be written; the node must stop.
        """
        assert 1 <= from_index <= self._last_index, f"truncation at {from_index} after {self._last_index}"
        self._last_index = from_index - 1
        self._write(encode_truncation(from_index))

    async def sync_log(self, written: Callable[[Written], None]) -> None:
        """For ever: sync what was appended, then hand on the `done` of the last append that the sync covers.

        Raises:
            OSError: it is not known what is durable; the node must stop.
        """
        while True:
            await self._dirty.wait()
            # Before the sync begins: it need not cover what is appended while it runs, which sets the event again.
            self._dirty.clear()
            covered, done = self._size, self._done
            # An error is never followed by another try: the kernel may have dropped the pages, and the next sync would
            # succeed without them (Rebello et al., USENIX ATC 2020).
            await self._file.sync()
            self.mark_durable(covered)
            if done is not None:
                written(done)

    def mark_durable(self, size: int) -> None:
        """Note in the log that its first `size` bytes were synced."""
        # A mark does not ask for a sync: that would ask for the next mark, and so on. The next entries make it durable;
        # if power is lost before that, damage in what it covers looks like a torn tail.
        self._write(encode_mark(self._size, size))

    def close(self) -> None:
        """Close the log without syncing."""
        self._file.close()

    def _write(self, data: bytes) -> None:
        self._file.append(data)
        self._size += len(data)


async def open_storage(disk: Disk, node: str, log: Callable[[str], None]) -> tuple[Storage, Recovered]:
    """Open a node's files, or make them for a new node.

    A torn tail of the log is cut off, with a line in the node's log. Everything returned is durable: what a killed
    process had appended or renamed and not synced is there, and is synced here before it is used.

    Raises:
        CorruptStorageError: something that had been made durable is damaged or gone.
        WrongNodeError: the files belong to another node.
        StorageError: they are of another version.
        OSError: the disk failed.
    """
    try:
        return await _open_storage(disk, node, log)
    except CorruptStorageError:
        reached("corruption refused")
        raise


async def _open_storage(disk: Disk, node: str, log: Callable[[str], None]) -> tuple[Storage, Recovered]:
    meta, content = _decode_meta(disk.read(META)), disk.read(LOG)
    if content is None:
        if meta is not None:
            raise CorruptStorageError(
                f"{LOG}: the log of node {node!r} is gone, but its term and vote are there. "
                f"Replace this node, or restore its data directory."
            )
        # The log is made before the meta: an empty log alone is a start that was interrupted, a meta alone is a loss.
        await disk.replace(LOG, HEADER)
        content = HEADER
    found = decode(content, LOG)
    if meta is None:
        if found.entries:
            raise CorruptStorageError(
                f"{META}: term and vote of node {node!r} are gone, but its log is there. "
                f"Replace this node, or restore its data directory."
            )
        meta = _Meta(node, 0, None)
        await disk.replace(META, _encode_meta(meta))
    if meta.node != node:
        raise WrongNodeError(
            f"the data directory belongs to node {meta.node!r}, not to {node!r}. Give this node a directory of its own."
        )
    file = disk.open(LOG)
    if found.entries:
        reached("recovered with a log")
    if found.torn:
        reached("torn tail cut off")
        log(f"log: cut off {found.torn} bytes of an unfinished write after index {len(found.entries)}")
        # Records that are appended behind torn bytes would never be read.
        file.truncate(found.size)
    await file.sync()
    # The process before may have been killed between a rename and its sync: what was read is in the cache only then.
    await disk.sync_names()
    storage = Storage(disk, node, file, found.size, len(found.entries))
    storage.mark_durable(found.size)
    return storage, Recovered(meta.term, meta.voted_for, found.entries)


def _encode_meta(meta: _Meta) -> bytes:
    body = msgspec.msgpack.encode(meta)
    return _META_MAGIC + _META_VERSION.to_bytes(4, "little") + crc32(body).to_bytes(4, "little") + body


def _decode_meta(content: bytes | None) -> _Meta | None:
    if content is None:
        return None
    body = content[12:]
    if not body or content[:4] != _META_MAGIC or crc32(body) != int.from_bytes(content[8:12], "little"):
        raise CorruptStorageError(
            f"{META}: term and vote are damaged. Replace this node, or restore its data directory."
        )
    version = int.from_bytes(content[4:8], "little")
    if version != _META_VERSION:
        raise StorageError(
            f"{META}: term and vote have format {version}, this node reads {_META_VERSION}. "
            f"Start it with the version that wrote them."
        )
    return msgspec.msgpack.decode(body, type=_Meta)
