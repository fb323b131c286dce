"""A simulated disk: it belongs to a node, outlives the node's processes, and knows what was synced.

Everything exists twice: as the node sees it (the kernel's cache), and as it would be found after a loss of power.

    what                                     becomes durable by
    a file's content and length              a `sync` of that file that was called later, and returned
    creating, renaming, removing a file      a `sync_names` that was called later, and returned

A rename without a sync of the content can thus leave an empty file under the new name, and a file that was synced can
lose its name. A kill loses nothing. A loss of power draws the fate of everything that was not durable
(`SimDisk.power_loss`), and never changes durable data: sectors are written in any order, whole except for the one that
was being written. The ideas are TigerBeetle's (`storage.zig`) and those of turmoil's file system.
"""

from __future__ import annotations

import asyncio
import errno
from asyncio import Lock
from collections.abc import Awaitable, Callable
from functools import lru_cache
from typing import Any, Final, Literal, TypeAlias

import msgspec

from splitbrain.harness.contract.faults import DiskFault
from splitbrain.harness.contract.rng import Rng
from splitbrain.harness.simulation.ahead import Ahead
from splitbrain.harness.simulation.inodes import Change, Directory, Inode

Sleep: TypeAlias = Callable[[int], Awaitable[None]]
Left: TypeAlias = Literal["nothing", "drawn", "all but a gap"]
"""What a loss of power leaves of what is not durable."""

_NS_PER_MS: Final = 1_000_000
_SCRATCH_SUFFIX: Final = ".new"

_REFUSED: Final = "refused_writes"
_FAILED: Final = "failed_syncs"
_DROPPED: Final = "dropped_bytes"
_SLOWED: Final = "slowed_syncs"
_ROTTEN: Final = "rotten_reads"
_FAILED_READS: Final = "failed_reads"
_FAILED_WRITES: Final = "failed_writes"
_LOST: Final = "bytes_lost"
_TORN: Final = "sectors_torn"
_NAMES_LOST: Final = "names_lost"

FAILURE: Final = "failure"
"""The kind of a change, or of a sync, that failed."""

_BY_FAULTS: Final = (_REFUSED, _FAILED, _DROPPED, _SLOWED, _ROTTEN, _FAILED_READS, _FAILED_WRITES)
_BY_POWER_LOSSES: Final = (_LOST, _TORN, _NAMES_LOST)


class DiskLatency(msgspec.Struct, frozen=True):
    """How long a sync takes: mostly about the minimum, with a long tail up to the maximum."""

    sync_ns_min: int
    sync_ns_max: int

    def draw(self, rng: Rng) -> int:
        """Nanoseconds of one sync."""
        u = rng.random()
        return self.sync_ns_min + int((self.sync_ns_max - self.sync_ns_min) * (u * u * u * u))


