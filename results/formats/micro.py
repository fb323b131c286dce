"""Transactions on registers that a text file has one micro-operation a line, as the columns of a history.

Such formats say in which session and transaction a read or a write was, and no more: neither when a transaction began
or ended, nor what ran at the same time. Their histories are marked (`NO_REALTIME_KEY`), since the order of rows there
says nothing about real time.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from splitbrain.results.arrow import MOPS, PLAIN_MOPS, array, compute
from splitbrain.results.columns import numbers, valid
from splitbrain.results.errors import HistoryFormatError
from splitbrain.results.formats.rows import NONE, Ints, Rows, nothing, texts
from splitbrain.results.listreads import with_summaries

Bools: TypeAlias = npt.NDArray[np.bool_]

_arrow: Final[Any] = pa


def matched(lines: list[str], pattern: str) -> tuple[Any, Bools]:
    """The groups of a pattern in each line, and which lines it fits; a group is an Arrow column of texts."""
    found: Any = compute.extract_regex(texts(lines), pattern=pattern)
    return found, valid(found)


def whole_numbers(groups: Any, name: str, lines: Ints, source: str) -> Ints:
    """A group of digits as numbers.

    Args:
        groups: of the lines that fitted.
        name: of the group.
        lines: where each of them is, for errors.
        source: the file's name, for errors.

    Raises:
        HistoryFormatError: one does not fit into 63 bits.
    """
    column = compute.struct_field(groups, [name])
    try:
        return numbers(column.cast(pa.int64()))
    except pa.ArrowException:
        long: list[str] = column.to_pylist()
        row = next(row for row, each in enumerate(long) if not -(1 << 63) <= int(each) < 1 << 63)
        problem = f"the {name} {long[row]:.40} is too large: a history has numbers below 2^63."
        raise HistoryFormatError(source, problem, line=int(lines[row])) from None


def rows_of(
    *,
    line: Ints,
    write: Bools,
    key: Ints,
    value: Ints,
    initial: Bools,
    transaction: Ints,
    process: Ints,
    aborted: Bools,
) -> Rows:
    """A history of committed and aborted transactions.

    Args:
        line: of each micro-operation, in the order of the file.
        write: whether it is a write.
        key, value: what it wrote or read.
        initial: whether it read that there was nothing.
        transaction: its transaction, numbered from 0 by the first line of each.
        process: of each transaction.
        aborted: whether that is known not to have happened.
    """
    order = np.argsort(transaction, kind="stable")
    count = len(process)
    size = np.bincount(transaction, minlength=count).astype(np.int64)
    begin = np.cumsum(size) - size
    twice = np.repeat(size, 2)
    # Each transaction twice: as it was invoked, and as it completed.
    places = order[np.repeat(np.repeat(begin, 2) - np.cumsum(twice) + twice, twice) + np.arange(int(twice.sum()))]
    completed = np.repeat(np.tile(np.array([False, True]), count), twice)
    hidden = ~write[places] & (~completed | initial[places])
    f = _arrow.DictionaryArray.from_arrays(array(write.astype(np.int32)), texts(["r", "w"])).cast(pa.string())
    columns = [
        f.take(array(places)),
        array(key).cast(pa.string()).take(array(places)),
        compute.if_else(array(hidden), pa.nulls(1, pa.int64())[0], array(value[places])),
        pa.nulls(len(places), pa.list_(pa.int64())),
    ]
    struct = _arrow.StructArray.from_arrays(columns, fields=list(PLAIN_MOPS.value_type))
    offsets = array(np.concatenate([[0], np.cumsum(twice)]).astype(np.int32))
    mops = with_summaries(_arrow.ListArray.from_arrays(offsets, struct, type=PLAIN_MOPS), MOPS)
    rows = 2 * count
    last = np.zeros(count, np.int64)
    np.maximum.at(last, transaction, line)
    first = line[order[begin]]
    ends = _arrow.DictionaryArray.from_arrays(
        array(np.stack([np.zeros(count, np.int32), 1 + aborted.astype(np.int32)], axis=1).reshape(-1)),
        texts(["invoke", "ok", "fail"]),
    )
    return Rows(
        line=np.stack([first, last], axis=1).reshape(-1),
        process=np.repeat(process, 2),
        type=ends.cast(pa.string()),
        f=texts(["txn"]).take(array(np.zeros(rows, np.int64))),
        value=nothing(rows),
        key=nothing(rows),
        node=nothing(rows),
        error=nothing(rows),
        term=nothing(rows, pa.int64()),
        time=np.full(rows, NONE, np.int64),
        index=np.full(rows, NONE, np.int64),
        mops=mops,
        realtime=False,
    )
