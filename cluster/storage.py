"""What a node keeps on disk of one group: term and vote, and the log.

A promise to others is durable before it is sent.
See `splitbrain.cluster.log` for the files.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from splitbrain.cluster.bugs import NO_BUGS, Bugs
from splitbrain.cluster.groupnames import METADATA
from splitbrain.cluster.log.group import GroupLog
from splitbrain.cluster.log.nodelog import NodeLog, open_node_log
from splitbrain.cluster.log.snapshot import Meta
from splitbrain.cluster.log.vote import Vote
from splitbrain.cluster.log.wal import MAX_BYTES as WAL_BYTES
from splitbrain.cluster.raft import Entry, Recovered
from splitbrain.cluster.raft.events import Written
from splitbrain.cluster.raft.messages import OLDEST, NodeId
from splitbrain.cluster.runtime import Disk, Rng

__all__ = ["WAL_BYTES", "Opened", "Storage", "open_group", "open_storage"]

MAX_WAITING_BYTES: Final = 16 * 1024 * 1024
"""While more waits to be written, for all groups of a node together, leaders take no further commands."""


class Storage:
    """The files of one group. Open it with `open_group`."""

    def __init__(self, log: NodeLog, group: GroupLog) -> None:
        self._log = log
        self._group = group

    async def save_vote(self, term: int, voted_for: str | None) -> None:
        """Make term and vote durable.

        Raises:
            OSError: it is not known what is durable; the node must stop.
        """
        await self._group.save_vote(Vote(term, voted_for))

    def append(self, entries: Sequence[Entry], done: Written) -> None:
        """Append entries behind the last one. Once they are durable `sync_log` hands on `done`, or a later one."""
        self._group.append(entries, done)

    def truncate(self, from_index: int) -> None:
        """Void every entry from `from_index` on. Durable once a later append is."""
        self._group.truncate(from_index)

    async def write_snapshot(
        self, index: int, last_term: int, configurations: bytes, state: bytes, version: int = OLDEST
    ) -> None:
        """Make a snapshot of an entry that was applied here durable; the log up to there is not needed any more.

        Raises:
            OSError: it is not known whether it is durable; the node must stop.
        """
        await self._group.write_snapshot(self._meta(index, last_term, configurations, version), state)

    def write_checkpoint(
        self, index: int, last_term: int, configurations: bytes, state: bytes, version: int = OLDEST
    ) -> None:
        """Write a checkpoint of an entry that was applied, and is durable, here. It is not synced (RA-38).

        Raises:
            OSError: it could not be written; the node must stop.
        """
        self._group.write_checkpoint(self._meta(index, last_term, configurations, version), state)

    def is_promotable(self, upto: int) -> bool:
        """Whether there is a checkpoint of up to this index."""
        return self._group.is_promotable(upto)

    async def promote(self, upto: int) -> None:
        """Make the newest checkpoint of up to this index the snapshot, if there is still one (RA-38).

        Raises:
            OSError: it is not known what is durable; the node must stop.
        """
        await self._group.promote(upto)

    @property
    def snapshot_index(self) -> int:
        """Index of the snapshot, 0 if there is none."""
        return 0 if self._group.snapshot is None else self._group.snapshot.index

    @property
    def checkpoint_index(self) -> int:
        """Index of the newest checkpoint, 0 if there is none."""
        return self._group.checkpoint_index

    async def install(
        self, index: int, last_term: int, configurations: bytes, state: bytes, version: int = OLDEST
    ) -> None:
        """Make a snapshot of the leader durable; what the log has instead of it is void.

        Raises:
            OSError: it is not known whether it is durable; the node must stop.
        """
        await self._group.install(self._meta(index, last_term, configurations, version), state)

    def snapshot(self) -> tuple[Meta, bytes]:
        """The state at which the log in memory begins: a snapshot, or the checkpoint with which the node started.

        Raises:
            CorruptStorageError: it is damaged.
            OSError: the disk failed.
        """
        name = self._group.base
        assert name is not None, "the log was compacted without a snapshot"
        return self._group.read_snapshot(name)

    @property
    def base_index(self) -> int:
        """Index of the state at which the log in memory begins, 0 if it is there from the beginning."""
        return 0 if self._group.base is None else self._group.base.index

    def has_base(self) -> bool:
        """Whether the disk has that state, if there is one."""
        return self._group.has_base()

    def _meta(self, index: int, last_term: int, configurations: bytes, version: int) -> Meta:
        return Meta(uid=self._group.uid, index=index, term=last_term, configurations=configurations, machine=version)

    def committed(self, index: int) -> None:
        """Note that the log never changes up to an index."""
        self._group.committed = max(self._group.committed, index)

    @property
    def is_flooded(self) -> bool:
        """Whether the disk is so far behind that more should not be begun."""
        return self._log.waiting_bytes > MAX_WAITING_BYTES

    async def sync_log(self, written: Callable[[Written], None], wal_bytes: int = WAL_BYTES) -> None:
        """For ever: make durable what was appended, then hand on the `done` of the last append that is.

        Args:
            written: takes it.
            wal_bytes: a file of the write-ahead log that is longer is replaced.

        Raises:
            OSError: it is not known what is durable; the node must stop.
        """
        await self._log.sync(lambda _, done: written(done), wal_bytes)

    def close(self) -> None:
        """Close the files without syncing them."""
        self._log.close()


@dataclass(frozen=True)
class Opened:
    """What a node had made durable before it stopped.

    Attributes:
        storage: its files.
        recovered: what consensus needs of them.
        state: the state machine at the base of the recovered log, None if that is the beginning.
        founders: ids of the members with which the group began; none where that was not stored.
        incarnation: how many groups of its name there were before.
    """

    storage: Storage
    recovered: Recovered
    state: bytes | None
    founders: tuple[NodeId, ...] = ()
    incarnation: int = 0


async def open_group(log: NodeLog, name: str, founders: Sequence[NodeId], incarnation: int = 0) -> Opened:
    """What a node had made durable of a group; or its files, for a group that is new to the node.

    Args:
        log: of the node.
        name: of the group.
        founders: of a new group.
        incarnation: of a new group.

    Raises:
        OSError: it is not known what is durable; the node must stop.
    """
    group = log.groups.get(name)
    if group is None:
        created = Storage(log, await log.create(name, founders, incarnation))
        return Opened(created, Recovered(), None, tuple(founders), incarnation)
    # What was found is not needed twice: consensus drops it with the log.
    found = log.found.pop(name)
    vote, meta, storage = found.vote, found.meta, Storage(log, group)
    began, incarnation = log.founders(name), log.incarnation(name)
    if meta is None:
        recovered = Recovered(vote.term, vote.voted_for, found.entries)
        return Opened(storage, recovered, None, began, incarnation)
    recovered = Recovered(
        vote.term, vote.voted_for, found.entries, meta.index, meta.term, meta.configurations, meta.version
    )
    return Opened(storage, recovered, found.state, began, incarnation)


async def open_storage(disk: Disk, node: str, rng: Rng, log: Callable[[str], None], bugs: Bugs = NO_BUGS) -> Opened:
    """Open a node's files, or make them for a new node; of its groups, that of the metadata store.

    Everything returned is durable: what a killed process had appended or renamed and not synced is there, and is synced
    here before it is used.

    Args:
        disk: the node's own directory.
        node: its id.
        rng: of the node.
        log: takes a line about an unfinished write that was cut off.
        bugs: what is broken on purpose.

    Raises:
        CorruptStorageError: something that had been made durable is damaged or gone.
        WrongNodeError: the files belong to another node.
        StorageError: they are of another version.
        OSError: the disk failed.
    """
    opened = await open_node_log(disk, node, rng, log, bugs)
    return await open_group(opened, METADATA, ())
