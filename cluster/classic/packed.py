"""Records of a segment, packed one behind the other, and whole files of them at once (CQ-2).

    record   := publish | settle                               all numbers big endian
    publish  := 1:1 bit, persistent:1 bit, relative id:14 bits, record of `splitbrain.cluster.classic.records`
    settle   := 01:2 bits, relative id:14 bits                the first of a message is its delivery, the second its ack

Records have different lengths, so where one begins follows only from the one before it. Mostly many of the same length
follow each other: such a run is found and taken as one array.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from splitbrain.cluster.classic.records import COUNT_AT, WIDTHS, Record, Version

ENTRIES: Final = 16_384
"""Messages of a segment; a relative id is below it."""

_PREFIX_BYTES: Final = 2
_PUBLISH: Final = 0x8000
_PERSISTENT: Final = 0x4000
_SETTLE: Final = 0x4000
_RELATIVE: Final = ENTRIES - 1
_PREFIX: Final = struct.Struct(">H")
_U32: Final = struct.Struct(">I")

Offsets = NDArray[np.int64]
Bytes = NDArray[np.uint8]

_FIRST_BLOCK: Final = 16
_FEW: Final = 8
"""A run that is shorter costs more as an array than record by record."""
_LONG: Final = 512
"""Bytes: to gather longer messages takes an index of eight times their length, and copying each is fast."""


class Found(NamedTuple):
    """Where records begin, in order: publishes, and settles; and where the first byte is that begins none."""

    publishes: Offsets
    settles: Offsets
    end: int


# --- reading ----------------------------------------------------------------------------------------------------------


def scan(content: bytes, start: int, end: int, version: Version) -> Found:
    """Find the records between two offsets. If `Found.end` is before `end`, no whole record begins there."""
    data = np.frombuffer(content, np.uint8)
    width = WIDTHS[version]
    publishes = list[tuple[int, int, int]]()
    settles = list[tuple[int, int, int]]()
    at = start
    while at < end:
        stride = _length_at(content, at, end, width)
        if not stride:
            break
        following = at + stride
        count = 1
        # A run of one is what messages of different lengths are made of: it must cost no array.
        if following < end and _length_at(content, following, end, width) == stride:
            count = _run(data[at:end], stride, width)
        (publishes if content[at] & 0x80 else settles).append((at, count, stride))
        at += count * stride
    return Found(_expanded(publishes), _expanded(settles), at)


def _length_at(content: bytes, at: int, end: int, width: int) -> int:
    """Bytes of the record at `at`, 0 if none begins there or it is not whole."""
    first = content[at]
    if first & 0x80:
        size_at = at + _PREFIX_BYTES + width - _U32.size
        if size_at + _U32.size > end:
            return 0
        length = _PREFIX_BYTES + width + _U32.unpack_from(content, size_at)[0]
    else:
        length = _PREFIX_BYTES if first & 0x40 else 0
    return length if at + length <= end else 0


def _run(data: Bytes, stride: int, width: int) -> int:
    """How many records at the beginning are of the same kind and length as the first one."""
    limit = len(data) // stride
    rows = data[: limit * stride].reshape(limit, stride)
    size = slice(_PREFIX_BYTES + width - _U32.size, _PREFIX_BYTES + width)
    is_publish = bool(data[0] & 0x80)
    done, block = 1, _FIRST_BLOCK
    while done < limit:
        part = rows[done : done + block]
        if is_publish:
            alike = (part[:, 0] >= 0x80) & (part[:, size] == rows[0, size]).all(axis=1)
        else:
            alike = (part[:, 0] & 0xC0) == 0x40
        if not alike.all():
            return done + int(np.argmin(alike))
        done += len(part)
        block *= 4
    return limit


def _expanded(runs: list[tuple[int, int, int]]) -> Offsets:
    """The offsets of all records of runs (begin, count, stride)."""
    begins, counts, strides = np.array(runs, np.int64).reshape(-1, 3).T
    before = np.cumsum(counts) - counts
    within = np.arange(counts.sum(), dtype=np.int64) - np.repeat(before, counts)
    return np.repeat(begins, counts) + within * np.repeat(strides, counts)


def relatives(content: bytes, offsets: Offsets) -> Offsets:
    """The relative ids of the records that begin there."""
    data = np.frombuffer(content, np.uint8)
    return (data[offsets].astype(np.int64) << 8 | data[offsets + 1]) & _RELATIVE


def counts(content: bytes, publishes: Offsets, version: Version) -> Offsets:
    """The redeliveries of the publishes that begin there."""
    if version == 1:
        return np.zeros(len(publishes), np.int64)
    return _numbers(content, publishes + _PREFIX_BYTES + COUNT_AT)


def _numbers(content: bytes, offsets: Offsets) -> Offsets:
    data = np.frombuffer(content, np.uint8)
    number = np.zeros(len(offsets), np.int64)
    for byte in range(_U32.size):
        number = number << 8 | data[offsets + byte]
    return number


def is_persistent(content: bytes, publish: int) -> bool:
    """Whether a publish is of a persistent message."""
    return bool(content[publish] & _PERSISTENT >> 8)


def record_of(content: bytes, publish: int, version: Version) -> Record:
    """The record of the publish that begins there, which is whole."""
    head = publish + _PREFIX_BYTES
    body = head + WIDTHS[version]
    return Record(content[head:body], content[body : body + _U32.unpack_from(content, body - _U32.size)[0]])


# --- writing ----------------------------------------------------------------------------------------------------------


def publish(relative: int, record: Record, *, persistent: bool, version: Version) -> bytes:
    """The record of a publish."""
    return _PREFIX.pack(_PUBLISH | (_PERSISTENT if persistent else 0) | relative) + record.encoded(version)


def settles(relative: Iterable[int]) -> bytes:
    """Records of deliveries or acks."""
    return (np.fromiter(relative, np.int64) | _SETTLE).astype(">u2").tobytes()


def rewritten(content: bytes, publishes: Offsets, redeliveries: Offsets, version: Version, to: Version) -> bytes:
    """Publishes of one version as those of another, ordered by the length of their messages: so they are in runs.

    Args:
        content: that they are in.
        publishes: where they begin.
        redeliveries: of each; they must fit into the version.
        version: of the content.
        to: the version to write.
    """
    head = _PREFIX_BYTES + WIDTHS[version]
    sizes = _numbers(content, publishes + head - _U32.size)
    order = np.argsort(sizes, kind="stable")
    sizes, begins = sizes[order], publishes[order]
    heads = _heads(content, begins, redeliveries[order], version, to)
    edges = np.flatnonzero(np.diff(sizes, prepend=-1, append=-1)).tolist()
    if len(edges) * _FEW > len(sizes) or int(sizes.sum()) > _LONG * len(sizes):
        return _one_by_one(content, heads, begins + head, sizes)
    return b"".join(
        [
            np.hstack((heads[first:last], _bodies(content, begins[first:last] + head, int(sizes[first])))).tobytes()
            for first, last in pairwise(edges)
        ]
    )


def _heads(content: bytes, begins: Offsets, redeliveries: Offsets, version: Version, to: Version) -> Bytes:
    """Prefixes and records of another version, a row each."""
    found = _bodies(content, begins, _PREFIX_BYTES + WIDTHS[version])
    heads = np.empty((len(begins), _PREFIX_BYTES + WIDTHS[to]), np.uint8)
    count = _PREFIX_BYTES + COUNT_AT
    heads[:, :count] = found[:, :count]
    heads[:, -_U32.size :] = found[:, -_U32.size :]
    if to == 2:
        heads[:, count : count + _U32.size] = redeliveries.astype(">u4").view(np.uint8).reshape(-1, _U32.size)
    return heads


def _bodies(content: bytes, begins: Offsets, size: int) -> Bytes:
    """So many bytes from each offset on, a row each."""
    data = np.frombuffer(content, np.uint8)
    stride = int(begins[1] - begins[0]) if len(begins) > 1 else size
    if len(begins) and stride >= size and (np.diff(begins) == stride).all():
        rows = data[int(begins[0]) :]
        return np.lib.stride_tricks.as_strided(rows, (len(begins), size), (stride, 1), writeable=False)
    return data[begins[:, None] + np.arange(size)]


def _one_by_one(content: bytes, heads: Bytes, bodies: Offsets, sizes: Offsets) -> bytes:
    """Each head with the message that follows it, for messages that are long, or of which hardly two are as long."""
    view = memoryview(content)
    pieces = list[bytes | memoryview]()
    for head, begin, end in zip(heads, bodies.tolist(), (bodies + sizes).tolist(), strict=True):
        pieces += (head.tobytes(), view[begin:end])
    return b"".join(pieces)
