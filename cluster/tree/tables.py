"""Tables of records, as projections keep them on every member (KH-14).

A record is a list whose first element is its key. A set, ordered or not, has one record of a key; a bag has several
that differ. All of a table comes sorted by key, in every kind of table. Keys and records are compared as msgpack: 1,
1.0 and true are three keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Any, Final, TypeAlias

import msgspec

from splitbrain.cluster.tree.messages import TableKind
from splitbrain.cluster.tree.nodes import HASH_BYTES, HASH_MASK
from splitbrain.cluster.tree.slices import NODES_PER_SLICE, InSlices, header_of_list, sorted_in_slices

Record: TypeAlias = tuple[Any, ...]

_encoder: Final = msgspec.msgpack.Encoder(order="deterministic")


class Table:
    """One table.

    Attributes:
        hash: the sum, modulo 2**128, of a hash for every record: equal for equal tables.
    """

    __slots__ = ("_is_bag", "_records", "_undo", "hash")

    def __init__(self, kind: TableKind) -> None:
        self.hash: int = 0
        self._is_bag = kind == "bag"
        self._records: dict[bytes, dict[bytes, Record]] = {}
        self._undo: list[tuple[bytes, bytes, Record | None]] | None = None

    def __len__(self) -> int:
        """The number of keys."""
        return len(self._records)

    def insert(self, record: Sequence[Any]) -> None:
        """Add a record; in a set it takes the place of the one with its key.

        Raises:
            TypeError: it is no list that begins with a key, or msgpack cannot carry it.
        """
        if not isinstance(record, (list, tuple)) or not record:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError("a record is a list that begins with its key")
        key, encoded = _encoder.encode(record[0]), _encoder.encode(record)
        there = self._records.get(key, {})
        if encoded in there:
            return
        for other in [] if self._is_bag else list(there):
            self._set(key, other, None)
        self._set(key, encoded, tuple(record))

    def delete(self, key: Any) -> None:
        """Remove all records of a key."""
        encoded = _encoder.encode(key)
        for record in list(self._records.get(encoded, ())):
            self._set(encoded, record, None)

    def delete_record(self, record: Sequence[Any]) -> None:
        """Remove exactly this record, if it is there."""
        key, encoded = _encoder.encode(record[0]), _encoder.encode(record)
        if encoded in self._records.get(key, {}):
            self._set(key, encoded, None)

    def lookup(self, key: Any) -> list[Record]:
        """The records of a key, in the order of their encoding."""
        there = self._records.get(_encoder.encode(key), {})
        return [there[encoded] for encoded in sorted(there)]

    def has(self, key: Any) -> bool:
        """Whether there is a record of a key."""
        return _encoder.encode(key) in self._records

    def all(self) -> list[Record]:
        """All records, sorted by the encoding of their keys."""
        return [there[each] for _, there in sorted(self._records.items()) for each in sorted(there)]

    def encoded_in_slices(self) -> InSlices[bytes]:
        """The same as a list in msgpack."""
        count, parts = 0, list[bytes]()
        for key in sorted_in_slices(self._records):
            if key is None:
                yield
                continue
            records = sorted(self._records[key])
            parts += records
            if (count + len(records)) // NODES_PER_SLICE > count // NODES_PER_SLICE:
                yield
            count += len(records)
        return b"".join([header_of_list(count), *parts])

    def begin(self) -> None:
        """What follows can be undone."""
        self._undo = []

    def end(self, *, undo: bool) -> None:
        """It cannot any more, or is."""
        changes, self._undo = self._undo or [], None
        if undo:
            for key, encoded, record in reversed(changes):
                self._set(key, encoded, record)

    def _set(self, key: bytes, encoded: bytes, record: Record | None) -> None:
        """Have a record, or not; a key may have many, so none of the others is touched."""
        there = self._records.get(key, {})
        if self._undo is not None:
            self._undo.append((key, encoded, there.get(encoded)))
        if record is None:
            del there[encoded]
            if not there:
                del self._records[key]
        else:
            self._records.setdefault(key, there)[encoded] = record
        share = _share(encoded)
        self.hash = (self.hash + (-share if record is None else share)) & HASH_MASK


def _share(record: bytes) -> int:
    return int.from_bytes(blake2b(record, digest_size=HASH_BYTES).digest(), "big")
