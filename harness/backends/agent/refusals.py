"""What a node's own system calls got while its disk had a fault: it shows whether the node met the fault at all.

The kernel counts the calls that end with certain errors (perf_event_open(2), at the tracepoint raw_syscalls:sys_exit),
of every thread that the node has and of all that these start. The node is not affected. Calls are counted by error, not
by file; but almost only a disk that is full, read-only or broken gives these errors.

What comes back in another way is not seen: completions of io_uring(7) and io_submit(2), and the end of a process that
touched a file in its memory (mmap(2)), which is a halt.
"""

from __future__ import annotations

import errno
import fcntl
import os
import struct
from collections.abc import Iterable, Mapping
from typing import Any, Final

from . import syscalls
from .tools import AgentError

ERRORS: Final[Mapping[str, tuple[int, ...]]] = {
    "full": (errno.ENOSPC,),
    "sync_fails": (errno.EIO, errno.EROFS),
    "read_only": (errno.EROFS, errno.EIO),
    "fails": (errno.EIO, errno.EROFS),
}
"""What a process can get by each fault, a field of a DiskFault."""

_NUMBERS: Final = {"x86_64": 298, "aarch64": 241, "riscv64": 241, "ppc64le": 319, "s390x": 331}
"""Of perf_event_open(2), by architecture."""
_TRACEPOINT, _DISABLED_AND_INHERITED, _CLOSE_ON_EXEC = 2, 0b11, 8
_ATTRIBUTES: Final = struct.Struct("=IIQQQQQ64x")
_SET_FILTER, _ENABLE = 0x4008_2406, 0x2400
_SYS_EXIT = "events/raw_syscalls/sys_exit/id"
_RING, _CONTEXT_OF_AIO = "anon_inode:[io_uring]", b"/[aio]"


class Refusals:
    """Counts the calls that a fault refuses to one life of a node, from now on. Close it.

    Args:
        fault: the fields of a DiskFault that are in force.
        pid: of the node's first process, None if it does not run.
        life: which life of the node that is.
    """

    def __init__(self, fault: Mapping[str, Any], pid: int | None, life: int) -> None:
        self._life = life
        self._ran = pid is not None
        self._counters: dict[int, int] = {}
        self._problem: str | None = None
        errors = {number for name, numbers in ERRORS.items() if fault.get(name) for number in numbers}
        if pid is None:
            self._problem = "the node did not run when its disk got the fault"
            return
        try:
            self._watch(pid, " || ".join(f"ret == -{number}" for number in sorted(errors)))
        except (OSError, AgentError) as error:
            self._problem = f"the kernel does not count system calls for this user: {error}"
            self.close()

    @staticmethod
    def can_come(fault: Mapping[str, Any]) -> bool:
        """Whether a fault is of those that refuse calls."""
        return any(fault.get(name) for name in ERRORS)

    def evidence(self, life: int, halted: bool) -> dict[str, Any]:
        """What is known by now.

        Args:
            life: which life of the node runs now, or was the last one.
            halted: whether that ended by itself.

        Returns:
            "failed_calls", system calls of the node that got such an error; "halted" if it is so. "uncounted", with the
            reason, instead of the calls if some may have been missed.
        """
        failed = sum(struct.unpack("=Q", os.read(counter, 8))[0] for counter in self._counters.values())
        problem = self._problem or ("the node was started again meanwhile" if life != self._life else None)
        # One that did not run at first may have ended long before.
        seen: dict[str, Any] = {"halted": True} if halted and (self._ran or life != self._life) else {}
        if problem is not None and not failed:
            return {**seen, "uncounted": problem}
        return {**seen, "failed_calls": failed}

    def close(self) -> None:
        """Count no more. Closing twice does no harm."""
        while self._counters:
            os.close(self._counters.popitem()[1])

    def _watch(self, pid: int, errors: str) -> None:
        """Count for all threads of a node; again for those that are new, as one may have started before its parent's.

        Such a one can be counted twice.
        """
        event, only = _event(), errors.encode() + b"\0"
        while True:
            family = syscalls.family(pid)
            found = [thread for process in family for thread in _threads(process) if thread not in self._counters]
            if not found:
                break
            for thread in found:
                counter = _open(event, thread)
                if counter is not None:
                    self._counters[thread] = counter
                    fcntl.ioctl(counter, _SET_FILTER, only)
                    fcntl.ioctl(counter, _ENABLE)
        if not self._counters:
            raise AgentError(f"process {pid} is gone")
        if any(_completes_without_calls(process) for process in family):
            self._problem = "the node writes without system calls (io_uring or io_submit)"


def _event() -> int:
    """The number of the tracepoint."""
    root = syscalls.mount_apart("none", "tracefs")
    try:
        file = os.open(_SYS_EXIT, os.O_RDONLY | os.O_CLOEXEC, dir_fd=root)
    finally:
        os.close(root)
    try:
        return int(os.read(file, 64))
    finally:
        os.close(file)


def _open(event: int, thread: int) -> int | None:
    """A counter of a thread and all that it starts, on any processor; None if the thread is gone."""
    number = _NUMBERS.get(os.uname().machine)
    if number is None:
        raise AgentError(f"perf_event_open has no known number on {os.uname().machine}")
    attributes = _ATTRIBUTES.pack(_TRACEPOINT, _ATTRIBUTES.size, event, 0, 0, 0, _DISABLED_AND_INHERITED)
    try:
        return syscalls.call(number, attributes, thread, -1, -1, _CLOSE_ON_EXEC)
    except ProcessLookupError:
        return None


def _threads(process: int) -> Iterable[int]:
    try:
        return [int(name) for name in os.listdir(f"/proc/{process}/task")]
    except (FileNotFoundError, ProcessLookupError):
        return []


def _completes_without_calls(process: int) -> bool:
    try:
        for name in os.listdir(f"/proc/{process}/fd"):
            if os.readlink(f"/proc/{process}/fd/{name}") == _RING:
                return True
        with open(f"/proc/{process}/maps", "rb") as maps:
            return any(line.rstrip().endswith(_CONTEXT_OF_AIO) for line in maps)
    except (FileNotFoundError, ProcessLookupError):
        return False
