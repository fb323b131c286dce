"""The versions of registers whose order is open, and who wrote and read them: of each key, and of all in columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from splitbrain.checkers.transactions.graph import I32, I64


@dataclass
class Key:
    """The versions of one key.

    Attributes:
        number: of the key.
        writes: of each version the micro-operation and its transaction.
        reads: of each version the first reads that found it, and their transactions.
    """

    number: int
    writes: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    reads: list[list[tuple[int, int]]] = field(default_factory=list[list[tuple[int, int]]])


class Keys(NamedTuple):
    """The versions of several keys; each has one at least.

    Attributes:
        number: of each key.
        first: where the versions of each key begin; one element more than there are keys.
        write, writer: of each version the micro-operation and its transaction.
        start: where the reads of each version begin; one element more than there are versions.
        read, reader: of each read the micro-operation and its transaction.
    """

    number: I64
    first: I64
    write: I32
    writer: I32
    start: I64
    read: I32
    reader: I32


def no_keys() -> Keys:
    """No keys at all."""
    return keys_of(())


def keys_of(some: Iterable[Key]) -> Keys:
    """Some keys in columns."""
    keys = list(some)
    writes = [each for key in keys for each in key.writes]
    reads = [each for key in keys for each in key.reads]
    return Keys(
        np.array([key.number for key in keys], np.int64),
        np.cumsum([0, *(len(key.writes) for key in keys)]).astype(np.int64),
        np.array([mop for mop, _ in writes], np.int32),
        np.array([transaction for _, transaction in writes], np.int32),
        np.cumsum([0, *map(len, reads)]).astype(np.int64),
        np.array([mop for each in reads for mop, _ in each], np.int32),
        np.array([transaction for each in reads for _, transaction in each], np.int32),
    )


def each_of(keys: Keys) -> Iterator[Key]:
    """The keys one by one."""
    writes = list(zip(keys.write.tolist(), keys.writer.tolist(), strict=True))
    reads = list(zip(keys.read.tolist(), keys.reader.tolist(), strict=True))
    first, start = keys.first.tolist(), keys.start.tolist()
    for place, number in enumerate(keys.number.tolist()):
        versions = range(first[place], first[place + 1])
        yield Key(
            number,
            writes[versions.start : versions.stop],
            [reads[start[version] : start[version + 1]] for version in versions],
        )
