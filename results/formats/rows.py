"""What every reader of a history file fills in, and what becomes of it: columns first, then one table.

A reader gives `Rows`: a column for each field, in the order of the file, as it says them. `table_of` does what all
formats have in common, in whole columns: it orders ops by their index where the file gives one, closes ops that have no
completion, refuses completions that fit no invocation, takes independent keys out of values, numbers the ops from 0.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, NoReturn, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from splitbrain.results.arrow import HISTORY_SCHEMA, MOPS, Column, array, compute
from splitbrain.results.columns import codes, valid
from splitbrain.results.columns import text as text_scalar
from splitbrain.results.errors import HistoryFormatError
from splitbrain.results.formats.independent import has_tuples, split_tuples

Ints: TypeAlias = npt.NDArray[np.int64]
Bools: TypeAlias = npt.NDArray[np.bool_]
Independent: TypeAlias = Literal["auto", "yes", "no"]

NO_PROCESS: Final = -(1 << 40)
"""The process of an op that names none."""

NONE: Final = -1
"""No row; no time; no index."""

IGNORED_KEY: Final = b"splitbrain.ignored"
"""Where a table that was read notes the fields of the file that a history has no place for, separated by spaces."""

NO_REALTIME_KEY: Final = b"splitbrain.no-realtime"
"""Where a table that was read notes that its format orders only what one process did: it knows no real time."""

_TYPES: Final = ("invoke", "ok", "fail", "info")
_PROCESS_LIMIT: Final = 1 << 31


def knows_realtime(history: pa.Table) -> bool:
    """Whether the order of a history's rows says what ended before what began."""
    return NO_REALTIME_KEY not in (history.schema.metadata or {})


@dataclass(frozen=True)
class Rows:
    """A history file as columns, a row per op, in the order of the file.

    Attributes:
        line: where the op is, from 1.
        process: negative for what is not a client; NO_PROCESS where the file does not say.
        type, f: text, null where the file does not say.
        value: canonical JSON, null for none.
        key, node, error: text or null.
        term, due: whole numbers or null.
        time: nanoseconds, NONE where the file does not say.
        index: as in the file, NONE where it does not say.
        mops: micro-operations, where the format has them as such.
        exact_key: JSON by which an op says that its value is `[key value]` ("null": that it is not), or null.
        exact_value: JSON to take instead of `value`, or null.
        tuples: whether keys may be in values, as `[key value]`, without a mark.
        realtime: whether the order of rows says what ended before what began.
        ignored: fields of the file that are not read.
    """

    line: Ints
    process: Ints
    type: Column
    f: Column
    value: Column
    key: Column
    node: Column
    error: Column
    term: Column
    time: Ints
    index: Ints
    due: Column | None = None
    mops: Column | None = None
    exact_key: Column | None = None
    exact_value: Column | None = None
    tuples: bool = False
    realtime: bool = True
    ignored: tuple[str, ...] = ()

    def take(self, rows: Ints) -> Rows:
        """Some of the rows, in the order given."""
        found: dict[str, Any] = {
            name: column[rows] if isinstance(column, np.ndarray) else column.take(array(rows))
            for name, column in vars(self).items()
            if isinstance(column, np.ndarray | pa.Array)
        }
        return replace(self, **found)


def texts(column: list[Any] | Any) -> Column:
    """A text column."""
    return array(column, pa.string())


def nothing(count: int, kind: Any = None) -> Column:
    """A column of nulls."""
    return pa.nulls(count, pa.string() if kind is None else kind)


def table_of(rows: Rows, source: str, independent: Independent) -> pa.Table:
    """The history.

    Args:
        rows: what a reader found.
        source: the file's name, for errors.
        independent: whether values are `[key value]`; "auto" decides by `independent.has_tuples`.

    Raises:
        HistoryFormatError: an op lacks a field, a completion fits no invocation, or processes cannot be inferred.
    """
    rows = _by_index(rows)
    _refuse_incomplete(rows, source)
    rows = _with_processes(rows, source)
    rows = _with_tuples(rows, source, independent)
    rows = _with_crashes(rows, source)
    rows = _with_keys(rows, source)
    return _table(rows)


