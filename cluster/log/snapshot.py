"""The format of a snapshot, which is also that of a checkpoint: the state machine of a group after some entry.

    name     := ("snapshot-" | "checkpoint-") uid "-" index "-" term
                                                               8, 16 and 16 hexadecimal digits
    file     := header meta data                               all numbers little endian
    header   := "SBSN" version:u32 checksum:u32 length:u32     length of the meta; CRC-32 of the length and the meta
    meta     := a MessagePack map (`Meta`), which has length and CRC-32 of the data

The data is the state machine's own, opaque here.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from typing import Final, Literal
from zlib import crc32

import msgspec

from splitbrain.cluster.log.damage import corrupt, require_version
from splitbrain.cluster.raft.messages import OLDEST

VERSION: Final = 1

Sort = Literal["snapshot", "checkpoint"]

_MAGIC: Final = b"SBSN"
_HEADER: Final = struct.Struct("<4sIII")
_NAME: Final = re.compile("(snapshot|checkpoint)-([0-9a-f]{8})-([0-9a-f]{16})-([0-9a-f]{16})")


@dataclass(frozen=True)
class SnapshotName:
    """What the name of a file says: what it is, the group, and the last entry that it covers."""

    sort: Sort
    uid: int
    index: int
    term: int

    def __str__(self) -> str:
        """The name of the file."""
        return f"{self.sort}-{self.uid:08x}-{self.index:016x}-{self.term:016x}"


class Meta(msgspec.Struct, frozen=True, kw_only=True):
    """What a snapshot says of itself.

    Attributes:
        uid: of the group.
        index: of the last entry that it covers.
        term: of that entry.
        configurations: those in the log up to there (`splitbrain.cluster.raft.membership`); empty for the founders'.
        machine: version of the state machine that is in force there; 0 in files of programs that knew of none.
    """

    uid: int
    index: int
    term: int
    configurations: bytes = b""
    machine: int = 0

    @property
    def version(self) -> int:
        """The version of the state machine that is in force there."""
        return max(OLDEST, self.machine)


class _Stored(Meta, frozen=True, kw_only=True):
    length: int
    checksum: int


def parse_name(name: str) -> SnapshotName:
    """What the name of a snapshot or checkpoint says.

    Raises:
        CorruptStorageError: it is the name of none.
    """
    found = _NAME.fullmatch(name)
    if found is None:
        raise corrupt(name, 0, "no snapshot and no checkpoint has such a name")
    sort, *digits = found.groups()
    uid, index, term = (int(each, 16) for each in digits)
    return SnapshotName("snapshot" if sort == "snapshot" else "checkpoint", uid, index, term)


def encode(meta: Meta, data: bytes) -> bytes:
    """The file of a snapshot or checkpoint."""
    stored = _Stored(**msgspec.structs.asdict(meta), length=len(data), checksum=crc32(data))
    packed = msgspec.msgpack.encode(stored)
    length = len(packed).to_bytes(4, "little")
    return _HEADER.pack(_MAGIC, VERSION, crc32(packed, crc32(length)), len(packed)) + packed + data


def is_of_another_format(content: bytes) -> bool:
    """Whether this is a snapshot or checkpoint of a format that this program does not read."""
    return (
        len(content) >= _HEADER.size and content[:4] == _MAGIC and _HEADER.unpack_from(content)[1] not in (0, VERSION)
    )


def decode(content: bytes, name: SnapshotName) -> tuple[Meta, bytes]:
    """What a file holds.

    Raises:
        CorruptStorageError: it is damaged, or is not what its name says.
        StorageError: it is of another version.
    """
    place = str(name)
    if len(content) < _HEADER.size or content[:4] != _MAGIC:
        raise corrupt(place, 0, "this is no snapshot, or its beginning is damaged")
    _, version, checksum, length = _HEADER.unpack_from(content)
    require_version(place, version, VERSION)
    begin = _HEADER.size + length
    packed = content[_HEADER.size : begin]
    if len(packed) < length or crc32(packed, crc32(length.to_bytes(4, "little"))) != checksum:
        raise corrupt(place, _HEADER.size, "what the snapshot says of itself is damaged")
    stored = msgspec.msgpack.decode(packed, type=_Stored)
    if (stored.uid, stored.index, stored.term) != (name.uid, name.index, name.term):
        raise corrupt(place, 0, f"the file is that of entry {stored.index} of group {stored.uid}: it was renamed")
    data = content[begin:]
    if len(data) != stored.length or crc32(data) != stored.checksum:
        raise corrupt(place, begin, "the state in the snapshot is damaged")
    fields = {field: getattr(stored, field) for field in Meta.__struct_fields__}
    return Meta(**fields), data
