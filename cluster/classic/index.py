"""The index of one classic queue: which messages it holds, in a journal and segments (CQ-1, CQ-2, CQ-4, CQ-8).

Both versions of records are side by side, and a caller sees none: a file is converted, as a whole, when a count of
redeliveries is to be written to it for the first time. What the common path writes is the same in both.

A file is made anew aside, synced, renamed, and its name is synced. So it is all of one version at every moment.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from splitbrain.cluster.bugs import M79, NO_BUGS, Bugs
from splitbrain.cluster.classic import journal, segments
from splitbrain.cluster.classic.entries import MAX_SEQUENCE, Kind, encode_entry
from splitbrain.cluster.classic.framing import HEADER_BYTES, Header
from splitbrain.cluster.classic.journal import Manifest, Row
from splitbrain.cluster.classic.packed import ENTRIES
from splitbrain.cluster.classic.records import Record, Version, newer
from splitbrain.cluster.classic.recovery import Recovered, recover
from splitbrain.cluster.classic.segments import ACKED, DELIVERED, PUBLISHED, Segment
from splitbrain.cluster.classic.state import Batch, Held, IndexState, Pending
from splitbrain.cluster.errors import ConversionRefusedError, InvalidRequestError, StorageError, UnknownMessageError
from splitbrain.cluster.runtime import Disk, File

MAX_JOURNAL_ENTRIES: Final = 32_768
"""A journal with so many entries is flushed (`queue_index_max_journal_entries`, CQ-1)."""

MAX_UPDATES: Final = ENTRIES
"""Records of a segment that only count; a file with more is made anew without them."""


def _permit(messages: int) -> None:
    """Permit every conversion."""


@dataclass(frozen=True)
class IndexOptions:
    """How an index works.

    Attributes:
        max_journal_entries: a journal with so many is flushed.
        version: of the records of files that are new; files that are there keep theirs as long as it will do.
        permit: is called with a number of messages before files with so many are converted; it raises
            `ConversionRefusedError` if they may not be (CQ-7).
        bugs: those that are switched on.
    """

    max_journal_entries: int = MAX_JOURNAL_ENTRIES
    version: Version = 1
    permit: Callable[[int], None] = _permit
    bugs: Bugs = NO_BUGS


class Stored(NamedTuple):
    """A message that the index holds: sequence id, record, whether it persists and was delivered before."""

    seq: int
    record: Record
    persistent: bool
    delivered: bool


class _Turns:
    """Lets one call after the other work, and none once one of them failed half way."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._failed = False

    async def __aenter__(self) -> None:
        await self._lock.acquire()
        if self._failed:
            self._lock.release()
            raise StorageError("the index failed before, and it is not known what is durable: open it again.")

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        # These are raised before anything is changed.
        if error is not None and not isinstance(
            error, UnknownMessageError | ConversionRefusedError | InvalidRequestError
        ):
            self._failed = True
        self._lock.release()


