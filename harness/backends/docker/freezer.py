"""Whether the kernel has frozen a process: what a pause of a container comes down to (the cgroup freezer, v1 or v2)."""

from __future__ import annotations

from pathlib import Path

_CGROUPS = Path("/sys/fs/cgroup")
_PROC = Path("/proc")


def frozen(pid: int, proc: Path = _PROC, cgroups: Path = _CGROUPS) -> bool | None:
    """Whether the control group of a process is frozen; None if this machine does not show it."""
    try:
        lines = (proc / str(pid) / "cgroup").read_text().splitlines()
    except OSError:
        return None
    groups = {controllers: path.lstrip("/") for _, controllers, path in (line.split(":", 2) for line in lines)}
    try:
        if "freezer" in groups:
            return (cgroups / "freezer" / groups["freezer"] / "freezer.state").read_text().strip() == "FROZEN"
        if "" in groups:
            return "frozen 1" in (cgroups / groups[""] / "cgroup.events").read_text().splitlines()
    except OSError:
        return None
    return None
