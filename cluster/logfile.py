"""The format of a node's log file. Append-only; what it says is what its records say, one after the other.

    file    := "SBLG" version:u32  record*
    record  := length:u32 checksum:u32 body        length of the body in bytes; CRC-32 of length and body
    body    := kind:u8 index:u64 term:u64 data     all numbers little endian

    kind 1  a no-op of a new leader                at `index`; every earlier record of an index >= `index` is void
    kind 2  a command                              the same; `data` is the command
    kind 5  a configuration                        the same; `data` names the members (`raft.membership`)
    kind 3  truncation                             every earlier record of an index >= `index` is void
    kind 4  mark                                   the first `term` bytes of the file are durable; `index` is the offset
                                                   at which this record itself begins

What was appended and not yet synced when a machine dies may be there in part, and not only up to some point: disks
write sectors in any order. Whatever was synced must be there. Marks, written after each sync, separate the two:
a record that is damaged before the extent of a later mark is corruption, and fatal; any other damaged record is where
a torn tail begins, and what follows was never acknowledged (Ra decides by position only: RA-34).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final
from zlib import crc32

from splitbrain.cluster.errors import CorruptStorageError, StorageError
from splitbrain.cluster.raft.messages import Entry, EntryKind

VERSION: Final = 1
HEADER: Final = b"SBLG" + VERSION.to_bytes(4, "little")

_FRAME: Final = struct.Struct("<II")
_BODY: Final = struct.Struct("<BQQ")
_RECORD_MIN: Final = _FRAME.size + _BODY.size
_MARK_LENGTH: Final = _BODY.size.to_bytes(4, "little")

_NOOP: Final = 1
_COMMAND: Final = 2
_TRUNCATION: Final = 3
_MARK: Final = 4
_CONFIGURATION: Final = 5

_KINDS: Final[dict[EntryKind, int]] = {"noop": _NOOP, "command": _COMMAND, "config": _CONFIGURATION}
_ENTRIES: Final[dict[int, EntryKind]] = {number: kind for kind, number in _KINDS.items()}


@dataclass(frozen=True)
class LogContent:
    """What a log file says.

    Attributes:
        entries: from index 1, without gaps.
        size: bytes of the file up to the end of the last whole record.
        torn: bytes after that, which are the rest of a write that never finished.
    """

    entries: list[Entry]
    size: int
    torn: int


def encode_entries(entries: Iterable[Entry]) -> bytes:
    """Records that append entries, in place of those of the same and later indexes."""
    return b"".join(_encode(_KINDS[entry.kind], entry.index, entry.term, entry.data) for entry in entries)


def encode_truncation(from_index: int) -> bytes:
    """A record that voids every entry from `from_index` on."""
    return _encode(_TRUNCATION, from_index, 0)


def encode_mark(offset: int, durable: int) -> bytes:
    """A record, to be written at `offset`, which says that the first `durable` bytes of the file are durable."""
    return _encode(_MARK, offset, durable)


def decode(content: bytes, name: str) -> LogContent:
    """Read a whole log file; `name` is for messages.

    Raises:
        CorruptStorageError: something that had been made durable is damaged.
        StorageError: the file is of a newer version.
    """
    _check_header(content, name)
    entries: list[Entry] = []
    offset = len(HEADER)
    while offset < len(content):
        record = _decode_record(content, offset)
        if record is None:
            _require_torn(content, offset, name, len(entries))
            break
        kind, index, term, data = record
        if kind != _MARK:
            _replay(entries, kind, index, term, data, f"{name}, byte {offset}")
        offset += _RECORD_MIN + len(data)
    return LogContent(entries, offset, len(content) - offset)


def _encode(kind: int, index: int, term: int, data: bytes = b"") -> bytes:
    body = _BODY.pack(kind, index, term) + data
    length = len(body).to_bytes(4, "little")
    return length + crc32(body, crc32(length)).to_bytes(4, "little") + body


def _decode_record(content: bytes, offset: int) -> tuple[int, int, int, bytes] | None:
    """The record at `offset`, None if it is damaged or not whole."""
    if len(content) - offset < _RECORD_MIN:
        return None
    length, checksum = _FRAME.unpack_from(content, offset)
    start = offset + _FRAME.size
    # A sector that was never written reads as zeros, and a length of 0 is no record.
    if length < _BODY.size or len(content) - start < length:
        return None
    body = content[start : start + length]
    # The length is under the checksum: it decides where the next record is looked for.
    if crc32(body, crc32(content[offset : offset + 4])) != checksum:
        return None
    kind, index, term = _BODY.unpack_from(body)
    return kind, index, term, body[_BODY.size :]


def _replay(entries: list[Entry], kind: int, index: int, term: int, data: bytes, place: str) -> None:
    if not 1 <= index <= len(entries) + 1:
        raise CorruptStorageError(
            f"{place}: a record for index {index} follows index {len(entries)}. "
            f"Replace this node, or restore its data directory."
        )
    del entries[index - 1 :]
    if kind in _ENTRIES:
        entries.append(Entry(index, term, _ENTRIES[kind], data))
    elif kind != _TRUNCATION:
        raise CorruptStorageError(
            f"{place}: a record of unknown kind {kind}. Replace this node, or restore its data directory."
        )


def _check_header(content: bytes, name: str) -> None:
    if content[:4] != HEADER[:4] or len(content) < len(HEADER):
        raise CorruptStorageError(
            f"{name}: this is no log file, or its beginning is damaged. "
            f"Replace this node, or restore its data directory."
        )
    version = int.from_bytes(content[4:8], "little")
    if version != VERSION:
        raise StorageError(
            f"{name}: the log has format {version}, this node reads {VERSION}. "
            f"Start it with the version that wrote the log."
        )


def _require_torn(content: bytes, damaged: int, name: str, last_index: int) -> None:
    """Refuse damage at offset `damaged` if a later mark says that the place had been durable."""
    # The length of the damaged record cannot be trusted, so marks are looked for at every byte. A mark names its own
    # offset: bytes within a command that look like one are not taken for it.
    at = content.find(_MARK_LENGTH, damaged + 1)
    while at >= 0:
        record = _decode_record(content, at)
        if record is not None and record[0] == _MARK and record[1] == at and record[2] > damaged:
            raise CorruptStorageError(
                f"{name}, byte {damaged}: a record that was durable is damaged (after index "
                f"{last_index}). Replace this node, or restore its data directory."
            )
        at = content.find(_MARK_LENGTH, at + 1)
