"""Systems under test by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from splitbrain.harness.contract.declarations import check_system
from splitbrain.harness.contract.read_modes import LINEARIZABLE, ReadMode
from splitbrain.harness.contract.test import System
from splitbrain.results import plugins
from splitbrain.results.errors import UsageError


def _metadata(_: ReadMode) -> System:
    from splitbrain.harness.systems.metadata import Metadata

    return Metadata()


def _etcd(read_mode: ReadMode) -> System:
    from splitbrain.harness.systems.etcd import Etcd

    return Etcd(read_mode)


SYSTEMS: Mapping[str, tuple[Callable[[ReadMode], System], str]] = {
    "metadata": (_metadata, "the metadata cluster that ships with splitbrain: Raft, and a tree of paths above it"),
    "etcd": (_etcd, "etcd 3.4 or later, over its JSON gateway; --read-mode serializable lets nodes answer reads alone"),
}


def operations(name: str) -> frozenset[str]:
    """The groups of operations that sessions with the system of that name have.

    Raises:
        UnknownNameError: there is none.
    """
    return build(name).capabilities.operations


def _brought(name: str) -> Callable[[ReadMode], System]:
    """What makes the system of another package: a class or function, which takes `read_mode` if it has several."""
    found = plugins.find("system", name, SYSTEMS)
    return lambda mode: plugins.made("system", name, found, read_mode=mode)


def build(name: str, read_mode: str = LINEARIZABLE) -> System:
    """The system of that name, with reads in that mode.

    Raises:
        UnknownNameError: there is none.
        UsageError: that of another package cannot be imported, or declares what cannot be; or its reads have no such
            mode.
    """
    make = SYSTEMS[name][0] if name in SYSTEMS else _brought(name)
    system = make(LINEARIZABLE)
    check_system(system)
    modes = system.capabilities.read_modes
    for mode in modes:
        if mode == read_mode:
            return make(mode)
    raise UsageError(f"--read-mode {read_mode}: reads of system {name!r} are {' or '.join(modes)}.")
