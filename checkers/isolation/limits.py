"""How much time and memory a step of judging may take."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import msgspec

from splitbrain.checkers.isolation.watched import STUCK_S
from splitbrain.results.errors import UsageError

CPU_S: Final = 1800.0
"""Far above what a checker of this package takes for millions of ops: it is there for one that never ends."""

LEAST_MB: Final = 64
_LONGEST_S: Final = 30 * 86_400.0
_MOST_MB: Final = 1 << 30
_SHARE: Final = 0.5
"""Of the machine's memory, for everything that judges at the same time; the rest is for Spark, pages and others."""


class Limits(msgspec.Struct, frozen=True):
    """What reading a run, each checker, and writing its page may take.

    Attributes:
        cpu_s: CPU seconds.
        memory_mb: what the process may need beyond what it holds when it begins, in MiB; None for an equal share of
            half the machine's memory.
        stuck_s: seconds of real time after which a step is given up that only waits.
        at_once: how many processes judge on this machine at the same time, and share its memory; 0: one for each of
            its cores, as many as Spark's workers are.
    """

    cpu_s: float = CPU_S
    memory_mb: int | None = None
    stuck_s: float = STUCK_S
    at_once: int = 1

    def __post_init__(self) -> None:
        """Refuse what no run could be judged with.

        Raises:
            UsageError: a limit is too small, or no number.
        """
        if not 0 < self.cpu_s <= _LONGEST_S:
            raise UsageError(
                f"--checker-time {self.cpu_s:g}: it must be above 0, and at most {_LONGEST_S:.0f} CPU seconds."
            )
        if self.memory_mb is not None and not LEAST_MB <= self.memory_mb <= _MOST_MB:
            raise UsageError(f"--checker-memory {self.memory_mb}: it must be from {LEAST_MB} to {_MOST_MB} MB.")

    @property
    def memory_bytes(self) -> int:
        """The memory limit in bytes."""
        if self.memory_mb is not None:
            return self.memory_mb << 20
        return max(LEAST_MB << 20, int(_machine_bytes() * _SHARE) // (self.at_once or os.cpu_count() or 1))


DEFAULT: Final = Limits()
PER_CORE: Final = Limits(at_once=0)
"""The same where every core has a process that judges."""


def _machine_bytes() -> int:
    """The memory of this machine, or of the container that this process is in."""
    found = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for file in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            found.append(int(Path(file).read_text()))
        except (OSError, ValueError):  # no such limit, or "max"
            continue
    return min(found)
