"""Systems under test by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from splitbrain.harness.contract.declarations import check_system
from splitbrain.harness.contract.read_modes import LINEARIZABLE, ReadMode
from splitbrain.harness.contract.test import System
from splitbrain.results import plugins
from splitbrain.results.errors import UsageError


def _metadata(*_: str) -> System:
    from splitbrain.harness.systems.metadata import Metadata

    return Metadata()


def _etcd(read_mode: ReadMode, *_: str) -> System:
    from splitbrain.harness.systems.etcd import Etcd

    return Etcd(read_mode)


def _formation(*_: str) -> System:
    from splitbrain.harness.systems.formation import FormationSystem

    return FormationSystem()


def _postgresql(read_mode: ReadMode, isolation: str) -> System:
    from splitbrain.harness.systems.postgresql import Postgresql

    return Postgresql(read_mode, isolation)


def _rabbitmq(read_mode: ReadMode, *_: str) -> System:
    from splitbrain.harness.systems.rabbitmq import Rabbitmq

    return Rabbitmq(read_mode)


def _redis(read_mode: ReadMode, *_: str) -> System:
    from splitbrain.harness.systems.redis import Redis

    return Redis(read_mode)


def _tables(*_: str) -> System:
    from splitbrain.harness.systems.tables import TableStore

    return TableStore()


def _zookeeper(read_mode: ReadMode, *_: str) -> System:
    from splitbrain.harness.systems.zookeeper import Zookeeper

    return Zookeeper(read_mode)


SYSTEMS: Mapping[str, tuple[Callable[[ReadMode, str], System], str]] = {
    "metadata": (_metadata, "the metadata cluster that ships with splitbrain: Raft, and a tree of paths above it"),
    "tables": (
        _tables,
        "replicated tables without consensus, as RabbitMQ had with Mnesia; --settings strategy=NAME for partitions",
    ),
    "formation": (
        _formation,
        "nodes of the metadata cluster without data that find each other; --settings discovery=NAME for how",
    ),
    "etcd": (_etcd, "etcd 3.4 or later, over its JSON gateway; --read-mode serializable lets nodes answer reads alone"),
    "postgresql": (
        _postgresql,
        "PostgreSQL 13 or later, at any --isolation; with --read-mode serializable a primary and standbys",
    ),
    "rabbitmq": (_rabbitmq, "RabbitMQ 3.10 or 4.0 (--settings release=NAME): classic, mirrored or quorum queues"),
    "redis": (_redis, "Redis 7 or later with Sentinel; --read-mode serializable lets replicas answer reads"),
    "zookeeper": (
        _zookeeper,
        "ZooKeeper 3.5 or later, with synced reads; --read-mode serializable for plain reads, which nodes answer alone",
    ),
}


def operations(name: str) -> frozenset[str]:
    """The groups of operations that sessions with the system of that name have.

    Raises:
        UnknownNameError: there is none.
    """
    return build(name).capabilities.operations


def _brought(name: str) -> Callable[[ReadMode, str], System]:
    """What makes the system of another package: a class or function, which takes what it has several of."""
    found = plugins.find("system", name, SYSTEMS)

    def make(mode: ReadMode, isolation: str) -> System:
        level = {"isolation": isolation} if isolation else {}
        return plugins.made("system", name, found, read_mode=mode, **level)

    return make


def build(name: str, read_mode: str = LINEARIZABLE, isolation: str = "") -> System:
    """The system of that name, with reads in that mode and transactions at that level, or else at its usual one.

    Raises:
        UnknownNameError: there is none.
        UsageError: that of another package cannot be imported, or declares what cannot be; or its reads have no such
            mode, or its transactions no such level.
    """
    make = SYSTEMS[name][0] if name in SYSTEMS else _brought(name)
    system = make(LINEARIZABLE, "")
    check_system(system)
    levels = system.capabilities.isolations
    if isolation and isolation not in levels:
        known = f"are at {' or '.join(levels)}" if levels else "have one level only: remove it"
        raise UsageError(f"--isolation {isolation}: transactions of system {name!r} {known}.")
    modes = system.capabilities.read_modes
    for mode in modes:
        if mode == read_mode:
            return make(mode, isolation)
    own = ", ".join(system.capabilities.session_reads)
    mixed = f" One session has {own} side by side: choose --workload read-modes or fenced-reads." if own else ""
    raise UsageError(f"--read-mode {read_mode}: reads of system {name!r} are {' or '.join(modes)}.{mixed}")
