"""Systems under test by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from harness.protocols import System
from results.errors import UnknownNameError


def _metadata() -> System:
    from harness.systems.metadata import Metadata

    return Metadata()


SYSTEMS: Mapping[str, tuple[Callable[[], System], str]] = {
    "metadata": (_metadata, "the metadata cluster that ships with splitbrain: Raft, and a tree of paths above it"),
}


def build(name: str) -> System:
    """The system of that name.

    Raises:
        UnknownNameError: there is none.
    """
    if name not in SYSTEMS:
        raise UnknownNameError("system", name, SYSTEMS)
    return SYSTEMS[name][0]()
