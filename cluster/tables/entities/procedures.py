"""Entities as procedures of the table store, under the names in `PROCEDURES`.

What they return is a list that begins with what became of it: `value` and what it gives, `aborted` and the reason,
`closed` and the access that is left, `unknown` or `invalid` and what is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, get_args

import msgspec

from splitbrain.cluster.entities.store import Operation
from splitbrain.cluster.entities.topology import READ
from splitbrain.cluster.tables.entities.access import RECORD, Access, access_of, allows, drop, set_access
from splitbrain.cluster.tables.entities.locks import LOCKS
from splitbrain.cluster.tables.entities.operations import OPERATIONS
from splitbrain.cluster.tables.entities.projected import PROJECTED, records_of
from splitbrain.cluster.tables.entities.transaction import AbortedError, TableTransaction
from splitbrain.cluster.tables.procedures import PROCEDURES as ON_TABLES
from splitbrain.cluster.tables.procedures import READING, Look, Procedure, Read, Steps


def change(name: str, version: int, data: bytes) -> Steps:
    """Carry out an operation that may write."""
    return (yield from _carry_out(Operation(name, version), data, changes=True))


def ask(name: str, version: int, data: bytes) -> Steps:
    """Carry out an operation that only reads; what it changes is dropped."""
    return (yield from _carry_out(Operation(name, version), data, changes=False))


def records(table: str, key: bytes | None) -> Steps:
    """The records of a key in a table of a projection, all without a key, as this replica holds them."""
    if table not in PROJECTED:
        return ["unknown", f"unknown_projection: {table}"]
    tables = yield Look()
    access = access_of(tables.read(RECORD))
    if not allows(access, changes=False):
        return ["closed", access]
    try:
        return ["value", records_of(tables, table, None if key is None else msgspec.msgpack.decode(key))]
    except (LookupError, TypeError) as error:  # no key of that table
        return ["invalid", f"{table}: {type(error).__name__}"]


def moment(names: list[str]) -> Steps:
    """What `topology.READ` gives, and all records of some tables of projections, as this replica holds them now."""
    tables = yield Look()
    access = access_of(tables.read(RECORD))
    if not allows(access, changes=False):
        return ["closed", access]
    unknown = [name for name in names if name not in PROJECTED]
    if unknown:
        return ["unknown", f"unknown_projection: {unknown[0]}"]
    read = OPERATIONS[READ](TableTransaction(tables), None)
    return ["value", [read, {name: records_of(tables, name) for name in names}]]


def while_open(procedure: str, arguments: Sequence[Any]) -> Steps:
    """A procedure on a table of a plug-in, if a migration has not closed the tables to it.

    Args:
        procedure: one of `splitbrain.cluster.tables.procedures`.
        arguments: of it.

    Returns:
        ["value", what it gives], or ["closed", what is still allowed].
    """
    access = access_of((yield Read(RECORD)))
    if not allows(access, changes=procedure not in READING):
        return ["closed", access]
    return ["value", (yield from ON_TABLES[procedure](*arguments))]


def _carry_out(operation: Operation, data: bytes, *, changes: bool) -> Steps:
    if operation not in OPERATIONS:
        return ["unknown", f"unknown_function: {operation.name} {operation.version}"]
    access = access_of((yield Read(RECORD)))
    if not allows(access, changes=changes):
        return ["closed", access]
    try:
        given = msgspec.msgpack.decode(data)
        yield from LOCKS[operation](given)
        transaction = TableTransaction((yield Look()))
        value = OPERATIONS[operation](transaction, given)
    except AbortedError as aborted:
        return ["aborted", aborted.reason]
    except (LookupError, TypeError, ValueError, AttributeError) as error:  # what came is not what it takes
        return ["invalid", f"{operation.name}: {type(error).__name__}"]
    if changes:
        yield from transaction.changes
    return ["value", value]


PROCEDURES: Final[Mapping[str, Procedure]] = {
    "entity_change": change,
    "entity_ask": ask,
    "entity_records": records,
    "entity_moment": moment,
    "while_open": while_open,
    "set_access": set_access,
    "drop_entities": drop,
}
"""By the names that requests use."""

_TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    "name": (str,),
    "version": (int,),
    "data": (bytes,),
    "table": (str,),
    "names": (list, tuple),
    "key": (bytes, type(None)),
    "access": (str,),
    "number": (int,),
}


def problem_of(procedure: str, arguments: Mapping[str, Any]) -> str | None:
    """Why one of these procedures does not take these arguments, None if it does."""
    for name, value in arguments.items():
        if not isinstance(value, _TYPES[name]):
            return f"{name} is of another type"
    if procedure == "set_access" and arguments["access"] not in get_args(Access):
        return f"access is one of {', '.join(get_args(Access))}"
    try:
        for name in ("data", "key"):
            msgspec.msgpack.decode(arguments.get(name) or b"\xc0")
    except (msgspec.MsgspecError, UnicodeDecodeError, ValueError, TypeError, RecursionError) as error:
        return f"what it is given makes no sense: {error}"
    return None
