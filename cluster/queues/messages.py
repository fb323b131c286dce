"""Messages that are ready: index and header of each, as bodies stay in the log (QQ-3, QQ-6).

A ready message takes 32 bytes, packed in arrays: a queue may hold millions, and objects for all of them would take a
multiple, and have the garbage collector look at each. One that leaves the queue becomes an object.
"""

from __future__ import annotations

import sys
from array import array
from collections import deque
from collections.abc import Iterator
from itertools import chain
from typing import Final

import msgspec

from splitbrain.cluster.queues.commands import DEFAULT_PRIORITY, Annotations

NO_ANNOTATIONS: Final[Annotations] = {}
"""Shared by all messages that have none; nothing changes it."""

_NEVER: Final = -1
_WIDTH: Final = 4
_CHUNK: Final = 1024 * _WIDTH
_FAILED_MASK: Final = 2**32 - 1

MAX_COUNT: Final = 2**31 - 1
"""Counts of a message stop here."""

WEIGHT: Final = 2
"""So many messages of high priority are served before one of the others is."""


class Message(msgspec.Struct, array_like=True, gc=False):
    """A message outside of the lanes.

    Attributes:
        index: of the entry that has its body.
        size: of its body, in bytes.
        expiry: when it is too old, in ms since the Unix epoch; None: never.
        acquired: how often a consumer had it and did not settle it.
        failed: how many of its deliveries failed.
        annotations: what `Modify` added.
    """

    index: int
    size: int
    expiry: int | None = None
    acquired: int = 0
    failed: int = 0
    annotations: Annotations = NO_ANNOTATIONS

    def given_back(self, failed: bool, annotations: Annotations) -> Message:
        """The message when a consumer does not settle it."""
        merged = {**self.annotations, **annotations} if annotations else self.annotations
        acquired, failures = min(self.acquired + 1, MAX_COUNT), min(self.failed + failed, MAX_COUNT)
        return Message(self.index, self.size, self.expiry, acquired, failures, merged)


class Lane:
    """Messages first in, first out; each operation takes constant time."""

    def __init__(self) -> None:
        self._chunks: deque[array[int]] = deque()
        self._at = 0  # where the oldest one begins in the first chunk
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def push(self, message: Message) -> None:
        """Add the youngest one; its annotations are kept elsewhere."""
        chunks = self._chunks
        if not chunks or len(chunks[-1]) == _CHUNK:
            chunks.append(array("q"))
        expiry = _NEVER if message.expiry is None else message.expiry
        chunks[-1].extend((message.index, message.size, expiry, message.acquired << 32 | message.failed))
        self._length += 1

    def take(self) -> Message:
        """Remove the oldest one. There is one."""
        first, at = self._chunks[0], self._at
        message = _unpacked(first, at)
        self._length -= 1
        if at + _WIDTH == len(first):
            self._chunks.popleft()
            self._at = 0
        else:
            self._at = at + _WIDTH
        return message

    @property
    def head_index(self) -> int:
        """The index of the oldest one. There is one."""
        return self._chunks[0][self._at]

    @property
    def head_expiry(self) -> int | None:
        """When the oldest one is too old. There is one."""
        expiry = self._chunks[0][self._at + 2]
        return None if expiry == _NEVER else expiry

    def __iter__(self) -> Iterator[Message]:
        for number, chunk in enumerate(self._chunks):
            for at in range(self._at if number == 0 else 0, len(chunk), _WIDTH):
                yield _unpacked(chunk, at)

    def dump(self) -> bytes:
        """All of them; equal bytes for equal lanes, on any machine."""
        packed = array("q")
        for number, chunk in enumerate(self._chunks):
            packed.extend(chunk[self._at :] if number == 0 else chunk)
        return _little_endian(packed).tobytes()

    @classmethod
    def load(cls, data: bytes) -> Lane:
        """The lane whose dump this is.

        Raises:
            ValueError: it is no dump of a lane.
        """
        packed = array("q")
        packed.frombytes(data)
        if len(packed) % _WIDTH:
            raise ValueError(f"{len(data)} bytes are no whole number of messages")
        packed = _little_endian(packed)
        lane = cls()
        lane._length = len(packed) // _WIDTH
        for begin in range(0, len(packed), _CHUNK):
            lane._chunks.append(packed[begin : begin + _CHUNK])
        return lane


def _unpacked(chunk: array[int], at: int) -> Message:
    index, size, expiry, counts = chunk[at : at + _WIDTH]
    kept = None if expiry == _NEVER else expiry
    return Message(index, size, kept, counts >> 32, counts & _FAILED_MASK, NO_ANNOTATIONS)


