"""What an operation on tables reads and changes: changes are seen by later reads, and made at its end, all or none."""

from __future__ import annotations

from typing import Any, Final, NoReturn

import msgspec

from splitbrain.cluster.tables.records import Change, Delete, Insert, Item, Put, Remove, Tables

_encoder: Final = msgspec.msgpack.Encoder(order="deterministic")


class AbortedError(Exception):
    """The operation ends, and changes nothing; a reason as of `splitbrain.cluster.entities.errors`."""

    def __init__(self, reason: Any) -> None:
        super().__init__(reason)
        self.reason = reason


class TableTransaction:
    """One operation, on what a replica holds.

    Args:
        tables: of the replica. Locks keep what the operation looks at as it is (`locks`).

    Attributes:
        changes: what it changed, in this order.
    """

    def __init__(self, tables: Tables) -> None:
        self.changes: list[Change] = []
        self._tables = tables
        self._touched: dict[Item, dict[bytes, Any]] = {}

    def get(self, table: str, key: str) -> Any:
        """The value of a key, None if there is none."""
        return next(iter(self._values(Item(table, key)).values()), None)

    def values(self, table: str, key: str) -> list[Any]:
        """All values of a key of a bag."""
        return list(self._values(Item(table, key)).values())

    def has(self, table: str, key: str, value: Any) -> bool:
        """Whether a key of a bag has this value; 1, 1.0 and true are three values."""
        return _encoder.encode(value) in self._values(Item(table, key))

    def keys(self, table: str, prefix: str = "") -> list[str]:
        """The keys of a table that begin so, sorted."""
        found = {key: bool(self._values(Item(table, key))) for key in self._tables.keys(table, prefix)}
        for item, values in self._touched.items():
            if item.table == table and item.key.startswith(prefix):
                found[item.key] = bool(values)
        return sorted(key for key, is_there in found.items() if is_there)

    def put(self, table: str, key: str, value: Any) -> None:
        """Give a key this value, and no other."""
        item = Item(table, key)
        self._touched[item] = {_encoder.encode(value): value}
        self.changes.append(Put(item, value))

    def insert(self, table: str, key: str, value: Any) -> None:
        """Give a key of a bag this value, too."""
        item = Item(table, key)
        self._values_to_change(item)[_encoder.encode(value)] = value
        self.changes.append(Insert(item, value))

    def remove(self, table: str, key: str, value: Any) -> None:
        """Take one value of a bag away."""
        item = Item(table, key)
        if self._values_to_change(item).pop(_encoder.encode(value), None) is not None:
            self.changes.append(Remove(item, value))

    def delete(self, table: str, key: str) -> None:
        """Take away all that a key has."""
        item = Item(table, key)
        if self._values(item):
            self._touched[item] = {}
            self.changes.append(Delete(item))

    def abort(self, reason: Any) -> NoReturn:
        """End the operation; nothing is changed."""
        raise AbortedError(reason)

    def _values(self, item: Item) -> dict[bytes, Any]:
        touched = self._touched.get(item)
        return _by_encoding(self._tables, item) if touched is None else touched

    def _values_to_change(self, item: Item) -> dict[bytes, Any]:
        return self._touched.setdefault(item, _by_encoding(self._tables, item))


def _by_encoding(tables: Tables, item: Item) -> dict[bytes, Any]:
    return {_encoder.encode(value): value for value in tables.read(item)}
