"""A process seen from outside: the CPU time and memory that it used, whether it waits, and how it ended."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Final

STUCK_S: Final = 300.0
"""A task is given up that waits, and used less than `STIRS_S` of processor time in so many seconds of real time."""
STIRS_S: Final = 0.1


class Watched:
    """A process, and since when it has not moved.

    Args:
        pid: its id; 0 for one that is not there.
    """

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._stirred_cpu_s = self.cpu_s()
        self._stirred_at_s = time.monotonic()

    def cpu_s(self) -> float:
        """CPU seconds of the process since it began; 0 once it is gone."""
        try:
            return time.clock_gettime(_cpu_clock(self.pid)) if self.pid else 0.0
        except OSError:
            return 0.0

    def resident_bytes(self) -> int:
        """The memory that it holds; 0 once it is gone."""
        try:
            return int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        except (OSError, IndexError):
            return 0

    def sleeps(self) -> bool:
        """Whether it waits for something. One that gets no processor from a busy machine, or was stopped, does not."""
        try:
            fields = Path(f"/proc/{self.pid}/stat").read_text()
        except OSError:
            return False
        return fields.rpartition(") ")[2][:1] in ("S", "D")

    def still_s(self) -> float:
        """Seconds of real time since it was last seen to use the processor, or to want it."""
        now_s, cpu_s = time.monotonic(), self.cpu_s()
        if cpu_s - self._stirred_cpu_s > STIRS_S or not self.sleeps():
            self._stirred_cpu_s, self._stirred_at_s = cpu_s, now_s
        return now_s - self._stirred_at_s


def signal_name(number: int) -> str:
    """The name of a signal, and what the kernel means by it where that helps."""
    try:
        name = signal.Signals(number).name
    except ValueError:
        name = f"signal {number}"
    return f"{name} (the kernel does that when memory runs out)" if number == signal.SIGKILL else name


def _cpu_clock(pid: int) -> int:
    """The clock of a process's CPU time, as clock_getcpuclockid(3) makes it on Linux, which Python does not offer."""
    return (~pid << 3) | 2
