"""What syncing costs on a file system, and how often a node syncs."""

from __future__ import annotations

import os
import statistics
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Final

from splitbrain.results.errors import HarnessError

APPENDS: Final = 100
APPENDED_BYTES: Final = 200
ATTACHES_WITHIN_S: Final = 0.5
"""How long to wait after a counter was made until it surely counts."""


def sync_ms(folder: Path) -> float:
    """What it takes to sync a file after an append of 200 bytes, as a log entry has; median of 100."""
    took_s: list[float] = []
    with (folder / "sync").open("ab", buffering=0) as file:
        for _ in range(APPENDS):
            file.write(bytes(APPENDED_BYTES))
            began = time.perf_counter()
            os.fdatasync(file.fileno())
            took_s.append(time.perf_counter() - began)
    return statistics.median(took_s) * 1e3


class SyncCounter:
    """Counts fsync and fdatasync, with strace, of a process and of all that descend from it, until it is stopped.

    Args:
        pid: the process; the first one of a container stands for the whole container.
    """

    def __init__(self, pid: int) -> None:
        self._trace = tempfile.NamedTemporaryFile("r", prefix="splitbrain-syncs-")  # noqa: SIM115 - closed by `stop`
        attached = [word for each in _tree(pid) for word in ("-p", str(each))]
        self._tracer = subprocess.Popen(
            ["strace", "-f", "-qq", "-e", "trace=fsync,fdatasync", "-o", self._trace.name, *attached],
            stderr=subprocess.PIPE,
            text=True,
        )

    def stop(self) -> int:
        """How many there were.

        Raises:
            HarnessError: strace had ended before.
        """
        ended = self._tracer.poll() is not None
        self._tracer.terminate()
        _, complaint = self._tracer.communicate()
        with self._trace as trace:
            lines = trace.readlines()
        if ended:
            raise HarnessError(f"syncs could not be counted: {complaint.strip() or 'strace ended'}. Leave out --syncs.")
        return sum(1 for line in lines if "sync(" in line)  # a call that was interrupted is reported again without "("


def _tree(pid: int) -> list[int]:
    found = [pid]
    for parent in found:  # grows meanwhile
        found += [int(child) for path in Path(f"/proc/{parent}/task").glob("*/children") for child in _words(path)]
    return found


def _words(path: Path) -> list[str]:
    try:
        return path.read_text().split()
    except OSError:  # the thread has ended
        return []
