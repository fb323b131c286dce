"""What an index knows: of each message how far it got, and what of that is in the journal only. Pure: no files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import groupby
from typing import Final

import numpy as np
from numpy.typing import NDArray

from splitbrain.cluster.classic import packed
from splitbrain.cluster.classic.entries import Entry, Kind, encode_entry
from splitbrain.cluster.classic.journal import Row
from splitbrain.cluster.classic.packed import ENTRIES
from splitbrain.cluster.classic.records import Record, Version
from splitbrain.cluster.classic.segments import ABSENT, ACKED, DELIVERED, PUBLISHED
from splitbrain.cluster.errors import UnknownMessageError

_STATES: Final = ("is not there", "is not delivered", "is delivered", "is acknowledged already")


def split(seq: int) -> tuple[int, int]:
    """The number of the segment of a sequence id, and the relative id."""
    return divmod(seq, ENTRIES)


@dataclass(slots=True)
class Held:
    """A segment: its file, and the state of its messages, with what the journal says.

    Attributes:
        row: of the file, None as long as the journal alone has its messages.
        status: of each message, by relative id.
        unacked: how many are there.
        updates: records of the file that only count redeliveries.
    """

    row: Row | None = None
    status: NDArray[np.uint8] = field(default_factory=lambda: np.zeros(ENTRIES, np.uint8))
    unacked: int = 0
    updates: int = 0


@dataclass(slots=True)
class Pending:
    """What the journal alone says of a message.

    Attributes:
        record: of its publish, None if that is in the segment.
        persistent: whether a publish is of a persistent message.
        update: a record with a new count of redeliveries, None for none.
        delivered: whether it was delivered.
        acked: whether it was acknowledged.
    """

    record: Record | None = None
    persistent: bool = True
    update: Record | None = None
    delivered: bool = False
    acked: bool = False


@dataclass
class Batch:
    """What a flush appends to a segment: publishes (relative id, record, whether it persists), and settles."""

    number: int
    publishes: list[tuple[int, Record, bool]]
    settles: list[int]

    @property
    def needs(self) -> Version:
        """The lowest version that can hold it."""
        return 2 if any(record.needs == 2 for _, record, _ in self.publishes) else 1

    def packed(self, version: Version) -> list[bytes]:
        """The publishes of a file of that version, by the length of their messages: so that they are in runs."""
        ordered = sorted(self.publishes, key=lambda each: len(each[1].body))
        return [
            packed.publish(relative, record, persistent=persistent, version=version)
            for relative, record, persistent in ordered
        ]


class IndexState:
    """The messages of an index.

    Attributes:
        next_seq: the sequence id of the next message.
        segments: by number.
        pending: by sequence id.
    """

    def __init__(self, next_seq: int = 0) -> None:
        self.next_seq = next_seq
        self.segments: dict[int, Held] = {}
        self.pending: dict[int, Pending] = {}

    def status(self, seq: int) -> int:
        """How far a message got: ABSENT, PUBLISHED, DELIVERED or ACKED."""
        number, relative = split(seq)
        held = self.segments.get(number)
        return ABSENT if held is None else int(held.status[relative])

    def add(self, number: int, held: Held) -> None:
        """Add a segment as its file has it."""
        self.segments[number] = held
        there = np.flatnonzero(held.status)
        if len(there):
            self.next_seq = max(self.next_seq, number * ENTRIES + int(there[-1]) + 1)

    def publish(self, seq: int, record: Record, *, persistent: bool) -> None:
        """Add a message.

        Raises:
            UnknownMessageError: it was there.
        """
        self._require(seq, ABSENT)
        number, relative = split(seq)
        held = self.segments.setdefault(number, Held())
        held.status[relative] = PUBLISHED
        held.unacked += 1
        self.pending[seq] = Pending(record, persistent)
        self.next_seq = max(self.next_seq, seq + 1)

    def deliver(self, seq: int) -> None:
        """Note that a message was delivered.

        Raises:
            UnknownMessageError: it is not there, or was delivered before.
        """
        self._require(seq, PUBLISHED)
        self._advance(seq, DELIVERED).delivered = True

    def ack(self, seq: int) -> None:
        """Note that a message is done with.

        Raises:
            UnknownMessageError: it was not delivered.
        """
        self._require(seq, DELIVERED)
        self._advance(seq, ACKED).acked = True
        self.segments[split(seq)[0]].unacked -= 1

    def recount(self, seq: int, record: Record) -> None:
        """Note how often a message was redelivered; `record` has the count. A lower one than before has no effect.

        Raises:
            UnknownMessageError: it is not there.
        """
        self.require_there(seq)
        pending = self.pending.setdefault(seq, Pending())
        if pending.record is not None:
            pending.record = pending.record.counted(max(record.redeliveries, pending.record.redeliveries))
        elif pending.update is None or pending.update.redeliveries < record.redeliveries:
            pending.update = record.without_body()

    def require_there(self, seq: int) -> None:
        """Refuse what is asked about a message that is not there.

        Raises:
            UnknownMessageError: it is not there, or acknowledged.
        """
        self._require(seq, PUBLISHED, DELIVERED)

    def _require(self, seq: int, *wanted: int) -> None:
        status = self.status(seq)
        if status not in wanted:
            raise UnknownMessageError(
                f"message {seq} {_STATES[status]}; what was asked needs one that {_STATES[wanted[0]]}."
            )

    def _advance(self, seq: int, status: int) -> Pending:
        number, relative = split(seq)
        self.segments[number].status[relative] = status
        return self.pending.setdefault(seq, Pending())

    def replay(self, entry: Entry) -> None:
        """Do what an entry of a journal says.

        Raises:
            UnknownMessageError: it contradicts what is known.
        """
        kind, seq, record, _ = entry
        if record is None:
            (self.deliver if kind == "deliver" else self.ack)(seq)
        elif record.redeliveries and self.status(seq) in (PUBLISHED, DELIVERED):
            self.recount(seq, record)
        else:
            self.publish(seq, record, persistent=kind == "persistent")

    def replay_original(self, entry: Entry) -> None:
        """The same for a journal of RabbitMQ: what its segments have already, or have no more, is no contradiction."""
        wanted = {"deliver": PUBLISHED, "ack": DELIVERED}.get(entry.kind, ABSENT)
        if self.status(entry.seq) == wanted:
            self.replay(entry)

    def journal(self, version: Version) -> bytes:
        """The entries of a journal that says all that the segments do not."""
        parts = list[bytes]()
        for seq, pending in sorted(self.pending.items()):
            if pending.record is not None and pending.acked:
                continue
            kind: Kind = "persistent" if pending.persistent else "transient"
            parts += [encode_entry(kind, seq, each, version) for each in (pending.record, pending.update) if each]
            parts += [encode_entry("deliver", seq, None, version)] * pending.delivered
            parts += [encode_entry("ack", seq, None, version)] * pending.acked
        return b"".join(parts)

    def batches(self) -> Iterator[Batch]:
        """What is to be appended to each segment in which messages are left."""
        for number, seqs in groupby(sorted(self.pending), key=lambda seq: seq // ENTRIES):
            batch = self._batch(number, list(seqs))
            if self.segments[number].unacked and (batch.publishes or batch.settles):
                yield batch

    def _batch(self, number: int, seqs: list[int]) -> Batch:
        batch = Batch(number, [], [])
        for seq in seqs:
            pending, relative = self.pending[seq], seq % ENTRIES
            if pending.record is not None and pending.acked:
                continue  # it came and went: no segment need ever know
            record = pending.record or (None if pending.acked else pending.update)
            if record is not None:
                batch.publishes.append((relative, record, pending.persistent))
            batch.settles += [relative] * (pending.delivered + pending.acked)
        return batch
