"""Owners of processes: every process of a deployment names its controller, so that leftovers can be identified.

A marker `splitbrain-agent:<PID namespace>:<pid>:<start time>:<boot>` stands in the agent's arguments and in the
environment of its nodes. A controller is alive if a process of that pid runs that began at that time (pids are reused,
starts in clock ticks since boot are not). Markers from other PID namespaces and other boots are left alone: their pids
mean nothing here. The boot is in there because every machine gives its first PID namespace the same number, and an
agent that is reached over ssh carries the marker of a controller on another machine.

Versions before wrote no boot. What carries such a marker counts as this machine's only if controllers elsewhere do not
put it there: agents on hosts have it in their arguments, but not in their environment.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import re
import select
import signal
import socket
from collections.abc import Iterable
from dataclasses import dataclass

PREFIX = "splitbrain-agent"
MARKER_VARIABLE = "SPLITBRAIN_AGENT"
GONE_WITHIN_S = 5.0

_MARKER = re.compile(rf"{PREFIX}:(\d+):(\d+):(\d+)(?::([0-9a-f]{{32}}))?", re.ASCII)


@dataclass(frozen=True)
class Controller:
    """The process that owns a deployment; `boot` is that of its machine, None for an old marker without it."""

    pid_namespace: int
    pid: int
    started: int
    boot: str | None

    @property
    def marker(self) -> str:
        """How the processes of its deployments are marked."""
        fields = (PREFIX, self.pid_namespace, self.pid, self.started, *([] if self.boot is None else [self.boot]))
        return ":".join(map(str, fields))

    @property
    def elsewhere(self) -> bool:
        """Whether it belongs to another machine, or to this one before it was booted."""
        return self.boot not in (None, this_boot())

    @property
    def here(self) -> bool:
        """Whether its pid means something to this process. Of no other controller is it known whether it lives."""
        return not self.elsewhere and self.pid_namespace == _pid_namespace()

    @property
    def gone(self) -> bool:
        """Whether it is known not to run any more."""
        return self.here and start_time(self.pid) != self.started


def this_controller() -> Controller:
    """The calling process as an owner."""
    started = start_time(os.getpid())
    assert started is not None, "a running process is in /proc"
    return Controller(_pid_namespace(), os.getpid(), started, this_boot())


@functools.cache
def this_boot() -> str:
    """This machine for as long as it is up: 32 hexadecimal digits. Where boots have no name, its own stands for it."""
    with contextlib.suppress(OSError), open("/proc/sys/kernel/random/boot_id") as file:
        return file.read().strip().replace("-", "")
    return hashlib.sha256(socket.gethostname().encode()).hexdigest()[:32]


def parse(marker: str) -> Controller | None:
    """The owner that a marker names; None if it is not a marker."""
    found = _MARKER.fullmatch(marker)
    if found is None:
        return None
    pid_namespace, pid, started, boot = found.groups()
    return Controller(int(pid_namespace), int(pid), int(started), boot)


def start_time(pid: int) -> int | None:
    """When a process began, in clock ticks since boot; None if there is none of that pid, or only its zombie."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rsplit(b")", 1)[1].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if fields[0] in (b"Z", b"X") else int(fields[19])


def sweep(*, dry_run: bool = False) -> list[str]:
    """Kill what dead controllers left behind, and wait until it has ended; or only list it. A line for each process."""
    removed: list[str] = []
    for name in sorted(filter(str.isdigit, os.listdir("/proc")), key=int):
        owner = _owner(int(name))
        if owner is None or not owner.gone:
            continue
        if dry_run:
            removed.append(f"would kill process {name} of controller {owner.pid}, which is gone")
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
    """The owner of a process of this user. Other users sweep their own processes."""
    try:
        if os.geteuid() not in (0, os.stat(f"/proc/{pid}").st_uid):
            return None
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            arguments = file.read().decode(errors="replace").split("\0")
        with open(f"/proc/{pid}/environ", "rb") as file:
            environment = file.read().decode(errors="replace").split("\0")
    except OSError:
        return None
    variable = f"{MARKER_VARIABLE}="
    by_environment = _first(entry.removeprefix(variable) for entry in environment if entry.startswith(variable))
    by_arguments = _first(arguments)
    if by_arguments is not None and by_arguments.boot is not None:
        return by_arguments
    return by_environment


def _first(words: Iterable[str]) -> Controller | None:
    return next((owner for owner in map(parse, words) if owner is not None), None)


def _pid_namespace() -> int:
    return os.stat("/proc/self/ns/pid").st_ino
