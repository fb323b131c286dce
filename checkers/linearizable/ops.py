"""From the columns of a history to ops: what was asked, what came of it, and which distinct transitions there are.

Everything per row is columnar; Python looks at each distinct value and each distinct transition once. An op here is an
invocation with what is known of its end. Failed ops did not happen and are gone.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final, TypeAlias, cast

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from splitbrain.checkers import long_histories
from splitbrain.checkers.kernels import kernel
from splitbrain.checkers.long_histories import FAIL, INFO, KINDS, OK, OPEN, Calls, Codes, LongHistory
from splitbrain.checkers.models import UNKNOWN, JsonScalar, Model, apart, frozen
from splitbrain.results import columns
from splitbrain.results.arrow import client_ops
from splitbrain.results.columns import array, codes, numbers, ranked
from splitbrain.results.errors import HistoryFormatError, UsageError

I32: TypeAlias = npt.NDArray[np.int32]
I64: TypeAlias = npt.NDArray[np.int64]
B: TypeAlias = npt.NDArray[np.bool_]

TOGETHER: Final = 1 << 20
"""Calls whose transitions are numbered together."""

_SMALL: Final = 1000
"""Rows up to which a whole column costs less than a few dozen of its cells, one by one."""

_ANSWER_NULL: Final = frozenset({"read", "get", "dequeue", "pop"})
"""Functions for which null is an answer: there is nothing."""


_WRITES: Final = frozenset({"w", "write"})
"""Functions whose argument may stand at the completion alone."""


class Transition(msgspec.Struct, frozen=True, gc=False):
    """A distinct (function, argument, result): all that a model may look at."""

    f: str
    value: Any
    result: Any

    def __str__(self) -> str:
        """As in "read -> 3" or "cas [1,2]"; a result that only repeats the argument, or says nothing, is left out."""
        asked = self.f if self.value is None else f"{self.f} {show(self.value)}"
        says_nothing = self.result is None and self.f not in _ANSWER_NULL
        if self.result is UNKNOWN or says_nothing or (self.value is not None and _alike(self.result, self.value)):
            return asked
        return f"{asked} -> {show(self.result)}"


def _alike(one: Any, other: Any) -> bool:
    """Whether they are one value as histories know it: 1 is not true, though one of them may be read as an answer."""
    return apart(one) == apart(other)


@dataclass(frozen=True)
class Ops:
    """The ops of a partition that may have happened, by invocation.

    Attributes:
        table: the history, a row per event; or where its rows can be read.
        invoked: row of the invocation, by op, ascending.
        completed: row of the completion, by op; OPEN without one.
        crashed: whether its outcome is unknown, by op.
        transition: index into `transitions`, by op.
        transitions: the distinct transitions.
        others: how many ops of other functions were left out.
    """

    table: pa.Table | LongHistory
    invoked: I64
    completed: I64
    crashed: B
    transition: I32
    transitions: list[Transition]
    others: int = 0

    def cell(self, column: str, row: int) -> Any:
        """What a row of the history says in a column."""
        if isinstance(self.table, LongHistory):
            return self.table.cell(column, row)
        if self.table.num_rows > _SMALL:
            return self.table.column(column)[row].as_py()
        cells = self._cells.get(column)
        if cells is None:
            cells = self._cells[column] = self.table.column(column).to_pylist()
        return cells[row]

    @cached_property
    def _cells(self) -> dict[str, list[Any]]:
        """Columns of a small table, as far as cells of them were asked for."""
        return {}

    @property
    def called(self) -> int:
        """How many ops clients invoked, those that failed included, and those of other functions left out."""
        table = self.table
        return (len(table.calls.invoked) if isinstance(table, LongHistory) else client_ops(table)) - self.others

    @property
    def by_row(self) -> I32:
        """By row of the history, the op that is invoked or completed there; -1 for an op that did not happen."""
        found = np.full(self.table.num_rows, -1, np.int32)
        number = np.arange(len(self.invoked), dtype=np.int32)
        found[self.invoked] = number
        ended = self.completed != OPEN
        found[self.completed[ended]] = number[ended]
        return found


def show(value: Any) -> str:
    """A frozen value as JSON-like text."""
    if isinstance(value, tuple):
        return "[" + ",".join(show(item) for item in cast("tuple[Any, ...]", value)) + "]"
    if isinstance(value, frozenset):
        return "{" + ",".join(sorted(show(item) for item in cast("frozenset[Any]", value))) + "}"
    if isinstance(value, JsonScalar):
        return value.text
    if hasattr(value, "items") and not isinstance(value, str):
        return "{" + ",".join(f'"{key}":{show(item)}' for key, item in value.items) + "}"
    try:
        return msgspec.json.encode(value).decode()
    except TypeError:
        return str(value)


def read_ops(history: pa.Table | LongHistory, model: Model, functions: Collection[str] | None = None) -> Ops:
    """Pair invocations with completions, and number the distinct transitions.

    Args:
        history: rows of one partition in the order of the history, columns as in
            `splitbrain.results.arrow.HISTORY_SCHEMA`; or a long history, which has been paired as it was read.
        model: for the functions that it knows.
        functions: those whose ops are read; None for all.

    Raises:
        HistoryFormatError: a completion without an invocation, or two ops of one process at once.
        UsageError: the history has a function that the model does not know.
    """
    if isinstance(history, LongHistory):
        return _ops(history, history.calls, history.fs, history.texts, model, functions)
    clients = numbers(history.column("process")) >= 0
    table = history if clients.all() else history.filter(array(clients))
    types, type_names = codes(table.column("type"))
    fs, f_names = codes(table.column("f"))
    values, texts = codes(table.column("value"))
    processes = numbers(table.column("process"))
    invoked, completed = _pairs(table, types, type_names)
    kinds = np.append(np.array([KINDS.get(name, INFO) for name in type_names], np.int8)[types], np.int8(INFO))
    calls = Calls(
        invoked, completed, kinds[completed], processes[invoked], fs[invoked], values[invoked], values[completed]
    )
    return _ops(table, calls, f_names, texts, model, functions)


def _ops(
    table: pa.Table | LongHistory,
    calls: Calls,
    f_names: list[Any],
    texts: list[Any],
    model: Model,
    functions: Collection[str] | None,
) -> Ops:
    """Ops of what was called: those that may have happened."""
    called = len(calls.invoked)
    if functions is not None:
        calls = calls.of(np.array([name in functions for name in f_names], np.bool_)[calls.f])
    others = called - len(calls.invoked)
    happened = calls.ended != FAIL
    if not happened.all():
        calls = calls.of(happened)
    crashed = calls.ended != OK
    ops = Ops(table, calls.invoked, calls.completed, crashed, np.zeros(0, np.int32), [], others)
    _refuse_unknown(ops, model, calls.f, f_names)
    arguments = _arguments(calls, f_names, texts)
    if getattr(model, "owned", False):
        arguments, texts = _owners(calls.process, arguments, texts)
    transition, transitions = _transitions(
        calls._replace(value=arguments), crashed, f_names, texts, getattr(model, "opaque", None)
    )
    return replace(ops, transition=transition, transitions=transitions)


def _pairs(table: pa.Table, types: I32, type_names: list[Any]) -> tuple[I64, I64]:
    """Rows of the invocations, and of their completions."""
    processes = numbers(table.column("process"))
    _, names = ranked(processes)
    partner = np.full(len(types), OPEN, np.int64)
    invoke = type_names.index("invoke") if "invoke" in type_names else -2
    wrong = _pair(names, types, invoke, partner, np.full(int(names.max(initial=-1)) + 1, -1, np.int64))
    if wrong >= 0:
        index = table.column("index")[wrong].as_py()
        what = "invokes while an op of its own is open" if types[wrong] == invoke else "completes what it never invoked"
        raise HistoryFormatError(
            "history", f"op {index}: process {processes[wrong]} {what}. Give the ops of one key, in order."
        )
    invoked = np.flatnonzero(types == invoke).astype(np.int64)
    return invoked, partner[invoked]


@kernel
def _pair(processes: I32, types: I32, invoke: int, partner: I64, under_way: I64) -> int:
    """Fill in the completion's row of each invocation; the row that does not fit, or -1."""
    for row in range(types.size):
        process = processes[row]
        if types[row] == invoke:
            if under_way[process] >= 0:
                return row
            under_way[process] = row
        else:
            if under_way[process] < 0:
                return row
            partner[under_way[process]] = row
            under_way[process] = -1
    return -1