class SimDisk:
    """The disk of one node.

    All its random decisions come from `rng`, which must be its own stream.

    Attributes:
        counters: what happened to it since it was made: refused_writes (on a full or read-only disk), failed_syncs,
            dropped_bytes (by failed syncs), slowed_syncs, rotten_reads (sectors), failed_reads, failed_writes,
            bytes_lost, sectors_torn and names_lost (by losses of power).
        watch: is called behind each change, and each sync, with its kind: what it was, and of which sort of file; and
            with `FAILURE` behind each that failed.
    """

    def __init__(self, rng: Rng, latency: DiskLatency, *, sector: int = 512) -> None:
        """`sector` is in bytes."""
        self._rng = rng
        self._latency = latency
        self._sector = sector
        self._directory = Directory()
        self._fault: DiskFault | None = None
        self._sync_fails = False
        self._rotten: list[Inode] = []
        self._before_fault: dict[str, int] = {}
        self._slowed: dict[asyncio.Future[None], None] = {}
        self._ahead: Ahead | None = None
        self.watch: Callable[[str], None] = _unwatched
        self.counters: dict[str, int] = dict.fromkeys((*_BY_FAULTS, *_BY_POWER_LOSSES), 0)

    def mount(self, sleep: Sleep, alive: Callable[[], bool]) -> MountedDisk:
        """The disk as one process has it.

        Args:
            sleep: suspends a task of the process; in nanoseconds.
            alive: whether the process has not ended; once it has, nothing that it does has any effect.
        """
        self._ahead = None
        return MountedDisk(self, sleep, alive)

    def follow(self, ahead: Ahead) -> None:
        """Note here what the process does whose calls block."""
        self._ahead = ahead

    @property
    def blocks(self) -> bool:
        """Whether the process that has it is blocked while it syncs."""
        return self._ahead is not None

    @property
    def sync_under_way(self) -> bool:
        """Whether a process that is blocked by its syncs is so now."""
        return self._ahead is not None and self._ahead.under_way

    def take_back(self) -> None:
        """The process is about to be ended from outside: what it had not come to yet did not happen."""
        if self._ahead is not None:
            self._ahead.take_back()

    def process_died(self) -> None:
        """Note that the process was killed: the cache stays, syncs in progress are not awaited."""
        for inode in self._directory.names.values():
            inode.abandon_syncs()

    def power_loss(self) -> dict[str, int]:
        """Lose the cache; the process must have ended.

        Of the changes of names that were not durable, those up to some point are left. Of each file a length between
        the durable one and the last one is left. Each sector that was written since is drawn to be as it was (zeros
        where the file was shorter) or as it was written; of one sector in some files, only the beginning was written.

        Returns:
            bytes_lost: written bytes that are gone, those of files whose names were lost included.
            sectors_torn: sectors that were written in part.
            names_lost: creations, renames and removals that did not happen.
        """
        before = list(self._directory.names.values())
        outcome: dict[str, int] = dict.fromkeys(_BY_POWER_LOSSES, 0)
        outcome[_NAMES_LOST] = self._directory.power_loss(self._rng)
        left = self._directory.names
        outcome[_LOST] = sum(len(inode.data) for inode in before if not any(inode is kept for kept in left.values()))
        # The files share one stream of draws, so their order must be fixed.
        for name in sorted(left):
            lost, torn = left[name].power_loss(self._rng)
            outcome[_LOST] += lost
            outcome[_TORN] += torn
        for what, count in outcome.items():
            self.counters[what] += count
        return outcome

    def image(self, rng: Rng, left: Left) -> dict[str, bytearray]:
        """The files as a loss of power could leave them now, by name; the disk stays as it is.

        Args:
            rng: decides what is left, from a stream that is not the disk's own.
            left: of what is not durable: "nothing"; what is "drawn", as in `power_loss`; or "all but a gap" of one
                sector in each file, as if later writes had overtaken it.
        """
        directory = self._directory
        if left == "nothing":
            return {name: inode.harshest() for name, inode in sorted(directory.durable.items())}
        if left == "drawn":
            return {name: inode.image(rng) for name, inode in sorted(directory.image(rng).items())}
        return {name: inode.with_gap(rng) for name, inode in sorted(directory.names.items())}

    def give(self, fault: DiskFault | None) -> dict[str, Any]:
        """Give it this fault instead of the one that it has; None for none.

        Returns:
            What the fault that ends did, if there was one: refused_writes, failed_syncs, dropped_bytes, slowed_syncs,
            rotten_reads (sectors that were read while rotten), failed_reads, failed_writes. What a new one with rot
            found: `rotten`, a list of [file, sector], shorter than asked for if less was durable. What one that
            truncates cut off: `truncated`, a list of [file, bytes]. Of one that wipes: `wiped`, how many files there
            were; the node must be stopped.
        """
        evidence: dict[str, Any] = {}
        if self._fault is not None:
            evidence |= {what: self.counters[what] - self._before_fault[what] for what in _BY_FAULTS}
        for inode in self._rotten:
            inode.rot.clear()
        self._rotten.clear()
        for over in self._slowed:
            _resolve(over)
        if self._ahead is not None:
            self._ahead.settle()  # what a fault does to files is not to be taken back with it
        self._fault = fault
        self._sync_fails = fault is not None and fault.sync_fails
        self._before_fault = dict(self.counters)
        if fault is not None and fault.rot:
            evidence["rotten"] = self._let_rot(fault.rot)
        if fault is not None and fault.truncate:
            evidence["truncated"] = self._cut_ends(fault.truncate)
        if fault is not None and fault.wipe:
            evidence["wiped"] = len(self._directory.names)
            self._directory = Directory()
        return evidence

    def _cut_ends(self, count: int) -> list[list[Any]]:
        """Cut off the ends of this number of files, drawn uniformly, each somewhere in its last sector."""
        names = self._directory.names
        written = [name for name in self.names() if names[name].data]
        found: list[list[Any]] = []
        for name in self._rng.sample(written, min(count, len(written))):
            inode = names[name]
            size = len(inode.data)
            left = self._rng.between((size - 1) // self._sector * self._sector, size - 1)
            inode.lose_end(left)
            found.append([name, size - left])
        return found

    def _let_rot(self, count: int) -> list[list[Any]]:
        """Flip bits in sectors of files drawn evenly: the shortest file may be the one that matters most.

        The last sector of a file comes last: the next append would rewrite and so repair it.
        """
        found: list[list[Any]] = []
        names = self._directory.names
        files = [(name, names[name]) for name in self.names() if names[name].durable.shared]
        for spare in (1, 0):
            limits = {name: max(1, -(-inode.durable.shared // self._sector) - spare) for name, inode in files}
            while len(found) < count:
                sound = [(name, inode) for name, inode in files if len(inode.rot) < limits[name]]
                if not sound:
                    break
                name, inode = self._rng.choice(sound)
                found.append([name, self._rot_sector(inode, limits[name])])
        self._rotten = [inode for _, inode in files if inode.rot]
        return found

    def _rot_sector(self, inode: Inode, limit: int) -> int:
        """Flip a bit of one of the first `limit` sectors, one that is sound; its number."""
        sector = self._rng.below(limit)
        while sector in inode.rot:
            sector = (sector + 1) % limit
        start = sector * self._sector
        offset = self._rng.between(start, min(start + self._sector, inode.durable.shared) - 1)
        inode.rot[sector] = (offset, 1 << self._rng.below(8))
        return sector

    # What follows is for mounted disks and their files only.

    def names(self) -> list[str]:
        """See `MountedDisk.names`."""
        return sorted(name for name in self._directory.names if not is_scratch(name))

    def has(self, name: str) -> bool:
        """See `MountedDisk.has`."""
        return name in self._directory.names

    def read(self, name: str) -> bytes | None:
        """See `MountedDisk.read`."""
        inode = self._directory.names.get(name)
        return None if inode is None else self.content(name, inode)

    def content(self, name: str, inode: Inode) -> bytes:
        """What a file holds, under whichever name it was opened."""
        if self._fails():
            self.counters[_FAILED_READS] += 1
            raise _io_error(name)
        self.counters[_ROTTEN] += len(inode.rot)
        return inode.read()

    def every_name(self) -> list[str]:
        """See `MountedDisk.every_name`."""
        return sorted(self._directory.names)

    def find_or_create(self, name: str) -> Inode:
        """The file of that name, created if missing."""
        inode = self._directory.names.get(name)
        if inode is None:
            self._require_writable(name)
            inode = Inode(self._sector)
            self._change_names(((name, inode),))
            self.watch(_kind("create", name))
        return inode

    def rename(self, source: str, target: str) -> None:
        """Name a file otherwise; one that had that name loses it."""
        self._require_writable(source)
        self._change_names(((source, None), (target, self._directory.names[source])))
        self.watch(_kind("rename", target))

    def remove(self, name: str) -> None:
        """Remove a name; no harm if there is none."""
        if name in self._directory.names:
            self._require_writable(name)
            self._change_names(((name, None),))
            self.watch(_kind("remove", name))

    def _change_names(self, change: Change) -> None:
        if self._ahead is not None:
            self._ahead.note(self._directory.before_change(change))
        self._directory.change(change)

    def append(self, name: str, inode: Inode, data: bytes) -> None:
        """Write at the end; on a full disk as much as still goes in, then ENOSPC."""
        if self._ahead is not None:
            self._ahead.note(inode.as_it_is(len(inode.data)))
        if self._fault is None:
            inode.append(data)
            self.watch(_kind("append", name))
            return
        self._require_writable(name)
        if data and self._fault.full:
            self.counters[_REFUSED] += 1
            fits = self._rng.below(len(data)) if self._rng.random() < 0.5 else 0
            inode.append(data[:fits])
            self.watch(FAILURE)
            raise OSError(errno.ENOSPC, "No space left on device", name)
        inode.append(data)
        self.watch(_kind("append", name))

    def truncate(self, name: str, inode: Inode, size: int) -> None:
        """Cut to `size` bytes."""
        self._require_writable(name)
        if self._ahead is not None:
            self._ahead.note(inode.as_it_is(size))
        inode.truncate(size)
        self.watch(_kind("truncate", name))

    async def sync(self, name: str, inode: Inode, mounted: MountedDisk) -> None:
        """Make durable what the file holds now."""
        # Taken before the wait: what is appended meanwhile is not covered, as with fsync.
        version = inode.begin_sync()
        done = False
        try:
            if self._fault is None:
                await mounted.sleep(self._latency.draw(self._rng))
            else:
                await self._busy(mounted)
            mounted.require_alive(name)
            if self._fails() or (self._sync_fails and not version.same_as(inode.durable)):
                self._fail_sync(name, inode)
            done = True
        finally:
            inode.end_sync(version, done=done)
            self.watch(_kind("sync", name))

    def sync_at_once(self, name: str, inode: Inode) -> int:
        """`sync` for a process that is blocked meanwhile: its duration in nanoseconds."""
        version = inode.begin_sync()
        if self._fails() or (self._sync_fails and not version.same_as(inode.durable)):
            inode.end_sync(version, done=False)
            if self._ahead is not None:
                self._ahead.note(inode.as_it_is(inode.durable.shared))
            self._fail_sync(name, inode)
        as_it_is = inode.as_it_is(len(inode.data))
        return self._blocks(as_it_is, lambda: inode.end_sync(version, done=True), _kind("sync", name))

    def sync_names_at_once(self) -> int:
        """`sync_names` for a process that is blocked meanwhile: its duration in nanoseconds."""
        self._require_sound()
        directory = self._directory
        return self._blocks(directory.before_sync(), lambda: directory.sync(directory.extent()), "sync of names")

    def _blocks(self, undo: Callable[[], None], sync: Callable[[], None], kind: str) -> int:
        """Carry out a sync that takes effect when the process has waited for it; how long that is."""
        sync()
        self.watch(kind)
        takes_ns = self._takes_ns()
        if self._ahead is not None:
            self._ahead.note(undo, takes_ns)
        return takes_ns

    def _takes_ns(self) -> int:
        """The time of one sync; what a fault adds is not cut short if it ends meanwhile."""
        delay_ns = self._latency.draw(self._rng)
        if self._fault is not None and self._fault.slow_ms:
            self.counters[_SLOWED] += 1
            delay_ns += int(self._fault.slow_ms * _NS_PER_MS)
        return delay_ns

    def _require_sound(self) -> None:
        if self._fails():
            self.counters[_FAILED] += 1
            self.watch(FAILURE)
            raise _io_error(".")

    async def sync_names(self, mounted: MountedDisk) -> None:
        """Make durable which names there are now."""
        # As for files: names that change during the sync are not covered.
        extent = self._directory.extent()
        await self._busy(mounted)
        mounted.require_alive(".")
        self._require_sound()
        self._directory.sync(extent)
        self.watch("sync of names")

    def _fails(self) -> bool:
        return self._fault is not None and self._fault.fails

    def _require_writable(self, name: str) -> None:
        if self._fails():
            self.counters[_FAILED_WRITES] += 1
            self.watch(FAILURE)
            raise _io_error(name)
        if self._fault is not None and self._fault.read_only:
            self.counters[_REFUSED] += 1
            self.watch(FAILURE)
            raise OSError(errno.EROFS, "Read-only file system", name)

    def _fail_sync(self, name: str, inode: Inode) -> None:
        # Only once: Linux drops the dirty pages, and the next sync succeeds without them (Rebello et al., USENIX ATC
        # 2020).
        self._sync_fails = False
        self.counters[_FAILED] += 1
        self.counters[_DROPPED] += inode.drop_dirty()
        self.watch(FAILURE)
        raise _io_error(name)

    async def _busy(self, mounted: MountedDisk) -> None:
        """Take the time of one sync: the disk's own, after what a fault adds as long as it is in force."""
        # Drawn with or without a fault, so that a fault does not shift the draws behind it.
        delay_ns = self._latency.draw(self._rng)
        if self._fault is not None and self._fault.slow_ms:
            self.counters[_SLOWED] += 1
            await self._wait_while_slow(mounted, int(self._fault.slow_ms * _NS_PER_MS))
        await mounted.sleep(delay_ns)

    async def _wait_while_slow(self, mounted: MountedDisk, delay_ns: int) -> None:
        over = asyncio.get_running_loop().create_future()
        self._slowed[over] = None
        sleeping = asyncio.ensure_future(mounted.sleep(delay_ns))
        sleeping.add_done_callback(lambda _: _resolve(over))
        try:
            await over
        finally:
            del self._slowed[over]
            sleeping.cancel()


class MountedDisk:
    """A disk as one process has it (`splitbrain.cluster.runtime.Disk`). Made by `SimDisk.mount`.

    Once the process has ended, changes have no effect, and open and sync fail.
    """

    def __init__(self, disk: SimDisk, sleep: Sleep, alive: Callable[[], bool]) -> None:
        self._disk = disk
        self._replacing = Lock()
        self.sleep = sleep
        self.alive = alive

    def names(self) -> list[str]:
        """Names of all files, sorted; without those of replacements that a crash interrupted."""
        return self._disk.names()

    def every_name(self) -> list[str]:
        """Names of all files, sorted."""
        return self._disk.every_name()

    def has(self, name: str) -> bool:
        """Whether there is a file of that name."""
        return self._disk.has(name)

    def read(self, name: str) -> bytes | None:
        """The content of a file, None if there is none."""
        return self._disk.read(name)

    def open(self, name: str) -> SimFile:
        """Open for appending; created if missing (durably only after `sync_names`)."""
        self.require_alive(name)
        return SimFile(self._disk, self, name, self._disk.find_or_create(name))

    async def replace(self, name: str, data: bytes) -> None:
        """Give a file a new content, atomically and durably: written aside, synced, renamed, names synced.

        One replacement follows the other, as they share the place aside.

        Raises:
            OSError: the disk is full, or the sync failed; the file has its old content.
        """
        async with self._replacing:
            scratch = name + _SCRATCH_SUFFIX
            with self.open(scratch) as file:
                file.truncate(0)
                file.append(data)
                await file.sync()
            self._disk.rename(scratch, name)
            await self.sync_names()

    def remove(self, name: str) -> None:
        """Remove a file (durably only after `sync_names`); no harm if there is none.

        Raises:
            OSError: the disk is read-only, or fails.
        """
        if self.alive():
            self._disk.remove(name)

    def rename(self, source: str, target: str) -> None:
        """Name a file otherwise (durably only after `sync_names`); one that had that name loses it.

        Raises:
            OSError: there is no such file, the disk is read-only, or fails.
        """
        if source not in self._disk.every_name():
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", source)
        if self.alive():
            self._disk.rename(source, target)

    def sync_names_at_once(self) -> int:
        """`sync_names` for a process that is blocked meanwhile: its duration in nanoseconds.

        Raises:
            OSError: the disk fails.
        """
        return self._disk.sync_names_at_once() if self.alive() else 0

    async def sync_names(self) -> None:
        """Make creations, renames and removals durable."""
        self.require_alive(".")
        await self._disk.sync_names(self)

    def follow(self, ahead: Ahead) -> None:
        """Note here what the process does: its calls block, and return before their time."""
        self._disk.follow(ahead)

    def require_alive(self, name: str) -> None:
        """Let no task that outlived its process believe that something became durable.

        Raises:
            OSError: the process has ended.
        """
        if not self.alive():
            raise OSError(errno.EIO, "The process has ended", name)


class SimFile:
    """An append-only file (`splitbrain.cluster.runtime.File`). Made by `MountedDisk.open`."""

    def __init__(self, disk: SimDisk, mounted: MountedDisk, name: str, inode: Inode) -> None:
        self._disk = disk
        self._mounted = mounted
        self._name = name
        self._inode = inode
        self._closed = False

    def __enter__(self) -> SimFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def append(self, data: bytes) -> None:
        """Write at the end. Not durable before `sync` returned.

        Raises:
            OSError: the disk is full (ENOSPC), and a beginning of `data` may have been written; it is read-only
                (EROFS), or fails (EIO).
        """
        if self._closed:
            self._require_open()
        if self._mounted.alive():
            self._disk.append(self._name, self._inode, data)

    async def sync(self) -> None:
        """Make everything that was appended before this call durable.

        Raises:
            OSError: it failed (EIO), and everything in the file that was not durable is lost.
        """
        self._require_open()
        self._mounted.require_alive(self._name)
        await self._disk.sync(self._name, self._inode, self._mounted)

    def sync_at_once(self) -> int:
        """`sync` for a process that is blocked meanwhile: its duration in nanoseconds.

        Raises:
            OSError: it failed (EIO), and everything in the file that was not durable is lost.
        """
        self._require_open()
        return self._disk.sync_at_once(self._name, self._inode) if self._mounted.alive() else 0

    def size(self) -> int:
        """Its length in bytes."""
        return len(self._inode.data)

    def content(self) -> bytes:
        """What it holds.

        Raises:
            OSError: the disk fails.
        """
        self._require_open()
        return self._disk.content(self._name, self._inode)

    def truncate(self, size: int) -> None:
        """Cut the file to `size` bytes. Not durable before `sync` returned."""
        self._require_open()
        if self._mounted.alive():
            self._disk.truncate(self._name, self._inode, size)

    def close(self) -> None:
        """Close without syncing."""
        self._closed = True

    def _require_open(self) -> None:
        if self._closed:
            raise OSError(errno.EBADF, "Bad file descriptor", self._name)


def _unwatched(what: str) -> None:
    """The watch of a disk without crash images."""


@lru_cache(maxsize=4096)
def _kind(what: str, name: str) -> str:
    """The kind of a change: what it was, and the sort of file, which comes before numbers, as in `segment-00000001`."""
    return f"{what} {name.partition('-')[0]}"


def _resolve(over: asyncio.Future[None]) -> None:
    if not over.done():
        over.set_result(None)


def _io_error(name: str) -> OSError:
    return OSError(errno.EIO, "Input/output error", name)


def is_scratch(name: str) -> bool:
    """Whether this is the place aside of a replacement."""
    return name.endswith(_SCRATCH_SUFFIX)
