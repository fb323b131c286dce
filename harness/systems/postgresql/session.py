"""Registers, sets, counters, locks and transactions on PostgreSQL.

All transactions, and all statements outside of one, have the level of isolation with which the server was started. Each
micro-operation is a statement of its own, so that transactions of several clients interleave. A list is an array in one
row, to which an append is one statement: at read committed too, no append of it is lost. A register that was read is
written in another statement: there PostgreSQL promises nothing at read committed.

A lock is a row with its owner and the last token; it stays taken when its session ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from splitbrain.harness.contract.sessions import Answer, Change, DefiniteError, IndefiniteError, Mop
from splitbrain.harness.systems.postgresql.connection import Connection

READ: Final = "select value from registers where key = $1"
WRITE: Final = (
    "insert into registers values ($1, $2::jsonb) on conflict (key) do update set value = excluded.value returning true"
)
COMPARE_AND_SET: Final = "update registers set value = $3::jsonb where key = $1 and value = $2::jsonb returning true"
CREATE: Final = "insert into registers values ($1, $2::jsonb) on conflict do nothing returning true"
ADD: Final = "insert into elements values ($1, $2) returning true"
ELEMENTS: Final = "select coalesce(json_agg(element order by element), '[]')::text from elements where collection = $1"
INCREMENT: Final = (
    "insert into counters values ($1, $2) on conflict (name) do update set sum = counters.sum + excluded.sum "
    "returning sum"
)
SUM: Final = "select sum from counters where name = $1"
LOCK: Final = (
    "insert into locks values ($1, $2, 1) on conflict (name) do update set owner = excluded.owner, "
    "token = locks.token + 1 where locks.owner is null returning token"
)
UNLOCK: Final = "update locks set owner = null where name = $1 and owner = $2 returning true"

READ_EITHER: Final = (
    "select (select value from transaction_registers where key = $1)::text, "
    "(select to_json(elements) from transaction_lists where key = $1)::text"
)
READ_REGISTER: Final = "select value::text from transaction_registers where key = $1"
WRITE_REGISTER: Final = (
    "insert into transaction_registers values ($1, $2::jsonb) on conflict (key) do update set value = excluded.value"
)
APPEND: Final = (
    "insert into transaction_lists values ($1, array[$2::bigint]) on conflict (key) do update "
    "set elements = transaction_lists.elements || excluded.elements"
)

READ_OBJECT: Final = "select value from objects where universe = $1 and key = $2"
WRITE_OBJECT: Final = (
    "insert into objects values ($1, $2, $3) on conflict (universe, key) do update set value = excluded.value"
)
DELETE_OBJECT: Final = "delete from objects where universe = $1 and key = $2"
MATCHING: Final = "select coalesce(json_object_agg(key, value), '{}')::text from objects where universe = $1"
CONDITIONS: Final = {"true": "", "=": " and value = $2", "mod": " and value % $2 = $3"}
"""Of the rows of a universe, by the name of a predicate: what the server itself selects."""


class PostgresqlSession:
    """One client's connection to one node."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def read(self, key: str) -> Answer:
        """The value of a key, None if there is none."""
        row = await self._connection.row(READ, key, commits=False)
        return Answer(None if row is None else msgspec.json.decode(row[0]))

    async def write(self, key: str, value: Any) -> Answer:
        """Set a key unconditionally."""
        await self._connection.row(WRITE, key, _encoded(value), commits=True)
        return Answer(value)

    async def compare_and_set(self, key: str, expected: Any, value: Any) -> Answer:
        """Set a key if it holds `expected`; whether it did."""
        values = (key, _encoded(expected), _encoded(value))
        return Answer(await self._connection.row(COMPARE_AND_SET, *values, commits=True) is not None)

    async def create(self, key: str, value: Any) -> Answer:
        """Set a key if it does not exist; whether this call did."""
        return Answer(await self._connection.row(CREATE, key, _encoded(value), commits=True) is not None)

    async def add(self, collection: str, element: int) -> Answer:
        """Put an element into a collection; one that is there already is a definite failure."""
        await self._connection.row(ADD, collection, element, commits=True)
        return Answer(element)

    async def elements(self, collection: str) -> Answer:
        """All elements of a collection, in ascending order."""
        row = await self._connection.row(ELEMENTS, collection, commits=False)
        return Answer([] if row is None else msgspec.json.decode(row[0], type=list[int]))

    async def increment(self, counter: str, by: int) -> Answer:
        """Add to a counter; the sum afterwards."""
        row = await self._connection.row(INCREMENT, counter, by, commits=True)
        if row is None:
            raise IndefiniteError("the server returned no sum")
        return Answer(row[0])

    async def read_counter(self, counter: str) -> Answer:
        """The value of a counter, None if nothing was ever added."""
        row = await self._connection.row(SUM, counter, commits=False)
        return Answer(None if row is None else row[0])

    async def lock(self, name: str, owner: int) -> Answer:
        """Take a lock if it is free: the fencing token, None if it is held."""
        row = await self._connection.row(LOCK, name, owner, commits=True)
        return Answer(None if row is None else row[0])

    async def unlock(self, name: str, owner: int) -> Answer:
        """Give a lock back; whether `owner` held it."""
        return Answer(await self._connection.row(UNLOCK, name, owner, commits=True) is not None)

    async def transact(self, mops: Sequence[Mop]) -> Answer:
        """Do these reads and writes in this order as one transaction; the mops with their reads.

        Raises:
            DefiniteError: nothing of it is ever seen.
            IndefiniteError: the connection broke while it was committed.
        """
        await self._connection.begin()
        done = [await self._mop(*mop) for mop in mops]
        await self._connection.commit()
        return Answer(done)

    async def update(self, keys: Sequence[str], change: Change) -> Answer:
        """Read registers, and write what follows from them, in one transaction; what was read, by key.

        Raises:
            DefiniteError: nothing of it is ever seen: `change` aborted it, or the server did.
            IndefiniteError: the connection broke while it was committed.
        """
        await self._connection.begin()
        found = {key: await self._register(key) for key in keys}
        written = change(found)
        if written is None:
            await self._connection.roll_back()
            raise DefiniteError("aborted by the client")
        for key, value in written.items():
            await self._connection.row(WRITE_REGISTER, key, _encoded(value), commits=False)
        await self._connection.commit()
        return Answer(found)

    async def in_universe(self, universe: str, steps: Sequence[Mop]) -> Answer:
        """Do reads and writes of objects, and predicate reads, in this order as one transaction; with the reads.

        Raises:
            DefiniteError: nothing of it is ever seen.
            IndefiniteError: the connection broke while it was committed.
        """
        await self._connection.begin()
        done = [[f, key, await self._step(universe, f, key, value)] for f, key, value in steps]
        await self._connection.commit()
        return Answer(done)

    async def close(self) -> None:
        """Drop the connection. Locks stay as they are."""
        self._connection.close()

    async def _mop(self, f: str, key: str, value: Any) -> Mop:
        if f == "r":
            return [f, key, await self._either(key)]
        if f == "w":
            await self._connection.row(WRITE_REGISTER, key, _encoded(value), commits=False)
        elif f == "append":
            await self._connection.row(APPEND, key, value, commits=False)
        else:
            raise DefiniteError(f"there is no micro-operation {f!r}, only r, w and append")
        return [f, key, value]

    async def _step(self, universe: str, f: str, key: Any, value: Any) -> Any:
        if f == "rp":
            name, *values = [key] if isinstance(key, str) else key
            row = await self._connection.row(MATCHING + CONDITIONS[name], universe, *values, commits=False)
            return {} if row is None else msgspec.json.decode(row[0])
        if f == "r":
            row = await self._connection.row(READ_OBJECT, universe, key, commits=False)
            return None if row is None else row[0]
        if f == "delete":
            await self._connection.row(DELETE_OBJECT, universe, key, commits=False)
        elif f in ("insert", "w"):
            await self._connection.row(WRITE_OBJECT, universe, key, value, commits=False)
        else:
            raise DefiniteError(f"there is no step {f!r}, only r, rp, insert, w and delete")
        return value

    async def _either(self, key: str) -> Any:
        row = await self._connection.row(READ_EITHER, key, commits=False)
        found = [] if row is None else [value for value in row if value is not None]
        return msgspec.json.decode(found[0]) if found else None

    async def _register(self, key: str) -> Any:
        row = await self._connection.row(READ_REGISTER, key, commits=False)
        return None if row is None else msgspec.json.decode(row[0])


def _encoded(value: Any) -> str:
    return msgspec.json.encode(value).decode()
