"""What the index holds of a message, in both versions; callers see a `Record` and no version (CQ-2, CQ-3, CQ-8).

    version 1, 32 bytes    id:16 bytes  expiry:u64  size:u32  embedded:u32
    version 2, 36 bytes    id:16 bytes  expiry:u64  size:u32  redeliveries:u32  embedded:u32

All numbers are big endian, as Erlang writes them, and `expiry` is in microseconds, as RabbitMQ has it. `embedded` is
the length of the message itself, which follows where the index holds it. Version 1 is the publish record of RabbitMQ
3.8 (`rabbit_queue_index`). Version 2 is that of document S003, which adds the counter; ours counts redeliveries, so
that one delivery never needs it.
"""

from __future__ import annotations

import struct
from typing import Final, Literal, TypeAlias

Version: TypeAlias = Literal[1, 2]

ID_BYTES: Final = 16
WIDTHS: Final[dict[Version, int]] = {1: 32, 2: 36}
"""Bytes of a record of each version, without the embedded message."""
COUNT_AT: Final = 28
"""Where the counter is in a record of version 2."""

MAX_COUNT: Final = 2**32 - 1

_V1: Final = struct.Struct(">16sQII")
_V2: Final = struct.Struct(">16sQIII")
_U32: Final = struct.Struct(">I")
_NO_EXPIRY: Final = 0


class Record:
    """A message as the index holds it. Make one with `record`. Records that say the same in two versions are equal."""

    __slots__ = ("_body", "_head")

    def __init__(self, head: bytes, body: bytes) -> None:
        """For the codecs of this package: `head` is a record of either version, `body` the embedded message."""
        self._head = head
        self._body = body

    @property
    def id(self) -> bytes:
        """Of the message, 16 bytes."""
        return self._head[:ID_BYTES]

    @property
    def expiry(self) -> int | None:
        """When the message is too old, in microseconds since the Unix epoch; None for never."""
        return int.from_bytes(self._head[16:24], "big") or None

    @property
    def size(self) -> int:
        """Of the message, in bytes, wherever it is stored."""
        return int.from_bytes(self._head[24:28], "big")

    @property
    def body(self) -> bytes:
        """The message, if the index holds it; else nothing."""
        return self._body

    @property
    def redeliveries(self) -> int:
        """How often the message was delivered again, as far as that was written down."""
        if len(self._head) == _V1.size:
            return 0
        return int.from_bytes(self._head[COUNT_AT : COUNT_AT + 4], "big")

    @property
    def needs(self) -> Version:
        """The lowest version that can hold it."""
        return 2 if self.redeliveries else 1

    def counted(self, redeliveries: int) -> Record:
        """The same message with another count; one above 2^32 - 1 stays there."""
        if redeliveries == self.redeliveries:
            return self
        count = _U32.pack(min(redeliveries, MAX_COUNT))
        return Record(self._head[:COUNT_AT] + count + self._head[-4:], self._body)

    def without_body(self) -> Record:
        """The same without the embedded message: what a change of the count is written with."""
        return Record(self._head[:-4] + _U32.pack(0), b"") if self._body else self

    def encoded(self, version: Version) -> bytes:
        """The bytes in a file of that version; `needs` must not be above it."""
        head = self._head
        if len(head) != WIDTHS[version]:
            assert version >= self.needs, "the count of redeliveries has no place in version 1"
            count = _U32.pack(self.redeliveries) if version == 2 else b""
            head = head[:COUNT_AT] + count + head[-4:]
        return head + self._body

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Record) and self.encoded(2) == other.encoded(2)

    def __hash__(self) -> int:
        return hash(self.encoded(2))

    def __repr__(self) -> str:
        return f"Record({self.id.hex()}, size={self.size}, expiry={self.expiry}, redeliveries={self.redeliveries})"


def record(id: bytes, size: int, *, expiry: int | None = None, body: bytes = b"", redeliveries: int = 0) -> Record:
    """A message for the index.

    Args:
        id: of the message, 16 bytes.
        size: of the message in bytes.
        expiry: microseconds since the Unix epoch, above 0; None for never.
        body: the message, where the index is to hold it.
        redeliveries: how often it was delivered again.

    Raises:
        ValueError: the id has another length, or a number does not fit.
    """
    if redeliveries < 0:
        raise ValueError(f"redeliveries are 0 or more, not {redeliveries}")
    if len(id) != ID_BYTES or expiry == _NO_EXPIRY:
        raise ValueError(f"a message has an id of {ID_BYTES} bytes, not {len(id)}, and no expiry at 0")
    try:
        head = _V1.pack(id, expiry or _NO_EXPIRY, size, len(body))
    except struct.error as error:
        raise ValueError(f"size {size} or expiry {expiry} does not fit into the record: {error}") from error
    return Record(head, body).counted(redeliveries)


def newer(one: Version, other: Version) -> Version:
    """The later of two versions."""
    return 2 if 2 in (one, other) else 1


def decoded(content: bytes, at: int, version: Version) -> tuple[Record, int] | None:
    """The record at `at` and where it ends; None if the content ends before."""
    begin = at + WIDTHS[version]
    if begin > len(content):
        return None
    end = begin + _U32.unpack_from(content, begin - 4)[0]
    return (Record(content[at:begin], content[begin:end]), end) if end <= len(content) else None