def _refuse_unknown(ops: Ops, model: Model, fs: Codes, f_names: list[Any]) -> None:
    for code in np.flatnonzero(np.bincount(fs)):
        if f_names[code] not in model.fs:
            index = ops.cell("index", int(ops.invoked[np.argmax(fs == code)]))
            raise UsageError(
                f"model {model.name!r} does not know {f_names[code]!r} (op {index}); it knows "
                f"{', '.join(sorted(model.fs))}. Choose the model of this workload."
            )


def _arguments(calls: Calls, f_names: list[Any], texts: list[Any]) -> Codes:
    """What ops were called with: what a write wrote, its completion says where the invocation does not (Knossos)."""
    nothing = texts.index(None) if None in texts else OPEN
    writes = np.array([name in _WRITES for name in f_names], np.bool_)[calls.f]
    said_late = writes & (calls.value == nothing) & (calls.ended == OK)
    # In the wider of both types: numbers of results may not fit into those of arguments.
    return np.where(said_late, calls.result, calls.value) if said_late.any() else calls.value


def _owners(processes: Codes, arguments: Codes, texts: list[Any]) -> tuple[I32, list[Any]]:
    """Arguments with the process where the value is null, as codes into the texts and those of the processes."""
    distinct, owner = np.unique(processes, return_inverse=True)
    null = np.array([text in (None, "null") for text in texts], np.bool_)[arguments]
    owned = np.where(null, len(texts) + owner.reshape(-1), arguments).astype(np.int32)
    return owned, [*texts, *map(str, distinct.tolist())]


