"""A node's share of the processor: a control group per node with a quota (cgroups(7), CFS bandwidth control).

Version 1 of control groups has `cpu.cfs_quota_us`, version 2 `cpu.max`; both count periods in which the group ran into
its quota. Groups lie in one named after the controller that owns them (`ownership`), below the group of the caller.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable, Iterable

from .tools import AgentError

PERIOD_US = 100_000
SHARE_MIN, SHARE_MAX = 0.01, 1.0
GONE_WITHIN_S = 5.0
_POLL_S = 0.01
_QUOTA_MIN_US = 1000
"""The shortest quota that the kernel takes."""
_MOUNTS = "/proc/self/mounts"
_MEMBERSHIP = "/proc/self/cgroup"
_GONE = (errno.ENOENT, errno.ENODEV)
"""The kernel's errors for a removed group: by its name, and by an open file of it."""


class CpuGroups:
    """Control groups of the nodes of one controller.

    Args:
        owner: names the group that holds them, and with it the controller.

    Raises:
        AgentError: the CPU controller is not mounted, or not writable for this user.
    """

    def __init__(self, owner: str) -> None:
        top, self._version = _top()
        self._folder = os.path.join(top, owner)
        self._before: dict[str, dict[str, int]] = {}
        try:
            os.makedirs(self._folder, exist_ok=True)
            if self._version == 2:
                for folder in (top, self._folder):
                    _write(f"{folder}/cgroup.subtree_control", "+cpu")
        except OSError as error:
            raise AgentError(f"no control group can be made in {top}: {error.strerror}") from None

    def throttle(self, node: str, pids: Iterable[int], share: float | None) -> dict[str, int]:
        """Give these processes, and all that they start, a share of one CPU; None for no limit.

        Returns:
            What the limit until now did: "throttled", periods in which the node ran into its quota, and
            "throttled_ms", how long its processes stood still together. Empty if there was none.
        """
        folder = os.path.join(self._folder, node)
        did = self.counts(node)
        self._before.pop(node, None)
        if share is None and not os.path.isdir(folder):
            return did
        if share is not None and not SHARE_MIN <= share <= SHARE_MAX:
            raise AgentError(f"a share of a CPU is between {SHARE_MIN:g} and {SHARE_MAX:g}, not {share:g}")
        try:
            os.makedirs(folder, exist_ok=True)
            self._set_quota(folder, share)
            self._join(folder, pids)
        except OSError as error:
            raise AgentError(f"the control group {folder} cannot be set: {error.strerror}") from None
        if share is not None:
            self._before[node] = self._stat(node)
        return did

    def join(self, node: str, pids: Iterable[int]) -> None:
        """Put processes of a node under the limit that is in force for it, if there is one."""
        if node in self._before:
            self._join(os.path.join(self._folder, node), pids)

    def counts(self, node: str) -> dict[str, int]:
        """What the limit in force did so far; empty without one."""
        if node not in self._before:
            return {}
        now, before = self._stat(node), self._before[node]
        return {name: now[name] - before[name] for name in now}

    def close(self) -> None:
        """Remove the groups. Processes that are left in them go back to the group above."""
        remove(self._folder)

    def _set_quota(self, folder: str, share: float | None) -> None:
        quota = None if share is None else max(_QUOTA_MIN_US, round(share * PERIOD_US))
        if self._version == 2:
            _write(f"{folder}/cpu.max", f"{'max' if quota is None else quota} {PERIOD_US}")
            return
        _write(f"{folder}/cpu.cfs_period_us", str(PERIOD_US))
        _write(f"{folder}/cpu.cfs_quota_us", str(-1 if quota is None else quota))

    def _join(self, folder: str, pids: Iterable[int]) -> None:
        for pid in pids:
            try:
                _write(f"{folder}/cgroup.procs", str(pid))
            except ProcessLookupError:
                continue

    def _stat(self, node: str) -> dict[str, int]:
        with open(os.path.join(self._folder, node, "cpu.stat")) as file:
            found = {words[0]: int(words[1]) for words in map(str.split, file) if len(words) == 2}
        throttled_ms = found.get("throttled_time", 0) // 1_000_000 + found.get("throttled_usec", 0) // 1000
        return {"throttled": found["nr_throttled"], "throttled_ms": throttled_ms}


def problem() -> str | None:
    """Why there can be no such groups here, as far as can be seen without making one; None if there can."""
    try:
        top, _ = _top()
    except AgentError as error:
        return str(error)
    return None if os.access(top, os.W_OK) else f"this user may not make control groups in {top}"


def sweep(is_left_over: Callable[[str], bool], *, dry_run: bool = False) -> list[str]:
    """Remove groups whose owner is gone, or only list them (`dry_run`); a line for each."""
    try:
        top, _ = _top()
    except AgentError:
        return []
    removed: list[str] = []
    for name in sorted(os.listdir(top)):
        folder = os.path.join(top, name)
        if is_left_over(name) and os.access(folder, os.W_OK):
            if dry_run:
                removed.append(f"would remove control group {folder}, whose controller is gone")
                continue
            try:
                remove(folder)
            except AgentError as error:
                removed.append(f"left a control group whose controller is gone: {error}")
            else:
                removed.append(f"removed control group {folder}, whose controller is gone")
    return removed


def remove(folder: str) -> None:
    """Remove a group and those in it; processes that are still there go to the group above. One that is gone is fine.

    Raises:
        AgentError: a process does not let go.
    """
    deadline = time.monotonic() + GONE_WITHIN_S
    while True:
        try:
            with os.scandir(folder) as entries:
                inside = [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
            for path in inside:
                remove(path)
            _empty(folder)
            os.rmdir(folder)
        except OSError as error:
            if error.errno in _GONE:
                return
            # A group is busy (EBUSY) for a moment after its last process has ended.
            if time.monotonic() > deadline:
                raise AgentError(f"the control group {folder} cannot be removed: {error.strerror}") from None
            time.sleep(_POLL_S)
        else:
            return


def _empty(folder: str) -> None:
    """Put the processes of a group into the one above."""
    with open(f"{folder}/cgroup.procs") as file:
        pids = file.read().split()
    for pid in pids:
        try:
            _write(f"{os.path.dirname(folder)}/cgroup.procs", pid)
        except OSError:  # it ended, or it ends
            continue


def _top() -> tuple[str, int]:
    """The group of this process in the hierarchy that has the CPU controller, and the version of control groups."""
    with open(_MOUNTS) as file:
        mounts = [line.split() for line in file]
    with open(_MEMBERSHIP) as file:
        membership = {controllers: path for _, controllers, path in (line.rstrip("\n").split(":", 2) for line in file)}
    for _, place, kind, options, *_ in mounts:
        if kind == "cgroup" and "cpu" in options.split(","):
            path = next((path for names, path in membership.items() if "cpu" in names.split(",")), "/")
            return _existing(place, path), 1
    for _, place, kind, *_ in mounts:
        if kind == "cgroup2":
            folder = _existing(place, membership.get("", "/"))
            with open(f"{folder}/cgroup.controllers") as file:
                if "cpu" in file.read().split():
                    return folder, 2
    raise AgentError("the CPU controller of control groups is not mounted here")


def _existing(place: str, path: str) -> str:
    """A group's folder; where only a part of the hierarchy is shown, what is shown."""
    folder = os.path.join(place, path.strip("/")).rstrip("/")
    return folder if os.path.isdir(folder) else place


def _write(path: str, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)
