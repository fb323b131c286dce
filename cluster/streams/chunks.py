"""A stream's log: chunks of messages, in memory and in a file.

    record      4 bytes: length of the chunk; 4 bytes: its CRC-32; the chunk (msgpack)

Each epoch begins with a chunk that has no message. A file may end with the rest of an unfinished write, which is cut
off; damage before a later record is corruption.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import Final
from zlib import crc32

import msgspec

from splitbrain.cluster.errors import CorruptStorageError
from splitbrain.cluster.streams.position import BEGIN, Position

_HEAD: Final = struct.Struct(">II")


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


class Chunk(msgspec.Struct, frozen=True, array_like=True):
    """Messages that were written at once.

    Attributes:
        epoch: in which they were written.
        first: offset of the first message.
        messages: in order; none in the chunk that begins an epoch.
    """

    epoch: int
    first: int
    messages: tuple[StreamMessage, ...]

    @property
    def end(self) -> Position:
        """Where a log ends that ends with this chunk."""
        return Position(self.epoch, self.first + len(self.messages))


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

    def ends(self) -> tuple[Position, ...]:
        """Where each epoch ends, in the order of epochs."""
        last: dict[int, Position] = {chunk.epoch: chunk.end for chunk in self.chunks}
        return tuple(last.values())

    def append(self, chunk: Chunk) -> bytes:
        """Put a chunk behind the last one; the record of it."""
        record = record_of(chunk)
        self.chunks.append(chunk)
        self._sizes.append(len(record))
        return record

    def truncate(self, end: Position) -> int:
        """Remove the chunks behind a position; the size of the file from now on."""
        while self.chunks and self.chunks[-1].end > end:
            del self.chunks[-1], self._sizes[-1]
        return self.size

    def after(self, position: Position) -> Iterator[Chunk]:
        """The chunks behind a position."""
        found = bisect_right(self.chunks, position, key=lambda chunk: chunk.end)
        return iter(self.chunks[found:])

    def reaches(self, position: Position) -> bool:
        """Whether the log, or the beginning of it, ends at a position."""
        if position == BEGIN:
            return True
        found = bisect_right(self.chunks, position, key=lambda chunk: chunk.end)
        return found > 0 and self.chunks[found - 1].end == position

    def messages(self, offset: int, below: int, most: int) -> Iterator[tuple[int, StreamMessage]]:
        """Messages from an offset on, `most` at most, with offsets below `below`; each with its offset."""
        begin = max(0, bisect_right(self.chunks, offset, key=lambda chunk: chunk.first) - 1)
        for chunk in self.chunks[begin:]:
            for number, message in enumerate(chunk.messages, chunk.first):
                if number >= below or most < 1:
                    return
                if number >= offset:
                    most -= 1
                    yield number, message


def record_of(chunk: Chunk) -> bytes:
    """How a chunk stands in the file."""
    data = msgspec.msgpack.encode(chunk)
    return _HEAD.pack(len(data), crc32(data)) + data


def chunks_in(file: str, content: bytes) -> tuple[Sequence[Chunk], int]:
    """The chunks in a file, and how many of its bytes they take; what is behind is the rest of an unfinished write.

    Args:
        file: its name, for the error.
        content: of the file.

    Raises:
        CorruptStorageError: a record is damaged, and another one behind it is not.
    """
    chunks: list[Chunk] = []
    at = 0
    while (found := _record(content, at)) is not None:
        chunk, at = found
        chunks.append(chunk)
    behind = at + _HEAD.size
    if len(content) >= behind:
        behind += _HEAD.unpack_from(content, at)[0]
        if behind < len(content) and _record(content, behind) is not None:
            raise CorruptStorageError(f"{file} is damaged at byte {at}, and a whole record is behind that.")
    return chunks, at


def _record(content: bytes, at: int) -> tuple[Chunk, int] | None:
    if len(content) < at + _HEAD.size:
        return None
    length, checksum = _HEAD.unpack_from(content, at)
    data = content[at + _HEAD.size : at + _HEAD.size + length]
    if len(data) < length or crc32(data) != checksum or not length:
        return None
    try:
        return msgspec.msgpack.decode(data, type=Chunk), at + _HEAD.size + length
    except msgspec.MsgspecError:
        return None
