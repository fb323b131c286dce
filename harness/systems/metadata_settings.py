"""The settings of the metadata cluster that a test may choose."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from splitbrain.cluster.embedded import (
    APPLY_SLICE,
    CHECKPOINT_INTERVAL,
    CHUNK_BYTES,
    ELECTION_MS,
    HEARTBEAT_MS,
    MAX_BATCH,
    MAX_PENDING,
    MAX_PIPELINE,
    NEWEST_VERSION,
    SNAPSHOT_INTERVAL,
    WAL_BYTES,
    WINDOW,
)
from splitbrain.cluster.embedded_tables import STRATEGY_NAMES, TICK_MS
from splitbrain.harness.contract.faults import FaultKind
from splitbrain.harness.contract.settings import Setting
from splitbrain.harness.systems.strategies import PAUSES_IF_ALL_DOWN, strategy_checkers
from splitbrain.results.telemetry import CONSENSUS_CHECKERS

MACHINE_VERSION: Final = "machine-version"
"""A setting. A nemesis that upgrades nodes decides it for each of them."""

STORE: Final = "store"
TABLES: Final = "tables"
_STORES: Final = ("tree", TABLES)
_STRATEGIES: Final = tuple(name for name in STRATEGY_NAMES if not name.startswith(PAUSES_IF_ALL_DOWN))
"""Those that need no list of nodes."""

_STRATEGY: Final = "partition-strategy"

SETTINGS: Final[Mapping[str, Setting]] = {
    "checkpoint-interval": Setting(
        line="entries of the log between two checkpoints; 0 for none",
        default=CHECKPOINT_INTERVAL,
        least=0,
        drawn=(0, 4, 32, 256, CHECKPOINT_INTERVAL),
    ),
    "snapshot-interval": Setting(
        line="entries of the log between two snapshots",
        default=SNAPSHOT_INTERVAL,
        drawn=(16, 64, 512, SNAPSHOT_INTERVAL),
    ),
    "wal-bytes": Setting(
        line="bytes of the write-ahead log after which the next file is begun",
        default=WAL_BYTES,
        drawn=(1_000, 20_000, WAL_BYTES),
    ),
    "chunk-bytes": Setting(
        line="bytes of a snapshot in one message",
        default=CHUNK_BYTES,
        most=CHUNK_BYTES,
        drawn=(2_000, 16_000, CHUNK_BYTES),
    ),
    "learners-first": Setting(
        line="1: a node that joins becomes a voter once it has caught up, not at once",
        default=0,
        least=0,
        most=1,
        drawn=(0, 1),
    ),
    "heartbeat-ms": Setting(
        line="the longest time between messages of a leader; shorter than election-ms",
        default=HEARTBEAT_MS,
        most=HEARTBEAT_MS,
        drawn=(50, HEARTBEAT_MS, HEARTBEAT_MS),
    ),
    "election-ms": Setting(
        line="the shortest election timeout; the longest is twice that",
        default=ELECTION_MS,
        most=ELECTION_MS,
    ),
    "max-batch": Setting(
        line="entries of the log in one message at most",
        default=MAX_BATCH,
        drawn=(1, 16, MAX_BATCH),
    ),
    "max-pipeline": Setting(
        line="entries of the log on their way to one member at most",
        default=MAX_PIPELINE,
        # With 2 of them a cluster on slow links and disks cannot keep up with its clients: that is no bug.
        drawn=(64, 64, MAX_PIPELINE),
    ),
    "max-pending": Setting(
        line="commands, reads and requests under way at most, of each; beyond that a node is busy",
        default=MAX_PENDING,
        drawn=(128, MAX_PENDING, MAX_PENDING),
    ),
    "apply-slice": Setting(
        line="entries that are applied before messages and clients get a word in again",
        default=APPLY_SLICE,
        drawn=(1, 16, APPLY_SLICE),
    ),
    "repeat-window": Setting(
        line="a request whose number is so far behind the highest of its connection counts as repeated",
        default=WINDOW,
        drawn=(64, WINDOW),
    ),
    MACHINE_VERSION: Setting(
        line="the latest version of the state machine that nodes support, where none is upgraded",
        default=NEWEST_VERSION,
        most=NEWEST_VERSION,
    ),
    STORE: Setting.of_words(
        "where entities are at first; the workload migration begins with tables unless it is given another", _STORES
    ),
    _STRATEGY: Setting.of_words("what nodes do about partitions of the tables", _STRATEGIES),
    "net-tick-ms": Setting(
        line="a node of which the tables heard nothing for so many milliseconds is down",
        default=TICK_MS,
        least=100,
    ),
    "lease-reads": Setting(
        line="1: the leader answers reads on a lease",
        default=0,
        least=0,
        most=1,
        drawn=(0, 0, 1),
    ),
}


def argument_of(setting: str, value: int) -> tuple[str, str]:
    """A setting as an argument of a node."""
    words = SETTINGS[setting].words
    return f"--{setting}", words[value] if words else str(value)


def judges_of_telemetry(settings: Mapping[str, int], faults: frozenset[FaultKind]) -> tuple[str, ...]:
    """Checkers of consensus; where entities are asked to be in tables at first, also those of their strategy."""
    if _word(settings, STORE) != TABLES:
        return CONSENSUS_CHECKERS
    return (*CONSENSUS_CHECKERS, *strategy_checkers(_word(settings, _STRATEGY), faults))


def _word(settings: Mapping[str, int], name: str) -> str:
    setting = SETTINGS[name]
    return setting.words[settings.get(name, setting.default)]
