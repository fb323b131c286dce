"""The configuration of a node at its start."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from splitbrain.cluster.arrivals import WINDOW
from splitbrain.cluster.bugs import M51, NO_BUGS, Bugs
from splitbrain.cluster.errors import ArgumentError
from splitbrain.cluster.flags.registry import MAX_PROBES
from splitbrain.cluster.groupnames import METADATA, named_problem
from splitbrain.cluster.members import SEPARATOR, member_id
from splitbrain.cluster.permits import ANY_AMOUNT, Thresholds
from splitbrain.cluster.raft import Config
from splitbrain.cluster.raft.messages import OLDEST, NodeId
from splitbrain.cluster.registered import BUILT_IN
from splitbrain.cluster.replicas.settings import DEFAULT, ReplicaSettings
from splitbrain.cluster.runtime import Address
from splitbrain.cluster.snapshotting import CHECKPOINT_INTERVAL, CHUNK_BYTES, SNAPSHOT_INTERVAL
from splitbrain.cluster.storage import WAL_BYTES
from splitbrain.cluster.tables.config import TICK_MS
from splitbrain.cluster.tree import NEWEST_VERSION, Functions

if TYPE_CHECKING:
    from splitbrain.cluster.migration.converters import Converter

STORES: Final = ("tree", "tables")

APPLY_SLICE: Final = 512
"""Entries that are applied before time, peers and clients get a word in again: some ten milliseconds of work.

After a restart the whole log is committed by one event. A node that applied it in one go would be silent for seconds:
as a leader it would be replaced meanwhile, and so would its successors until each node had done the same.
"""


@dataclass(frozen=True)
class NodeConfig:
    """The configuration of a node at its start.

    Attributes:
        node: its name.
        listen: the address that it serves.
        peers: for every other node that is a member or may become one, the address under which this node reaches it.
        raft: times and limits, the same on all members.
        bugs: what is broken on purpose.
        founders: names of the nodes with which the cluster begins, the same on all nodes; this one and all peers if
            none are given. A node that is none of them waits until it is taken in.
        incarnation: how often the node has lost its data before (`splitbrain.cluster.members`); beyond 0 it is no
            founder.
        snapshot_interval: entries that are applied between two snapshots.
        checkpoint_interval: the same of checkpoints; 0 for none.
        wal_bytes: a file of the write-ahead log that is longer is replaced.
        chunk_bytes: of a snapshot in one message.
        learners_first: who joins, and is given no role, becomes a voter once it has caught up; else at once.
        groups: names of groups beside that of the metadata store, which every node has from the start.
        apply_slice: entries that are applied at once.
        repeat_window: how far the number of a request may be behind the highest of its connection.
        machine_version: the latest version of the state machine that the node supports.
        flag_probes: feature flags that switch nothing on, for tests; the same on all members.
        store: where entities are at first: "tree", or "tables": then the node has both stores.
        partition_strategy: what the tables do about partitions, by name; the same on all nodes.
        preferred: the nodes that `pause-if-all-down` lists.
        converters: those of a plug-in's tables, which a migration copies with the tables of entities; the same on all
            nodes that have tables.
        conversions: how much of classic queues may be converted at once.
        net_tick_ms: the tick time of the tables; the same on all nodes.
        functions: those that transactions, procedures and projections may name; the same on all members.
        replicas: how those of queues are maintained; the same on all members.

    Raises:
        ArgumentError: a node cannot be its own peer, a founder is not known, or a name cannot be one.
    """

    node: str
    listen: Address
    peers: Mapping[str, Address]
    raft: Config = field(default_factory=Config)
    bugs: Bugs = NO_BUGS
    founders: tuple[str, ...] = ()
    incarnation: int = 0
    snapshot_interval: int = SNAPSHOT_INTERVAL
    checkpoint_interval: int = CHECKPOINT_INTERVAL
    wal_bytes: int = WAL_BYTES
    groups: tuple[str, ...] = ()
    chunk_bytes: int = CHUNK_BYTES
    learners_first: bool = False
    apply_slice: int = APPLY_SLICE
    repeat_window: int = WINDOW
    machine_version: int = NEWEST_VERSION
    functions: Functions = BUILT_IN
    flag_probes: int = 0
    replicas: ReplicaSettings = DEFAULT
    store: str = "tree"
    partition_strategy: str = "ignore"
    preferred: tuple[str, ...] = ()
    net_tick_ms: int = TICK_MS
    conversions: Thresholds = ANY_AMOUNT
    converters: tuple[Converter, ...] = ()

    def __post_init__(self) -> None:
        """Refuse what makes no cluster."""
        if self.snapshot_interval < 1:
            raise ArgumentError("the snapshot interval is at least 1 entry.")
        if not 0 < self.chunk_bytes <= CHUNK_BYTES:
            raise ArgumentError(f"a message takes 1 to {CHUNK_BYTES} bytes of a snapshot.")
        if self.apply_slice < 1:
            raise ArgumentError("at least 1 entry is applied at once.")
        if self.repeat_window < 1:
            raise ArgumentError("the window of a connection's requests is at least 1.")
        if not OLDEST <= self.machine_version <= NEWEST_VERSION:
            raise ArgumentError(
                f"the version of the state machine is {OLDEST} to {NEWEST_VERSION} with this program, "
                f"not {self.machine_version}."
            )
        if self.checkpoint_interval < 0:
            raise ArgumentError("the checkpoint interval is 0, for none, or more.")
        if not 0 <= self.flag_probes <= MAX_PROBES:
            raise ArgumentError(f"there are 0 to {MAX_PROBES} feature flags for tests, not {self.flag_probes}.")
        if self.store not in STORES:
            raise ArgumentError(f"--store is one of {', '.join(STORES)}, not {self.store!r}.")
        self._check_names()

    def _check_names(self) -> None:
        """Refuse names of groups and nodes that cannot be.

        Raises:
            ArgumentError: as of the class.
        """
        for group in self.groups:
            problem = named_problem(group)
            if problem is not None or group == METADATA or self.groups.count(group) > 1:
                raise ArgumentError(f"group {group!r}: {problem or 'each is named once, and the store needs no name'}.")
        if self.node in self.peers:
            raise ArgumentError(f"{self.node} is named as its own peer: name only the other members.")
        nodes = (self.node, *self.peers)
        for node in nodes:
            if SEPARATOR in node:
                raise ArgumentError(f"{node!r} cannot be the name of a node: {SEPARATOR!r} is for ids of members.")
        unknown = sorted(set(self.founders) - set(nodes))
        if unknown or len(set(self.founders)) != len(self.founders):
            named = ", ".join(self.founders)
            raise ArgumentError(f"each founder is named once, and is this node or a --peer, unlike those of {named}.")

    @property
    def member(self) -> NodeId:
        """This node's id."""
        return member_id(self.node, self.incarnation if M51 not in self.bugs else 0)

    @property
    def founding_nodes(self) -> tuple[str, ...]:
        """The nodes with which the cluster begins, sorted: those that hold tables, if any do."""
        return self.voters

    @property
    def voters(self) -> tuple[NodeId, ...]:
        """The members with which the cluster begins, sorted."""
        return tuple(sorted(self.founders or [self.node, *self.peers]))
