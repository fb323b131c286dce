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

SHARED_MEMORY: Final = "/dev/shm"
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
    notes = _unlabelled()
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


def _unlabelled() -> list[str]:
    """Shared memory of libfaketime whose process is gone. It tells a pid and no owner: anybody's program leaves it.

    Nodes of namespaces have a /dev/shm of their own, which ends with them; those behind proxies have not.
    """
    if not os.path.isdir(SHARED_MEMORY):
        return []
    found = [(name, _FAKETIME.fullmatch(name)) for name in sorted(os.listdir(SHARED_MEMORY))]
    return [
        f"left {SHARED_MEMORY}/{name}: process {match[1]} is gone, but the file does not tell whose it was"
        for name, match in found
        if match is not None and not os.path.exists(f"/proc/{match[1]}")
    ]
