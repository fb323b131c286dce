"""Summaries of the lists that transactions read: length, hash of all elements, last element.

A list-append history is mostly lists, nearly all of them prefixes of a longer one. With a summary beside each list, a
checker decodes only the longest list of each key, and those whose summary is not that of a prefix of it.

The hash of a list is the sum, modulo 2**64, of one hash for each element and its place (SplitMix64 of Steele, Lea and
Flood, 2014, whose output function is a bijection of 64 bits). So the hashes of all prefixes of a list are its running
sums, and columns of lists are hashed without a loop over lists. Equal lists have equal hashes: where hashes differ, the
lists do. Different lists of equal length, which were not made to collide, have equal hashes with probability 2**-64;
ten million reads, each compared with one prefix, meet such a pair with probability 1e-12. So agreement is taken for
equality, and what disagrees is decided by the lists themselves.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from splitbrain.results.columns import Column, array, numbers, valid

Ints: TypeAlias = npt.NDArray[np.int64]
Hashes: TypeAlias = npt.NDArray[np.uint64]

FIELDS: Final[tuple[Any, ...]] = (
    pa.field("length", pa.int32()),
    pa.field("hash", pa.int64()),
    pa.field("last", pa.int64()),
)
"""Of a micro-operation: how many elements it read, their hash (as a signed number), and the last; null if it read no
list. An empty list has length 0, hash 0 and no last element."""

_arrow: Final[Any] = pa
_STEP: Final = np.uint64(0x9E3779B97F4A7C15)
_FIRST: Final = np.uint64(0xBF58476D1CE4E5B9)
_SECOND: Final = np.uint64(0x94D049BB133111EB)
_BLOCK: Final = 1 << 16
"""Elements that are hashed at once: what stays in a processor's cache."""


def prefix_hashes(elements: Ints, offsets: Ints) -> Hashes:
    """The hash of every prefix of some lists: for each element that of its list up to there.

    Args:
        elements: of all lists, one list after the other.
        offsets: where each list begins, and where the last one ends.
    """
    sums = _sums(elements, offsets)
    before = np.repeat(sums[offsets[:-1]], np.diff(offsets))
    return sums[offsets[0] + 1 : offsets[-1] + 1] - before


def list_hashes(elements: Ints, offsets: Ints) -> Hashes:
    """The hash of each of some lists; arguments as of `prefix_hashes`."""
    sums = _sums(elements, offsets)
    return sums[offsets[1:]] - sums[offsets[:-1]]


def _sums(elements: Ints, offsets: Ints) -> Hashes:
    """Running sums of the hashes of all elements; the first is 0."""
    sums = np.zeros(len(elements) + 1, np.uint64)
    if not len(elements):
        return sums
    content = np.ascontiguousarray(elements).view(np.uint64)
    first = np.repeat(offsets[:-1].astype(np.uint64), np.diff(offsets))
    base = int(offsets[0])
    for begin in range(base, int(offsets[-1]), _BLOCK):
        end = min(begin + _BLOCK, int(offsets[-1]))
        place = np.arange(begin + 1, end + 1, dtype=np.uint64)
        place -= first[begin - base : end - base]
        place *= _STEP
        place += content[begin:end]
        np.cumsum(_mixed(place), out=sums[begin + 1 : end + 1])
        sums[begin + 1 : end + 1] += sums[begin]
    return sums


def _mixed(z: Hashes) -> Hashes:
    """The output function of SplitMix64, in place."""
    z ^= z >> np.uint64(30)
    z *= _FIRST
    z ^= z >> np.uint64(27)
    z *= _SECOND
    z ^= z >> np.uint64(31)
    return z


def summaries(lists: Any) -> list[Column]:
    """The columns of `FIELDS` for a column of lists of numbers, null where there is no list.

    Args:
        lists: an Arrow array of `list<int64>`.
    """
    read = valid(lists)
    offsets = numbers(lists.offsets).astype(np.int64)
    length = np.diff(offsets)
    elements = numbers(lists.values, null=0)
    hashes = list_hashes(elements, offsets).view(np.int64)
    # A null list may have elements in the buffers; they count for nothing.
    some = read & (length > 0)
    last = np.zeros(len(length), np.int64)
    last[some] = elements[offsets[1:][some] - 1]
    return [
        _nullable(np.where(read, length, 0).astype(np.int32), read),
        _nullable(np.where(read, hashes, 0), read),
        _nullable(last, some),
    ]


def _nullable(content: npt.NDArray[Any], known: npt.NDArray[np.bool_]) -> Column:
    plain = array(content)
    if known.all():
        return plain
    bitmap = _arrow.py_buffer(np.packbits(known, bitorder="little"))
    return _arrow.Array.from_buffers(plain.type, len(content), [bitmap, plain.buffers()[1]])


def with_summaries(mops: Any, kind: Any) -> Column:
    """Micro-operations with the summaries of their lists.

    Args:
        mops: an Arrow array of lists of structs `f, key, value, values`.
        kind: the type of the result: the same with `FIELDS` behind.
    """
    content = mops.values
    f, key, value, values = content.flatten()
    # Without a bitmap of its own: a micro-operation is never null, only its fields are.
    struct = _arrow.StructArray.from_arrays([f, key, value, values, *summaries(values)], fields=list(kind.value_type))
    return _arrow.Array.from_buffers(
        kind, len(mops), mops.buffers()[:2], offset=mops.offset, children=[struct], null_count=mops.null_count
    )
