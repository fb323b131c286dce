"""Backends by name; and what killed controllers left behind, of every backend."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from splitbrain.harness.contract.test import Backend
from splitbrain.results import plugins
from splitbrain.results.errors import ContainerEngineError, UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from splitbrain.harness.backends.shared.leftovers import Cleaned
    from splitbrain.harness.backends.ssh.inventory import Inventory


def _local(_: Inventory | None) -> Backend:
    from splitbrain.harness.backends.local import LocalBackend

    return LocalBackend()


def _docker(_: Inventory | None) -> Backend:
    from splitbrain.harness.backends.docker import DockerBackend

    return DockerBackend()


def _sim(_: Inventory | None) -> Backend:
    from splitbrain.harness.backends.sim import SimBackend

    return SimBackend()


def _ssh(inventory: Inventory | None) -> Backend:
    from splitbrain.harness.backends.ssh.backend import SshBackend

    return SshBackend(inventory)


BACKENDS: Mapping[str, tuple[Callable[[Inventory | None], Backend], str]] = {
    "local": (_local, "operating system processes on this machine, links cut between network namespaces or by proxies"),
    "docker": (_docker, "containers on a private network of this machine's Docker engine"),
    "ssh": (
        _ssh,
        "hosts that you have, one per node (--hosts): known host keys, sudo, an agent that dies with its channel",
    ),
    "sim": (_sim, "objects in this process under virtual time: the same seed gives the same run, on every machine"),
}


_MEMBERS = ("name", "support", "check", "sweep", "deploy")


def build(name: str, inventory: Inventory | None = None) -> Backend:
    """The backend of that name, on the hosts of an inventory where it takes those.

    Args:
        name: a key of `BACKENDS`, or that of another package's (`splitbrain.results.plugins`): a Backend, or a class or
            function without arguments that makes one.
        inventory: for the ssh backend.

    Raises:
        UnknownNameError: there is none.
        UsageError: that of another package cannot be imported, or is no backend.
    """
    if name in BACKENDS:
        return BACKENDS[name][0](inventory)
    found = plugins.find("backend", name, BACKENDS)
    made = plugins.made("backend", name, found) if inspect.isclass(found) or inspect.isroutine(found) else found
    lacking = [member for member in _MEMBERS if not hasattr(made, member)]
    if lacking:
        raise UsageError(f"backend {name!r} made {made!r:.80}, not a Backend: it has no {', '.join(lacking)}.")
    return made


def clean_here(store: Path, *, dry_run: bool) -> Cleaned:
    """This machine, and the images of disks in a store.

    Raises:
        BackendError: the engine refuses to remove something.
    """
    from splitbrain.harness.backends.docker import DockerBackend
    from splitbrain.harness.backends.shared import leftovers

    notes: list[str] = []
    try:
        removed = DockerBackend().clean(store, dry_run=dry_run)
    except ContainerEngineError as error:
        removed = leftovers.sweep(store=store, dry_run=dry_run)
        notes.append(f"containers were not looked at: {error}")
    # At the end: by now no process of a killed controller is left to use it.
    faketime = leftovers.sweep_faketime(leftovers.SHARED_MEMORY, dry_run=dry_run)
    return leftovers.Cleaned([*removed, *faketime.removed], [*notes, *faketime.notes])


def clean_hosts(inventory: Inventory, *, dry_run: bool) -> Cleaned:
    """Hosts over ssh.

    Raises:
        BackendError: one cannot be reached, or refuses.
    """
    from splitbrain.harness.backends.shared.leftovers import Cleaned
    from splitbrain.harness.backends.ssh.backend import SshBackend

    return Cleaned(SshBackend(inventory).clean(dry_run=dry_run), [])
