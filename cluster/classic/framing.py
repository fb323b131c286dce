"""The outside of every file of a classic queue: a header that says what follows, and frames with checksums (CQ-8).

    file     := header frame*                                  all numbers big endian
    header   := magic:4 version:u8 format:u8 order:u16 number:u64 serial:u64 base:u64 checksum:u32
    frame    := kind:u8 length:u64 checksum:u32 payload        CRC-32 of kind, length and payload

The magic says which file it is, and the version of the records in it; `order` is 0x0102, so that a program that reads
numbers the other way round sees 0x0201. `number` is that of a segment, 0 in a journal. `serial` is the number of the
journal under which the file was made. `base` is how many bytes it had when it got its name: it was written aside,
synced and renamed, so that these bytes are whole.

A file of RabbitMQ itself has no header. It cannot be mistaken for a file with a damaged one: that has five of the seven
bytes that are the same in every header, at their places or next to them, or it is cut off within its magic.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple
from zlib import crc32

from splitbrain.cluster.classic.damage import corrupt
from splitbrain.cluster.classic.records import WIDTHS, Version
from splitbrain.cluster.errors import StorageError

FORMAT: Final = 1
ORDER: Final = 0x0102

_HEADER: Final = struct.Struct(">4sBBHQQQ")
_CHECKSUM: Final = struct.Struct(">I")
_FRAME: Final = struct.Struct(">BQI")
_FRONT: Final = struct.Struct(">BQ")

HEADER_BYTES: Final = _HEADER.size + _CHECKSUM.size
FRAME_BYTES: Final = _FRAME.size

_LIKE_A_HEADER: Final = 5
_VERSIONS: Final[dict[int, Version]] = {version: version for version in WIDTHS}


class Header(NamedTuple):
    """The beginning of a file.

    Attributes:
        version: of its records.
        number: of the segment, 0 for a journal.
        serial: number of the journal under which it was made.
        base: bytes with which it got its name.
    """

    version: Version
    number: int
    serial: int
    base: int


class Frame(NamedTuple):
    """A whole frame: its kind, and where its payload begins and ends."""

    kind: int
    start: int
    end: int


def encode_header(magic: bytes, header: Header) -> bytes:
    """The beginning of a file."""
    head = _HEADER.pack(magic, header.version, FORMAT, ORDER, header.number, header.serial, header.base)
    return head + _CHECKSUM.pack(crc32(head))


def decode_header(content: bytes, name: str, magic: bytes) -> Header | None:
    """The header of a file, None if it is one of RabbitMQ itself, which has none.

    Raises:
        CorruptStorageError: the header is damaged.
        StorageError: the file is of a later format or version.
    """
    fixed = _HEADER.pack(magic, 0, FORMAT, ORDER, 0, 0, 0)
    # Each may also be a place before or behind its own, where a byte is missing or there twice.
    alike = sum(fixed[at] in content[max(at - 1, 0) : at + 2] for at in (0, 1, 2, 3, 5, 6, 7))
    # One that is cut off within its magic: no file of RabbitMQ begins like that, for a sequence id would be 2^60.
    begun = bool(content) and content[: len(magic)] == magic[: len(content)]
    if alike < _LIKE_A_HEADER and not begun:
        return None
    head, checksum = content[: _HEADER.size], content[_HEADER.size : HEADER_BYTES]
    if len(checksum) < _CHECKSUM.size or _CHECKSUM.unpack(checksum)[0] != crc32(head):
        raise corrupt(name, 0, "the header is damaged")
    found, records, format_, order, number, serial, base = _HEADER.unpack(head)
    if (found, order) != (magic, ORDER):
        raise corrupt(name, 0, f"this is another file: it begins with {found!r}")
    version = _VERSIONS.get(records)
    if format_ != FORMAT or version is None:
        raise StorageError(
            f"{name}, byte 4: the file has format {format_} and records of version {records}, this node reads format "
            f"{FORMAT} and versions up to {max(WIDTHS)}. Start it with the version that wrote the file."
        )
    return Header(version, number, serial, base)


def encode_frame(kind: int, payload: bytes) -> bytes:
    """A frame."""
    front = _FRONT.pack(kind, len(payload))
    return b"".join((front, _CHECKSUM.pack(crc32(payload, crc32(front))), payload))


def frame_at(content: bytes, offset: int, end: int) -> Frame | None:
    """The frame at `offset`, None if it is damaged, or not whole before `end`."""
    if end - offset < FRAME_BYTES:
        return None
    kind, length, checksum = _FRAME.unpack_from(content, offset)
    start = offset + FRAME_BYTES
    # A sector that was never written reads as zeros, and no frame is of kind 0.
    if kind == 0 or length > end - start:
        return None
    view = memoryview(content)
    if crc32(view[start : start + length], crc32(view[offset : offset + _FRONT.size])) != checksum:
        return None
    return Frame(kind, start, start + length)
