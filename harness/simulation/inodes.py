"""What is on a simulated disk: files and their names, as the node sees them and as a loss of power would leave them.

Files are append-only, so an older content of a file is a beginning that it shares with the present one, and a tail that
was cut off since: a sync costs no more than remembering a length, and a file takes up the memory of its content once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from splitbrain.harness.contract.rng import Rng


class Version:
    """A content that a file had: the first `shared` bytes of what it holds now, then `tail`."""

    __slots__ = ("shared", "tail")

    def __init__(self, shared: int) -> None:
        self.shared = shared
        self.tail = b""

    @property
    def size(self) -> int:
        """Its length in bytes."""
        return self.shared + len(self.tail)

    def same_as(self, other: Version) -> bool:
        """Whether both are the same content; both must be versions of one file."""
        return self.shared == other.shared and self.tail == other.tail


class Inode:
    """A file, under whichever name.

    Attributes:
        data: as the node sees it.
        durable: as it is on the disk.
        rot: by sector, an offset in the file and the bit of it (a mask) that reads flipped.
    """

    __slots__ = ("_sector", "_syncing", "data", "durable", "rot")

    def __init__(self, sector: int) -> None:
        """`sector` is in bytes."""
        self._sector = sector
        self.data = bytearray()
        self.durable = Version(0)
        self.rot: dict[int, tuple[int, int]] = {}
        self._syncing: list[Version] = []

    def as_it_is(self, size: int) -> Callable[[], None]:
        """What makes the file what it is now, as long as the first `size` bytes stay."""
        size = min(size, len(self.data))  # of a file that is made longer all stays
        end, shared, tail, rot = bytes(self.data[size:]), self.durable.shared, self.durable.tail, dict(self.rot)

        def restore() -> None:
            self.data[size:] = end
            self.durable = Version(shared)
            self.durable.tail = tail
            self.rot = rot

        return restore

    def append(self, data: bytes) -> None:
        """Write at the end; a rotten sector that is written to is sound again."""
        if self.rot and data:
            self._forget_rot(len(self.data) // self._sector * self._sector)
        self.data += data

    def truncate(self, size: int) -> None:
        """Cut to `size` bytes, or lengthen with zeros."""
        if size >= len(self.data):
            self.append(bytes(size - len(self.data)))
            return
        self._forget_rot(size)
        for version in (self.durable, *self._syncing):
            if version.shared > size:
                version.tail = bytes(self.data[size : version.shared]) + version.tail
                version.shared = size
        del self.data[size:]

    def begin_sync(self) -> Version:
        """The version that the sync will make durable, for `end_sync`."""
        version = Version(len(self.data))
        self._syncing.append(version)
        return version

    def end_sync(self, version: Version, *, done: bool) -> None:
        """Make a version durable if the sync was done; without effect if a later one is, or none may be any more."""
        if version not in self._syncing:
            return
        position = self._syncing.index(version)
        if done:
            self.durable = version
            del self._syncing[: position + 1]
        else:
            del self._syncing[position]

    def abandon_syncs(self) -> None:
        """Cancel the effect of syncs in progress: they make nothing durable."""
        self._syncing.clear()

    def drop_dirty(self) -> int:
        """Go back to what is durable; how many bytes were written since.

        A file that had grown stays as long as it was, and reads as zeros there: its length is kept apart from its
        pages. (Were it shortened, what a process writes before it notices would close up to what was durable.)
        """
        dropped, size = len(self.data) - self.durable.shared, len(self.data)
        self.abandon_syncs()
        tail = self.durable.tail
        self.truncate(self.durable.shared)
        self.append(tail)
        self.durable = Version(len(self.data))
        self.append(bytes(max(0, size - len(self.data))))
        return dropped

    def lose_end(self, size: int) -> None:
        """Keep the first `size` bytes only, on the disk as well."""
        self.abandon_syncs()
        self.truncate(size)
        self.durable = Version(min(self.durable.shared, size))

    def read(self) -> bytes:
        """The content, as bad as it is."""
        if not self.rot:
            return bytes(self.data)
        data = bytearray(self.data)
        for offset, mask in self.rot.values():
            data[offset] ^= mask
        return bytes(data)

    def power_loss(self, rng: Rng) -> tuple[int, int]:
        """Draw what remains of data that was not durable; returns bytes lost and sectors torn."""
        self.abandon_syncs()
        sector = self._sector
        shared, size_written = self.durable.shared, len(self.data)
        if shared == size_written and not self.durable.tail:
            return 0, 0
        size = _size_left(rng, self.durable.size, size_written)
        start = shared // sector * sector
        left = self.data[start:shared] + self.durable.tail
        left += bytes(max(0, size - start - len(left)))
        writes = range(start, size_written, sector)
        torn_at = rng.choice(writes) if writes and rng.random() < 0.5 else -1
        share = _share_written(rng)
        lost = torn = 0
        for at in writes:
            begin, end = max(at, shared), min(at + sector, size_written)
            if at == torn_at:
                until = rng.between(begin, end)
                torn += begin < until < end
            else:
                until = end if rng.random() < share else begin
            until = max(begin, min(until, size))
            left[begin - start : until - start] = self.data[begin:until]
            lost += end - until
        del left[size - start :]
        del self.data[start:]
        self.data += left
        self.durable = Version(len(self.data))
        return lost, torn

    def harshest(self) -> bytearray:
        """What would be left if nothing were written that no sync made durable."""
        return self.data[: self.durable.shared] + self.durable.tail

    def image(self, rng: Rng) -> bytearray:
        """What a loss of power might leave; nothing is lost."""
        copy = Inode(self._sector)
        copy.data = bytearray(self.data)
        copy.durable = Version(self.durable.shared)
        copy.durable.tail = self.durable.tail
        copy.power_loss(rng)
        return copy.data

    def with_gap(self, rng: Rng) -> bytearray:
        """What would be left if all were written but one sector of those that are not durable."""
        left = bytearray(self.data)
        begin = self.durable.shared
        dirty = range(begin // self._sector * self._sector, len(left), self._sector)
        if dirty:
            at = rng.choice(dirty)
            first, last = max(at, begin), min(at + self._sector, len(left))
            before = self.durable.tail[first - begin : last - begin]
            left[first:last] = before + bytes(last - first - len(before))
        return left

    def _forget_rot(self, start: int) -> None:
        """Remove the rot at offsets from `start` on: the data there is rewritten, or cut off."""
        for sector in [sector for sector, (offset, _) in self.rot.items() if offset >= start]:
            del self.rot[sector]


def _size_left(rng: Rng, durable: int, written: int) -> int:
    """A file's length after a loss of power. Shortening it is one change of its metadata; it grows byte by byte.

    Mostly nothing had been written: a kernel that is not asked to lets a file's end wait for half a minute.
    """
    end = rng.random()
    if end < 0.5:
        return durable
    if end < 0.65 or written < durable:
        return written
    return rng.between(durable, written)


def _share_written(rng: Rng) -> float:
    """How much of what waited in the cache had been written: often nothing or all, which are cases of their own."""
    kind = rng.random()
    if kind < 0.25:
        return 0.0
    return 1.0 if kind < 0.5 else rng.random()


Change: TypeAlias = tuple[tuple[str, Inode | None], ...]
"""What happens to names at once: which file each now names, None for no file."""


class Directory:
    """The names of files.

    Attributes:
        names: as the node sees them.
        durable: as they are on the disk.
    """

    def __init__(self) -> None:
        self.names: dict[str, Inode] = {}
        self.durable: dict[str, Inode] = {}
        self._pending: list[Change] = []
        self._synced = 0

    def before_change(self, change: Change) -> Callable[[], None]:
        """What takes back this change, which comes next."""
        before = tuple((name, self.names.get(name)) for name, _ in change)

        def restore() -> None:
            _apply(self.names, before)
            self._pending.pop()

        return restore

    def before_sync(self) -> Callable[[], None]:
        """What takes back a sync of everything, which comes next."""
        changes = list(self._pending)
        before = tuple((name, self.durable.get(name)) for change in changes for name, _ in change)

        def restore() -> None:
            _apply(self.durable, before)
            self._pending[:0] = changes
            self._synced -= len(changes)

        return restore

    def change(self, change: Change) -> None:
        """Change what the node sees."""
        _apply(self.names, change)
        self._pending.append(change)

    def extent(self) -> int:
        """How many changes there ever were; what a sync that begins now is to cover."""
        return self._synced + len(self._pending)

    def sync(self, extent: int) -> None:
        """Make the first `extent` changes durable."""
        count = max(0, extent - self._synced)
        for change in self._pending[:count]:
            _apply(self.durable, change)
        del self._pending[:count]
        self._synced += count

    def power_loss(self, rng: Rng) -> int:
        """Keep the changes that were not durable up to one of them, since later ones rest on earlier ones.

        Returns how many were lost. No sync that began before may be ended any more.
        """
        pending = len(self._pending)
        kept = rng.between(0, pending) if pending else 0
        self.sync(self._synced + kept)
        self._pending.clear()
        self.names = dict(self.durable)
        return pending - kept

    def image(self, rng: Rng) -> dict[str, Inode]:
        """Which files a loss of power might leave; nothing is lost."""
        left = dict(self.durable)
        if self._pending:
            for change in self._pending[: rng.between(0, len(self._pending))]:
                _apply(left, change)
        return left


def _apply(names: dict[str, Inode], change: Change) -> None:
    for name, inode in change:
        if inode is None:
            names.pop(name, None)
        else:
            names[name] = inode
