"""A stream's log: chunks of messages, in memory and in a file.

    record      4 bytes: length of the chunk; 4 bytes: CRC-32; 1 byte: whether a write begins here; the chunk (msgpack)

Each epoch begins with a chunk that has no message. Several records may be written at once. A write begins once the one
before is durable. So what is damaged in the last write is the rest of an unfinished one, and is cut off; damage before
a record with which a later write begins is corruption.

A log whose beginning was dropped begins with a chunk that stands for what is gone (`Chunk.gone`). It ends where that
ended: so the end of a log, and what two logs have in common, stay what they were. And it knows the last number of each
publisher, so that no message is taken twice.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import Final
from zlib import crc32

import msgspec

from splitbrain.cluster.log.damage import corrupt
from splitbrain.cluster.streams.position import BEGIN, Position
from splitbrain.cluster.streams.retention import Retention

_HEAD: Final = struct.Struct(">IIB")

_OVERHEAD: Final = 16
"""Bytes of a message beside its name and body, about."""


_FIELDS: Final = (0x93, 0x95)
"""With one of these a chunk begins, in MessagePack: with three fields in files from before there was retention."""

_WORTH: Final = 4
"""Dropping writes what is kept anew: it waits until one byte in so many goes."""


class StreamMessage(msgspec.Struct, frozen=True, array_like=True):
    """A message.

    Attributes:
        publisher: who published it, "" without a name.
        number: of its publisher's messages, which rises; 0 without a name.
        body: what was published.
    """

    publisher: str
    number: int
    body: bytes

    @property
    def size(self) -> int:
        """About the number of bytes that it takes in a frame."""
        return len(self.body) + len(self.publisher) + _OVERHEAD


class LastOf(msgspec.Struct, frozen=True, array_like=True):
    """The number and the offset of the last message of a publisher."""

    publisher: str
    number: int
    offset: int


class Chunk(msgspec.Struct, frozen=True, array_like=True):
    """Messages that were written at once.

    Attributes:
        epoch: in which they were written.
        first: offset of the first message.
        messages: in order; none in the chunk that begins an epoch.
        at_ms: when its writer wrote it, in ms since the Unix epoch.
        gone: None; of the chunk that stands for all that was dropped before `first`, the publishers of that.
    """

    epoch: int
    first: int
    messages: tuple[StreamMessage, ...]
    at_ms: int = 0
    gone: tuple[LastOf, ...] | None = None

    @property
    def end(self) -> Position:
        """The end of a log whose last chunk is this one."""
        return Position(self.epoch, self.first + len(self.messages))

    def last_of_publishers(self) -> Iterator[LastOf]:
        """The messages in it, and in what it stands for, by which those that come again are known."""
        yield from self.gone or ()
        for offset, message in enumerate(self.messages, self.first):
            if message.publisher:
                yield LastOf(message.publisher, message.number, offset)


class ChunkLog:
    """The log of one copy, in memory.

    Attributes:
        chunks: all of it.
    """

    def __init__(self, chunks: Iterable[Chunk] = ()) -> None:
        self.chunks = list(chunks)
        self._sizes = [len(record_of(chunk)) for chunk in self.chunks]

    @property
    def end(self) -> Position:
        """Where it ends."""
        return self.chunks[-1].end if self.chunks else BEGIN

    @property
    def size(self) -> int:
        """Of its file, in bytes."""
        return sum(self._sizes)

    @property
    def start(self) -> int:
        """Offset of the first message that was not dropped."""
        return self.chunks[0].first if self.chunks and self.chunks[0].gone is not None else 0

    @property
    def content(self) -> bytes:
        """Of its file, as one written anew has it."""
        return b"".join(map(record_of, self.chunks))

    def ends(self) -> tuple[Position, ...]:
        """Where each epoch ends, in the order of epochs."""
        last: dict[int, Position] = {chunk.epoch: chunk.end for chunk in self.chunks}
        return tuple(last.values())

    def append(self, chunk: Chunk, begins: bool = True) -> bytes:
        """Put a chunk behind the last one; its record. Of the records of one write `begins` is true of the first.

        One that stands for what was dropped takes the place of all that is there.
        """
        record = record_of(chunk, begins)
        if chunk.gone is not None:
            self.chunks.clear()
            self._sizes.clear()
        self.chunks.append(chunk)
        self._sizes.append(len(record))
        return record

    def truncate(self, end: Position) -> int:
        """Remove the chunks behind a position; the size of the file from now on."""
        while self.chunks and self.chunks[-1].end > end:
            del self.chunks[-1], self._sizes[-1]
        return self.size

    def drop(self, retention: Retention, committed: int, now_ms: int) -> bool:
        """Drop whole chunks at the beginning that are too old, or too much; whether there were enough to be worth it.

        The last chunk stays, and so does what is not committed.

        Args:
            retention: what is to be kept.
            committed: offset behind the last message that is known to be committed.
            now_ms: since the Unix epoch.
        """
        before = size = self.size
        count = 0
        for chunk, its_size in zip(self.chunks[:-1], self._sizes, strict=False):
            too_long = retention.max_length_bytes is not None and size > retention.max_length_bytes
            too_old = retention.max_age_ms is not None and chunk.at_ms < now_ms - retention.max_age_ms
            if chunk.end.offset > committed or not (too_long or too_old):
                break
            count, size = count + 1, size - its_size
        if not any(chunk.messages for chunk in self.chunks[:count]) or _WORTH * (before - size) < before:
            return False
        gone, last = self.chunks[:count], self.chunks[count - 1]
        publishers = {each.publisher: each for chunk in gone for each in chunk.last_of_publishers()}
        stands = Chunk(last.epoch, last.end.offset, (), last.at_ms, tuple(publishers.values()))
        self.chunks[:count], self._sizes[:count] = [stands], [len(record_of(stands))]
        return True

    def after(self, position: Position) -> Iterator[Chunk]:
        """The chunks behind a position."""
        found = bisect_right(self.chunks, position, key=lambda chunk: chunk.end)
        return iter(self.chunks[found:])

    def reaches(self, position: Position) -> bool:
        """Whether the log, or the beginning of it, ends at a position."""
        if position == BEGIN or (self.start and position < self.chunks[0].end):
            return True  # what it reached of what is gone
        found = bisect_right(self.chunks, position, key=lambda chunk: chunk.end)
        return found > 0 and self.chunks[found - 1].end == position

    def messages(self, offset: int, below: int, most: int) -> Iterator[tuple[int, StreamMessage]]:
        """At most `most` messages with offsets from `offset` on and below `below`; each with its offset."""
        begin = max(0, bisect_right(self.chunks, offset, key=lambda chunk: chunk.first) - 1)
        for chunk in self.chunks[begin:]:
            for number, message in enumerate(chunk.messages, chunk.first):
                if number >= below or most < 1:
                    return
                if number >= offset:
                    most -= 1
                    yield number, message


def record_of(chunk: Chunk, begins: bool = True) -> bytes:
    """The record of a chunk; `begins`: a write begins with it."""
    data = msgspec.msgpack.encode(chunk)
    return _HEAD.pack(len(data), crc32(data, begins), begins) + data


def chunks_in(file: str, content: bytes) -> tuple[Sequence[Chunk], int]:
    """The chunks in a file, and the number of its bytes that they take; the rest is that of an unfinished write.

    Args:
        file: its name, for the error.
        content: of the file.

    Raises:
        CorruptStorageError: a record is damaged, and a later write than that of the record is in the file.
    """
    chunks: list[Chunk] = []
    at = 0
    while (found := _record(content, at)) is not None:
        chunk, _, at = found
        chunks.append(chunk)
    for behind in range(at + 1, len(content) - _HEAD.size):  # the length in the damaged record may be damaged, too
        found = _record(content, behind)
        if found is not None and found[1]:
            raise corrupt(file, at, "a record is damaged, and a later write is behind it")
    return chunks, at


def _record(content: bytes, at: int) -> tuple[Chunk, bool, int] | None:
    """The chunk of a whole record, whether a write begins with it, and the byte behind it; None for anything else."""
    if len(content) < at + _HEAD.size:
        return None
    length, checksum, begins = _HEAD.unpack_from(content, at)
    end = at + _HEAD.size + length
    if not length or begins > 1 or end > len(content) or content[at + _HEAD.size] not in _FIELDS:
        return None  # a checksum over a mebibyte for each byte of a torn one would take long
    data = content[at + _HEAD.size : end]
    if crc32(data, begins) != checksum:
        return None
    try:
        return msgspec.msgpack.decode(data, type=Chunk), bool(begins), end
    except msgspec.MsgspecError:
        return None