def _transitions(
    calls: Calls, crashed: B, f_names: list[Any], texts: list[Any], opaque: Collection[str] | None
) -> tuple[I32, list[Transition]]:
    width = len(texts) + 1
    distinct, transition = _combined(calls, crashed, width)
    rest, result = np.divmod(distinct, width)
    f, value = np.divmod(rest, width)
    answers = [UNKNOWN, *_parsed(texts)]
    compared = answers if opaque is None else _apart(texts, answers)
    compares = np.array([name in (opaque or ()) for name in f_names], np.bool_)[f] if compared is not answers else f < 0
    all_results = [*answers, *compared]
    transitions = list(
        map(
            Transition,
            map(f_names.__getitem__, f.tolist()),
            map(compared.__getitem__, (value + 1).tolist()),
            map(all_results.__getitem__, (result + compares * len(answers)).tolist()),
        )
    )
    return transition, transitions


def _combined(calls: Calls, crashed: B, width: int) -> tuple[I64, I32]:
    """The distinct (function, argument, result), each as one number, ascending; and which one each call is.

    Part by part: what is worked out on the way takes more room than the calls themselves.
    """
    transition = np.empty(len(crashed), np.int32)
    parts: list[tuple[slice, I64]] = []
    for first in range(0, len(crashed), TOGETHER):
        part = slice(first, first + TOGETHER)
        # In 64 bits: a million texts squared exceed 32. A crashed op has the result 0, which stands for UNKNOWN.
        results = np.where(crashed[part], -1, calls.result[part].astype(np.int64))
        combined = (calls.f[part].astype(np.int64) * width + calls.value[part]) * width + results + 1
        distinct, transition[part] = ranked(combined)
        parts.append((part, distinct))
    if len(parts) <= 1:
        return parts[0][1] if parts else np.zeros(0, np.int64), transition
    every = columns.distinct(np.concatenate([distinct for _, distinct in parts]))
    for part, distinct in parts:
        transition[part] = np.searchsorted(every, distinct).astype(np.int32)[transition[part]]
    return every, transition


def _parsed(texts: list[Any]) -> list[Any]:
    """JSON texts in hashable form, null for none; parsed in one go, as there may be a million."""
    decoded = cast("list[Any]", msgspec.json.decode(_array(texts)))
    return [frozen(each) if isinstance(each, list | dict) else each for each in decoded]


def _apart(texts: list[Any], values: list[Any]) -> list[Any]:
    """The values with 1, 1.0 and true as three; the list itself where it holds no such thing."""
    written = _array(texts)
    return list(map(apart, values)) if any(mark in written for mark in ("true", "false", ".", "e", "E")) else values


def _array(texts: list[Any]) -> str:
    return "[" + ",".join("null" if text is None else text for text in texts) + "]"


def warm_up() -> None:
    """Compile the kernel of this module, or load it from the cache."""
    marks, rows = np.zeros(0, np.int32), np.zeros(0, np.int64)
    _pair(marks, marks, 0, rows, rows)
    long_histories.warm_up()
