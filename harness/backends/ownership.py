"""Who owns which process: every process of a deployment names its controller, so that leftovers can be told apart.

A marker `splitbrain-agent:<PID namespace>:<pid>:<start time>` stands in the agent's arguments and in the environment of
its nodes. A controller is alive if a process of that pid runs that began at that time (pids are reused, starts in clock
ticks since boot are not). Markers from other PID namespaces are left alone: their pids mean nothing here.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
from dataclasses import dataclass

PREFIX = "splitbrain-agent"
MARKER_VARIABLE = "SPLITBRAIN_AGENT"
GONE_WITHIN_S = 5.0


@dataclass(frozen=True)
class Controller:
    """The process that owns a deployment."""

    pid_namespace: int
    pid: int
    started: int

    @property
    def marker(self) -> str:
        """How the processes of its deployments are marked."""
        return f"{PREFIX}:{self.pid_namespace}:{self.pid}:{self.started}"

    @property
    def alive(self) -> bool:
        """Whether it still runs."""
        return start_time(self.pid) == self.started


def this_controller() -> Controller:
    """The calling process as an owner."""
    started = start_time(os.getpid())
    assert started is not None, "a running process is in /proc"
    return Controller(_pid_namespace(), os.getpid(), started)


def parse(marker: str) -> Controller | None:
    """The owner that a marker names; None if it is not a marker."""
    parts = marker.split(":")
    if len(parts) != 4 or parts[0] != PREFIX or not all(part.isdigit() for part in parts[1:]):
        return None
    return Controller(int(parts[1]), int(parts[2]), int(parts[3]))


def start_time(pid: int) -> int | None:
    """When a process began, in clock ticks since boot; None if there is none of that pid, or only its zombie."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rsplit(b")", 1)[1].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if fields[0] in (b"Z", b"X") else int(fields[19])


def sweep() -> list[str]:
    """Kill what dead controllers left behind, and wait until it is gone; a line for each process."""
    removed: list[str] = []
    here = _pid_namespace()
    for name in sorted(filter(str.isdigit, os.listdir("/proc")), key=int):
        owner = _owner(int(name))
        if owner is None or owner.pid_namespace != here or owner.alive:
            continue
        with contextlib.suppress(ProcessLookupError, PermissionError):
            pidfd = os.pidfd_open(int(name))
            try:
                if _owner(int(name)) == owner:  # still the same process, now that the descriptor pins it
                    signal.pidfd_send_signal(pidfd, signal.SIGKILL)
                    gone = bool(select.select([pidfd], [], [], GONE_WITHIN_S)[0])
                    state = "killed" if gone else "does not end after SIGKILL:"
                    removed.append(f"{state} process {name} of controller {owner.pid}, which is gone")
            finally:
                os.close(pidfd)
    return removed


def _owner(pid: int) -> Controller | None:
    """Whom a process of ours belongs to. Other users' processes are theirs to sweep."""
    try:
        if os.geteuid() not in (0, os.stat(f"/proc/{pid}").st_uid):
            return None
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            words = file.read().decode(errors="replace").split("\0")
        with open(f"/proc/{pid}/environ", "rb") as file:
            environment = file.read().decode(errors="replace").split("\0")
    except OSError:
        return None
    variable = f"{MARKER_VARIABLE}="
    words += [entry.removeprefix(variable) for entry in environment if entry.startswith(variable)]
    return next((owner for owner in map(parse, words) if owner is not None), None)


def _pid_namespace() -> int:
    return os.stat("/proc/self/ns/pid").st_ino
