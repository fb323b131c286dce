"""A node's data directory on its own file system, which can be made to fail like a disk.

The file system is ext4 in a sparse file, mounted by loop devices (`drives`). What happens to it is the doing of the
kernel, so every program meets it, however it was linked:

    fault         means                                                  a process sees             healed
    full          files that take all blocks and inodes                  ENOSPC                     while it runs
    sync_fails    the device fails from the first block of data on       EIO from the first sync    while it runs
                                                                         of new data, then success  (but see below)
    slow_ms       the file system is frozen in turns (FIFREEZE)          writes and syncs wait      while it runs
    read_only     ext4's own answer to an error (errors=remount-ro)      EROFS                      by a new mount
    fails         EXT4_IOC_SHUTDOWN                                      EIO                        by a new mount
    loss of power EXT4_IOC_SHUTDOWN without a flush of the journal       (its end)                  by a new mount

`read_only` is not a remount, which the kernel refuses while a file is open for writing. `sync_fails` is what
PostgreSQL's developers met in 2018 ("fsyncgate"): the kernel reports the failure once, marks the pages as clean, and
the next sync succeeds and proves nothing. Metadata go on being written, as before the first block of data is nearly all
of it, the journal too; but the blocks of directories that grew and of the trees of files with many extents lie among
the data. While a sync fails they are safe in the journal, and ext4 reads them from memory. Where one of them must be
written to its own place meanwhile (the kernel wants to after 30 s, or when the journal is full), ext4 does what it does
with such a disk: it becomes read-only, and is healed as if it had been made so. A new mount needs that no process has a
file open there.

The data lies in a directory of the file system that is mounted over the node's own: what the faults need beside it is
out of the node's sight. Mounts are made in the calling process's mount namespace. A container sees what is mounted
below a directory that was bound into it with the propagation `rslave`; another mount namespace that was copied
meanwhile keeps the old file system alive, so a new mount always gets a new loop device, and the old one is cut off from
the file: pending writes of the old file system would damage the new one.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import stat
import struct
import tempfile
import time
from collections.abc import Callable, Generator, Mapping
from typing import Any

from . import drives, loops, syscalls
from .datafiles import Snapshot, copy_files, keep_aside, show_aside
from .drives import BLOCK, Drive, make_file_system
from .freezer import Freezer
from .tools import AgentError, find_tool

SIZE_BYTES = 256 << 20
JOURNAL_SHARE = 16
"""The size of a volume divided by the size of its journal."""
LEAST_JOURNAL_MIB = 4
INODES = 4096
GONE_WITHIN_S = 2.0
_POLL_S = 0.01
_MOUNTS = "/proc/self/mounts"
_ESCAPED = re.compile(rb"\\([0-7]{3})")
_LET_GO = (errno.ENOENT, errno.ENXIO, errno.EINVAL)
"""What the kernel says of a loop device without a file, and of a place where nothing is mounted."""

_EXT4_SHUTDOWN = 0x8004587D
_NO_LOG_FLUSH = 2
_EXT4_CHECKPOINT = 0x4004662B

_DATA, _SCRATCH, _FILLERS = "data", "scratch", "fillers"


class Volume:
    """An ext4 file system of one node.

    Args:
        path: the node's data directory; what is in it while nothing is mounted is out of sight meanwhile.
        image: the file that holds the file system; made at the first mount, gone after `unmount`.
        freezer: for slow disks; without it there are none.
        size: of the file system, in bytes. The file takes only as much room as is used of it.
        aside: files of the data directory that are stored elsewhere, by their names in it: no fault may hit the node's
            telemetry.
    """

    def __init__(
        self,
        path: str,
        image: str,
        freezer: Freezer | None = None,
        size: int = SIZE_BYTES,
        aside: Mapping[str, str] | None = None,
    ) -> None:
        self.path = path
        self._aside = dict(aside or {})
        self.image = image
        self._freezer = freezer
        self._size = size
        self._drive = Drive(image, size)
        self._device = ""
        self._below = -1
        self._root = -1
        self._first_block = 0
        self._fault: Mapping[str, Any] = {}

    @property
    def heals_stopped(self) -> bool:
        """Whether the fault in force can only be healed while the node is stopped."""
        if self._fault.get("sync_fails") and self._is_read_only():
            return True
        return bool(self._fault.get("fails") or self._fault.get("read_only"))

    @property
    def device(self) -> str:
        """The loop device that is mounted."""
        return self._device

    def mount(self) -> None:
        """Make the file system, and mount its data over the node's directory.

        Raises:
            AgentError: no loop device, no mkfs.ext4, or the kernel refuses the mount.
        """
        self._make()
        try:
            self._below = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                self._mount()
            except BaseException:
                os.close(self._below)
                raise
        except BaseException:
            self._drive.close()
            os.unlink(self.image)
            raise

    def _mount(self) -> None:
        self._device, descriptor = self._drive.attach()
        try:
            syscalls.mount(self._device, self.path, "ext4", syscalls.MS_NOATIME, "errors=remount-ro")
            try:
                self._show_data()
            except BaseException:
                self._close_root()
                syscalls.unmount(self.path, syscalls.MNT_DETACH)
                raise
        except OSError as error:
            raise AgentError(f"the file system of {self.path} cannot be mounted: {error.strerror}") from None
        finally:
            os.close(descriptor)

    def _show_data(self) -> None:
        self._root = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        show_aside(self._inner(_DATA), self._aside)
        syscalls.sync_file_system(self._root)
        if self._freezer is not None:
            self._freezer.learn(self.path, self._root, self._device)
        syscalls.mount(self._inner(_DATA), self.path, None, syscalls.MS_BIND)

    def _make(self) -> None:
        # All metadata, the journal and these directories lie at the beginning, before the first block of data. Nothing
        # of what is zero is written: the device holds zeros.
        layout = "lazy_itable_init=0,lazy_journal_init=1,packed_meta_blocks=1,nodiscard"
        journal_mib = max(LEAST_JOURNAL_MIB, (self._size >> 20) // JOURNAL_SHARE)
        argv = [find_tool("mkfs.ext4", "e2fsprogs"), "-q", "-F", "-b", str(BLOCK), "-m", "0", "-N", str(INODES)]
        argv += ["-J", f"size={journal_mib}", "-E", layout, "-d"]
        with tempfile.TemporaryDirectory() as tree, tempfile.NamedTemporaryFile() as content:
            content.truncate(self._size)
            for name in (_DATA, _SCRATCH, _FILLERS):
                os.mkdir(f"{tree}/{name}")
            like = os.stat(self.path)
            os.chown(f"{tree}/{_DATA}", like.st_uid, like.st_gid)
            os.chmod(f"{tree}/{_DATA}", stat.S_IMODE(like.st_mode))
            make_file_system([*argv, tree, content.name])
            self._first_block = _first_block_of_data(content.fileno())
            self._drive.make(content.name)

    # --- faults -------------------------------------------------------------------------------------------------------

    def spoil(self, fault: Mapping[str, Any]) -> dict[str, Any]:
        """Give the file system this fault (fields of a DiskFault) after healing the one before; what was found.

        Evidence: "errno", what a write and sync of this process's own got; "full", "read_only"... as above.

        Raises:
            AgentError: it did not take effect, or the fault before it needs a stopped node to be healed.
        """
        self.heal()
        self._fault = dict(fault)
        expected: str | None = None
        if fault.get("full"):
            self._fill()
            expected = "ENOSPC"
        if fault.get("sync_fails"):
            self._fail_syncs()
            expected = "EIO"
        if fault.get("read_only"):
            _write(f"/sys/fs/ext4/{os.path.basename(self._device)}/trigger_fs_error", "made read-only by splitbrain\n")
            expected = "EROFS"
        if fault.get("fails"):
            self._shut_down()
            expected = "EIO"
        evidence: dict[str, Any] = {}
        if expected is not None:
            seen = self._trial()
            if seen != expected:
                raise AgentError(f"a write and sync below {self.path} got {seen or 'no error'} instead of {expected}")
            evidence["errno"] = seen
        if fault.get("slow_ms"):
            if self._freezer is None:
                raise AgentError("no process is there to thaw what is frozen")
            self._freezer.slow(self.path, self._root, self._device, float(fault["slow_ms"]))
            evidence |= self._freezer.counts(self.path)
        return evidence

    def counts(self) -> dict[str, Any]:
        """What the fault in force has done so far; empty without one.

        "errno" is what a write and sync of this process's own get now; of a slow disk, "freezes" and "slowed_syncs",
        the flushes that came through right after a freeze.
        """
        if not self._fault:
            return {}
        if self._fault.get("slow_ms") and self._freezer is not None:
            return self._freezer.counts(self.path)
        return {"errno": self._trial()}

    def heal(self) -> dict[str, Any]:
        """End the fault in force; what it did. Where `heals_stopped`, no process may have a file open there.

        Raises:
            AgentError: it still has the fault.
        """
        if not self._fault:
            return {}
        did: dict[str, Any] = {}
        if self._freezer is not None and self._fault.get("slow_ms"):
            did |= self._freezer.stop(self.path)
        if any(self._fault.get(name) for name in ("full", "sync_fails", "read_only", "fails")):
            did["errno"] = self._trial()
        stopped = self.heals_stopped
        self._drive.mend()
        if stopped:
            self._renew()
        self._empty()
        seen = self._trial()
        if seen is not None:
            raise AgentError(f"a write and sync below {self.path} still gets {seen}")
        self._fault = {}
        return did

    def lose_power(self) -> dict[str, int]:
        """Lose everything that was not synced. The node must be stopped; a fault in force is over.

        Returns:
            bytes_lost: of what was written, in all files. names_lost: files that are gone, or are there again. Nothing
            if no file could be read any more.
        """
        if self._freezer is not None and self._fault.get("slow_ms"):
            self._freezer.stop(self.path)
        self._drive.mend()
        readable = not self._fault.get("fails")
        before = Snapshot(self.path) if readable else None
        self._renew()
        self._fault = {}
        return {} if before is None else before.lost(self.path)

    def sync(self) -> None:
        """Make everything durable that is there now."""
        syscalls.sync_file_system(self._root)

    def unmount(self) -> None:
        """Unmount, copy the data to where it was mounted, and remove the image. No process may have a file open there.

        What a fault in force kept from becoming durable is lost. Does nothing if nothing is mounted.
        """
        if self._root < 0:
            return
        self._drive.mend()
        if self._fault:
            try:
                self.heal()
            except AgentError:
                self._renew()
        below = f"/proc/self/fd/{self._below}"
        keep_aside(below, self._aside)
        copy_files(self._inner(_DATA), below)
        self._detach()
        self._drive.close()
        os.close(self._below)
        self._below = -1
        os.unlink(self.image)

    # --- how ----------------------------------------------------------------------------------------------------------

    def _inner(self, name: str) -> str:
        return f"/proc/self/fd/{self._root}/{name}"

    def _fill(self) -> None:
        # Inodes before blocks: the name of a new file may take a block of its directory.
        fillers = self._inner(_FILLERS)
        number = 0
        try:
            while True:
                os.close(os.open(f"{fillers}/{number}", os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
                number += 1
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
        if number == 0:
            raise AgentError(f"the file system of {self.path} had no inode left already")
        filler = os.open(f"{fillers}/0", os.O_WRONLY | os.O_CLOEXEC)
        try:
            end, step = 0, self._size
            while step >= BLOCK:
                try:
                    os.posix_fallocate(filler, end, step)
                    end += step
                except OSError as error:
                    if error.errno not in (errno.ENOSPC, errno.EFBIG):
                        raise
                    end = os.fstat(filler).st_size  # what was allocated until then stays
                    step //= 2
            os.fsync(filler)
        finally:
            os.close(filler)

    def _empty(self) -> None:
        for folder in (_SCRATCH, _FILLERS):
            for name in os.listdir(self._inner(folder)):
                os.unlink(f"{self._inner(folder)}/{name}")

    def _trial(self) -> str | None:
        """The error that a write and sync gets now, by name; None if it gets none."""
        path = self._inner(f"{_SCRATCH}/trial")
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            try:
                os.write(descriptor, bytes(BLOCK))
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            os.unlink(path)
        except OSError as error:
            return errno.errorcode.get(error.errno or 0, str(error.errno))
        return None

    def _fail_syncs(self) -> None:
        """Let the drive fail where data lie, with all metadata in their places and the journal empty."""
        try:
            fcntl.ioctl(self._root, _EXT4_CHECKPOINT, struct.pack("=I", 0))
        except OSError as error:
            if error.errno != errno.ENOTTY:  # kernels before 5.14
                raise AgentError(f"the journal of {self.path} cannot be emptied: {error.strerror}") from None
            syscalls.sync_file_system(self._root)
        self._drive.fail_beyond(self._first_block)

    def _is_read_only(self) -> bool:
        try:
            os.utime(self._inner(_SCRATCH))
        except OSError as error:
            return error.errno == errno.EROFS
        return False

    def _shut_down(self) -> None:
        fcntl.ioctl(self._root, _EXT4_SHUTDOWN, struct.pack("<I", _NO_LOG_FLUSH))

    def _renew(self) -> None:
        """Mount again only what is durable."""
        self._shut_down()
        loops.cut_off(self._device)
        self._detach()
        self._mount()
        self._empty()

    def _detach(self) -> None:
        # The mount of the data lies over that of the file system, which its open root directory keeps busy.
        self._unmount_top()
        self._close_root()
        self._unmount_top()

    def _unmount_top(self) -> None:
        deadline = time.monotonic() + GONE_WITHIN_S
        while True:
            try:
                syscalls.unmount(self.path)
            except OSError as error:
                if error.errno != errno.EBUSY or time.monotonic() > deadline:
                    raise AgentError(
                        f"{self.path} cannot be unmounted: {error.strerror} (a process still has a file open there)"
                    ) from None
                time.sleep(_POLL_S)
            else:
                return

    def _close_root(self) -> None:
        if self._root >= 0:
            os.close(self._root)
            self._root = -1


def problem() -> str | None:
    """Why there can be no volumes here, as far as can be seen without making one; None if nothing speaks against it."""
    if os.geteuid() != 0 or not syscalls.has_capability(syscalls.CAP_SYS_ADMIN):
        return "only root may mount file systems from files"
    if not os.access(loops.CONTROL, os.R_OK | os.W_OK):
        return f"there are no loop devices here ({loops.CONTROL})"
    try:
        find_tool("mkfs.ext4", "e2fsprogs")
    except AgentError as error:
        return str(error)
    return None


def sweep(is_left_over: Callable[[str], bool], *, dry_run: bool = False) -> list[str]:
    """Unmount volumes whose owner is gone, and remove their images; a line for each. Only root's sweep does so.

    Images that are removed meanwhile are no error, and a device that serves another image by then is not touched. The
    kernel may keep a device for a while after its last mount here is gone (another mount namespace has a copy of it):
    then there is nothing left to remove, and no line.

    Args:
        is_left_over: whether the owner of an image is gone, by its name.
        dry_run: only list them.
    """
    if os.geteuid() != 0:
        return []
    left = {device: image for device, image in loops.images().items() if is_left_over(os.path.basename(image))}
    images = {device: image for device, image in left.items() if not drives.is_outer(image)}
    if dry_run:
        mounted = {os.path.basename(image) for device, image in left.items() if _places(device)}
        there = {os.path.basename(image) for image in images.values() if os.path.exists(image)}
        return _lines("would unmount", images, mounted | there)
    removed: set[str] = set()
    for device, image in images.items():
        if _still_serves(device, image):
            with _unless_let_go():
                loops.limit(device, 0)  # unblock processes that wait for it
            with contextlib.suppress(FileNotFoundError):
                os.unlink(image)
                removed.add(os.path.basename(image))
    for device, image in left.items():
        for place in reversed(_places(device)):
            if _still_serves(device, image):
                with _unless_let_go():
                    syscalls.unmount(place, syscalls.MNT_DETACH)
                    removed.add(os.path.basename(image))
    return _lines("unmounted", images, removed)


def _lines(did: str, images: Mapping[str, str], names: set[str]) -> list[str]:
    """A line for each image of these names: the device that is mounted has its name as well (see `drives`)."""
    return [
        f"{did} {image} of a controller that is gone"
        for image in dict.fromkeys(images.values())
        if os.path.basename(image) in names
    ]


@contextlib.contextmanager
def _unless_let_go() -> Generator[None]:
    """Ignore the absence of what another process removed."""
    try:
        yield
    except OSError as error:
        if error.errno not in _LET_GO:
            raise


def _still_serves(device: str, image: str) -> bool:
    return loops.images().get(device) == image


def _places(device: str) -> list[str]:
    """Where a device is mounted, in the order of its mounts: the kernel writes blanks and the like as octal numbers."""
    with open(_MOUNTS, "rb") as file:
        mounts = [line.split(b" ") for line in file.read().split(b"\n") if line]
    places = [words[1] for words in mounts if words[0] == os.fsencode(device)]
    return [os.fsdecode(_ESCAPED.sub(lambda found: bytes([int(found[1], 8)]), place)) for place in places]


def _first_block_of_data(file: int) -> int:
    """The place of the first block that a new file system has free, in bytes: metadata and journal lie before it.

    With `packed_meta_blocks` those of all groups are in the first one, whose bitmap of blocks begins with them. (The
    layout is that of the kernel's Documentation/filesystems/ext4: block 1 begins with the place of the first bitmap.)
    """
    (bitmap_at,) = struct.unpack("<I", os.pread(file, 4, BLOCK))
    free = ~int.from_bytes(os.pread(file, BLOCK, bitmap_at * BLOCK), "little")
    return ((free & -free).bit_length() - 1) * BLOCK


def _write(path: str, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)
