"""Whether the tables of entities may be read and written: one record, which every operation reads under a lock.

A migration closes the tables to changes, so that nothing changes behind what it has copied, and then to reads, so that
the tree alone answers (M2K-2). Who sets it locks the record on all replicas, and so waits for operations that are under
way; those that come later see it. Settings are numbered. One that was overtaken is refused: it comes late, or from a
migration whose process was taken for dead and is not.
"""

from __future__ import annotations

from typing import Any, Final, Literal, TypeAlias

from splitbrain.cluster.errors import UnavailableError
from splitbrain.cluster.tables.entities.layout import ENTITY_TABLES
from splitbrain.cluster.tables.procedures import Look, Read, Steps
from splitbrain.cluster.tables.records import Delete, Item, Put

Access: TypeAlias = Literal["read_write", "read_only", "retired"]
"""`retired`: kept for a rollback; they answer nothing."""

RECORD: Final = Item("rabbit_table_access", "")

DROPPED_AT_ONCE: Final = 100
"""Keys that one transaction removes: each takes a lock on all replicas, one after the other, before its deadline."""


class TablesClosedError(UnavailableError):
    """A migration has closed the tables of entities; nothing was done. Ask again: the tree or the tables will answer.

    Attributes:
        access: what is still allowed.
    """

    def __init__(self, access: Access) -> None:
        super().__init__(f"no_exists: the tables of entities are {access}: a migration is under way, or has ended.")
        self.access: Access = access


def allows(access: Access, *, changes: bool) -> bool:
    """Whether an operation may be carried out."""
    return access == "read_write" or (access == "read_only" and not changes)


def access_of(values: Any) -> Access:
    """What the values of the record say; tables that no migration touched are open."""
    return values[0]["access"] if values else "read_write"


def set_access(access: Access, number: int) -> Steps:
    """Open or close the tables; False, and no change, if a setting of a higher number has come before."""
    values = yield Read(RECORD, "write")
    if values and values[0]["number"] > number:
        return False
    yield Put(RECORD, {"access": access, "number": number})
    return True


def drop(number: int) -> Steps:
    """Remove records of tables that are retired, as many as one transaction may.

    Returns:
        how many keys are left; None, and no change, if the tables are not retired, under this number.
    """
    values = yield Read(RECORD, "write")
    if access_of(values) != "retired" or values[0]["number"] != number:
        return None
    tables = yield Look()
    found = [Item(table, key) for table in ENTITY_TABLES for key in tables.keys(table)]
    for item in found[:DROPPED_AT_ONCE]:
        yield Delete(item)
    return len(found[DROPPED_AT_ONCE:])
