"""The write-ahead log of a node, which all its groups share.

Changes are collected while the disk syncs, then written and synced together: one sync for all that came during the one
before it (group commit). A file that has grown too long is replaced by the next one. What is committed goes into
segments first, and the new file begins with the rest, so that the old one is not needed any more.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, Protocol

from splitbrain.cluster.bugs import M43, M44, NO_BUGS, Bugs
from splitbrain.cluster.log import walfile
from splitbrain.cluster.log.damage import corrupt
from splitbrain.cluster.log.seen import Seen
from splitbrain.cluster.log.walfile import Change, Logged
from splitbrain.cluster.marks import reached
from splitbrain.cluster.raft.events import Written
from splitbrain.cluster.raft.messages import Entry
from splitbrain.cluster.runtime import Disk, File

PREFIX: Final = "wal-"

MAX_BYTES: Final = 32 * 1024 * 1024
"""A file that has grown longer is replaced. (Ra: 256 MB; a node here reads the whole file when it starts.)"""
WORTH_BYTES: Final = 256 * 1024
"""A file that is no longer is not replaced because of a snapshot."""

_NAME: Final = re.compile(PREFIX + "[0-9a-f]{16}")


class Owner(Protocol):
    """What the write-ahead log asks of those whose changes it holds."""

    async def retire(self) -> None:
        """Move what is committed, and durable in the present file, to where it stays.

        Raises:
            OSError: it is not known what is durable; the node must stop.
        """
        ...

    def remaining(self) -> Mapping[int, Iterable[Change]]:
        """By uid of the group, the changes that a node still needs that finds all that was retired."""
        ...


class Wal:
    """The write-ahead log of a node. Open it with `open_wal`.

    Attributes:
        waiting_bytes: what was appended and is not written yet; to be read only.
    """

    def __init__(self, disk: Disk, number: int, file: File, size: int, bugs: Bugs = NO_BUGS) -> None:
        self._disk = disk
        self._number = number
        self._file = file
        self._size = size
        self._bugs = bugs
        self._first_size = 0
        self._waiting: list[bytes] = []
        self.waiting_bytes = 0
        self._done: dict[int, Written] = {}
        self._is_dirty = False
        self._idle: asyncio.Future[None] | None = None  # while there is nothing to sync
        self._is_ripe = False
        self._worth_bytes = WORTH_BYTES

    def append(self, uid: int, entries: Sequence[Entry], done: Written) -> None:
        """Append entries of a group. Once they are durable `sync` hands on `done`, or a later one of the group."""
        self._wait(walfile.encode_entries(uid, entries))
        self._done[uid] = done
        self._wake()

    def change(self, uid: int, change: Change) -> None:
        """Change the log of a group. Durable once a later append to any group is."""
        self._wait(walfile.encode_changes(uid, (change,)))

    def shorten(self) -> None:
        """Roll over soon, if it is worth it: what a node reads when it starts has just become less."""
        if self._size > self._worth_bytes:
            self._is_ripe = True
            self._wake()

    async def sync(self, written: Callable[[int, Written], None], owner: Owner, max_bytes: int = MAX_BYTES) -> None:
        """For ever: write and sync what came, then hand on the last `done` of each group; roll over when it is time.

        Raises:
            OSError: it is not known what is durable; the node must stop.
        """
        self._worth_bytes = min(WORTH_BYTES, max_bytes)
        loop = asyncio.get_running_loop()
        while True:
            if not self._is_dirty:
                self._idle = loop.create_future()
                await self._idle
            self._is_dirty = False
            data, done = self._take_waiting()
            self._write(data)
            # An error is never followed by another try: the kernel may have dropped the pages, and the next sync would
            # succeed without them (Rebello et al., USENIX ATC 2020).
            await self._file.sync()
            # A mark does not ask for a sync: that would ask for the next mark, and so on. The next changes make it
            # durable; if power is lost before that, damage in what it covers looks like a torn tail.
            self._write(walfile.encode_mark(self._size, self._size))
            _hand_on(done, written)
            # If much is never committed, a new file is as long as the old one: it may grow, too.
            if self._is_ripe or self._size > max(max_bytes, 2 * self._first_size):
                self._is_ripe = False
                _hand_on(await self._roll_over(owner), written)

    def close(self) -> None:
        """Close the file without syncing it."""
        self._file.close()

    async def _roll_over(self, owner: Owner) -> dict[int, Written]:
        await owner.retire()
        # What waits to be written is in what remains. Changes that come from here on are written behind it.
        content = _first_content(self._number + 1, owner.remaining())
        done = self._take_waiting()[1]
        former, self._number = self._number, self._number + 1
        if M44 in self._bugs:
            self._disk.remove(name_of(former))
        await self._disk.replace(name_of(self._number), content)
        self._file.close()
        # If the power is lost now, the former file may be there again: the highest number counts.
        self._disk.remove(name_of(former))
        self._file = self._disk.open(name_of(self._number))
        self._size = self._first_size = len(content)
        # Before anything in the new file is acknowledged that the former one lacks: were it there and the new one gone,
        # nobody could tell.
        await self._disk.sync_names()
        reached("write-ahead log rolled over")
        return done

    def _wake(self) -> None:
        self._is_dirty = True
        if self._idle is not None and not self._idle.done():
            self._idle.set_result(None)

    def _take_waiting(self) -> tuple[bytes, dict[int, Written]]:
        waiting, self._waiting, self.waiting_bytes = self._waiting, [], 0
        done, self._done = self._done, {}
        return b"".join(waiting), done

    def _wait(self, data: bytes) -> None:
        self._waiting.append(data)
        self.waiting_bytes += len(data)

    def _write(self, data: bytes) -> None:
        self._file.append(data)
        self._size += len(data)


def _hand_on(done: Mapping[int, Written], written: Callable[[int, Written], None]) -> None:
    for uid, last in done.items():
        written(uid, last)


async def create_wal(disk: Disk) -> None:
    """Make the first file, durably, for a new node."""
    await disk.replace(name_of(1), _first_content(1, {}))


def was_used(disk: Disk, name: str) -> bool:
    """Whether a node has begun to work with a file: it is not the first one of a start that was interrupted.

    Raises:
        StorageError: it is damaged, or of another version.
    """
    if not name.startswith(PREFIX):
        return False
    return name != name_of(1) or bool(walfile.decode(disk.read(name) or b"", name, 1).changes)


async def open_wal(
    disk: Disk, names: Iterable[str], log: Callable[[str], None], bugs: Bugs = NO_BUGS, seen: Seen | None = None
) -> tuple[Wal, str, list[Logged]] | None:
    """Open the write-ahead log of a node: it, the name of its file, and what that says; None if there is none.

    A torn tail is cut off, with a line in the node's log. Everything returned is durable: what a killed process had
    appended and not synced is there, and is synced here before it is used.

    Args:
        disk: of the node.
        names: of all its files.
        log: takes a line about what was cut off.
        bugs: what is broken on purpose.
        seen: where the file, or its beginning, may have been read before.

    Raises:
        CorruptStorageError: something that had been made durable is damaged.
        StorageError: the file is of another version.
        OSError: the disk failed.
    """
    numbers = {number_of(name): name for name in names if name.startswith(PREFIX)}
    if not numbers:
        return None
    number = max(numbers)
    name = numbers.pop(number)
    for former in numbers.values():
        reached("former write-ahead file removed")
        disk.remove(former)
    content = disk.read(name)
    assert content is not None, f"{name} was listed and is not there"
    if seen is None or M43 in bugs:  # that one reads on behind damage
        found = walfile.decode(content, name, number, bugs)
    else:
        found = walfile.decode(content, name, number, bugs, seen.of(name, content))
        seen.note(name, content, found)
    file = disk.open(name)
    if found.torn:
        reached("torn tail cut off")
        log(f"{name}: cut off {found.torn} bytes of an unfinished write at byte {found.size}")
        # Records that are appended behind torn bytes would never be read.
        file.truncate(found.size)
    await file.sync()
    # The process before may have been killed between a rename and its sync: what was read is in the cache only then.
    await disk.sync_names()
    mark = walfile.encode_mark(found.size, found.size)
    file.append(mark)
    return Wal(disk, number, file, found.size + len(mark), bugs), name, found.changes


def _first_content(number: int, remaining: Mapping[int, Iterable[Change]]) -> bytes:
    records = [walfile.encode_changes(uid, changes) for uid, changes in remaining.items()]
    content = walfile.encode_header(number) + b"".join(records)
    # The whole of it is durable under its name, or there is no such name.
    return content + walfile.encode_mark(len(content), len(content))


def name_of(number: int) -> str:
    """The name of the file of that number."""
    return f"{PREFIX}{number:016x}"


def number_of(name: str) -> int:
    """The number of a file, by its name.

    Raises:
        CorruptStorageError: the write-ahead log gives no file such a name.
    """
    if _NAME.fullmatch(name) is None:
        raise corrupt(name, 0, "the write-ahead log gives no file such a name")
    return int(name.removeprefix(PREFIX), 16)
