"""Long histories of one key, read from Parquet piece by piece; only a few bytes an op are kept.

A table of a history takes some hundred bytes an op. Who looks for a linearization needs of each op when it began and
ended, and the numbers of its function, its argument and its result; the rest is needed of the few ops that evidence
speaks of, and read again from the file for those.

Only what is as it should be is read in this way: a file of exactly the columns of a history, in the order of the
indexes, on one key, in which completions fit invocations. All else is left to those who read whole tables, and who
know what to say of it.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from splitbrain.checkers.kernels import kernel
from splitbrain.results.arrow import HISTORY_SCHEMA, parquet_batches, read_parquet, read_parquet_head
from splitbrain.results.columns import numbers
from splitbrain.results.errors import HistoryFormatError
from splitbrain.results.soundness import check_texts

I8: TypeAlias = npt.NDArray[np.int8]
I32: TypeAlias = npt.NDArray[np.int32]
I64: TypeAlias = npt.NDArray[np.int64]
B: TypeAlias = npt.NDArray[np.bool_]
Codes: TypeAlias = npt.NDArray[np.signedinteger[Any]]
"""Numbers of texts in a list, as narrow as they can be."""

LONG_ROWS: Final = 1_000_000
"""The least number of rows of a file that is read piece by piece: below, a table takes less memory."""

PIECE_ROWS: Final = 1 << 16
"""The number of rows that are read together."""

PIECES_KEPT: Final = 64
"""Pieces that are kept of those that evidence was read from."""

SHOWN: Final = ("index", "time", "process", "type", "f", "value", "node")
"""The columns that evidence shows."""

OPEN: Final = -1
"""The completion of an op that the history ends before."""

INVOKE: Final = 0
OK: Final = 1
FAIL: Final = 2
INFO: Final = 3
KINDS: Final = {"invoke": INVOKE, "ok": OK, "fail": FAIL}
"""Kinds of rows by their type; all other types are INFO."""


class Calls(NamedTuple):
    """The invocations of a history with their completions, by invocation.

    Attributes:
        invoked: row of the invocation, ascending.
        completed: row of the completion; OPEN without one.
        ended: kind of the completion; INFO without one.
        process: who.
        f: number of the function.
        value: number of the text of the argument.
        result: number of the text of the completion's value; without a meaning where there is none.
    """

    invoked: I64
    completed: I64
    ended: I8
    process: Codes
    f: Codes
    value: Codes
    result: Codes

    def of(self, chosen: B | slice) -> Calls:
        """Some of the calls."""
        return Calls(
            self.invoked[chosen],
            self.completed[chosen],
            self.ended[chosen],
            self.process[chosen],
            self.f[chosen],
            self.value[chosen],
            self.result[chosen],
        )


@dataclass(frozen=True)
class LongHistory:
    """The history of one key in a Parquet file.

    Attributes:
        path: the file.
        file_rows: rows of the file.
        num_rows: rows of clients. Rows are counted without those of others.
        key: the key.
        calls: what clients called.
        fs: the functions by number.
        texts: the texts of values by number.
    """

    path: Path
    file_rows: int
    num_rows: int
    key: str | None
    calls: Calls
    fs: list[Any]
    texts: list[Any]
    _others: I64
    """Rows of the file that are not of clients, each less the number of such rows before it."""
    _piece_rows: int
    _pieces: OrderedDict[tuple[int, int], Any] = field(default_factory=OrderedDict[tuple[int, int], Any])

    def cell(self, column: str, row: int) -> Any:
        """What one row says in one of the columns that are `SHOWN`.

        Raises:
            HistoryFormatError: the file is no longer what it was.
        """
        at = row + int(np.searchsorted(self._others, row, side="right"))
        group = int(np.searchsorted(self._ends, at, side="right"))
        first = int(self._ends[group - 1]) if group else 0
        number, place = divmod(at - first, self._piece_rows)
        return self._piece(group, number).column(column)[place].as_py()

    def table(self) -> pa.Table:
        """The whole history."""
        return read_parquet(self.path)

    @cached_property
    def _ends(self) -> I64:
        """By row group, the row of the file behind it."""
        return np.cumsum(read_parquet_head(self.path).group_rows).astype(np.int64)

    def _piece(self, group: int, number: int) -> Any:
        """A piece of a row group."""
        if (group, number) not in self._pieces:
            batches = parquet_batches(self.path, self._piece_rows, columns=SHOWN, group=group)
            self._pieces[group, number] = next(islice(batches, number, None))
            if len(self._pieces) > PIECES_KEPT:
                self._pieces.popitem(last=False)
        return self._pieces[group, number]


def read_long_history(path: Path, *, at_least: int = LONG_ROWS, piece_rows: int = PIECE_ROWS) -> LongHistory | None:
    """The history in a Parquet file; None if it is not one that is read piece by piece.

    Args:
        path: the file.
        at_least: how many rows it has at least.
        piece_rows: rows that are looked at together.

    Raises:
        HistoryFormatError: the file is cut short, damaged or not Parquet.
        StoreVersionError: a newer splitbrain wrote it.
    """
    from splitbrain.results.formats.rows import IGNORED_KEY

    head = read_parquet_head(path)
    if head.rows < at_least or not head.schema.equals(HISTORY_SCHEMA) or IGNORED_KEY in head.notes:
        return None
    return _Reading(path, head.rows, piece_rows).run()


class _Reading:
    """One reading of a file."""

    def __init__(self, path: Path, rows: int, piece_rows: int) -> None:
        self._path = path
        self._rows = rows
        self._piece_rows = piece_rows
        self._types, self._fs, self._values, self._keys = _Texts(), _Texts(), _Texts(), _Texts()
        room = np.empty((4, rows), np.int32)  # of which only what is written takes memory
        invoked, completed = np.empty((2, rows), np.int64)
        self._calls = Calls(invoked, completed, np.empty(rows, np.int8), *room)
        self._under_way = np.full(64, OPEN, np.int64)
        self._at = np.zeros(2, np.int64)
        self._others: list[I64] = []
        self._last_index = -1 << 63

    def run(self) -> LongHistory | None:
        first = 0
        for batch in parquet_batches(self._path, self._piece_rows, texts=("type", "f", "key", "value", "node")):
            if not self._take(batch, first):
                return None
            first += batch.num_rows
        rows, calls = map(int, self._at)
        if rows == 0 or first != self._rows or not self._is_sound():
            return None
        return LongHistory(
            self._path,
            first,
            rows,
            self._keys.known[0],
            _narrowed(self._calls, calls),
            self._fs.known,
            self._values.known,
            np.concatenate([np.zeros(0, np.int64), *self._others]),
            self._piece_rows,
        )

    def _is_sound(self) -> bool:
        try:
            check_texts(self._types.known, self._values.known, str(self._path))
        except HistoryFormatError:
            return False
        return True

    def _take(self, batch: Any, first: int) -> bool:
        """Take a piece that begins with row `first` of the file; False if it cannot be read this way."""
        index, process = numbers(batch.column("index")), numbers(batch.column("process"))
        if len(index) == 0:
            return True
        if index[0] <= self._last_index or not np.all(index[1:] > index[:-1]):
            return False
        self._last_index = int(index[-1])
        clients = process >= 0
        if clients.all():
            clients = None
        else:
            others = np.flatnonzero(~clients) + first
            before = sum(map(len, self._others))
            self._others.append((others - before - np.arange(len(others))).astype(np.int64))
            process = process[clients]
        if not len(process):
            return True
        self._keys.codes(batch.column("key"), clients)
        if len(self._keys.known) > 1 or not self._has_room_for(int(process.max())):
            return False
        types = self._types.codes(batch.column("type"), clients)
        kind = np.array([KINDS.get(name, INFO) for name in self._types.known], np.int8)[types]
        fs = self._fs.codes(batch.column("f"), clients)
        values = self._values.codes(batch.column("value"), clients)
        return bool(_pair(np.array(process, np.int32), kind, fs, values, self._calls, self._under_way, self._at))

    def _has_room_for(self, process: int) -> bool:
        """Have a place for each process up to this one, if numbers of processes are as large as there are rows."""
        if process > 64 + self._rows:
            return False
        while process >= len(self._under_way):
            self._under_way = np.append(self._under_way, np.full(len(self._under_way), OPEN, np.int64))
        return True


class _Texts:
    """The distinct texts of a column, in the order of the first of each; null is one of them."""

    def __init__(self) -> None:
        self.known: list[Any] = []
        self._number: dict[Any, int] = {}
        self._dictionary: Any = None
        self._listed: list[Any] = []
        self._place = np.zeros(0, np.int32)

    def codes(self, column: Any, chosen: B | None) -> I32:
        """The numbers of a piece's texts, of the chosen rows.

        Args:
            column: the texts, as an Arrow array of numbers into a dictionary.
            chosen: which rows; all if None.
        """
        if self._dictionary is None or not self._dictionary.equals(column.dictionary):
            self._dictionary, self._listed = column.dictionary, [*column.dictionary.to_pylist(), None]
            self._place = np.array([self._number.get(each, -1) for each in self._listed], np.int32)
        own = numbers(column.indices, null=len(self._listed) - 1)
        own = own if chosen is None else own[chosen]
        found = self._place[own]
        if found.min(initial=0) < 0:
            self._number_new(own)
            found = self._place[own]
        return found

    def _number_new(self, own: I32) -> None:
        first = np.full(len(self._listed), len(own), np.int64)
        first[own[::-1]] = np.arange(len(own) - 1, -1, -1)
        new = np.flatnonzero((first < len(own)) & (self._place < 0))
        for each in new[np.argsort(first[new])].tolist():
            self._place[each] = self._number[self._listed[each]] = len(self.known)
            self.known.append(self._listed[each])


@kernel
def _pair(process: I32, kind: I8, f: I32, value: I32, calls: Calls, under_way: I64, at: I64) -> int:
    """Take rows in; 1 if completions fit invocations, else 0.

    Args:
        process, kind, f, value: of the rows.
        calls: to write to.
        under_way: the number of the call that is under way, by process; negative without one.
        at: how many rows and calls there are by now.
    """
    row, calls_made = at[0], at[1]
    for k in range(process.size):
        who = process[k]
        call = under_way[who]
        if kind[k] == INVOKE:
            if call >= 0:
                return 0
            under_way[who] = calls_made
            calls.invoked[calls_made] = row
            calls.completed[calls_made] = OPEN
            calls.ended[calls_made] = INFO
            calls.process[calls_made] = who
            calls.f[calls_made] = f[k]
            calls.value[calls_made] = value[k]
            calls.result[calls_made] = 0
            calls_made += 1
        else:
            if call < 0:
                return 0
            under_way[who] = OPEN
            calls.completed[call] = row
            calls.ended[call] = kind[k]
            calls.result[call] = value[k]
        row += 1
    at[0], at[1] = row, calls_made
    return 1


def _narrowed(calls: Calls, count: int) -> Calls:
    """The first calls, in arrays that take no more than they must."""
    first = calls.of(slice(count))
    return first._replace(
        process=_narrow(first.process), f=_narrow(first.f), value=_narrow(first.value), result=_narrow(first.result)
    )


def _narrow(values: Codes) -> Codes:
    most = int(values.max(initial=0))
    return values.astype(np.int8 if most < 1 << 7 else np.int16 if most < 1 << 15 else np.int32)


def warm_up() -> None:
    """Compile the kernel of this module, or load it from the cache."""
    rows, kinds, longs = np.zeros(0, np.int32), np.zeros(0, np.int8), np.zeros(2, np.int64)
    _pair(rows, kinds, rows, rows, Calls(longs, longs, kinds, rows, rows, rows, rows), longs, longs)
