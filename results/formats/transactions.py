"""Transactions whose micro-operations are in their values, as Elle has them, as columns.

[["append","x",1],["r","y",null]]        a read's result is null, a number, or a list of numbers
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from splitbrain.results.arrow import LEAST, MOPS, PLAIN_MOPS, Column, array, compute
from splitbrain.results.columns import flags, numbers, text, valid
from splitbrain.results.listreads import with_summaries

_TRANSACTIONS: Final = msgspec.json.Decoder(list[list[tuple[str, str | int, int | list[int] | None]]])
_FUNCTIONS: Final = frozenset({"r", "w", "append"})
_LIMIT: Final = 1 << 63
_AT_ONCE: Final = 1 << 15
"""Transactions that are Python objects at the same time. Of a million at once these took 3 GB, and half of the time was
the garbage collector's, which looks at all of them again and again."""

_arrow: Final[Any] = pa


def named_transactions(f: Column, value: Column) -> Column:
    """Functions, with "txn" where there is none and the value is a list of lists: Elle lets an op leave that out."""
    if not f.null_count:
        return f
    transaction = flags(compute.starts_with(value, "[["))
    return compute.if_else(array(~valid(f) & transaction), text("txn"), f)


def with_mops(f: Column, value: Column) -> Column | None:
    """The column of micro-operations; None if no op is a transaction, or one has what the column cannot carry.

    Args:
        f: functions; a transaction's is "txn".
        value: JSON.
    """
    is_txn = array(flags(compute.equal(f, text("txn"))))
    encoded: Any = compute.dictionary_encode(value.filter(is_txn))
    if not len(encoded.dictionary):
        return None
    pieces: list[Any] = []
    kinds: dict[str, type] = {}
    for start in range(0, len(encoded.dictionary), _AT_ONCE):
        piece = _piece(encoded.dictionary.slice(start, _AT_ONCE).to_pylist(), kinds)
        if piece is None:
            return None
        pieces.append(piece)
    count = len(encoded.dictionary)
    rows = np.full(len(f), count, np.int64)
    rows[flags(is_txn)] = numbers(encoded.indices, null=count)
    return _arrow.concat_arrays([*pieces, pa.nulls(1, MOPS)]).take(array(rows))


def _piece(texts: list[str], kinds: dict[str, type]) -> Column | None:
    """The micro-operations of some transactions; None if one has what the column cannot carry.

    Args:
        texts: JSON, of each transaction.
        kinds: whether a key is a number or a string, of those that are known; those of these texts are added.
    """
    try:
        transactions = _TRANSACTIONS.decode("[" + ",".join(texts) + "]")
    except (msgspec.ValidationError, msgspec.DecodeError):
        return None
    mops = [mop for transaction in transactions for mop in transaction]
    for f_name, key, result in mops:
        if f_name not in _FUNCTIONS or kinds.setdefault(str(key), type(key)) is not type(key):
            return None
        if isinstance(result, int) and not LEAST <= result < _LIMIT:
            return None
        if isinstance(result, list) and f_name != "r":  # the column has lists only of what was read
            return None
    try:
        lists = array([mop[2] if isinstance(mop[2], list) else None for mop in mops], pa.list_(pa.int64()))
    except OverflowError:  # an element is too large
        return None
    columns: list[Any] = [
        array([mop[0] for mop in mops], pa.string()),
        array([str(mop[1]) for mop in mops], pa.string()),
        array([None if isinstance(mop[2], list) else mop[2] for mop in mops], pa.int64()),
        lists,
    ]
    if numbers(columns[3].values, null=LEAST).min(initial=LEAST) < LEAST:
        return None
    sizes = np.fromiter((len(transaction) for transaction in transactions), np.int64, len(transactions))
    offsets: npt.NDArray[np.int32] = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
    struct = _arrow.StructArray.from_arrays(columns, fields=list(PLAIN_MOPS.value_type))
    return with_summaries(_arrow.ListArray.from_arrays(array(offsets), struct, type=PLAIN_MOPS), MOPS)
