"""The format of a segment: committed entries of one group, which never change.

    name     := "segment-" uid "-" first "-" last              8, 16 and 16 hexadecimal digits
    file     := header index* data                             all numbers little endian
    header   := "SBSG" version:u32 checksum:u32 uid:u32 first:u64 count:u32
                                                               CRC-32 of what follows in the header, and the index
    index    := kind:u8 term:u64 offset:u64 length:u32 checksum:u32
                                                               one for each entry from `first` on; where its data begins
                                                               in the file, how long it is, and its CRC-32

A segment is made as a whole, under another name, and then renamed: any damage in it is corruption. Its name says what
it holds, so that a start reads none that it does not need. (Ra keeps up to 4,096 entries in a file as well: RA-35.)
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple
from zlib import crc32

from splitbrain.cluster.log.damage import corrupt, require_version
from splitbrain.cluster.log.kinds import KINDS, NUMBERS
from splitbrain.cluster.raft.messages import Entry

VERSION: Final = 1
PREFIX: Final = "segment-"

MAX_ENTRIES: Final = 4096
MAX_BYTES: Final = 64 * 1024 * 1024
"""Of the entries of one segment (RA-35)."""

_MAGIC: Final = b"SBSG"
_FRONT: Final = struct.Struct("<4sII")
_CONTENTS: Final = struct.Struct("<IQI")
_INDEX: Final = struct.Struct("<BQQII")
_NAME: Final = re.compile(PREFIX + "([0-9a-f]{8})-([0-9a-f]{16})-([0-9a-f]{16})")


class SegmentName(NamedTuple):
    """What the name of a segment says: the group, and the first and the last index, both included."""

    uid: int
    first: int
    last: int

    def __str__(self) -> str:
        """The name of the file."""
        return f"{names_begin(self.uid)}{self.first:016x}-{self.last:016x}"


def names_begin(uid: int) -> str:
    """What the names of a group's segments begin with."""
    return f"{PREFIX}{uid:08x}-"


def parse_name(name: str) -> SegmentName:
    """What the name of a segment says.

    Raises:
        CorruptStorageError: it is the name of no segment.
    """
    found = _NAME.fullmatch(name)
    if found is None:
        raise corrupt(name, 0, "no segment has such a name")
    uid, first, last = (int(digits, 16) for digits in found.groups())
    return SegmentName(uid, first, last)


def pieces(entries: Sequence[Entry]) -> list[Sequence[Entry]]:
    """Entries as they are divided into segments."""
    found: list[Sequence[Entry]] = []
    begin, size = 0, 0
    for position, entry in enumerate(entries):
        if position > begin and (position - begin == MAX_ENTRIES or size + len(entry.data) > MAX_BYTES):
            found.append(entries[begin:position])
            begin, size = position, 0
        size += len(entry.data)
    return [*found, entries[begin:]] if entries else []


def encode(uid: int, entries: Sequence[Entry]) -> tuple[SegmentName, bytes]:
    """The segment of these entries, which follow each other without a gap."""
    name = SegmentName(uid, entries[0].index, entries[-1].index)
    assert name.last - name.first == len(entries) - 1, f"entries {name.first} to {name.last} are {len(entries)}"
    offset = _FRONT.size + _CONTENTS.size + _INDEX.size * len(entries)
    contents = bytearray(_CONTENTS.pack(uid, name.first, len(entries)))
    for entry in entries:
        contents += _INDEX.pack(NUMBERS[entry.kind], entry.term, offset, len(entry.data), crc32(entry.data))
        offset += len(entry.data)
    front = _FRONT.pack(_MAGIC, VERSION, crc32(contents))
    return name, b"".join([front, contents, *(entry.data for entry in entries)])


def decode(content: bytes, name: SegmentName) -> list[Entry]:
    """The entries of a segment.

    Raises:
        CorruptStorageError: it is damaged, or is not what its name says.
        StorageError: it is of another version.
    """
    return list(entries(content, name))


def entries(content: bytes, name: SegmentName) -> Iterator[Entry]:
    """The same, one entry after the other: those before what is damaged come before the error.

    Raises:
        CorruptStorageError: it is damaged, or is not what its name says.
        StorageError: it is of another version.
    """
    place = str(name)
    begin = _checked(content, name)
    end = begin + _INDEX.size * (name.last - name.first + 1)
    for position, index in zip(range(begin, end, _INDEX.size), range(name.first, name.last + 1), strict=True):
        kind, term, offset, length, checksum = _INDEX.unpack_from(content, position)
        data = content[offset : offset + length]
        if offset != end or len(data) != length or crc32(data) != checksum or kind not in KINDS:
            raise corrupt(place, offset, f"the data of entry {index} is damaged")
        yield Entry(index, term, KINDS[kind], data)
        end += length
    if end != len(content):
        raise corrupt(place, end, "something follows the last entry")


def _checked(content: bytes, name: SegmentName) -> int:
    """Where the index begins."""
    place = str(name)
    begin = _FRONT.size + _CONTENTS.size
    if len(content) < begin or content[:4] != _MAGIC:
        raise corrupt(place, 0, "this is no segment, or its beginning is damaged")
    _, version, checksum = _FRONT.unpack_from(content)
    uid, first, count = _CONTENTS.unpack_from(content, _FRONT.size)
    require_version(place, version, VERSION)
    end = begin + _INDEX.size * count
    if len(content) < end or crc32(content[_FRONT.size : end]) != checksum:
        raise corrupt(place, _FRONT.size, "the index of the segment is damaged")
    if (uid, first, first + count - 1) != name:
        raise corrupt(place, _FRONT.size, f"the file is that of entries {first} to {first + count - 1} of group {uid}")
    return begin
