"""A data directory in memory, for users that may not mount file systems from files: its only fault is to be full.

A tmpfs can be mounted in a user namespace. It has neither a journal that could be lost nor a device that could fail,
and the kernel refuses to make it read-only while a file is open for writing.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Mapping
from typing import Any

from . import syscalls
from .datafiles import copy_files, keep_aside, show_aside
from .tools import AgentError

SIZE_BYTES = 64 << 20
INODES = 4096


class MemoryVolume:
    """A tmpfs of one node, with the same methods as `volumes.Volume` has.

    Args:
        path: the node's data directory; what is in it while nothing is mounted is out of sight meanwhile.
        aside: as for `volumes.Volume`.
        size: in bytes.
    """

    heals_stopped = False

    def __init__(self, path: str, aside: Mapping[str, str] | None = None, size: int = SIZE_BYTES) -> None:
        self.path = path
        self._aside = dict(aside or {})
        self._size = size
        self._below = -1
        self._full = False

    def mount(self) -> None:
        """Mount it over the node's directory.

        Raises:
            AgentError: the kernel refuses.
        """
        self._below = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            syscalls.mount("splitbrain", self.path, "tmpfs", 0, self._limits(self._size, INODES))
        except OSError as error:
            os.close(self._below)
            raise AgentError(f"no file system in memory can be mounted at {self.path}: {error.strerror}") from None
        show_aside(self.path, self._aside)

    def spoil(self, fault: Mapping[str, Any]) -> dict[str, Any]:
        """Make it full; "errno" is what a write of this process's own got.

        Raises:
            AgentError: it shall do something else, or it did not take effect.
        """
        self.heal()
        others = sorted(name for name, value in fault.items() if value and name != "full")
        if others:
            raise AgentError(f"a file system in memory can only be full, not {', '.join(others)}: run this as root")
        used = os.statvfs(self.path)
        blocks, inodes = used.f_blocks - used.f_bfree, used.f_files - used.f_ffree
        self._full = True
        self._remount(max(1, blocks) * used.f_frsize, inodes)  # a size of 0 means no limit
        seen = self._trial()
        if seen != "ENOSPC":
            raise AgentError(f"a write below {self.path} got {seen or 'no error'} instead of ENOSPC")
        return {"errno": seen}

    def counts(self) -> dict[str, Any]:
        """What a write gets now, while it is full."""
        return {"errno": self._trial()} if self._full else {}

    def heal(self) -> dict[str, Any]:
        """Give it room again; what a write got until now.

        Raises:
            AgentError: it still has none.
        """
        if not self._full:
            return {}
        did = {"errno": self._trial()}
        self._remount(self._size, INODES)
        self._full = False
        seen = self._trial()
        if seen is not None:
            raise AgentError(f"a write below {self.path} still gets {seen}")
        return did

    def lose_power(self) -> dict[str, int]:
        """Not possible.

        Raises:
            AgentError: always.
        """
        raise AgentError("a file system in memory cannot lose only what was not synced: run this as root")

    def unmount(self) -> None:
        """Copy the data to where it was mounted, and unmount. Does nothing if nothing is mounted."""
        if self._below < 0:
            return
        below = f"/proc/self/fd/{self._below}"
        keep_aside(below, self._aside)
        copy_files(self.path, below)
        syscalls.unmount(self.path, syscalls.MNT_DETACH)
        os.close(self._below)
        self._below = -1

    def _remount(self, size: int, inodes: int) -> None:
        try:
            syscalls.mount("splitbrain", self.path, "tmpfs", syscalls.MS_REMOUNT, self._limits(size, inodes))
        except OSError as error:
            raise AgentError(f"the limits of {self.path} cannot be set: {error.strerror}") from None

    def _limits(self, size: int, inodes: int) -> str:
        return f"size={size},nr_inodes={inodes},mode=0755"

    def _trial(self) -> str | None:
        path = f"{self.path}/.splitbrain-trial"
        try:
            with open(path, "xb") as file:
                file.write(b"x")
        except OSError as error:
            return errno.errorcode.get(error.errno or 0, str(error.errno))
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
        return None
