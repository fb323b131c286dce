"""What a replica holds: tables of records, in memory. A key of a table has any number of values, as in a bag of Mnesia.

Changes are data: a transaction collects them, every replica applies them in the order in which they were committed, and
the journal keeps them (`splitbrain.cluster.tables.journal`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, TypeAlias

import msgspec

_encoder = msgspec.msgpack.Encoder(order="deterministic")


class Item(NamedTuple):
    """What a lock is on: a key of a table, whether there are records of it or not."""

    table: str
    key: str


class Put(msgspec.Struct, frozen=True, array_like=True, tag="put"):
    """The key has this value, and no other."""

    item: Item
    value: Any


class Insert(msgspec.Struct, frozen=True, array_like=True, tag="insert"):
    """The key has this value, too; no change if it has it already."""

    item: Item
    value: Any


class Remove(msgspec.Struct, frozen=True, array_like=True, tag="remove"):
    """The key does not have this value; no change if it did not have it."""

    item: Item
    value: Any


class Delete(msgspec.Struct, frozen=True, array_like=True, tag="delete"):
    """The key has no values."""

    item: Item


Change: TypeAlias = Put | Insert | Remove | Delete

Contents: TypeAlias = dict[str, dict[str, list[Any]]]
"""All records, for a message or a file: tables, keys, values."""


class Tables:
    """All tables of one replica.

    Args:
        contents: what they hold at first.
    """

    def __init__(self, contents: Mapping[str, Mapping[str, Iterable[Any]]] | None = None) -> None:
        self._tables: dict[str, dict[str, dict[bytes, Any]]] = {}
        for table, keys in (contents or {}).items():
            for key, values in keys.items():
                self._tables.setdefault(table, {})[key] = {_encoder.encode(value): value for value in values}

    def read(self, item: Item) -> tuple[Any, ...]:
        """The values of a key, in the order in which they were inserted; none if there is no such key or table."""
        return tuple(self._tables.get(item.table, {}).get(item.key, {}).values())

    def keys(self, table: str, prefix: str = "") -> list[str]:
        """The keys of a table that begin so, sorted."""
        return sorted(key for key in self._tables.get(table, {}) if key.startswith(prefix))

    def apply(self, changes: Iterable[Change]) -> None:
        """Carry out changes, in their order."""
        for change in changes:
            keys = self._tables.setdefault(change.item.table, {})
            match change:
                case Put(item, value):
                    keys[item.key] = {_encoder.encode(value): value}
                case Insert(item, value):
                    keys.setdefault(item.key, {}).setdefault(_encoder.encode(value), value)
                case Remove(item, value):
                    values = keys.get(item.key, {})
                    values.pop(_encoder.encode(value), None)
                    if not values:
                        keys.pop(item.key, None)
                case Delete(item):
                    keys.pop(item.key, None)

    def contents(self) -> Contents:
        """A copy of everything; tables and keys without records are not in it."""
        return {
            table: {key: list(values.values()) for key, values in keys.items()}
            for table, keys in self._tables.items()
            if keys
        }

    def encoded(self) -> bytes:
        """Everything in one form: equal for replicas that hold the same, in whichever order it came."""
        ordered = {
            table: {key: sorted(values) for key, values in keys.items()} for table, keys in self._tables.items() if keys
        }
        return _encoder.encode(ordered)
