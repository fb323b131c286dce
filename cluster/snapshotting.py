"""When a node writes a snapshot of its store, how it sends its snapshot in parts, and how it takes over another's.

RA-36, RA-37, RA-42.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from splitbrain.cluster.bugs import M37, NO_BUGS, Bugs
from splitbrain.cluster.marks import reached
from splitbrain.cluster.raft import Entry, Raft
from splitbrain.cluster.raft.effects import InstallSnapshot, SendChunk
from splitbrain.cluster.raft.events import Compacted, Event
from splitbrain.cluster.raft.messages import SnapshotChunk
from splitbrain.cluster.storage import Storage

CHUNK_BYTES: Final = 1024 * 1024
"""Of a snapshot in one message (RA-42)."""

SNAPSHOT_INTERVAL: Final = 4096
"""Entries that are applied between two snapshots (RA-37)."""

BYTES_PER_ENTRY: Final = 64
"""Of a snapshot, for each entry between it and the next one at least."""


class Snapshotting:
    """The snapshots of one node.

    Args:
        storage: of the node.
        raft: of the node; it is only looked at.
        spawn: runs a background task; an exception that it raises stops the node.
        submit: takes an event for consensus.
        interval: entries that are applied between two snapshots.
        bugs: what is broken on purpose.
    """

    def __init__(
        self,
        storage: Storage,
        raft: Raft,
        spawn: Callable[[Awaitable[None], str], None],
        submit: Callable[[Event], None],
        interval: int,
        bugs: Bugs = NO_BUGS,
    ) -> None:
        self._storage = storage
        self._raft = raft
        self._spawn = spawn
        self._submit = submit
        self._interval = interval
        self._bugs = bugs
        self._due = interval
        self._is_writing = False

    def begins_at(self, index: int, size: int) -> None:
        """There is a snapshot of this index and of so many bytes: the next one is due later, if it is large."""
        # What a large state costs is spread over as many entries: nothing else runs while it is encoded.
        self._due = index + max(self._interval, size // BYTES_PER_ENTRY)

    def applied(self, last: Entry, dump: Callable[[], bytes]) -> None:
        """Write a snapshot of what is applied, once enough was since the last one (RA-37): beside other work.

        Args:
            last: the last entry that was applied.
            dump: gives the state there.
        """
        if self._is_writing or last.index < self._due:
            return
        self._is_writing = True
        index = last.index if M37 not in self._bugs else last.index - 1
        last_term, configurations = self._raft.log.term(index), self._raft.configurations(index)
        state = dump()
        self.begins_at(last.index, len(state))

        async def write() -> None:
            await self._storage.write_snapshot(index, last_term, configurations, state)
            self._is_writing = False
            reached("snapshot written")
            self._submit(Compacted(index))

        self._spawn(write(), "write snapshot")

    def chunk(self, wanted: SendChunk) -> SnapshotChunk:
        """The part of the snapshot that a peer lacks.

        Raises:
            CorruptStorageError: the snapshot is damaged.
            OSError: the disk failed.
        """
        meta, state = self._storage.snapshot()
        begin = wanted.offset if wanted.index == meta.index else 0
        return SnapshotChunk(
            wanted.term,
            wanted.round,
            meta.index,
            meta.term,
            meta.configurations,
            begin,
            len(state),
            state[begin : begin + CHUNK_BYTES],
        )

    async def install(self, snapshot: InstallSnapshot) -> None:
        """Make a snapshot of the leader durable.

        Raises:
            OSError: it is not known whether it is durable; the node must stop.
        """
        await self._storage.install(snapshot.index, snapshot.last_term, snapshot.configurations, snapshot.state)
        self.begins_at(snapshot.index, len(snapshot.state))
