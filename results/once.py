"""What is made of a table by several readers is made once, for as long as the table is being judged.

The checkers of a run are pure functions of the same two tables, and most begin alike: ops are paired, faults are read,
rows of telemetry become Python objects. The engine has a `Kept` for the tables of a run, and the checkers of that run
work within it; nothing outlives it, and what belongs to other tables, or is asked for outside of it, is made each time.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final, TypeVar, cast

import pyarrow as pa

T = TypeVar("T")

ROWS_MAX: Final = 100_000
"""Of a larger table nothing is kept: what is made of it takes more memory than making it again takes time."""


class Kept:
    """What was made of some tables. It keeps them: a table made later cannot be mistaken for one of them."""

    def __init__(self, *tables: pa.Table | None) -> None:
        self._tables = {id(table): table for table in tables if table is not None and table.num_rows <= ROWS_MAX}
        self._made: dict[tuple[Any, ...], Any] = {}

    @contextmanager
    def used(self) -> Generator[None]:
        """A context in which `once` looks here. Not to be left open over a `yield`."""
        token = _used.set(self)
        try:
            yield
        finally:
            _used.reset(token)

    def holds(self, table: pa.Table) -> bool:
        """Whether what is made of this table is kept."""
        return id(table) in self._tables

    def get(self, table: pa.Table, make: Callable[..., T], *args: str) -> T:
        """What the function makes of a table that is held here; an exception is not kept."""
        key = (make, id(table), *args)
        if key not in self._made:
            self._made[key] = make(table, *args)
        return cast(T, self._made[key])


_used: ContextVar[Kept | None] = ContextVar("kept", default=None)


def is_kept(table: pa.Table) -> bool:
    """Whether `once` keeps what is made of this table, here and now."""
    kept = _used.get()
    return kept is not None and kept.holds(table)


def once(table: pa.Table, make: Callable[..., T], *args: str) -> T:
    """What a function makes of a table, from before where it is kept. It is shared: it must not be changed.

    Args:
        table: what it is made of.
        make: a pure function of the table and the texts behind it, and always the same object.
        args: these texts.
    """
    kept = _used.get()
    return kept.get(table, make, *args) if kept is not None and kept.holds(table) else make(table, *args)
