"""Remove everything that killed controllers left behind, of every backend, and report it."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from splitbrain.harness.backends import leftovers
from splitbrain.harness.backends.docker import DockerBackend
from splitbrain.harness.backends.ssh.backend import SshBackend
from splitbrain.harness.backends.ssh.inventory import Inventory
from splitbrain.results.errors import ContainerEngineError

SHARED_MEMORY: Final = Path("/dev/shm")
NAMED: Final = 3
"""Files that a line names; of more there is the number."""

_FAKETIME: Final = re.compile(r"(?:sem\.)?faketime_(?:shm|sem)_(\d+)")


class Cleaned(msgspec.Struct, frozen=True):
    """A line for each thing that was removed, or would be; and what could not be looked at, or was left alone."""

    removed: list[str]
    notes: list[str]


def clean_here(store: Path, *, dry_run: bool) -> Cleaned:
    """This machine, and the images of disks in a store.

    Raises:
        BackendError: the engine refuses to remove something.
    """
    notes: list[str] = []
    try:
        removed = DockerBackend().clean(store, dry_run=dry_run)
    except ContainerEngineError as error:
        removed = leftovers.sweep(store=store, dry_run=dry_run)
        notes.append(f"containers were not looked at: {error}")
    # At the end: by now no process of a killed controller is left to use it.
    faketime = sweep_faketime(SHARED_MEMORY, dry_run=dry_run)
    return Cleaned([*removed, *faketime.removed], [*notes, *faketime.notes])


def clean_hosts(inventory: Inventory, *, dry_run: bool) -> Cleaned:
    """Hosts over ssh.

    Raises:
        BackendError: one cannot be reached, or refuses.
    """
    return Cleaned(SshBackend(inventory).clean(dry_run=dry_run), [])


def sweep_faketime(folder: Path, *, dry_run: bool) -> Cleaned:
    """Remove the shared memory of libfaketime in `folder` that no process uses any more.

    Nodes of namespaces have a /dev/shm of their own, which ends with them; those behind proxies leave two files each.
    A file has the pid of its creator in its name, and the creator's children share it: it is removed when the creator
    is gone and no process has mapped it. Files of other users stay.
    """
    found = [(path, _FAKETIME.fullmatch(path.name)) for path in sorted(folder.glob("*faketime_*"))]
    gone = [path for path, match in found if match is not None and not Path(f"/proc/{match[1]}").exists()]
    used: set[str] = _mapped() if gone else set()
    mine: list[Path] = []
    others: list[Path] = []
    for path in gone:
        if path.name in used:
            continue
        with contextlib.suppress(FileNotFoundError):  # another command removed it
            if os.geteuid() not in (0, path.stat().st_uid):
                others.append(path)
                continue
            if not dry_run:
                path.unlink()
            mine.append(path)
    done = "would remove" if dry_run else "removed"
    return Cleaned(
        [f"{done} shared memory of libfaketime in {folder}: {_listed(mine)}"] if mine else [],
        [f"left in {folder}, as it is of another user: {_listed(others)}"] if others else [],
    )


def _mapped() -> set[str]:
    """Names of files that the processes which this user may look at have in their memory."""
    found: set[str] = set()
    for maps in Path("/proc").glob("[0-9]*/maps"):
        with contextlib.suppress(OSError):
            found |= {line.rpartition("/")[2] for line in maps.read_text(errors="replace").splitlines()}
    return found


def _listed(paths: Sequence[Path]) -> str:
    more = f" and {len(paths) - NAMED} more" if len(paths) > NAMED else ""
    return ", ".join(path.name for path in paths[:NAMED]) + more