def _little_endian(packed: array[int]) -> array[int]:
    if sys.byteorder != "little":
        packed = packed[:]
        packed.byteswap()
    return packed


class DumpedMessages(msgspec.Struct, array_like=True):
    """`ReadyMessages` as they stand in a snapshot."""

    returned: bytes
    high: bytes
    normal: bytes
    turn: int
    annotations: list[tuple[int, Annotations]]


class ReadyMessages:
    """Messages that may be handed out, in the order in which they are served (QQ-3).

    What was given back is served first, in the order in which it was. Then come two lanes: the high one has messages of
    a priority above 4, and is served two times of three; also the third time, if its message is older.

    Attributes:
        bytes: of their bodies.
        expiring: how many of them may get too old.
    """

    def __init__(self) -> None:
        self._returned, self._high, self._normal = Lane(), Lane(), Lane()
        self._turn = 0
        self._annotations: dict[int, Annotations] = {}
        self.bytes = 0
        self.expiring = 0

    def __len__(self) -> int:
        return len(self._returned) + len(self._high) + len(self._normal)

    @property
    def returned(self) -> int:
        """How many of them were given back."""
        return len(self._returned)

    def push(self, message: Message, priority: int = DEFAULT_PRIORITY) -> None:
        """Add a message at the end."""
        self._push(self._high if priority > DEFAULT_PRIORITY else self._normal, message)

    def give_back(self, message: Message) -> None:
        """Add a message behind those that were given back."""
        self._push(self._returned, message)

    def _push(self, lane: Lane, message: Message) -> None:
        lane.push(message)
        self.bytes += message.size
        self.expiring += message.expiry is not None
        if message.annotations:
            self._annotations[message.index] = message.annotations

    def _next(self) -> Lane:
        """The lane that is served next. There is a message."""
        if self._returned:
            return self._returned
        high, normal = self._high, self._normal
        if not high or (self._turn == WEIGHT and normal and normal.head_index < high.head_index):
            return normal
        return high

    def take(self) -> tuple[Message, bool]:
        """Remove the message that is served next, and say whether it was given back before. There is one."""
        lane = self._next()
        message = lane.take()
        self.bytes -= message.size
        self.expiring -= message.expiry is not None
        if self._annotations:
            message.annotations = self._annotations.pop(message.index, NO_ANNOTATIONS)
        if lane is self._returned:
            return message, True
        self._turn = 0 if self._turn == WEIGHT else self._turn + 1
        return message, False

    @property
    def next_expiry(self) -> int | None:
        """When the message that is served next is too old; None: never, or there is none."""
        return self._next().head_expiry if self.expiring else None

    @property
    def lowest_new_index(self) -> int | None:
        """The lowest index of those that never were with a consumer."""
        heads = [lane.head_index for lane in (self._high, self._normal) if lane]
        return min(heads, default=None)

    def clear(self) -> list[int]:
        """Forget all; the indexes of those that were given back."""
        indexes = [message.index for message in self._returned]
        self._returned, self._high, self._normal = Lane(), Lane(), Lane()
        self._turn = 0
        self._annotations = {}
        self.bytes = self.expiring = 0
        return indexes

    def __iter__(self) -> Iterator[Message]:
        """In the order in which they are served, if no others come."""
        yield from map(self._annotated, self._returned)
        turn, high, normal = self._turn, deque(self._high), deque(self._normal)
        while high or normal:
            if not high or (turn == WEIGHT and normal and normal[0].index < high[0].index):
                yield self._annotated(normal.popleft())
            else:
                yield self._annotated(high.popleft())
            turn = 0 if turn == WEIGHT else turn + 1

    def _annotated(self, message: Message) -> Message:
        message.annotations = self._annotations.get(message.index, NO_ANNOTATIONS)
        return message

    def returned_indexes(self) -> Iterator[int]:
        """Of those that were given back, in order."""
        return (message.index for message in self._returned)

    def dump(self) -> DumpedMessages:
        """As they stand in a snapshot."""
        annotations = sorted(self._annotations.items(), key=lambda item: item[0])
        lanes = self._returned.dump(), self._high.dump(), self._normal.dump()
        return DumpedMessages(*lanes, self._turn, annotations)

    @classmethod
    def load(cls, dumped: DumpedMessages) -> ReadyMessages:
        """As they were.

        Raises:
            ValueError: this is no dump.
        """
        ready = cls()
        ready._returned, ready._high, ready._normal = map(Lane.load, (dumped.returned, dumped.high, dumped.normal))
        ready._turn, ready._annotations = dumped.turn, dict(dumped.annotations)
        for message in chain(ready._returned, ready._high, ready._normal):
            ready.bytes += message.size
            ready.expiring += message.expiry is not None
        return ready
