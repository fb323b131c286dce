"""The segments of a classic queue, `<number>.idx` (CQ-2), of RabbitMQ itself and of ours, in both versions.

    file     := header frame*                                  frames of `splitbrain.cluster.classic.framing`
    frame    := records                                        of one flush: `splitbrain.cluster.classic.packed`

A file of RabbitMQ is the records of all its flushes, without header and checksums: a damaged byte is found only if it
leaves records that contradict each other. It is never written to: the first write to it makes it anew, as one of ours.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from splitbrain.cluster.classic import packed
from splitbrain.cluster.classic.damage import corrupt
from splitbrain.cluster.classic.entries import MAX_SEQUENCE
from splitbrain.cluster.classic.framing import HEADER_BYTES, Header, encode_frame, encode_header, frame_at
from splitbrain.cluster.classic.packed import ENTRIES, Found, Offsets
from splitbrain.cluster.classic.records import Record, Version

MAGIC: Final = b"SBCS"

ABSENT: Final = 0
PUBLISHED: Final = 1
DELIVERED: Final = 2
ACKED: Final = 3

MAX_NUMBER: Final = MAX_SEQUENCE // ENTRIES
"""Of a segment: the sequence ids of a higher one would not fit into an entry of the journal."""

_RECORDS: Final = 4
_NAME: Final = re.compile(r"(0|[1-9][0-9]*)\.idx")


def name_of(number: int) -> str:
    """The name of the segment of that number."""
    return f"{number}.idx"


def number_of(name: str) -> int | None:
    """The number of a segment by its name, None if it is no segment."""
    found = _NAME.fullmatch(name)
    return None if found is None else int(found[1])


@dataclass(frozen=True)
class Segment:
    """What a segment says.

    Attributes:
        content: of the file.
        version: of its records.
        at: for each relative id where its publish begins, -1 for none.
        status: of each: ABSENT, PUBLISHED, DELIVERED or ACKED.
        redeliveries: of each.
        updates: publishes that only say how often a message was delivered again.
    """

    content: bytes
    version: Version
    at: Offsets
    status: NDArray[np.uint8]
    redeliveries: Offsets
    updates: int

    def record(self, relative: int) -> Record:
        """The record of a message, which must be there."""
        found = packed.record_of(self.content, int(self.at[relative]), self.version)
        return found.counted(int(self.redeliveries[relative]))

    def is_persistent(self, relative: int) -> bool:
        """Whether a message, which must be there, is persistent."""
        return packed.is_persistent(self.content, int(self.at[relative]))


def decode_original(content: bytes, name: str) -> tuple[Segment, int]:
    """A segment of RabbitMQ, and how many bytes at its end are the rest of an unfinished write.

    Raises:
        CorruptStorageError: its records contradict each other.
    """
    found = packed.scan(content, 0, len(content), 1)
    # Where RabbitMQ was killed while it appended, a record is not whole; what was never written reads as zeros.
    rest = content[found.end :]
    if rest and not rest[0] & 0xC0 and rest.strip(b"\0"):
        raise corrupt(name, found.end, "this is no record of a segment")
    return _segment(content, name, 1, [found]), len(content) - found.end


def decode(content: bytes, name: str, header: Header, extent: int) -> Segment:
    """A segment of ours, up to `extent` bytes, all of which were durable.

    Raises:
        CorruptStorageError: it is damaged.
    """
    if len(content) < extent:
        raise corrupt(name, len(content), f"the file had {extent} bytes that were durable, and has {len(content)}")
    offset = HEADER_BYTES
    found: list[Found] = []
    while offset < extent:
        frame = frame_at(content, offset, extent)
        if frame is None or frame.kind != _RECORDS:
            raise corrupt(name, offset, "records that were durable are damaged")
        records = packed.scan(content, frame.start, frame.end, header.version)
        if records.end != frame.end:
            raise corrupt(name, records.end, "this is no record of a segment")
        found.append(records)
        offset = frame.end
    return _segment(content, name, header.version, found)


def _segment(content: bytes, name: str, version: Version, found: list[Found]) -> Segment:
    publishes = np.concatenate([each.publishes for each in found]) if found else np.empty(0, np.int64)
    settles = np.concatenate([each.settles for each in found]) if found else np.empty(0, np.int64)
    relative = packed.relatives(content, publishes)
    settled = packed.relatives(content, settles)
    at = np.full(ENTRIES, -1, np.int64)
    # Of several publishes of a message the first has its place; the later ones only say how often it was redelivered.
    at[relative[::-1]] = publishes[::-1]
    updates = len(relative) - int((at >= 0).sum())
    redelivered = np.zeros(ENTRIES, np.int64)
    np.maximum.at(redelivered, relative, packed.counts(content, publishes, version))
    if version == 1 and updates:
        place = int(publishes[at[relative] != publishes][0])
        raise corrupt(name, place, "a message is published twice")
    times = np.bincount(settled, minlength=ENTRIES)
    wrong = (times[settled] > ACKED - PUBLISHED) | (at[settled] < 0)
    if wrong.any():
        place = int(settles[wrong][0])
        raise corrupt(name, place, "a message is settled that was not published, or more than twice")
    status = np.where(at >= 0, PUBLISHED + times, ABSENT).astype(np.uint8)
    return Segment(content, version, at, status, redelivered, updates)


# --- writing ----------------------------------------------------------------------------------------------------------


def begin(version: Version, number: int, serial: int) -> bytes:
    """A segment without records."""
    return encode_header(MAGIC, Header(version, number, serial, HEADER_BYTES))


def encode_batch(publishes: list[bytes], settles: list[int]) -> bytes:
    """What appends records: packed publishes, then deliveries and acks by their relative ids."""
    return encode_frame(_RECORDS, b"".join([*publishes, packed.settles(settles)]))


def rewrite(segment: Segment, version: Version, number: int, serial: int) -> bytes:
    """A segment in a version that has a place for its counts, as a whole file, without what was acked."""
    live = (segment.status == PUBLISHED) | (segment.status == DELIVERED)
    publishes = packed.rewritten(
        segment.content, segment.at[live], segment.redeliveries[live], segment.version, version
    )
    delivered = np.flatnonzero(segment.status == DELIVERED)
    body = encode_frame(_RECORDS, publishes + packed.settles(delivered.tolist()))
    return encode_header(MAGIC, Header(version, number, serial, HEADER_BYTES + len(body))) + body
