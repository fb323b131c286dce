"""The log of one group on disk: its segments, its part of the write-ahead log, its snapshots, its term and vote."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from splitbrain.cluster.log import segment
from splitbrain.cluster.log.segments import Segments
from splitbrain.cluster.log.snapshot import Meta, SnapshotName
from splitbrain.cluster.log.snapshots import Snapshots
from splitbrain.cluster.log.vote import Vote
from splitbrain.cluster.log.votes import Votes
from splitbrain.cluster.log.wal import Wal
from splitbrain.cluster.log.walfile import Beginning, Change, Elsewhere, Truncation
from splitbrain.cluster.marks import reached
from splitbrain.cluster.raft.events import Written
from splitbrain.cluster.raft.messages import Entry
from splitbrain.cluster.runtime import Disk

_NO_VOTE: Final = Vote()


@dataclass(frozen=True)
class Found:
    """What a group had made durable before its node stopped.

    Attributes:
        vote: its term, and its vote in it.
        meta: of the newest snapshot or checkpoint, None if there is none.
        state: the state machine there.
        entries: everything behind that state, or from the beginning.
    """

    vote: Vote
    meta: Meta | None
    state: bytes
    entries: Sequence[Entry]


class GroupLog:
    """The log of one group on disk.

    Args:
        disk: of the node.
        wal: of the node.
        uid: of the group; no other group of the node has it, or ever had.
        segments: of the group.
        entries: behind the segments and the snapshot.
        snapshots: of the group.
        votes: saves terms and votes of all groups of the node.
        vote: its term and vote.
        installed: the entry of the last snapshot that it took over from another member, 0 if there was none.

    Attributes:
        committed: up to here the log never changes; the owner raises it. At first that is what is in segments, or
            covered by a snapshot or a checkpoint.
    """

    def __init__(
        self,
        disk: Disk,
        wal: Wal,
        uid: int,
        segments: Segments,
        entries: list[Entry],
        snapshots: Snapshots,
        votes: Votes,
        vote: Vote = _NO_VOTE,
        installed: int = 0,
    ) -> None:
        self.uid = uid
        self._disk = disk
        self._wal = wal
        self._segments = segments
        self._entries = entries
        self._snapshots = snapshots
        self._votes = votes
        self._vote = vote
        self._installed = installed
        self.committed = max([self._floor, *(name.index for name in snapshots.checkpoints)])
        self._durable = self.last_index

    @property
    def last_index(self) -> int:
        """Index of the last entry, durable or not; 0 if there never was one."""
        return self._entries[-1].index if self._entries else self._floor

    @property
    def first_index(self) -> int:
        """Index of the first entry that can be read, if there is one."""
        first = self._segments.first
        return self._floor + 1 if first is None else first

    @property
    def snapshot(self) -> SnapshotName | None:
        """The snapshot, None if there is none."""
        return self._snapshots.newest

    @property
    def checkpoint_index(self) -> int:
        """Index of the newest checkpoint, 0 if there is none."""
        return self._snapshots.checkpoints[-1].index if self._snapshots.checkpoints else 0

    @property
    def base(self) -> SnapshotName | None:
        """The snapshot or checkpoint with which the node went on; None if that is the beginning."""
        return self._snapshots.base

    def has_base(self) -> bool:
        """Whether the disk has the base, if there is one."""
        return self._snapshots.has_base()

    # --- the log ------------------------------------------------------------------------------------------------------

    def append(self, entries: Sequence[Entry], done: Written) -> None:
        """Append entries. Once they are durable the write-ahead log hands on `done`, or a later one of the group."""
        for position, entry in enumerate(entries, self.last_index + 1):
            assert entry.index == position, f"entry {entry.index} appended after {position - 1}"
        self._entries += entries
        self._wal.append(self.uid, entries, done)

    def truncate(self, from_index: int) -> None:
        """Void every entry from `from_index` on, none of which is committed. Durable once a later append is."""
        assert self._floor < from_index <= self.last_index, f"truncation at {from_index} after {self.last_index}"
        del self._entries[from_index - 1 - self._floor :]
        self._durable = min(self._durable, from_index - 1)
        self._wal.change(self.uid, Truncation(from_index))

    def written(self, done: Written) -> None:
        """Take note that a `done` of this group was handed on: the log is durable up to there, if it still is so."""
        entries = self._entries
        position = done.index - entries[0].index if entries else -1
        if 0 <= position < len(entries) and entries[position].term == done.term:
            self._durable = max(self._durable, done.index)

    def read(self, first: int, last: int) -> list[Entry]:
        """Entries from `first` to `last`, both included, not before `first_index`.

        Raises:
            CorruptStorageError: a segment that is needed is damaged, or missing.
            OSError: the disk failed.
        """
        found = self._segments.read(self._base, first, last)
        begin = max(first, self._floor + 1)
        return found + self._entries[begin - 1 - self._floor : max(0, last - self._floor)]

    async def retire(self) -> None:
        """Put what is committed, durable, and only in the write-ahead log into segments (RA-35).

        What is committed may not be durable here yet (RA-13). Were it put into a segment, the write-ahead log might say
        after a crash that other entries follow it: those that it has replaced.

        Raises:
            OSError: it is not known what is durable; the node must stop.
        """
        count = max(0, min(self.committed, self._durable, self.last_index) - self._floor)
        for piece in segment.pieces(self._entries[:count]):
            name, content = segment.encode(self.uid, piece)
            await self._disk.replace(str(name), content)
            reached("segment written")
            # A snapshot may have taken the entries out of the log meanwhile.
            if name.first == self._floor + 1:
                self._segments.add(name)
                del self._entries[: len(piece)]
            else:
                self._disk.remove(str(name))
                return

    @property
    def remaining(self) -> Sequence[Change]:
        """What a file of the write-ahead log must say of this group if it is the only one."""
        return [Elsewhere(self._floor), *self._entries] if self._floor else self._entries

    # --- snapshots ----------------------------------------------------------------------------------------------------

    async def write_snapshot(self, meta: Meta, state: bytes) -> None:
        """Make a snapshot of an entry of this log durable; the log up to there is not needed any more (RA-37).

        Raises:
            OSError: it is not known whether it is durable; the node must stop.
        """
        await self._snapshots.write(meta, state)
        self._forget(meta.index)
        self._wal.shorten()

    def write_checkpoint(self, meta: Meta, state: bytes) -> None:
        """Write a checkpoint of an entry of this log. It is not synced, and takes nothing out of the log (RA-38).

        The entry must be durable: a log that ends before a checkpoint has lost something.

        Raises:
            OSError: it could not be written; the node must stop.
        """
        self._snapshots.checkpoint(meta, state)
        self._forget(self._base)
        self._wal.shorten()

    def is_promotable(self, upto: int) -> bool:
        """Whether there is a checkpoint of an index of at most `upto` that may become the snapshot."""
        return self._snapshots.promotable(upto) is not None

    async def promote(self, upto: int) -> bool:
        """Make the newest checkpoint of an index of at most `upto` the snapshot; whether there is one (RA-38).

        Raises:
            OSError: it is not known what is durable; the node must stop.
        """
        name = await self._snapshots.promote(upto)
        if name is not None:
            self._forget(name.index)
            self._wal.shorten()
        return name is not None

    def give_up(self) -> None:
        """Promote nothing any more: the group is about to be deleted."""
        self._snapshots.give_up()

    async def install(self, meta: Meta, state: bytes) -> None:
        """Make durable a snapshot that another member sent; what the log has instead of it is void (RA-42).

        Raises:
            OSError: it is not known whether it is durable; the node must stop.
        """
        # What is committed here agrees with any snapshot.
        continued = meta.index <= self.committed or (
            [entry.term for entry in self._entries if entry.index == meta.index] == [meta.term]
        )
        await self._snapshots.write(meta, state)
        self._forget(meta.index)
        if not continued:
            reached("log replaced by a snapshot")
            self._entries.clear()
            self._durable = min(self._durable, meta.index)
            self._wal.change(self.uid, Beginning(meta.index, meta.term))
        self._wal.shorten()
        # Nothing else would say that it was there, if it were gone: the log here may have ended before it.
        self._installed = meta.index
        await self._votes.save(self.uid, self._vote, self._installed)

    def read_snapshot(self, name: SnapshotName) -> tuple[Meta, bytes]:
        """What the snapshot holds, to be sent to another member.

        Raises:
            CorruptStorageError: it is damaged.
            OSError: the disk failed.
        """
        return self._snapshots.read(name)

    # --- the rest -----------------------------------------------------------------------------------------------------

    async def save_vote(self, vote: Vote) -> None:
        """Make term and vote durable.

        Raises:
            OSError: it is not known what is durable; the node must stop.
        """
        await self._votes.save(self.uid, vote, self._installed)
        self._vote = vote

    @property
    def _floor(self) -> int:
        """Up to here entries are in segments, or in the snapshot alone."""
        return max(self._base, self._segments.last)

    @property
    def _base(self) -> int:
        """Index of the snapshot, 0 if there is none."""
        return 0 if self._snapshots.covering is None else self._snapshots.covering.index

    def _forget(self, upto: int) -> None:
        """Drop the entries of up to an index; a segment that has later ones stays whole."""
        self._segments.forget(upto)
        first = self._entries[0].index if self._entries else upto + 1
        del self._entries[: max(0, upto + 1 - first)]
