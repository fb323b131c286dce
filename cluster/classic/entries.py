"""Entries of the journal: what happened to which message (CQ-1).

entry    := prefix:2 bits, sequence id:62 bits, and for a publish its record
prefix   := 00 publish, persistent | 01 publish, transient | 10 deliver | 11 ack
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final, Literal, NamedTuple, TypeAlias

from splitbrain.cluster.classic.damage import corrupt
from splitbrain.cluster.classic.records import Record, Version, decoded

Kind: TypeAlias = Literal["persistent", "transient", "deliver", "ack"]

MAX_SEQUENCE: Final = 2**62 - 1

_KINDS: Final[tuple[Kind, ...]] = ("persistent", "transient", "deliver", "ack")
_PREFIXES: Final = {kind: number << 62 for number, kind in enumerate(_KINDS)}
_WORD: Final = struct.Struct(">Q")


class Entry(NamedTuple):
    """What happened to a message; a publish has its record. `at` is where the entry begins in what was read."""

    kind: Kind
    seq: int
    record: Record | None = None
    at: int = 0


def encode_entry(kind: Kind, seq: int, record: Record | None, version: Version) -> bytes:
    """The bytes of an entry."""
    word = _WORD.pack(_PREFIXES[kind] | seq)
    return word if record is None else word + record.encoded(version)


def decode_entries(content: bytes, start: int, end: int, version: Version, name: str) -> list[Entry]:
    """The entries of a frame; `name` is for messages.

    Raises:
        CorruptStorageError: the bytes are no entries.
    """
    found = list(_entries(content[start:end], start, version))
    stop = found.pop().at
    if stop != end:
        raise corrupt(name, stop, "this is no entry of a journal")
    return found


def decode_original(content: bytes) -> tuple[list[Entry], int]:
    """The entries of a journal of RabbitMQ, and where they end: at an unfinished entry, or where only zeros follow.

    A loss of power may leave zeros at the end, which read as a publish: RabbitMQ stops there as well.
    """
    end = len(content.rstrip(b"\0"))
    found: list[Entry] = []
    for entry in _entries(content, 0, 1):
        found.append(entry)
        if entry.at >= end:
            break
    stop = found.pop()
    return found, stop.at


def _entries(content: bytes, base: int, version: Version) -> Iterator[Entry]:
    """The entries, then one more that only says where they end; offsets count from `base`."""
    at, size = 0, len(content)
    while at + _WORD.size <= size:
        word = _WORD.unpack_from(content, at)[0]
        prefix: int = word >> 62
        end = at + _WORD.size
        record: Record | None = None
        if prefix < 2:
            found = decoded(content, end, version)
            if found is None:
                break
            record, end = found
        yield Entry(_KINDS[prefix], word & MAX_SEQUENCE, record, base + at)
        at = end
    yield Entry("ack", 0, None, base + at)
