"""The format of a file of the write-ahead log, which all groups of a node share.

    file     := header record*
    header   := "SBWL" version:u32 number:u64 checksum:u32     CRC-32 of what comes before it
    record   := length:u32 checksum:u32 body                   length of the body in bytes; CRC-32 of length and body
    body     := kind:u8 uid:u32 index:u64 term:u64 data        of the group with this uid; all numbers little endian

    kind 1  a no-op of a new leader      at `index`; every earlier record of the group of an index >= `index` is void
    kind 2  a command                    the same; `data` is the command
    kind 5  a configuration              the same; `data` names the members (`raft.membership`)
    kind 3  truncation                   every earlier record of the group of an index >= `index` is void
    kind 6  a new beginning              the group's log is empty and goes on behind `index`, whose term is `term`: a
                                         snapshot was installed
    kind 7  what is elsewhere            the group's log up to `index` is in segments, or in the state of a snapshot
    kind 4  a mark                       the first `term` bytes of the file are durable; `index` is the offset at which
                                         this record itself begins

Only the file with the highest number counts. It is made as a whole, with all that is still needed of the one before it,
under another name, and then renamed. It ends with a mark: damage up to the first mark is never the rest of a crash.

What was appended and not synced when a machine dies may be there in part, and not only up to some point: disks write
sectors in any order. What was synced must be there. Marks, written after each sync, separate the two: a record that is
damaged before the extent of a later mark is corruption. Any other damaged record is where a torn tail begins, and what
follows was never acknowledged (Ra decides by position: RA-34). A file whose end was cut off, behind its first mark and
between records, cannot be told from one to which less was written.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias
from zlib import crc32

import msgspec

from splitbrain.cluster.bugs import M43, NO_BUGS, Bugs
from splitbrain.cluster.errors import CorruptStorageError
from splitbrain.cluster.log.damage import corrupt, require_version
from splitbrain.cluster.log.kinds import KINDS, NUMBERS
from splitbrain.cluster.raft.messages import Entry

VERSION: Final = 1

_MAGIC: Final = b"SBWL"
_HEADER: Final = struct.Struct("<4sIQ")
_CHECKSUM: Final = struct.Struct("<I")
_FRAME: Final = struct.Struct("<II")
_BODY: Final = struct.Struct("<BIQQ")
_RECORD: Final = struct.Struct("<IIBIQQ")

HEADER_BYTES: Final = _HEADER.size + _CHECKSUM.size
_FRAME_BYTES: Final = _FRAME.size
_BODY_BYTES: Final = _BODY.size
RECORD_BYTES: Final = _RECORD.size
"""The length of a record without data."""

_MARK_LENGTH: Final = _BODY.size.to_bytes(4, "little")

_TRUNCATION: Final = 3
_MARK: Final = 4
_BEGINNING: Final = 6
_ELSEWHERE: Final = 7


class Truncation(msgspec.Struct, frozen=True):
    """The entries from `from_index` on are void."""

    from_index: int


class Beginning(msgspec.Struct, frozen=True):
    """The log is empty and goes on behind this index: what a snapshot holds that was installed."""

    index: int
    term: int


class Elsewhere(msgspec.Struct, frozen=True):
    """The log up to this index is in segments, or in the state of a snapshot."""

    index: int


Change: TypeAlias = Entry | Truncation | Beginning | Elsewhere


class Logged(NamedTuple):
    """A change to the log of a group, and the byte at which its record begins."""

    uid: int
    change: Change
    offset: int


@dataclass(frozen=True)
class WalContent:
    """What a file says.

    Attributes:
        changes: to the groups' logs, in order.
        size: bytes of the file up to the end of the last whole record.
        torn: bytes after that, which are the rest of a write that never finished.
        durable: bytes from the beginning that are durable, as the marks say.
        damage: what is behind the last whole record, if that had been durable.
    """

    changes: list[Logged]
    size: int
    torn: int
    durable: int = 0
    damage: CorruptStorageError | None = None


NOTHING: Final = WalContent([], HEADER_BYTES, 0)
"""What is known of a file that was not read before."""


# --- writing ----------------------------------------------------------------------------------------------------------


def encode_header(number: int) -> bytes:
    """The beginning of the file of that number."""
    head = _HEADER.pack(_MAGIC, VERSION, number)
    return head + _CHECKSUM.pack(crc32(head))


def encode_entries(uid: int, entries: Iterable[Entry]) -> bytes:
    """Records that append entries, in place of those of the same and later indexes."""
    return b"".join([_encode(NUMBERS[entry.kind], uid, entry.index, entry.term, entry.data) for entry in entries])


def encode_truncation(uid: int, from_index: int) -> bytes:
    """A record that voids every entry from `from_index` on."""
    return _encode(_TRUNCATION, uid, from_index, 0)


def encode_beginning(uid: int, index: int, term: int) -> bytes:
    """A record that empties the log, which goes on behind `index`."""
    return _encode(_BEGINNING, uid, index, term)


def encode_changes(uid: int, changes: Iterable[Change]) -> bytes:
    """Records of any changes, in order."""
    return b"".join(_encode_change(uid, change) for change in changes)


def _encode_change(uid: int, change: Change) -> bytes:
    match change:
        case Entry():
            return encode_entries(uid, (change,))
        case Truncation(from_index):
            return encode_truncation(uid, from_index)
        case Beginning(index, term):
            return encode_beginning(uid, index, term)
        case Elsewhere(index):
            return _encode(_ELSEWHERE, uid, index, 0)


def encode_mark(offset: int, durable: int) -> bytes:
    """A record, to be written at `offset`, which says that the first `durable` bytes of the file are durable."""
    return _encode(_MARK, 0, offset, durable)


def _encode(kind: int, uid: int, index: int, term: int, data: bytes = b"") -> bytes:
    body = _BODY.pack(kind, uid, index, term) + data
    length = len(body).to_bytes(4, "little")
    return length + crc32(body, crc32(length)).to_bytes(4, "little") + body


# --- reading ----------------------------------------------------------------------------------------------------------


def decode(content: bytes, name: str, number: int, bugs: Bugs = NO_BUGS, known: WalContent = NOTHING) -> WalContent:
    """Read a whole file.

    Args:
        content: of the file.
        name: for messages.
        number: that the file must have, by its name.
        bugs: what is broken on purpose.
        known: what a file without damage said with which this one begins, up to the end of its last whole record.

    Raises:
        CorruptStorageError: something that had been made durable is damaged.
        StorageError: the file is of another version.
    """
    found = scan(content, name, number, bugs, known)
    if found.damage is not None:
        raise found.damage
    return found


def scan(content: bytes, name: str, number: int, bugs: Bugs = NO_BUGS, known: WalContent = NOTHING) -> WalContent:
    """Read a file up to its first damaged record; arguments as of `decode`.

    Raises:
        CorruptStorageError: its header is damaged.
        StorageError: the file is of another version.
    """
    _check_header(content, name, number)
    changes = list(known.changes)
    durable = known.durable
    damage: CorruptStorageError | None = None
    offset = known.size
    is_whole = known is not NOTHING
    while offset < len(content):
        record = _record_at(content, offset)
        if record is None:
            was_durable = _was_durable(content, offset)
            if was_durable and M43 not in bugs:
                damage = corrupt(name, offset, "a record that was durable is damaged")
                break
            if not was_durable and M43 in bugs:
                record = _record_at(content, offset, checked=False)
            if record is None:
                break
        if record.kind == _MARK:
            is_whole = True
            durable = max(durable, record.term)
        else:
            change = _change(record)
            if change is None:
                damage = corrupt(name, offset, f"a record of unknown kind {record.kind}")
                break
            changes.append(Logged(record.uid, change, offset))
        offset += RECORD_BYTES + len(record.data)
    if damage is None and not is_whole:
        damage = corrupt(name, offset, "the file was made with more than is left of it")
    return WalContent(changes, offset, len(content) - offset, durable, damage)


class _Record(msgspec.Struct, frozen=True, gc=False):
    kind: int
    uid: int
    index: int
    term: int
    data: bytes


def _change(record: _Record) -> Change | None:
    kind = KINDS.get(record.kind)
    if kind is not None:
        return Entry(record.index, record.term, kind, record.data)
    if record.kind == _TRUNCATION:
        return Truncation(record.index)
    if record.kind == _BEGINNING:
        return Beginning(record.index, record.term)
    if record.kind == _ELSEWHERE:
        return Elsewhere(record.index)
    return None


def _check_header(content: bytes, name: str, number: int) -> None:
    head = content[: _HEADER.size]
    checksum = content[_HEADER.size : HEADER_BYTES]
    if len(checksum) < _CHECKSUM.size or head[:4] != _MAGIC or _CHECKSUM.unpack(checksum)[0] != crc32(head):
        raise corrupt(name, 0, "this is no file of the write-ahead log, or its beginning is damaged")
    _, version, found = _HEADER.unpack(head)
    require_version(name, version, VERSION)
    if found != number:
        raise corrupt(name, 0, f"the file says that it is number {found} of the write-ahead log: it was renamed")


def _record_at(content: bytes, offset: int, *, checked: bool = True) -> _Record | None:
    """The record at `offset`, None if it is damaged or not whole."""
    left = len(content) - offset
    if left < RECORD_BYTES:
        return None
    length, checksum, kind, uid, index, term = _RECORD.unpack_from(content, offset)
    # A sector that was never written reads as zeros, and a length of 0 is no record.
    if length < _BODY_BYTES or left < _FRAME_BYTES + length:
        return None
    start = offset + _FRAME_BYTES
    body = content[start : start + length]
    # The length is under the checksum: it decides where the next record is looked for.
    if checked and crc32(body, crc32(content[offset : offset + 4])) != checksum:
        return None
    return _Record(kind, uid, index, term, body[_BODY_BYTES:])


def _was_durable(content: bytes, damaged: int) -> bool:
    """Whether a later mark covers the place."""
    # The length of the damaged record cannot be trusted, so marks are looked for at every byte. A mark names its own
    # offset: bytes within a command that look like one are not taken for it.
    at = content.find(_MARK_LENGTH, damaged + 1)
    while at >= 0:
        record = _record_at(content, at)
        if record is not None and record.kind == _MARK and record.index == at and record.term > damaged:
            return True
        at = content.find(_MARK_LENGTH, at + 1)
    return False
