"""Backends by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from harness.protocols import Backend
from results.errors import UnknownNameError


def _local() -> Backend:
    from harness.backends.local import LocalBackend

    return LocalBackend()


BACKENDS: Mapping[str, tuple[Callable[[], Backend], str]] = {
    "local": (_local, "operating system processes on this machine, links cut between network namespaces or by proxies"),
}


def build(name: str) -> Backend:
    """The backend of that name.

    Raises:
        UnknownNameError: there is none.
    """
    if name not in BACKENDS:
        raise UnknownNameError("backend", name, BACKENDS)
    return BACKENDS[name][0]()
