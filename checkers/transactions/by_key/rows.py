"""Micro-operations as rows of a table: made of a piece of a history's file, and made transactions again key by key.

The list of a read is left out where it is the beginning of a longer one of the same key and piece: the row then says
of which read. So a table of them holds about as many elements as the histories' keys have, and not those of all reads.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple
from zlib import crc32

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from splitbrain.checkers.transactions import list_kernels
from splitbrain.checkers.transactions.columns import COMMITTED, READ, Bytes, Codes, Ints, Transactions, with_mops
from splitbrain.checkers.transactions.mops import Flat, flat_mops
from splitbrain.checkers.transactions.writes import ABSENT, writes_of
from splitbrain.results.arrow import parquet_batches, read_parquet_head
from splitbrain.results.columns import array, codes, numbers

NOWHERE: Final = -1
"""The transaction of a read whose list is in its own row."""

BATCH_ROWS: Final = 1 << 16

MOPS: Final = pa.schema(
    [
        ("bucket", pa.int32()),
        ("key", pa.string()),
        ("txn", pa.int64()),
        ("at", pa.int32()),
        ("mop", pa.int32()),
        ("value", pa.int64()),
        ("length", pa.int32()),
        ("base_txn", pa.int64()),
        ("base_at", pa.int32()),
        ("elements", pa.list_(pa.int64())),
        ("process", pa.int64()),
        ("completed", pa.int64()),
        ("status", pa.int32()),
    ]
)
"""A row for each micro-operation: `txn` is the index of the op that invoked its transaction, `at` its place there,
`base_txn` and `base_at` say of which read its list is the beginning. `mop` is what it does; the others are as in
`Transactions`."""


class Called(NamedTuple):
    """Transactions of a piece of a history: the row with the micro-operations of each, and how it ended."""

    row: Ints
    invoked: Ints
    completed: Ints
    process: Ints
    status: Bytes


class Ref(NamedTuple):
    """A micro-operation: the index of the op that invoked its transaction, and its place there."""

    txn: int
    at: int


def bucket_of(key: str, buckets: int) -> int:
    """In which of that many groups of keys a key is."""
    return crc32(key.encode()) % buckets


def column_of(path: Path, begin: int, end: int, column: str) -> Any:
    """Some rows of a column of a file, in chunks.

    Raises:
        HistoryFormatError: the file is damaged.
    """
    chunks = list(_pieces(path, begin, end, column))
    return pa.chunked_array(chunks) if chunks else pa.chunked_array([], pa.null())


def _pieces(path: Path, begin: int, end: int, column: str) -> Iterator[Any]:
    base = 0
    for group, size in enumerate(read_parquet_head(path).group_rows):
        at, base = base, base + size
        if base <= begin or at >= end:
            continue
        for batch in parquet_batches(path, BATCH_ROWS, columns=[column], group=group):
            first, last = max(begin - at, 0), min(end - at, batch.num_rows)
            if first < last:
                yield batch.column(0).slice(first, last - first)
            at += batch.num_rows


def mop_rows(path: Path, begin: int, end: int, called: Called, buckets: int) -> pa.Table:
    """The micro-operations of transactions whose rows are in a piece of a file.

    Args:
        path: the history.
        begin, end: its rows.
        called: these transactions.
        buckets: into how many groups keys are dealt.

    Raises:
        HistoryFormatError: a micro-operation is of an unknown function, or writes nothing; or the file is damaged.
    """
    order = np.argsort(called.row)
    row, invoked, completed, process = (each[order] for each in called[:4])
    status = called.status[order]
    flat = flat_mops(column_of(path, begin, end, "mops"), row - begin, str(path), begin)
    transactions = with_mops(process, invoked, completed, status, flat)
    owner = np.repeat(np.arange(len(transactions)), np.diff(flat.start))
    at = np.arange(len(owner)) - flat.start[owner]
    base = _bases(transactions)
    own = np.where((base == ABSENT) & (transactions.list_length > 0), transactions.list_length, 0)
    bucket = np.array([bucket_of(key, buckets) for key in flat.key_names] or [0], np.int32)
    names: Any = pa.array(flat.key_names, pa.string())
    columns = [
        bucket[flat.key],
        names.take(array(flat.key)),
        invoked[owner],
        at.astype(np.int32),
        flat.kind.astype(np.int32),
        transactions.mop_value,
        transactions.list_length.astype(np.int32),
        np.where(base == ABSENT, NOWHERE, invoked[owner[base]] if len(owner) else NOWHERE),
        np.where(base == ABSENT, 0, at[base] if len(at) else 0).astype(np.int32),
        _lists(transactions.elements, transactions.list_start, own),
        process[owner],
        completed[owner],
        status[owner].astype(np.int32),
    ]
    return pa.Table.from_arrays([array(each) for each in columns], schema=MOPS)


def _bases(transactions: Transactions) -> Codes:
    """Of each read the longest one of its key of which it is the beginning, ABSENT if it is none of another."""
    keys, count = len(transactions.key_names), transactions.mop_count
    base = np.full(count, ABSENT, np.int32)
    if not (transactions.list_length > 0).any():
        return base
    mops = writes_of(transactions).mops
    longest, length = np.full(keys, ABSENT, np.int32), np.zeros(keys, np.int64)
    list_kernels.find_longest(mops, longest, length)
    nothing = np.zeros(0, np.int32)
    order = list_kernels.Order(
        np.zeros(1, np.int64), nothing, nothing, longest, np.zeros(count, np.bool_), np.zeros(keys, np.bool_)
    )
    list_kernels.mark_odd(mops, order)
    place = np.arange(count)
    even = (transactions.list_length > 0) & ~order.odd & (longest[transactions.mop_key] != place)
    base[even] = longest[transactions.mop_key[even]]
    return base


def _lists(elements: Ints, start: Ints, length: npt.NDArray[Any]) -> Any:
    """Lists as a column: of each its elements from `start` on."""
    ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(length)])
    places = np.repeat(start - ends[:-1], length) + np.arange(int(ends[-1]))
    made: Any = pa.ListArray
    return made.from_arrays(array(ends.astype(np.int32)), array(elements[places] if len(elements) else elements))


# --- transactions again -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Part:
    """What transactions did to some keys.

    Attributes:
        transactions: their `invoked` and `completed` are indexes of ops in the whole history.
        at: of each micro-operation its place in its transaction.
    """

    transactions: Transactions
    at: Ints

    def ref(self, mop: int) -> Ref:
        """A micro-operation by its place in the whole history."""
        owner = int(np.searchsorted(self.transactions.mop_start, mop, side="right")) - 1
        return Ref(int(self.transactions.invoked[owner]), int(self.at[mop]))


def part_of(table: pa.Table) -> Part:
    """The transactions of rows of `MOPS`, which have all of each key."""
    txn, at = _ints(table, "txn"), _ints(table, "at")
    order = np.lexsort((at, txn))
    txn, at = txn[order], at[order]
    first = np.flatnonzero(np.concatenate([np.ones(min(1, len(txn)), np.bool_), txn[1:] != txn[:-1]]))
    length = _ints(table, "length")[order]
    start, elements = _starts(table, order)
    start = _shared(start, txn, at, _ints(table, "base_txn")[order], _ints(table, "base_at")[order])
    keys: Any = table.column("key").combine_chunks()
    key, names = codes(keys.take(array(order)))
    status = _ints(table, "status")[order][first].astype(np.uint8)
    flat = Flat(
        start=np.append(first, len(txn)).astype(np.int64),
        kind=_ints(table, "mop")[order].astype(np.uint8),
        key=key,
        value=_ints(table, "value")[order],
        list_start=start,
        list_length=length.astype(np.int32),
        elements=elements,
        key_names=tuple(map(str, names)),
        value_names=None,
    )
    process, completed = _ints(table, "process")[order][first], _ints(table, "completed")[order][first]
    return Part(with_mops(process, txn[first], completed, status, flat), at)


def _ints(table: pa.Table, name: str) -> Ints:
    return numbers(table.column(name)).astype(np.int64)


def _starts(table: pa.Table, order: Ints) -> tuple[Ints, Ints]:
    """Where the list of each row begins, in that order, and the elements of all."""
    lists: Any = table.column("elements").combine_chunks()
    if not len(lists):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    return numbers(lists.offsets).astype(np.int64)[:-1][order], numbers(lists.values)


def _shared(start: Ints, txn: Ints, at: Ints, base_txn: Ints, base_at: Ints) -> Ints:
    """The same, also of rows whose list is the beginning of that of another row. Rows are sorted by `txn` and `at`."""
    rows = np.flatnonzero(base_txn != NOWHERE)
    if not len(rows):
        return start
    width = int(max(at.max(), base_at.max())) + 1
    place = np.searchsorted(txn * width + at, base_txn[rows] * width + base_at[rows])
    found = start.copy()
    found[rows] = start[place]
    return found


def reads_committed(transactions: Transactions, owner: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Which micro-operations are reads of transactions that committed for certain."""
    return (transactions.mop_kind == READ) & (transactions.status[owner] == COMMITTED)


__all__: Sequence[str] = ("MOPS", "Called", "Part", "Ref", "bucket_of", "column_of", "mop_rows", "part_of")
