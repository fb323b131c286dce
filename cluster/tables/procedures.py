"""What clients may have done in a transaction: generators that yield what they need, and return their result.

A procedure runs from its beginning again whenever its transaction does (`splitbrain.cluster.tables.locks`), so it has
no effects but what it yields. A procedure that needs a lock waits for it in its `yield`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from splitbrain.cluster.tables.locks import Mode
from splitbrain.cluster.tables.records import Change, Insert, Item, Put


class Read(NamedTuple):
    """Lock an item, and give its values: of this replica, as this transaction has changed them.

    Attributes:
        item: which.
        mode: "write" if it may be changed afterwards, so that others that mean to do the same wait.
    """

    item: Item
    mode: Mode = "read"


class Look(NamedTuple):
    """Give all that this replica holds (`splitbrain.cluster.tables.records.Tables`), without a lock.

    What is seen is sure only where locks that the transaction holds exclude those who would change it. What this
    transaction has changed is not in it.
    """


Step: TypeAlias = Read | Look | Change
"""What a procedure yields; a change takes the write lock on all replicas."""

Steps: TypeAlias = Generator[Step, Any, Any]
Procedure: TypeAlias = Callable[..., Steps]


def read(table: str, key: str) -> Steps:
    """The value of a key, None if there is none."""
    values = yield Read(Item(table, key))
    return values[0] if values else None


def read_all(table: str, key: str) -> Steps:
    """All values of a key, in the order in which this replica got them."""
    values = yield Read(Item(table, key))
    return list(values)


def write(table: str, key: str, value: Any) -> Steps:
    """Give a key this value, and no other."""
    yield Put(Item(table, key), value)
    return True


def compare_and_swap(table: str, key: str, expected: Any, value: Any) -> Steps:
    """Give a key this value if it has the expected one; whether it did. A missing key matches nothing."""
    item = Item(table, key)
    values = yield Read(item, "write")
    if not values or values[0] != expected or isinstance(values[0], bool) != isinstance(expected, bool):
        return False
    yield Put(item, value)
    return True


def create(table: str, key: str, value: Any) -> Steps:
    """Give a key this value if it has none; whether it did."""
    item = Item(table, key)
    values = yield Read(item, "write")
    if values:
        return False
    yield Put(item, value)
    return True


def insert(table: str, key: str, value: Any) -> Steps:
    """Give a key one more value; whether it did not have it yet."""
    item = Item(table, key)
    values = yield Read(item, "write")
    if value in values:
        return False
    yield Insert(item, value)
    return True


PROCEDURES: Final[Mapping[str, Procedure]] = {
    "read": read,
    "read_all": read_all,
    "write": write,
    "compare_and_swap": compare_and_swap,
    "create": create,
    "insert": insert,
}
"""By the names that requests use."""

READING: Final = frozenset({"read", "read_all"})
"""Those that change nothing."""
