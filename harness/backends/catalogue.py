"""Backends by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from harness.protocols import Backend
from results.errors import UnknownNameError


def _local() -> Backend:
    from harness.backends.local import LocalBackend

    return LocalBackend()


def _docker() -> Backend:
    from harness.backends.docker import DockerBackend

    return DockerBackend()


def _sim() -> Backend:
    from harness.backends.sim import SimBackend

    return SimBackend()


BACKENDS: Mapping[str, tuple[Callable[[], Backend], str]] = {
    "local": (_local, "operating system processes on this machine, links cut between network namespaces or by proxies"),
    "docker": (_docker, "containers on a private network of this machine's Docker engine"),
    "sim": (_sim, "objects in this process under virtual time: the same seed gives the same run, on every machine"),
}


def build(name: str) -> Backend:
    """The backend of that name.

    Raises:
        UnknownNameError: there is none.
    """
    if name not in BACKENDS:
        raise UnknownNameError("backend", name, BACKENDS)
    return BACKENDS[name][0]()
