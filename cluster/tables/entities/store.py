"""`MetadataStore` over the table store."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, Protocol

from splitbrain.cluster.entities.errors import error_of_abort
from splitbrain.cluster.entities.store import Operation, encoded
from splitbrain.cluster.errors import InvalidRequestError, OutcomeUnknownError, UnavailableError
from splitbrain.cluster.tables.alone import carried_out
from splitbrain.cluster.tables.entities.access import TablesClosedError
from splitbrain.cluster.tables.entities.procedures import PROCEDURES
from splitbrain.cluster.tables.records import Change, Contents, Tables
from splitbrain.cluster.tables.wire import MAX_REQUEST_BYTES

MAX_DATA_BYTES: Final = MAX_REQUEST_BYTES - 4 * 1024
"""Of what an operation is given: what is more fits no request."""


class RunsProcedures(Protocol):
    """Who carries out a procedure of `splitbrain.cluster.tables.entities.procedures` in a transaction."""

    def run(self, procedure: str, arguments: Sequence[Any]) -> Awaitable[Any]:
        """What it returns.

        Raises:
            ClientError: it got no result.
        """
        ...


class LocalTables:
    """Tables in this process, one transaction after the other: for tests, and beside a replica's own tables.

    Args:
        tables: what they hold at first.
    """

    def __init__(self, tables: Tables | None = None) -> None:
        self.tables = Tables() if tables is None else tables
        self._subscribers: list[Callable[[Sequence[Change]], None]] = []

    @property
    def subscribers(self) -> int:
        """How many have the changes."""
        return len(self._subscribers)

    async def run(self, procedure: str, arguments: Sequence[Any]) -> Any:
        """See `RunsProcedures`."""
        result, changes = carried_out(self.tables, PROCEDURES[procedure](*arguments))
        if changes:
            self.commit(changes)
        return result

    def commit(self, changes: Sequence[Change]) -> None:
        """Make the changes of a transaction, and have subscribers know."""
        self.tables.apply(changes)
        for subscriber in list(self._subscribers):
            subscriber(changes)

    def contents(self) -> Contents:
        """A copy of all records."""
        return self.tables.contents()

    def problem(self) -> str | None:
        """Nothing: there is no other replica, and this one stays."""
        return None

    def subscribe(self, subscriber: Callable[[Sequence[Change]], None]) -> Callable[[], None]:
        """Have the changes of each transaction from now on; what ends it."""
        self._subscribers.append(subscriber)
        return lambda: self._subscribers.remove(subscriber) if subscriber in self._subscribers else None


class TablesStore:
    """A `MetadataStore` of tables.

    Args:
        tables: who carries out procedures.
    """

    def __init__(self, tables: RunsProcedures) -> None:
        self._tables = tables

    async def change(self, operation: Operation, data: Any) -> Any:
        """See `MetadataStore`.

        Raises:
            TablesClosedError: the tables are closed to changes.
        """
        return value_of(await self._tables.run("entity_change", (*operation, _data(data))))

    async def ask(self, operation: Operation, data: Any) -> Any:
        """See `MetadataStore`; after a partition of the table store it may be old (MN-3).

        Raises:
            TablesClosedError: the tables are closed.
        """
        return value_of(await self._tables.run("entity_ask", (*operation, _data(data))))

    async def records(self, table: str, key: Any = None) -> Sequence[Sequence[Any]]:
        """See `MetadataStore`.

        Raises:
            TablesClosedError: the tables are closed.
        """
        return value_of(await self._tables.run("entity_records", (table, None if key is None else encoded(key))))

    async def at_one_moment(self, names: Sequence[str]) -> tuple[Any, dict[str, Sequence[Sequence[Any]]]]:
        """What `topology.READ` gives, and all records of some tables, as one replica holds them at one moment.

        Raises:
            TablesClosedError: the tables are closed.
        """
        read, found = value_of(await self._tables.run("entity_moment", (list(names),)))
        return read, found


def _data(value: Any) -> bytes:
    data = encoded(value)
    if len(data) > MAX_DATA_BYTES:
        raise InvalidRequestError(f"limit_reached: {len(data):,} bytes; an operation has at most {MAX_DATA_BYTES:,}.")
    return data


def value_of(result: Any) -> Any:
    """What an operation or a look-up gave.

    Raises:
        EntityError: it refused.
        ClientError: it gave no result.
    """
    match result:
        case ["value", value]:
            return value
        case ["aborted", reason]:
            raise error_of_abort(reason) or InvalidRequestError("aborted: for an unknown reason.")
        case ["closed", access]:
            raise TablesClosedError(access)
        case ["unknown", str(what)] if what.startswith("unknown_projection"):
            raise UnavailableError(f"{what}.")
        case ["unknown" | "invalid", what]:
            raise InvalidRequestError(f"{what}.")
        case _:
            raise OutcomeUnknownError(f"the answer does not fit the request: {type(result).__name__}.")
