"""A history's client ops as columns: every invocation next to its completion.

What `splitbrain.results.history.pairs` does op by op, in whole columns: a million ops take a fraction of a second.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from splitbrain.results.columns import flags, numbers
from splitbrain.results.columns import text as literal
from splitbrain.results.errors import HistoryFormatError
from splitbrain.results.once import is_kept, once

Ints: TypeAlias = npt.NDArray[np.int64]
Bools: TypeAlias = npt.NDArray[np.bool_]
Objects: TypeAlias = npt.NDArray[np.object_]

Shape = TypeVar("Shape")

OPEN: Final = -1
"""The completion row of an op that the history does not see the end of."""


class Calls(msgspec.Struct, frozen=True):
    """Client ops, in the order of their invocations; one element per op in each array.

    Attributes:
        table: the history from which they are, sorted by index.
        invoke: rows of the invocations.
        complete: rows of the completions, OPEN where there is none.
    """

    table: pa.Table
    invoke: Ints
    complete: Ints

    def ended(self, how: str) -> Bools:
        """Which ops ended so; an open op counts as "info", since its outcome is unknown."""
        found = is_equal(self.table, "type", how)[self.complete] & (self.complete != OPEN)
        return found | (self.complete == OPEN) if how == "info" else found

    def are(self, f: str) -> Bools:
        """Which ops are of function `f`."""
        return is_equal(self.table, "f", f)[self.invoke]


def client_calls(history: pa.Table, source: str = "history") -> Calls:
    """Pair the client ops of a history whose rows are sorted by index. The answer is shared (`once`): read it only.

    Raises:
        HistoryFormatError: a completion without an invocation, or two invocations of one process at once.
    """
    return once(history, _of_history) if source == _HISTORY else _client_calls(history, source)


_HISTORY: Final = "history"


def _of_history(history: pa.Table) -> Calls:
    return _client_calls(history, _HISTORY)


def _client_calls(history: pa.Table, source: str) -> Calls:
    process = ints(history, "process")
    rows = np.flatnonzero(process >= 0)
    order = rows[np.argsort(process[rows], kind="stable")]
    actor = process[order]
    invokes = is_equal(history, "type", "invoke")[order]
    follows = np.zeros(len(order), dtype=np.bool_)
    follows[1:] = actor[1:] == actor[:-1]
    after_invoke = np.zeros(len(order), dtype=np.bool_)
    after_invoke[1:] = invokes[:-1]
    after_invoke &= follows
    _refuse(history, order[invokes & after_invoke], "invokes while an op of it is still open", source)
    _refuse(history, order[~invokes & ~after_invoke], "completes an op that it never invoked", source)

    complete = np.full(history.num_rows, OPEN, dtype=np.int64)
    completions = np.flatnonzero(~invokes)
    complete[order[completions - 1]] = order[completions]
    invoke = np.sort(order[invokes])
    return Calls(history, invoke, complete[invoke])


def _refuse(history: pa.Table, rows: Ints, problem: str, source: str) -> None:
    if len(rows):
        row = int(rows.min())
        index, process = (history[name][row].as_py() for name in ("index", "process"))
        raise HistoryFormatError(source, f"op {index}: process {process} {problem}.")


def ints(table: pa.Table, column: str) -> Ints:
    """A whole-number column without nulls."""
    return numbers(table[column]).astype(np.int64, copy=False)


def is_equal(table: pa.Table, column: str, text: str) -> Bools:
    """Which rows of a text column hold `text`; a null holds nothing."""
    if table.num_rows == 0:
        return np.zeros(0, dtype=np.bool_)
    if is_kept(table):
        code, number = once(table, _coded, column)
        return code == number.get(text, len(number))
    return flags(pc.equal(table[column], literal(text)))


def _coded(table: pa.Table, column: str) -> tuple[npt.NDArray[np.int32], dict[Any, int]]:
    """A text column as codes, and the code of each text."""
    encoded: Any = pc.dictionary_encode(table[column].combine_chunks(), null_encoding="encode")
    return numbers(encoded.indices), {text: number for number, text in enumerate(encoded.dictionary.to_pylist())}


def shaped(table: pa.Table, row: int, kind: type[Shape]) -> Shape:
    """The value of a row, of that shape.

    Raises:
        HistoryFormatError: it is of another one.
    """
    try:
        return msgspec.convert(cell(table, "value", row), kind)
    except msgspec.ValidationError as error:
        f = table["f"][row].as_py()
        raise HistoryFormatError(
            "history", f"op {cell(table, 'index', row)}: this cannot be the value of {f!r}: {error}."
        ) from None


def cell(table: pa.Table, column: str, row: int) -> Any:
    """One cell as a Python value; `value` is decoded from its JSON."""
    found = table[column][row].as_py()
    return msgspec.json.decode(found) if column == "value" and found is not None else found


def place(table: pa.Table, row: int) -> dict[str, Any]:
    """An op as evidence: what a person needs to find it and to judge it."""
    columns = ("index", "process", "type", "f", "key", "value", "node", "term", "error")
    op = {name: found for name in columns if (found := cell(table, name, row)) is not None}
    return {**op, "time_s": seconds(table["time"][row].as_py())}


def seconds(time_ns: int) -> float:
    """Nanoseconds as seconds, to the microsecond."""
    return round(time_ns / 1e9, 6) + 0.0  # of an op without a time (-1) 0.0, not -0.0
