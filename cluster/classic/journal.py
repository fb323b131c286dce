"""The journal of a classic queue, `journal.jif` (CQ-1): what happened since the segments were written last.

    file     := header manifest (entries | mark)*              frames of `splitbrain.cluster.classic.framing`
    manifest := next:u64 segment*                              the sequence id that the next message gets
    segment  := number:u64 serial:u64 version:u8 length:u64 checksum:u32
    entries  := entry*                                         `splitbrain.cluster.classic.entries`
    mark     := offset:u64                                     where this frame begins; what is before it was synced

The manifest says how far each segment was durable when this journal began: a segment is read up to there, and what is
behind it is the rest of a flush that did not finish, whose entries are here still. For a segment of RabbitMQ, which has
no checksum, the manifest has one of the whole file.

Damage before a mark, or in what the file was made with, is corruption. Any other damage is the rest of an unfinished
write.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, cast

from splitbrain.cluster.classic.damage import corrupt
from splitbrain.cluster.classic.entries import Entry, decode_entries
from splitbrain.cluster.classic.framing import (
    FRAME_BYTES,
    HEADER_BYTES,
    Frame,
    Header,
    encode_frame,
    encode_header,
    frame_at,
)
from splitbrain.cluster.classic.records import Version

NAME: Final = "journal.jif"
MAGIC: Final = b"SBCJ"

_MANIFEST: Final = 1
_ENTRIES: Final = 2
_MARK: Final = 3

_NEXT: Final = struct.Struct(">Q")
_ROW: Final = struct.Struct(">QQBQI")
_OFFSET: Final = struct.Struct(">Q")
_MOST_MOVED: Final = 4096
"""Bytes by which a mark may be away from where it says that it is: a page that is missing, or there twice."""
_MARK_BEGINS: Final = bytes([_MARK]) + _OFFSET.size.to_bytes(8, "big")


class Row(NamedTuple):
    """A segment as the manifest has it.

    Attributes:
        number: of the segment.
        serial: of the file, 0 for one of RabbitMQ.
        version: of its records.
        length: bytes of it that are durable.
        checksum: CRC-32 of a file of RabbitMQ, else 0.
    """

    number: int
    serial: int
    version: Version
    length: int
    checksum: int = 0


class Manifest(NamedTuple):
    """What there was when a journal began: the next sequence id, and the segments in order of their numbers."""

    next_seq: int = 0
    rows: tuple[Row, ...] = ()


@dataclass(frozen=True)
class JournalContent:
    """What a journal says.

    Attributes:
        header: of the file.
        manifest: what there was when it began.
        entries: since then, in order.
        size: bytes up to the end of the last whole frame.
        marked: whether that is a mark.
    """

    header: Header
    manifest: Manifest
    entries: list[Entry]
    size: int
    marked: bool


def encode(serial: int, version: Version, manifest: Manifest, entries: bytes = b"") -> bytes:
    """A journal that begins with these entries."""
    rows = b"".join([_ROW.pack(*row) for row in manifest.rows])
    front = encode_frame(_MANIFEST, _NEXT.pack(manifest.next_seq) + rows)
    body = front + (encode_frame(_ENTRIES, entries) if entries else b"")
    return encode_header(MAGIC, Header(version, 0, serial, HEADER_BYTES + len(body))) + body


def encode_entries(entries: Sequence[bytes]) -> bytes:
    """What appends entries."""
    return encode_frame(_ENTRIES, b"".join(entries))


def encode_mark(offset: int) -> bytes:
    """What says, at `offset`, that all before it is durable."""
    return encode_frame(_MARK, _OFFSET.pack(offset))


def decode(content: bytes, header: Header) -> JournalContent:
    """Read a journal with a header.

    Raises:
        CorruptStorageError: something in it that was durable is damaged.
    """
    manifest: Manifest | None = None
    entries: list[Entry] = []
    offset, marked = HEADER_BYTES, False
    while offset < len(content):
        frame = frame_at(content, offset, len(content))
        if frame is None or (manifest is None) != (frame.kind == _MANIFEST):
            if offset < header.base or _was_durable(content, offset):
                raise corrupt(NAME, offset, "a part that was durable is damaged")
            break
        marked = frame.kind == _MARK
        if frame.kind == _MANIFEST:
            manifest = _decode_manifest(content, frame)
        elif frame.kind == _ENTRIES:
            entries += decode_entries(content, frame.start, frame.end, header.version, NAME)
        elif not marked:
            raise corrupt(NAME, offset, f"a part of unknown kind {frame.kind}")
        offset = frame.end
    if manifest is None or offset < header.base:
        raise corrupt(NAME, offset, "the file was made with more than is left of it")
    return JournalContent(header, manifest, entries, offset, marked)


def _decode_manifest(content: bytes, frame: Frame) -> Manifest:
    begin = frame.start + _NEXT.size
    if frame.end < begin or (frame.end - begin) % _ROW.size:
        raise corrupt(NAME, frame.start, "the list of segments has another length")
    rows = [_ROW.unpack_from(content, at) for at in range(begin, frame.end, _ROW.size)]
    return Manifest(
        _NEXT.unpack_from(content, frame.start)[0],
        tuple(Row(number, serial, cast("Version", version), *rest) for number, serial, version, *rest in rows),
    )


def _was_durable(content: bytes, damaged: int) -> bool:
    """Whether a later mark covers the place."""
    # The length of the damaged frame cannot be trusted, so marks are looked for at every byte. A mark names its own
    # offset: bytes of a message that look like one are not taken for it. Where bytes are missing, or too many, the
    # marks behind them have moved by so much.
    at = content.find(_MARK_BEGINS, damaged + 1)
    while at >= 0:
        frame = frame_at(content, at, len(content))
        if frame is not None:
            named: int = _OFFSET.unpack_from(content, at + FRAME_BYTES)[0]
            if named > damaged and abs(named - at) <= _MOST_MOVED:
                return True
        at = content.find(_MARK_BEGINS, at + 1)
    return False
