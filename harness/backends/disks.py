"""The disk of a node as an agent is asked for it, and what can be done to disks."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

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
