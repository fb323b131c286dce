"""Backends by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from splitbrain.harness.contract.test import Backend
from splitbrain.results.errors import UnknownNameError

if TYPE_CHECKING:
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


def build(name: str, inventory: Inventory | None = None) -> Backend:
    """The backend of that name, on the hosts of an inventory where it takes those.

    Raises:
        UnknownNameError: there is none.
    """
    if name not in BACKENDS:
        raise UnknownNameError("backend", name, BACKENDS)
    return BACKENDS[name][0](inventory)
