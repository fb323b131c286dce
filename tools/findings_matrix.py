"""Which tests of third-party systems are run for docs/findings.md, how often, and in which order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

TIME_LIMIT_S: Final = 60
NODES: Final = 3
FAULTS: Final = "partition,kill,pause"
NO_FAULTS: Final = "none"

WANTED: Final = 3
"""A finding has so many runs at least."""


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    """One test of the matrix; its counter-check is the same without faults.

    Attributes:
        system: its name.
        workload: likewise.
        runs: how many with faults.
        read_mode: of `--read-mode`.
        settings: of `--settings`, by their names, as they are written there.
        backend: of `--backend`.
        rate, recovery: of `--rate` and `--recovery`.
        nemesis: of `--nemesis`.
    """

    system: str
    workload: str
    runs: int = WANTED
    read_mode: str = "linearizable"
    settings: tuple[tuple[str, str], ...] = ()
    backend: str = "docker"
    rate: int = 100
    recovery: int = 20
    nemesis: str = FAULTS

    def words(self, nemesis: str) -> list[str]:
        """The options of a run, but for seed and store."""
        settings = ",".join(f"{name}={value}" for name, value in self.settings)
        return [
            *("--system", self.system, "--backend", self.backend, "--nodes", str(NODES)),
            *("--rate", str(self.rate), "--recovery", str(self.recovery)),
            *("--workload", self.workload, "--nemesis", nemesis, "--time-limit", str(TIME_LIMIT_S)),
            *(("--read-mode", self.read_mode) if self.read_mode != "linearizable" else ()),
            *(("--settings", settings) if settings else ()),
        ]


RELEASES: Final = (("3.10", "mnesia"), ("4.0", "mnesia"), ("4.0", "khepri"))
"""RabbitMQ's pairs of release and store of metadata."""

STRATEGIES: Final = ("ignore", "pause_minority", "autoheal")
"""The first one is the default."""

RABBITMQ_WORKLOADS: Final = (
    "set",
    "declare",
    "queue",
    "stream",
    "single-active",
    "dead-letter",
    "poison",
    "lease-lock",
    "create-once",
    "topology",
    "register",
    "read-modes",
)

MIGRATED: Final = ("set", "declare", "create-once")
"""Workloads whose metadata move to Khepri while clients work and other faults strike."""

_RECOVERY_S: Final = 90
"""A node of RabbitMQ that was killed takes 10 s and more until it answers again."""

_RATE: Final = 50


def _of_rabbitmq(workload: str, strategy: str) -> Iterator[Cell]:
    for release, store in RELEASES:
        settings = (("release", release), ("store", store), ("partition-handling", strategy))
        yield Cell(system="rabbitmq", workload=workload, settings=settings, rate=_RATE, recovery=_RECOVERY_S)


def _rabbitmq() -> Iterator[Cell]:
    for workload in ("set", "declare"):
        for strategy in STRATEGIES:
            yield from _of_rabbitmq(workload, strategy)
    for workload in MIGRATED:
        settings = (("release", "4.0"), ("store", "mnesia"), ("partition-handling", STRATEGIES[0]))
        yield Cell(
            system="rabbitmq",
            workload=workload,
            settings=settings,
            rate=_RATE,
            recovery=_RECOVERY_S,
            nemesis=f"{FAULTS},migrate",
        )
    for workload in RABBITMQ_WORKLOADS[2:]:
        yield from _of_rabbitmq(workload, STRATEGIES[0])


CELLS: Final[tuple[Cell, ...]] = (
    Cell(system="redis", workload="set", runs=5, backend="local", nemesis="partition-leader,kill-leader"),
    Cell(system="redis", workload="set", runs=5, backend="local"),
    Cell(system="zookeeper", workload="register", runs=10, read_mode="serializable", backend="local"),
    Cell(system="zookeeper", workload="read-modes", runs=10, backend="local"),
    Cell(system="zookeeper", workload="register", runs=10, backend="local"),
    Cell(system="etcd", workload="register", runs=10, backend="local"),
    *_rabbitmq(),
)
"""In the order in which they are worth a machine's time."""
