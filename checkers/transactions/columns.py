"""Transactions as integer columns: what inference reads, made of a history in whole columns.

A history's op is a transaction if its function is "txn". Its micro-operations are `r`, and `w` (registers) or `append`
(lists). Of a transaction that committed they are those of its completion, with what was read; of any other those of
its invocation, whose reads say nothing.

Values of histories whose `mops` are typed stay the numbers that they are. Other values, which a history has as text
only, are numbered in the order in which they appear, and `value_names` has them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from splitbrain.checkers.kernels import kernel
from splitbrain.checkers.transactions.mops import Flat, flat_mops, flat_texts
from splitbrain.results.columns import codes, numbers, ranked, valid
from splitbrain.results.errors import HistoryFormatError

Ints: TypeAlias = npt.NDArray[np.int64]
Codes: TypeAlias = npt.NDArray[np.int32]
Bytes: TypeAlias = npt.NDArray[np.uint8]

COMMITTED: Final = 0
MAYBE: Final = 1
ABORTED: Final = 2
"""How a transaction ended: it did, it may have (`info`, or no completion at all), or it certainly did not."""

READ: Final = 0
WRITE: Final = 1
APPEND: Final = 2
"""What a micro-operation does."""

NIL: Final = -(1 << 63)
"""The value of a read that found nothing."""

UNKNOWN: Final = NIL + 1
"""The value of a read whose answer is not known."""

NO_LIST: Final = -1
"""The length of the list that a micro-operation did not read."""

OPEN: Final = -1
"""Where a transaction completed that did not."""


@dataclass(frozen=True)
class Transactions:
    """Transactions in the order of their invocations; one element of each array for a transaction or micro-operation.

    Attributes:
        process: who made it.
        invoked: row of the history in which it was invoked.
        completed: row in which it completed, OPEN if it did not.
        status: COMMITTED, MAYBE or ABORTED.
        mop_start: where its micro-operations begin; one element more than there are transactions.
        mop_kind: READ, WRITE or APPEND.
        mop_key: number of the key.
        mop_value: what was written, or what a read of a register found: NIL, UNKNOWN, or the value.
        list_start: where in `elements` the list begins that was read.
        list_length: its length; NO_LIST if the micro-operation read none. An empty list may also be read as NIL.
        elements: of all lists.
        key_names: the keys.
        value_names: the values by number; None if values are the numbers themselves.
    """

    process: Ints
    invoked: Ints
    completed: Ints
    status: Bytes
    mop_start: Ints
    mop_kind: Bytes
    mop_key: Codes
    mop_value: Ints
    list_start: Ints
    list_length: Codes
    elements: Ints
    key_names: tuple[str, ...]
    value_names: tuple[Any, ...] | None = None

    def __len__(self) -> int:
        return len(self.process)

    @property
    def mop_count(self) -> int:
        """How many micro-operations there are."""
        return len(self.mop_kind)

    def value(self, code: int) -> Any:
        """A value as the history has it; None for NIL."""
        if code == NIL:
            return None
        return code if self.value_names is None else self.value_names[code]

    def read(self, mop: int) -> Any:
        """What a read found, as the history has it: a list, a value, or None."""
        length = int(self.list_length[mop])
        if length == NO_LIST:
            return self.value(int(self.mop_value[mop]))
        start = int(self.list_start[mop])
        return [self.value(code) for code in self.elements[start : start + length].tolist()]


def transactions_of(history: pa.Table, source: str = "history") -> Transactions:
    """The transactions of a history.

    Args:
        history: rows of `splitbrain.results.arrow.HISTORY_SCHEMA`, sorted by index.
        source: names the history in errors.

    Raises:
        HistoryFormatError: a completion without an invocation, two invocations of one process at once, a
            micro-operation of an unknown function, a write of nothing, or a committed transaction whose completion
            has no micro-operations.
    """
    pairs = paired(history, source)
    return assembled(pairs, _payload(history, pairs.rows, source))


def assembled(pairs: Pairs, flat: Flat) -> Transactions:
    """Transactions, of the pairs of a history and the micro-operations in their rows."""
    return with_mops(pairs.process[pairs.invoke], pairs.invoke, pairs.complete, pairs.status, flat)


def with_mops(process: Ints, invoked: Ints, completed: Ints, status: Bytes, flat: Flat) -> Transactions:
    """Transactions, of what is known of each and their micro-operations: reads say nothing unless they committed."""
    unread = np.repeat(status != COMMITTED, np.diff(flat.start))
    return Transactions(
        process=process,
        invoked=invoked,
        completed=completed,
        status=status,
        mop_start=flat.start,
        mop_kind=flat.kind,
        mop_key=flat.key,
        mop_value=_unread(flat.value, unread & (flat.kind == READ)),
        list_start=flat.list_start,
        list_length=cast(Codes, np.where(unread, np.int32(NO_LIST), flat.list_length)),
        elements=flat.elements,
        key_names=flat.key_names,
        value_names=flat.value_names,
    )


def _unread(value: Ints, unread: npt.NDArray[np.bool_]) -> Ints:
    """Values, but UNKNOWN for the reads of transactions that did not commit for certain."""
    return np.where(unread, np.int64(UNKNOWN), value) if unread.any() else value


def _payload(history: pa.Table, rows: Ints, source: str) -> Flat:
    """The micro-operations in some rows, from typed columns if all of these have them, else from the values' text."""
    typed = valid(history.column("mops"))[rows]
    if typed.all():
        return flat_mops(history.column("mops"), rows, source)
    texts = valid(history.column("value"))[rows]
    if not texts.all():
        row = int(rows[np.argmin(texts)])
        raise HistoryFormatError(source, f"op {row}: this transaction has no micro-operations, neither here nor typed.")
    return flat_texts(history.column("value"), rows, source)


