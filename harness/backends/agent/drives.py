"""A block device whose blocks beyond some place fail while its size stays what it was.

A loop device can be made to end earlier (LOOP_SET_STATUS64), and what lies beyond its new end fails with EIO. A file
system must not see that of the device that it is on: the kernel hands out no buffer for a block beyond a device's end,
ext4 takes that for a lack of memory, and where it may not fail for that reason it tries again for ever. The process in
it cannot even be killed. It takes no more than a file of five extents, whose tree has a block of its own.

So there are two devices, one in the other, and only the inner one ends earlier:

    image file -> loop device (ends earlier) -> ext4 with a single file -> loop device (keeps its size) -> user

The file has all its blocks from the beginning, in ascending order, and the outer device passes the page cache by: what
is written to it becomes a write to blocks of the inner device, and nothing else. The file system in between is in no
mount namespace. Each part holds the one before it, so the kernel lets everything go with the last user.
"""

from __future__ import annotations

import fcntl
import os
import struct
import subprocess
import tempfile
from collections.abc import Mapping

from . import loops, syscalls
from .datafiles import extents
from .tools import AgentError, find_tool

BLOCK = 4096
MKFS_TIMEOUT_S = 20.0
_OWN_ROOM = 4 << 20
"""What the file system in between takes for itself at most, in bytes; the image has holes where it takes less."""

# mke2fs makes the file: the only way to blocks that are neither written nor marked as not written, for whose marks the
# file system would have to write beside them.
_LAYOUT = """
[defaults]
    base_features = extent,filetype,flex_bg,large_file,sparse_super2
    blocksize = {block}
    inode_size = 256
[fs_types]
    ext4 = {{
        make_hugefiles = 1
        num_hugefiles = 1
        hugefiles_dir = /
        hugefiles_name = "{name}"
        hugefiles_digits = 0
        hugefiles_size = {blocks}
        zero_hugefiles = false
    }}
"""
_FIEMAP = 0xC020660B
_FIEMAP_SYNC = 1
_MOST_EXTENTS = 4  # more need a block beside the inode
_HEADER, _EXTENT = struct.Struct("=QQIIII"), struct.Struct("=QQQQQIIII")


class Drive:
    """A block device of `size` bytes (a multiple of `BLOCK`), in a file.

    Args:
        image: the file; `make` creates it, and its caller removes it. The outer device's backing file has its name,
            in no directory that anybody sees.
        size: in bytes.
    """

    def __init__(self, image: str, size: int) -> None:
        self.image = image
        self.size = size
        self._inner = ""
        self._file = -1

    def make(self, content: str) -> None:
        """Make the image and what is in it: a device that holds what the file `content` does, and zeros after it.

        Raises:
            AgentError: no loop devices, no mkfs.ext4, or one that does not know how.
        """
        with open(self.image, "xb") as file:
            file.truncate(self.size + _OWN_ROOM)
        try:
            self._lay_out()
            self._inner, descriptor = loops.attach_image(self.image)
            try:
                # A flush ends in the image's page cache: nothing here is to outlive the machine, and no node shall wait
                # for its real disk.
                root = syscalls.mount_apart(self._inner, "ext4", "nobarrier", "lazytime")
                try:
                    self._file = os.open(os.path.basename(self.image), os.O_RDWR | os.O_CLOEXEC, dir_fd=root)
                finally:
                    os.close(root)
            finally:
                os.close(descriptor)
            if sum(length for _, _, length in _blocks(self._file, self.size)) != self.size:
                raise AgentError("mkfs.ext4 gave a file no blocks (e2fsprogs before 1.43 cannot)")
            self._copy(content)
        except BaseException as error:
            self.close()
            os.unlink(self.image)
            if isinstance(error, OSError):
                raise AgentError(f"no device can be made of {self.image}: {error.strerror}") from None
            raise

    def attach(self) -> tuple[str, int]:
        """A new device with the content there is; see `loops.attach`."""
        return loops.attach(self._file, self.image, direct=True)

    def fail_beyond(self, place: int) -> None:
        """Let every read and write of what lies at or after `place` (bytes) fail with EIO, and no other.

        Raises:
            AgentError: blocks are not where they were any more (their user gave some back), and in too many pieces.
        """
        blocks = _blocks(self._file, self.size)
        kept = [physical + min(length, place - logical) for logical, physical, length in blocks if logical < place]
        lost = [physical + max(0, place - logical) for logical, physical, length in blocks if logical + length > place]
        if len(blocks) > _MOST_EXTENTS or max(kept, default=0) > min(lost):
            raise AgentError(f"the blocks of {self.image} are out of order: they cannot be made to fail")
        loops.limit(self._inner, min(lost))

    def mend(self) -> None:
        """Let everything work again. Does nothing to what is not broken, or not there."""
        if self._file >= 0:
            loops.limit(self._inner, 0)

    def close(self) -> None:
        """Detach: after the last device only the image remains."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _copy(self, content: str) -> None:
        with open(content, "rb") as file:
            for start, end in extents(file.fileno()):
                os.pwrite(self._file, os.pread(file.fileno(), end - start, start), start)
        os.fsync(self._file)

    def _lay_out(self) -> None:
        argv = [find_tool("mkfs.ext4", "e2fsprogs"), "-q", "-F", "-t", "ext4", "-N", "16", "-m", "0"]
        argv += ["-E", "nodiscard,lazy_itable_init=0,packed_meta_blocks=1,num_backup_sb=0", self.image]
        name = os.path.basename(self.image)
        with tempfile.NamedTemporaryFile("w", suffix=".conf") as layout:
            layout.write(_LAYOUT.format(block=BLOCK, name=name, blocks=f"{self.size >> 10}K"))
            layout.flush()
            make_file_system(argv, {"MKE2FS_CONFIG": layout.name})


def is_outer(backing: str) -> bool:
    """Whether a device with a backing file of this path is the outer one of a drive: the file is in no directory."""
    return os.path.dirname(backing) == "/"


def make_file_system(argv: list[str], environment: Mapping[str, str] | None = None) -> None:
    """Run mkfs.ext4, with more in its environment than this process has.

    Raises:
        AgentError: it failed, or did not end.
    """
    try:
        done = subprocess.run(
            argv,
            capture_output=True,
            text=True,
            timeout=MKFS_TIMEOUT_S,
            check=False,
            env={**os.environ, **(environment or {})},
        )
    except subprocess.TimeoutExpired:
        raise AgentError(f"mkfs.ext4 did not end within {MKFS_TIMEOUT_S:g} s") from None
    if done.returncode != 0:
        raise AgentError(f"mkfs.ext4 failed: {' '.join(done.stderr.split())[:300]}")


def _blocks(descriptor: int, size: int) -> list[tuple[int, int, int]]:
    """Extents of a file: (place in the file, place on its device, length), in bytes; one more than `_MOST_EXTENTS`."""
    request = bytearray(_HEADER.pack(0, size, _FIEMAP_SYNC, 0, _MOST_EXTENTS + 1, 0))
    request += bytes(_EXTENT.size * (_MOST_EXTENTS + 1))
    fcntl.ioctl(descriptor, _FIEMAP, request, True)
    found: list[tuple[int, int, int]] = []
    for number in range(_HEADER.unpack_from(request)[3]):
        logical, physical, length = _EXTENT.unpack_from(request, _HEADER.size + number * _EXTENT.size)[:3]
        found.append((logical, physical, length))
    return found