def _table(rows: Rows) -> pa.Table:
    count = len(rows.line)
    columns: dict[str, Any] = {
        "index": np.arange(count),
        "time": rows.time,
        "process": rows.process.astype(np.int32),
        "type": rows.type,
        "f": rows.f,
        "key": rows.key,
        "value": rows.value,
        "mops": rows.mops if rows.mops is not None else pa.nulls(count, MOPS),
        "node": rows.node,
        "term": rows.term,
        "error": rows.error,
        "due": rows.due if rows.due is not None else pa.nulls(count, pa.int64()),
    }
    notes: dict[bytes | str, bytes | str] = {}
    if rows.ignored:
        notes[IGNORED_KEY] = " ".join(rows.ignored).encode()
    if not rows.realtime:
        notes[NO_REALTIME_KEY] = b"true"
    schema = HISTORY_SCHEMA.with_metadata(notes) if notes else HISTORY_SCHEMA
    return pa.Table.from_arrays([array(column) for column in columns.values()], schema=schema)


def _is(column: Column, text: str) -> Bools:
    if not len(column):
        return np.zeros(0, np.bool_)
    code, names = codes(column)
    return code == (names.index(text) if text in names else NONE)


def _valid(column: Column) -> Bools:
    return valid(column)


def _by_index(rows: Rows) -> Rows:
    """By the file's own index, if every op has one and they are all different: it is the position in the history."""
    index = rows.index
    if not len(index) or index.min() < 0 or np.all(index[1:] > index[:-1]):
        return rows
    order = np.argsort(index, kind="stable")
    return rows if np.any(np.diff(index[order]) == 0) else rows.take(order)


def _refuse_incomplete(rows: Rows, source: str) -> None:
    """Refuse ops without what every op needs."""
    if len(rows.type):
        code, names = codes(rows.type)
        known = np.array([name in _TYPES for name in names], np.bool_)
        _refuse(
            ~known[code],
            rows,
            source,
            lambda row: f"expected an op's type as invoke, ok, fail or info, found {_shown(rows.type[row].as_py())}.",
        )
    _refuse(~_valid(rows.f), rows, source, lambda _: "the op has no function (f).")
    far = (rows.process >= _PROCESS_LIMIT) | ((rows.process < -2) & (rows.process != NO_PROCESS))
    _refuse(
        far, rows, source, lambda row: f"expected a process from 0 to {_PROCESS_LIMIT - 1}, found {rows.process[row]}."
    )


def _shown(value: Any) -> str:
    return "none" if value is None else repr(value)[:40]


def _refuse(wrong: Bools, rows: Rows, source: str, problem: Callable[[int], str]) -> None:
    if wrong.any():
        row = int(np.argmax(wrong))
        raise HistoryFormatError(source, problem(row), line=int(rows.line[row]))


