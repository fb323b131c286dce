"""Transactions whose micro-operations are in their values, as Elle has them, as columns.

[["append","x",1],["r","y",null]]        a read's result is null, a number, or a list of numbers
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from splitbrain.results.arrow import MOPS, PLAIN_MOPS, Column, array, compute
from splitbrain.results.columns import flags, numbers, text
from splitbrain.results.listreads import with_summaries

_TRANSACTIONS: Final = msgspec.json.Decoder(list[list[tuple[str, str | int, int | list[int] | None]]])
_FUNCTIONS: Final = frozenset({"r", "w", "append"})
_LIMIT: Final = 1 << 63


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
    try:
        transactions = _TRANSACTIONS.decode("[" + ",".join(encoded.dictionary.to_pylist()) + "]")
    except (msgspec.ValidationError, msgspec.DecodeError):
        return None
    mops = [mop for transaction in transactions for mop in transaction]
    kinds: dict[str, type] = {}
    for f_name, key, result in mops:
        if f_name not in _FUNCTIONS or kinds.setdefault(str(key), type(key)) is not type(key):
            return None
        if isinstance(result, int) and not -_LIMIT <= result < _LIMIT:
            return None
    columns: list[Any] = [
        array([mop[0] for mop in mops], pa.string()),
        array([str(mop[1]) for mop in mops], pa.string()),
        array([None if isinstance(mop[2], list) else mop[2] for mop in mops], pa.int64()),
        array([mop[2] if isinstance(mop[2], list) else None for mop in mops], pa.list_(pa.int64())),
    ]
    sizes = np.fromiter((len(transaction) for transaction in transactions), np.int64, len(transactions))
    offsets: npt.NDArray[np.int32] = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
    arrow: Any = pa
    struct = arrow.StructArray.from_arrays(columns, fields=list(PLAIN_MOPS.value_type))
    distinct = with_summaries(arrow.ListArray.from_arrays(array(offsets), struct, type=PLAIN_MOPS), MOPS)
    rows = np.full(len(f), len(transactions), np.int64)
    rows[flags(is_txn)] = numbers(encoded.indices, null=len(transactions))
    return arrow.concat_arrays([distinct, pa.nulls(1, MOPS)]).take(array(rows))
