"""When a node writes down the state of its store, how it sends that in parts, and how it takes over another's.

A checkpoint is cheap: it is not synced, and the log stays. It makes a restart quick. A snapshot lets the log go. Now
and then the newest checkpoint that leaves enough of the log becomes the snapshot, by a new name (RA-36 to RA-42; S004).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from splitbrain.cluster.bugs import M16, M37, NO_BUGS, Bugs
from splitbrain.cluster.log.snapshot import Meta
from splitbrain.cluster.marks import reached
from splitbrain.cluster.raft import Entry, Raft
from splitbrain.cluster.raft.effects import InstallSnapshot, SendChunk
from splitbrain.cluster.raft.events import Compacted, Event
from splitbrain.cluster.raft.messages import SnapshotChunk
from splitbrain.cluster.storage import Storage
from splitbrain.cluster.wire import Failure, Outcome, StateRequest, StateWritten, TakeCheckpoint

CHUNK_BYTES: Final = 1024 * 1024
"""Of a snapshot in one message (RA-42)."""

CHECKPOINT_INTERVAL: Final = 4096
"""Entries that are applied between two checkpoints: about as many a restart applies again, in some 40 ms.

(Ra takes one at 16,384, D9, since its machines decide when a snapshot may be taken. Here one may be at any time.)
"""

SNAPSHOT_INTERVAL: Final = 16_384
"""Entries that are applied between two snapshots (RA-37): so much of the log is there for followers that lag."""

BYTES_PER_ENTRY: Final = 64
"""Of a state that is written down, for each entry between it and the next one at least."""


class Snapshotting:
    """The snapshots and checkpoints of one node.

    Args:
        storage: of the node.
        raft: of the node; it is only looked at.
        spawn: runs a background task; an exception that it raises stops the node.
        submit: takes an event for consensus.
        snapshot_interval: entries that are applied between two snapshots.
        checkpoint_interval: the same of checkpoints; 0 for none.
        written_down: takes index and term of each entry whose state is about to be written down, the entry behind which
            the log in memory begins, and whether the disk has the state there.
        chunk_bytes: of a snapshot in one message.
        bugs: what is broken on purpose.
    """

    def __init__(
        self,
        storage: Storage,
        raft: Raft,
        spawn: Callable[[Awaitable[None], str], None],
        submit: Callable[[Event], None],
        snapshot_interval: int,
        checkpoint_interval: int,
        written_down: Callable[[int, int, int, bool], None],
        chunk_bytes: int = CHUNK_BYTES,
        bugs: Bugs = NO_BUGS,
    ) -> None:
        self._storage = storage
        self._raft = raft
        self._spawn = spawn
        self._submit = submit
        self._snapshot_interval = snapshot_interval
        self._checkpoint_interval = checkpoint_interval
        self._chunk_bytes = chunk_bytes
        self._report = written_down
        self._bugs = bugs
        self._size = 0
        self._snapshot_due = snapshot_interval
        self._checkpoint_due = checkpoint_interval
        self._is_writing = False
        self._sent: tuple[Meta, bytes] | None = None

    def begins_at(self, index: int, size: int) -> None:
        """The store is at a snapshot or checkpoint of this index and of so many bytes: the next ones are due later."""
        self._size = size
        self._snapshot_is_at(self._storage.snapshot_index)
        self._state_is_at(index)

    def is_due(self, last: Entry) -> bool:
        """Whether `applied` would write the state down."""
        if self._is_writing or self._is_behind(last):
            return False
        if last.index >= self._snapshot_due:
            return not self._storage.is_promotable(self._promotable_upto(last))
        return self._is_checkpoint_due(last)

    def would_write(self, wanted: StateRequest, applied: int) -> bool:
        """Whether `asked` would write the state down."""
        is_checkpoint = isinstance(wanted, TakeCheckpoint)
        there = max(self._storage.snapshot_index, self._storage.checkpoint_index if is_checkpoint else 0)
        is_durable = not is_checkpoint or applied <= self._raft.written_index
        return there < applied and is_durable and not self._is_writing and applied >= self._raft.log.base_index

    def applied(self, last: Entry, dump: Callable[[], bytes]) -> None:
        """Write down what is applied, or let the log go, once enough was applied since the last time.

        Args:
            last: the last entry that was applied.
            dump: gives the state there.

        Raises:
            OSError: a checkpoint could not be written; the node must stop.
        """
        if self._is_writing or self._is_behind(last):
            return
        if last.index >= self._snapshot_due:
            self._is_writing = True
            upto = self._promotable_upto(last)
            if self._storage.is_promotable(upto):
                self._spawn(self._promote(upto), "promote checkpoint")
            else:
                self._spawn(self._write_snapshot(*self._written_down(last.index, dump)), "write snapshot")
        else:
            self.checkpoint(last, dump)

    def checkpoint(self, last: Entry, dump: Callable[[], bytes]) -> None:
        """Write down what is applied, once enough was since the last time.

        Args:
            last: the last entry that was applied.
            dump: gives the state there.

        Raises:
            OSError: it could not be written; the node must stop.
        """
        if self._is_behind(last):
            return
        if self._is_checkpoint_due(last):
            self._storage.write_checkpoint(*self._written_down(last.index, dump))

    def stopped(self, applied: int, dump: Callable[[], bytes]) -> None:
        """Write down what is applied as the node stops in good order: its next start need not apply it again (RA-41).

        Args:
            applied: index of the last entry that was applied.
            dump: gives the state there.

        Raises:
            OSError: it could not be written; nothing is lost by that.
        """
        there = max(self._storage.snapshot_index, self._storage.checkpoint_index, self._raft.log.base_index)
        # As ever, nothing that the log may lose is in a checkpoint.
        if self._checkpoint_interval and not self._is_writing and there < applied <= self._raft.written_index:
            reached("checkpoint written at the stop")
            self._storage.write_checkpoint(*self._written_down(applied, dump))

    def release(self, upto: int) -> None:
        """Let the log go up to the newest checkpoint of an entry up to this index, if there is one (RA-38)."""
        if not self._is_writing and self._storage.is_promotable(upto):
            self._is_writing = True
            self._spawn(self._promote(upto), "promote checkpoint")

    def _promotable_upto(self, last: Entry) -> int:
        # A follower that lags by no more than a checkpoint finds the log that it lacks, if that is in memory.
        return max(last.index - self._checkpoint_interval, self._raft.log.base_index)

    def _is_checkpoint_due(self, last: Entry) -> bool:
        # A log that ends before a checkpoint has lost something: what is not durable here waits.
        return bool(self._checkpoint_interval) and self._checkpoint_due <= last.index <= self._durable_index(last)

    def _is_behind(self, last: Entry) -> bool:
        """Whether an entry is before the log in memory: a snapshot of the leader is being taken over, and entries of
        before are still applied. They need not be written down any more.
        """
        return last.index < self._raft.log.base_index

    def _durable_index(self, last: Entry) -> int:
        return self._raft.written_index if M16 not in self._bugs else last.index

    def asked(
        self, wanted: StateRequest, applied: int, dump: Callable[[], bytes], answer: Callable[[Outcome], None]
    ) -> None:
        """Write down what is applied because a client asks for it.

        Args:
            wanted: a snapshot or a checkpoint. Where there is one of the same entry, that is the answer.
            applied: index of the last entry that was applied.
            dump: gives the state there.
            answer: takes what is written, once it is, or why nothing is.

        Raises:
            OSError: a checkpoint could not be written; the node must stop.
        """
        is_checkpoint = isinstance(wanted, TakeCheckpoint)
        there = max(self._storage.snapshot_index, self._storage.checkpoint_index if is_checkpoint else 0)
        if applied == 0:
            answer(Failure("invalid_request", True, "nothing is applied yet"))
        elif applied < self._raft.log.base_index:
            answer(Failure("busy", True, "a snapshot of the leader is being taken over: try again"))
        elif there >= applied:
            answer(StateWritten(applied, self._raft.log.term(applied)))
        elif self._is_writing:
            answer(Failure("busy", True, "a snapshot is being written: try again"))
        elif not is_checkpoint:
            self._is_writing = True
            self._spawn(self._answer_once_durable(self._written_down(applied, dump), answer), "write snapshot")
        elif applied > self._raft.written_index:
            answer(Failure("busy", True, f"entry {applied} is not durable here yet: try again"))
        else:
            written = self._written_down(applied, dump)
            self._storage.write_checkpoint(*written)
            answer(StateWritten(*written[:2]))

    async def _answer_once_durable(
        self, written: tuple[int, int, bytes, bytes, int], answer: Callable[[Outcome], None]
    ) -> None:
        await self._write_snapshot(*written)
        answer(StateWritten(*written[:2]))

    async def _promote(self, upto: int) -> None:
        """Let the log go up to the newest checkpoint that leaves enough of it."""
        await self._storage.promote(upto)
        self._snapshot_is_durable()

    async def _write_snapshot(
        self, index: int, last_term: int, configurations: bytes, state: bytes, version: int
    ) -> None:
        """Let the log go up to what was applied."""
        await self._storage.write_snapshot(index, last_term, configurations, state, version)
        reached("snapshot written")
        self._snapshot_is_durable()

    def _snapshot_is_durable(self) -> None:
        index = self._storage.snapshot_index
        self._snapshot_is_at(index)
        self._is_writing = False
        self._submit(Compacted(index))

    def _written_down(self, last: int, dump: Callable[[], bytes]) -> tuple[int, int, bytes, bytes, int]:
        """The state at the last entry that was applied: that entry, its term, the configurations, store and version."""
        index = last if M37 not in self._bugs else last - 1
        last_term, configurations = self._raft.log.term(index), self._raft.configurations(index)
        state = dump()
        self._size = len(state)
        self._state_is_at(last)
        self._report(index, last_term, self._storage.base_index, self._storage.has_base())
        return index, last_term, configurations, state, self._raft.version_at(index)

    # What a large state costs is spread over as many entries: nothing else runs while it is encoded.

    def _state_is_at(self, index: int) -> None:
        self._checkpoint_due = index + max(self._checkpoint_interval, self._size // BYTES_PER_ENTRY)

    def _snapshot_is_at(self, index: int) -> None:
        self._snapshot_due = index + max(self._snapshot_interval, self._size // BYTES_PER_ENTRY)

    def chunk(self, wanted: SendChunk) -> SnapshotChunk:
        """The part of the snapshot that a peer lacks.

        Raises:
            CorruptStorageError: the snapshot is damaged.
            OSError: the disk failed.
        """
        meta, state = self._to_send(wanted)
        begin = wanted.offset if wanted.index == meta.index else 0
        return SnapshotChunk(
            wanted.term,
            wanted.round,
            meta.index,
            meta.term,
            meta.configurations,
            begin,
            len(state),
            state[begin : begin + self._chunk_bytes],
            meta.version,
        )

    def _to_send(self, wanted: SendChunk) -> tuple[Meta, bytes]:
        """The snapshot that the peer has the beginning of, if it is at hand, else the newest.

        A snapshot that is written while one is sent does not replace it: where they come quickly, no peer would ever
        have a whole one.
        """
        if self._sent is None or not wanted.offset or wanted.index != self._sent[0].index:
            self._sent = self._storage.snapshot()
        return self._sent

    async def install(self, snapshot: InstallSnapshot) -> None:
        """Make a snapshot of the leader durable.

        Raises:
            OSError: it is not known whether it is durable; the node must stop.
        """
        await self._storage.install(
            snapshot.index, snapshot.last_term, snapshot.configurations, snapshot.state, snapshot.version
        )
        self.begins_at(snapshot.index, len(snapshot.state))