def _with_processes(rows: Rows, source: str) -> Rows:
    """Give ops that name no process one each, if invocations and completions alternate.

    One each, not one for all: a process orders its ops, and the file does not say that one client made them.
    """
    missing = rows.process == NO_PROCESS
    if not missing.any():
        return rows
    invokes = _is(rows.type, "invoke")
    clear = missing.all() and np.all(invokes[::2]) and not np.any(invokes[1::2])
    if not clear:
        _refuse(missing, rows, source, lambda _: _NO_PROCESSES)
    return replace(rows, process=np.arange(len(missing)) // 2)


_NO_PROCESSES: Final = (
    "the op names no process. Only where no op does, and every invocation is followed by its completion, is it clear "
    "what belongs together: give every op its process."
)


def _previous(process: Ints) -> Ints:
    """For each row the row before it of the same process, NONE for the first; all NONE where it is not a client's."""
    order = np.argsort(process, kind="stable")
    actor = process[order]
    previous = np.full(len(process), NONE, np.int64)
    follows = (actor[1:] == actor[:-1]) & (actor[1:] >= 0)
    previous[order[1:][follows]] = order[:-1][follows]
    return previous


def invocations(process: Ints, invokes: Bools) -> Ints:
    """For each completion of a client the row of its invocation, NONE for all else."""
    previous = _previous(process)
    return np.where(~invokes & (previous != NONE) & invokes[previous], previous, NONE)


def _with_crashes(rows: Rows, source: str) -> Rows:
    """Close as `info` every op whose process goes on without its completion; refuse completions of nothing.

    The crash stands right before the next invocation of the process: that is when it is certain.
    """
    invokes = _is(rows.type, "invoke")
    previous = _previous(rows.process)
    before = np.where(previous == NONE, False, invokes[previous])
    client = rows.process >= 0
    _refuse(
        client & ~invokes & ~before,
        rows,
        source,
        lambda row: (
            f"process {rows.process[row]} completes {rows.f[row].as_py()!r}, which it did not invoke, or which it "
            f"had completed before."
        ),
    )
    _refuse_other_function(rows, source, np.where(client & ~invokes, previous, NONE))
    crashed = np.flatnonzero(client & invokes & before)
    if not len(crashed):
        return rows
    count = len(rows.line)
    positions = np.insert(np.arange(count), crashed, previous[crashed])
    added = np.insert(np.zeros(count, np.bool_), crashed, True)
    longer = rows.take(positions)
    is_added = array(added)
    time, line = longer.time.copy(), longer.line.copy()
    time[added], line[added] = rows.time[crashed], rows.line[crashed]
    return replace(
        longer,
        time=time,
        line=line,
        type=compute.if_else(is_added, text_scalar("info"), longer.type),
        error=compute.if_else(is_added, text_scalar("never completed"), longer.error),
        value=compute.if_else(is_added, text_scalar(None), longer.value),
        due=None if longer.due is None else compute.if_else(is_added, pa.nulls(1, pa.int64())[0], longer.due),
    )


def _refuse_other_function(rows: Rows, source: str, invocation: Ints) -> None:
    """Refuse completions of another function than was invoked."""
    completes = np.flatnonzero(invocation != NONE)
    code = _codes(rows.f)
    wrong = np.zeros(len(rows.line), np.bool_)
    wrong[completes] = code[completes] != code[invocation[completes]]
    _refuse(
        wrong,
        rows,
        source,
        lambda row: (
            f"process {rows.process[row]} completes {rows.f[row].as_py()!r}, but its open op is "
            f"{rows.f[int(invocation[row])].as_py()!r}."
        ),
    )


def _with_tuples(rows: Rows, source: str, independent: Independent) -> Rows:
    """Take keys out of values, where they are in there; then put in what the file says exactly."""
    client = rows.process >= 0
    tupled = np.zeros(len(client), np.bool_)
    if rows.exact_key is not None:
        tupled = _valid(rows.exact_key) & (_strings(rows.exact_key) != "null")
    elif independent == "yes" or (independent == "auto" and rows.tuples and _looks_tupled(rows, client)):
        tupled = client
    if tupled.any():

        def refuse(row: int, problem: str) -> NoReturn:
            raise HistoryFormatError(source, problem, line=int(rows.line[row]))

        certain = _is(rows.type, "invoke") | _is(rows.type, "ok")
        key, value = split_tuples(rows.value, tupled, certain & tupled, refuse)
        rows = replace(rows, key=compute.if_else(array(tupled), key, rows.key), value=value)
    if rows.exact_value is not None:
        exact = compute.if_else(
            compute.equal(rows.exact_value, text_scalar("null")), text_scalar(None), rows.exact_value
        )
        rows = replace(rows, value=compute.if_else(rows.exact_value.is_valid(), exact, rows.value))
    return rows


def _looks_tupled(rows: Rows, client: Bools) -> bool:
    if rows.key.null_count < len(rows.key):
        return False
    invoked = array(client & _is(rows.type, "invoke"))
    completed = array(client & _is(rows.type, "ok"))
    return has_tuples(rows.value.filter(invoked), rows.value.filter(completed), rows.f.filter(invoked))


def _strings(column: Column) -> npt.NDArray[np.object_]:
    return np.array(column.to_pylist(), dtype=np.object_)


def _codes(column: Column) -> Ints:
    return codes(column)[0].astype(np.int64)


def _with_keys(rows: Rows, source: str) -> Rows:
    """Give completions without a key that of their invocation; refuse those with another one."""
    if rows.key.null_count == len(rows.key):
        return rows
    invocation = invocations(rows.process, _is(rows.type, "invoke"))
    completes = np.flatnonzero(invocation != NONE)
    code, keyed = _codes(rows.key), _valid(rows.key)
    asked = invocation[completes]
    wrong = np.zeros(len(code), np.bool_)
    wrong[completes] = keyed[completes] & (code[completes] != code[asked])
    _refuse(
        wrong,
        rows,
        source,
        lambda row: (
            f"process {rows.process[row]} completes {rows.f[row].as_py()} of key {_shown(rows.key[row].as_py())}, "
            f"but its open op is of key {_shown(rows.key[int(invocation[row])].as_py())}."
        ),
    )
    keyless = ~keyed[completes] & keyed[asked]
    if not keyless.any():
        return rows
    positions = np.arange(len(code))
    positions[completes[keyless]] = asked[keyless]
    return replace(rows, key=rows.key.take(array(positions)))
