"""Images of nodes' disks that killed controllers left in a store: sparse files that are no longer mounted.

During a run a node's file system is in such a file (`agent.volumes`). On a machine of namespaces its
mount ends with the controller, and the file stays. Its name says whose it is.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Final

from splitbrain.harness.backends import ownership
from splitbrain.harness.backends.agent import loops

SUFFIX: Final = ".disk"
_PATTERN: Final = f"test=*/run=*/nodes/*/{ownership.PREFIX}:*{SUFFIX}"
_BLOCK_BYTES: Final = 512


def sweep(store: Path, is_left_over: Callable[[str], bool], *, dry_run: bool = False) -> list[str]:
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
