"""Everything that killed controllers left, of every backend: removed in one go, and told."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

import msgspec

from harness.backends import leftovers
from harness.backends.docker import DockerBackend
from harness.backends.ssh.backend import SshBackend
from harness.backends.ssh.inventory import Inventory
from results.errors import ContainerEngineError

SHARED_MEMORY: Final = Path("/dev/shm")
NAMED: Final = 3
"""Files that are left alone and named; of more there is the number."""

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
    notes = unowned(SHARED_MEMORY)
    try:
        removed = DockerBackend().clean(store, dry_run=dry_run)
    except ContainerEngineError as error:
        removed = leftovers.sweep(store=store, dry_run=dry_run)
        notes.append(f"containers were not looked at: {error}")
    return Cleaned(removed, notes)


def clean_hosts(inventory: Inventory, *, dry_run: bool) -> Cleaned:
    """Hosts over ssh.

    Raises:
        BackendError: one cannot be reached, or refuses.
    """
    return Cleaned(SshBackend(inventory).clean(dry_run=dry_run), [])


def unowned(folder: Path) -> list[str]:
    """A line on the shared memory of libfaketime in `folder` whose process is gone; no line if there is none.

    Such a file has a pid and no owner in its name: the program of any user leaves it. Nodes of namespaces have a
    /dev/shm of their own, which ends with them; those behind proxies have not.
    """
    if not folder.is_dir():
        return []
    found = [(name, _FAKETIME.fullmatch(name)) for name in sorted(os.listdir(folder))]
    gone = [name for name, match in found if match is not None and not os.path.exists(f"/proc/{match[1]}")]
    if not gone:
        return []
    named = ", ".join(gone[:NAMED]) + (f" and {len(gone) - NAMED} more" if len(gone) > NAMED else "")
    return [f"left in {folder}: {named}: their processes are gone, but no such file says whose it was"]
