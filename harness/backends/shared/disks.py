"""Disks of nodes: the request to an agent for one, what can be done to them, and images that killed controllers left.

During a run a node's file system is in a sparse file (`agent.volumes`). On a machine of namespaces its mount ends with
the controller, and the file stays in the store. Its name says whose it is.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from splitbrain.harness.backends.agent import loops
from splitbrain.harness.backends.shared import ownership
from splitbrain.harness.contract.faults import FaultKind, Support
from splitbrain.harness.contract.test import Test

ON_VOLUMES: Final[Mapping[FaultKind, str]] = {
    "disk-full": "files that take all room of the node's own ext4 file system, loop-mounted",
    "disk-read-only": "an error of the node's own ext4 file system, mounted with errors=remount-ro",
    "disk-fails": "the node's own ext4 file system is shut down (EXT4_IOC_SHUTDOWN)",
    "disk-sync": "the device of the node's own ext4 file system fails where its data lie",
    "disk-slow": "the node's own ext4 file system is frozen in turns: writes and syncs wait",
    "power": "SIGKILL, and the node's own ext4 file system is shut down without a flush of its journal",
}
"""What takes a file system of the node's own, and how it is done."""

AT_REST: Final[Mapping[FaultKind, str]] = {
    "disk-rot": "bits are flipped in files of a node that is stopped",
    "disk-truncate": "the ends of files are cut off while their node is stopped",
}
"""What any directory will do for."""


def support(problem: str | None) -> dict[FaultKind, Support]:
    """What can be done to disks; `problem` is why nodes cannot have file systems of their own, None if they can."""
    answer: dict[FaultKind, Support] = {kind: Support(True, how) for kind, how in AT_REST.items()}
    for kind, how in ON_VOLUMES.items():
        answer[kind] = Support(problem is None, problem or how)
    return answer


def needing_volumes(test: Test) -> list[FaultKind]:
    """The faults of the test's nemesis that take file systems of the nodes' own."""
    return [kind for kind in ON_VOLUMES if kind in test.nemesis.faults]


def request(test: Test, kind: str, home: Path, image: str, aside: Path) -> dict[str, Any]:
    """The request to an agent to set up a node's data directory ("lay_out_disks").

    The node's telemetry is for observers: no fault may hit it.

    Args:
        test: the test.
        kind: "directory", "volume" or "memory" (`agent.disks`).
        home: the directory that holds the data directory, "data", where the agent runs.
        image: the name in `home` of the file that holds a volume.
        aside: where the telemetry is kept meanwhile.
    """
    data, telemetry = home / "data", test.system.telemetry(test, home)
    spared = [telemetry] if telemetry is not None and telemetry.is_relative_to(data) else []
    return {
        "path": str(data),
        "kind": kind,
        "image": str(home / image),
        "aside": {str(file.relative_to(data)): str(aside / file.name) for file in spared},
    }


# --- images that were left behind -------------------------------------------------------------------------------------

SUFFIX: Final = ".disk"
_PATTERN: Final = f"test=*/run=*/nodes/*/{ownership.PREFIX}:*{SUFFIX}"
_BLOCK_BYTES: Final = 512


def sweep_images(store: Path, is_left_over: Callable[[str], bool], *, dry_run: bool = False) -> list[str]:
    """Remove images whose owner is gone and that no loop device serves; a line for each.

    Args:
        store: where runs are kept.
        is_left_over: whether the owner of an image is gone, by its name.
        dry_run: only list them.
    """
    served = {os.path.realpath(image) for image in loops.images().values()}
    lines: list[str] = []
    for path in sorted(store.absolute().glob(_PATTERN)):
        found = path.lstat()
        if not stat.S_ISREG(found.st_mode) or not is_left_over(path.name) or os.path.realpath(path) in served:
            continue
        if not dry_run:
            path.unlink(missing_ok=True)
        size = f"{found.st_blocks * _BLOCK_BYTES / 1e6:.1f} MB"
        lines.append(f"{'would remove' if dry_run else 'removed'} disk image {path} ({size}), whose controller is gone")
    return lines
