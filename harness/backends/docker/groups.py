"""The state of a container's control groups (cgroups(7), version 1 or 2): frozen or not, and how throttled.

The engine puts all processes of a container into the same groups, so those of its first process are the container's.
"""

from __future__ import annotations

from pathlib import Path

_PROC = Path("/proc")


def frozen(pid: int, proc: Path = _PROC) -> bool | None:
    """Whether the container of a process is frozen; None if this machine does not show it."""
    state = _read(proc, pid, "freezer", "freezer.state")
    if state is not None:
        return state.strip() == "FROZEN"
    events = _read(proc, pid, "", "cgroup.events")
    return None if events is None else "frozen 1" in events.splitlines()


def throttled(pid: int, proc: Path = _PROC) -> int:
    """In how many periods the container of a process ran into its quota of CPU time since it was started."""
    text = _read(proc, pid, "cpu", "cpu.stat") or _read(proc, pid, "", "cpu.stat") or ""
    counts = dict(line.split(maxsplit=1) for line in text.splitlines() if " " in line)
    return int(counts.get("nr_throttled", 0))


def _read(proc: Path, pid: int, controller: str, name: str) -> str | None:
    """A file of the group that a process is in, in the hierarchy of a controller ("" for version 2)."""
    try:
        lines = (proc / str(pid) / "cgroup").read_text().splitlines()
        mounts = [line.split() for line in (proc / "self" / "mounts").read_text().splitlines()]
        groups = [(controllers.split(","), path) for _, controllers, path in (line.split(":", 2) for line in lines)]
        path = next(path for controllers, path in groups if controller in controllers)
        place = next(
            mount[1]
            for mount in mounts
            if (mount[2] == "cgroup" and controller in mount[3].split(",") if controller else mount[2] == "cgroup2")
        )
        return Path(place, path.lstrip("/"), name).read_text()
    except (OSError, StopIteration):
        return None