class Index:
    """The index of a queue. Open it with `open_index`.

    Calls are carried out one after the other: while files are converted, publishers wait (CQ-4). After an OSError, or a
    call that was cancelled, it is not known what is durable: every later call is refused, open the index again.
    """

    def __init__(self, disk: Disk, options: IndexOptions, found: Recovered, file: File) -> None:
        self._disk = disk
        self._options = options
        self._state: IndexState = found.state
        self._serial = found.serial
        self._version: Version = found.version
        self._file = file
        self._size = found.size
        self._entries = found.entries
        self._buffer: list[bytes] = []
        self._busy = _Turns()
        self._read: tuple[Row, Segment] | None = None

    # --- what happens to messages -------------------------------------------------------------------------------------

    async def publish(self, record: Record, *, persistent: bool = True) -> int:
        """Add a message; its sequence id. Durable once `sync` or `flush` has returned.

        Raises:
            ConversionRefusedError: the record has a count, and the journal may not be converted to hold one.
            InvalidRequestError: all sequence ids were given.
            OSError: it is not known what is durable.
        """
        async with self._busy:
            return await self._publish(record, persistent=persistent)

    async def publish_all(self, records: Iterable[Record], *, persistent: bool = True) -> list[int]:
        """`publish` for several; their sequence ids. If one is refused, those before it are there."""
        async with self._busy:
            return [await self._publish(record, persistent=persistent) for record in records]

    async def deliver(self, seqs: Iterable[int]) -> None:
        """Note that messages were delivered for the first time.

        Raises:
            UnknownMessageError: one of them is not there, or was delivered before; those before it are noted.
        """
        async with self._busy:
            for seq in seqs:
                self._state.deliver(seq)
                self._note("deliver", seq)
                await self._flush_if_full()

    async def ack(self, seqs: Iterable[int]) -> None:
        """Remove messages; one that was not delivered counts as delivered first.

        Raises:
            UnknownMessageError: one of them is not there; those before it are removed.
        """
        async with self._busy:
            for seq in seqs:
                if self._state.status(seq) == PUBLISHED:
                    self._state.deliver(seq)
                    self._note("deliver", seq)
                self._state.ack(seq)
                self._note("ack", seq)
                await self._flush_if_full()

    async def recount(self, seq: int, record: Record) -> None:
        """Write down how often a message was redelivered: what `record`, the message's own, says.

        Counts only grow: a lower one than was written has no effect.

        Raises:
            UnknownMessageError: it is not there.
            ConversionRefusedError: a file would have to be converted for it, and may not be; nothing is written.
        """
        async with self._busy:
            self._state.require_there(seq)
            if record.needs == 1:
                return
            await self._make_room(seq)
            persistent = self._is_persistent(seq)
            self._state.recount(seq, record)
            self._state.pending[seq].persistent = persistent
            self._note("persistent" if persistent else "transient", seq, record.without_body())
            await self._flush_if_full()

    async def _publish(self, record: Record, *, persistent: bool) -> int:
        seq = self._state.next_seq
        if seq > MAX_SEQUENCE:
            raise InvalidRequestError(
                f"no sequence id is left, the last one was {MAX_SEQUENCE}: publish to a new queue, and delete this one "
                f"once it is empty."
            )
        if record.needs > 1:
            await self._make_room(seq)
        self._state.publish(seq, record, persistent=persistent)
        self._note("persistent" if persistent else "transient", seq, record)
        await self._flush_if_full()
        return seq

    def _is_persistent(self, seq: int) -> bool:
        pending = self._state.pending.get(seq, _NOTHING)
        if pending.record is not None:
            return pending.persistent
        return self._segment(seq // ENTRIES).is_persistent(seq % ENTRIES)

    def _note(self, kind: Kind, seq: int, record: Record | None = None) -> None:
        self._buffer.append(encode_entry(kind, seq, record, self._version))
        self._entries += 1

    async def _flush_if_full(self) -> None:
        if self._entries >= self._options.max_journal_entries:
            await self._flush()

    async def _make_room(self, seq: int) -> None:
        """Be permitted to have a segment, and have a journal, that can hold a count of this message.

        Raises:
            ConversionRefusedError: it may not be converted.
        """
        held = self._state.segments.get(seq // ENTRIES)
        if held is not None and held.row is not None and held.row.version == 1:
            self._options.permit(held.unacked)
        if self._version == 1:
            self._options.permit(len(self._state.pending))
            self._version = 2
            await self._replace_journal(self._manifest())

    # --- what is durable ----------------------------------------------------------------------------------------------

    async def sync(self) -> None:
        """Make durable what was done.

        Raises:
            OSError: it is not known what is durable.
        """
        async with self._busy:
            if self._buffer:
                frame, self._buffer = journal.encode_entries(self._buffer), []
                self._file.append(frame)
                await self._file.sync()
                self._size += len(frame)
                self._mark()

    async def flush(self) -> None:
        """Move what the journal says to the segments, durably, and begin a new one; segments without messages go.

        Raises:
            OSError: it is not known what is durable.
        """
        async with self._busy:
            await self._flush()

    async def convert(self) -> None:
        """Convert every segment that is not of version 2 yet, behind a flush (CQ-4).

        A journal without entries has nothing to convert: it is made anew when the first count is to be written to it.

        Raises:
            ConversionRefusedError: it is not permitted; no file was converted.
            OSError: it is not known what is durable.
        """
        async with self._busy:
            old = self._unconverted()
            if old:
                self._options.permit(sum(held.unacked for held in old))
            if self._entries:
                await self._flush(2)
            for number in sorted(self._state.segments):
                row = self._state.segments[number].row
                if row is not None and row.version == 1:
                    await self._rewrite(number, 2)

    def _unconverted(self) -> list[Held]:
        """The segments that are not of version 2."""
        return [held for held in self._state.segments.values() if held.row is None or held.row.version == 1]

    @property
    def unconverted(self) -> int:
        """How many messages there are that `convert` converts."""
        return sum(held.unacked for held in self._unconverted()) if 1 in self.versions.values() else 0

    async def _flush(self, version: Version = 1) -> None:
        """Write segments, sync them, and only then let the journal go, for one of at least that version."""
        if not self._entries:
            return
        state, created = self._state, False
        for batch in state.batches():
            created |= await self._append(batch)
        if created:
            await self._disk.sync_names()
        ended = [number for number, held in state.segments.items() if not held.unacked]
        files = [number for number in ended if state.segments.pop(number).row is not None]
        state.pending.clear()
        self._serial += 1
        self._version = newer(self._version, version)
        await self._replace_journal(self._manifest())
        for number in files:
            self._disk.remove(segments.name_of(number))

    async def _append(self, batch: Batch) -> bool:
        """Append to a segment, and sync it; whether its file is new."""
        held, name = self._state.segments[batch.number], segments.name_of(batch.number)
        needs = batch.needs
        created = held.row is None
        content = b""
        if held.row is None:
            version = newer(self._options.version, needs)
            content = segments.begin(version, batch.number, self._serial)
            held.row = Row(batch.number, self._serial, version, 0)
        elif held.row.version < needs or not held.row.serial or held.updates > MAX_UPDATES:
            # Also to drop what a file gathers of messages that are redelivered again and again.
            await self._rewrite(batch.number, newer(held.row.version, needs))
        row = held.row
        content += segments.encode_batch(batch.packed(row.version), batch.settles)
        file = self._disk.open(name)
        try:
            file.append(content)
            await file.sync()
        finally:
            file.close()
        held.row = row._replace(length=row.length + len(content))
        held.updates += sum(self._state.pending[_seq(batch, each)].record is None for each, _, _ in batch.publishes)
        return created

    async def _rewrite(self, number: int, version: Version) -> None:
        """Make the file of a segment anew, in that version, all or nothing."""
        held = self._state.segments[number]
        content = segments.rewrite(self._segment(number), version, number, self._serial)
        if M79 in self._options.bugs:
            self._overwrite(segments.name_of(number), content)
        else:
            await self._disk.replace(segments.name_of(number), content)
        held.row = Row(number, self._serial, version, len(content))
        held.updates = 0

    def _overwrite(self, name: str, content: bytes) -> None:
        """Write over a file: until the next flush syncs it a crash leaves a part of it."""
        file = self._disk.open(name)
        file.truncate(0)
        file.append(content)
        file.close()

    async def _replace_journal(self, manifest: Manifest) -> None:
        """Have a journal that says all that the segments do not."""
        content = journal.encode(self._serial, self._version, manifest, self._state.journal(self._version))
        self._file.close()
        await self._disk.replace(journal.NAME, content)
        self._file = self._disk.open(journal.NAME)
        self._size = len(content)
        self._buffer = []
        self._entries = len(self._state.pending)

    def _manifest(self) -> Manifest:
        rows = [held.row for _, held in sorted(self._state.segments.items()) if held.row is not None]
        return Manifest(self._state.next_seq, tuple(rows))

    def _mark(self) -> None:
        mark = journal.encode_mark(self._size)
        self._file.append(mark)
        self._size += len(mark)

    async def begin(self, *, marked: bool) -> None:
        """For `open_index`: have a journal of ours that is durable as it was read."""
        if not self._serial:
            self._serial = 1
            self._version = self._options.version
            await self._replace_journal(self._manifest())
            return
        await self._file.sync()
        # The process before may have been killed between a rename and its sync: what was read may be in the cache only.
        await self._disk.sync_names()
        if not marked:
            self._mark()

    # --- what is there ------------------------------------------------------------------------------------------------

    async def read(self, start: int = 0, stop: int | None = None) -> list[Stored]:
        """The messages with sequence ids from `start` on and before `stop`, in order.

        Raises:
            CorruptStorageError: a segment is damaged.
        """
        async with self._busy:
            found = list[Stored]()
            end = self._state.next_seq if stop is None else min(stop, self._state.next_seq)
            for number in sorted(self._state.segments):
                first, last = max(start - number * ENTRIES, 0), min(end - number * ENTRIES, ENTRIES)
                if first < last:
                    found += self._read_segment(number, first, last)
            return found

    def _read_segment(self, number: int, first: int, last: int) -> list[Stored]:
        held = self._state.segments[number]
        status = held.status[first:last]
        there = np.flatnonzero((status == PUBLISHED) | (status == DELIVERED)) + first
        return [self._stored(number, held, relative) for relative in there.tolist()]

    def _stored(self, number: int, held: Held, relative: int) -> Stored:
        seq = number * ENTRIES + relative
        delivered = bool(held.status[relative] == DELIVERED)
        pending = self._state.pending.get(seq, _NOTHING)
        if pending.record is not None:
            return Stored(seq, pending.record, pending.persistent, delivered)
        segment = self._segment(number)
        record = segment.record(relative)
        if pending.update is not None:
            record = record.counted(max(record.redeliveries, pending.update.redeliveries))
        return Stored(seq, record, segment.is_persistent(relative), delivered)

    def _segment(self, number: int) -> Segment:
        """The file of a segment, which must be there."""
        row = self._state.segments[number].row
        assert row is not None, f"segment {number} has no file"
        if self._read is None or self._read[0] != row:
            name = segments.name_of(number)
            content = self._disk.read(name) or b""
            if row.serial:
                found = segments.decode(
                    content, name, Header(row.version, number, row.serial, HEADER_BYTES), row.length
                )
            else:
                found, _ = segments.decode_original(content, name)
            self._read = (row, found)
        return self._read[1]

    @property
    def bounds(self) -> tuple[int, int]:
        """The sequence id at which the first segment begins, and that of the next message."""
        first = min(self._state.segments, default=None)
        return self._state.next_seq if first is None else first * ENTRIES, self._state.next_seq

    def following(self, seq: int) -> int:
        """Where to read on from `seq`: what is before it is of segments that are not there."""
        begins = (number * ENTRIES for number in self._state.segments if (number + 1) * ENTRIES > seq)
        return max(seq, min(begins, default=self._state.next_seq))

    def __len__(self) -> int:
        """How many messages are there."""
        return sum(held.unacked for held in self._state.segments.values())

    def __contains__(self, seq: int) -> bool:
        return 0 < self._state.status(seq) < ACKED

    @property
    def versions(self) -> dict[str, Version]:
        """The version of each file, by its name."""
        rows = self._manifest().rows
        return {journal.NAME: self._version, **{segments.name_of(row.number): row.version for row in rows}}

    def close(self) -> None:
        """Close the files without syncing them."""
        self._file.close()


_NOTHING: Final = Pending()


def _seq(batch: Batch, relative: int) -> int:
    return batch.number * ENTRIES + relative


async def open_index(
    disk: Disk, options: IndexOptions | None = None, log: Callable[[str], None] = lambda _: None
) -> Index:
    """Open the index in a directory of its own, or begin one; also one that RabbitMQ 3.8 wrote.

    Args:
        disk: the directory.
        options: how it works.
        log: takes a line about the rest of an unfinished write that was cut off.

    Raises:
        CorruptStorageError: something that had been made durable is damaged or gone.
        StorageError: a file is of a later version.
        OSError: the disk failed.
    """
    found = await recover(disk, log)
    index = Index(disk, options or IndexOptions(), found, disk.open(journal.NAME))
    await index.begin(marked=found.marked)
    return index