# --- invocations and completions --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Pairs:
    """Which rows of a history are transactions.

    Attributes:
        process: of every row of the history.
        invoke: of every transaction the row of its invocation.
        complete: the row of its completion, or OPEN.
        status: how it ended.
    """

    process: Ints
    invoke: Ints
    complete: Ints
    status: Bytes

    @property
    def rows(self) -> Ints:
        """The row of every transaction that has its micro-operations: its completion if it committed."""
        return np.where(self.status == COMMITTED, self.complete, self.invoke)


def paired(history: pa.Table, source: str, functions: Sequence[str] = ("txn",)) -> Pairs:
    """Pair the transactions of a history: ops of some functions. The columns process, type and f are read.

    Raises:
        HistoryFormatError: a completion without an invocation, or two invocations of one process at once.
    """
    process: Ints = numbers(history.column("process")).astype(np.int64)
    is_txn = _is_one_of(history.column("f"), functions) & (process >= 0)
    rows = np.flatnonzero(is_txn)
    kind = _kinds(history.column("type"))[rows]
    actors, actor = ranked(process[rows])
    count = int(np.count_nonzero(kind == _INVOKE))
    invoke, complete = np.empty(count, np.int64), np.full(count, OPEN, np.int64)
    status = np.full(count, MAYBE, np.uint8)
    held = np.full(len(actors), OPEN, np.int64)
    wrong = pair(rows, kind, actor, held, invoke, complete, status)
    if wrong >= 0:
        row = int(rows[wrong])
        does = (
            "invokes a transaction while one of it is still open"
            if kind[wrong] == _INVOKE
            else "completes a transaction that it never invoked"
        )
        raise HistoryFormatError(source, f"op {row}: process {process[row]} {does}.")
    return Pairs(process, invoke, complete, status)


_INVOKE: Final = 3
_KINDS: Final = {"ok": COMMITTED, "info": MAYBE, "fail": ABORTED, "invoke": _INVOKE}


def _kinds(column: Any) -> Bytes:
    code, names = codes(column)
    return np.array([_KINDS.get(name, MAYBE) for name in names] or [0], np.uint8)[code]


def _is_one_of(column: Any, texts: Sequence[str]) -> npt.NDArray[np.bool_]:
    code, names = codes(column)
    return np.array([name in texts for name in names] or [False], np.bool_)[code]


@kernel
def pair(rows: Ints, kind: Bytes, actor: Codes, held: Ints, invoke: Ints, complete: Ints, status: Bytes) -> int:
    """Fill in `invoke`, `complete` and `status`; the place of a row that does not fit, or -1.

    `held` has the open transaction of each actor, or -1.
    """
    count = 0
    for place in range(len(rows)):
        who = actor[place]
        if kind[place] == 3:
            if held[who] >= 0:
                return place
            held[who] = count
            invoke[count] = rows[place]
            count += 1
        else:
            if held[who] < 0:
                return place
            complete[held[who]] = rows[place]
            status[held[who]] = kind[place]
            held[who] = -1
    return -1
