"""Transactions of a stored history, read by the summaries of their lists: most lists are never decoded.

Of a list-append history nearly all reads are prefixes of the longest read of their key. This decodes the longest list
of each key, compares the summaries of all other reads with those of its prefixes
(`splitbrain.results.listreads`, which states how rarely an agreement is wrong), and decodes further only lists whose
summary disagrees. Reads that agree share the elements of the longest: their `list_start` is the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from splitbrain.checkers.transactions.columns import COMMITTED, NIL, NO_LIST, Ints, Transactions, assembled, paired
from splitbrain.checkers.transactions.mops import (
    UNKNOWN_FUNCTION,
    Flat,
    function_codes,
    refuse_empty_writes,
    row_of,
    unknown_function,
)
from splitbrain.results.arrow import LEAST, parquet_batches
from splitbrain.results.columns import array, numbers, valid
from splitbrain.results.listreads import prefix_hashes
from splitbrain.results.summarized import BATCH_ROWS, SummarizedHistory

_MOP: Final = "mops.list.element."
_TEXTS: Final = tuple(f"{_MOP}{name}" for name in ("f", "key"))
_SUMMARY: Final = (*_TEXTS, *(f"{_MOP}{name}" for name in ("value", "length", "hash", "last")))


def transactions_by_summary(history: SummarizedHistory) -> Transactions | None:
    """The transactions of a stored history: what `transactions_of` makes of its table, but that lists are shared.

    Returns:
        None if a transaction has no typed micro-operations, or a list is not as long as its summary says: then read the
        table.

    Raises:
        HistoryFormatError: the file is damaged, or as `transactions_of`.
    """
    path = history.path
    pairs = paired(history.frame, str(path))
    rows = pairs.rows
    order = np.argsort(rows, kind="stable")  # much faster on rows that are nearly sorted
    found = _read(path, rows[order])
    if found is None:
        return None
    _refuse_unknown(found, rows[order], str(path))
    refuse_empty_writes(found.kind, found.value, found.start, rows[order], str(path))
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    committed = np.repeat(pairs.status[order] == COMMITTED, np.diff(found.start))
    shared = _shared(path, found, committed)
    if shared is None:
        return None
    return assembled(pairs, _in_order(found, shared, rank))


# --- micro-operations in the order of the file ------------------------------------------------------------------------


@dataclass(frozen=True)
class _Found:
    """Micro-operations of some rows of a file, in its order.

    Attributes:
        start: where those of each row begin; one element more than rows.
        place: of each among all micro-operations of the file.
        kind, key, value: as in `Flat`.
        length, hash, last: of the list that was read; the length is NO_LIST if there was none.
        f_names, key_names: functions and keys by number.
    """

    start: Ints
    place: Ints
    kind: npt.NDArray[np.uint8]
    key: npt.NDArray[np.int32]
    value: Ints
    length: npt.NDArray[np.int32]
    hash: npt.NDArray[np.uint64]
    last: Ints
    f_names: tuple[str, ...]
    key_names: tuple[str, ...]


@dataclass(frozen=True)
class _Shared:
    """The lists that were decoded, and where each read has its elements among them."""

    elements: Ints
    start: Ints


def _read(path: Path, rows: Ints) -> _Found | None:
    """The micro-operations of some rows, which are ascending; None if one of them has none, or a value below LEAST."""
    names = _Names(), _Names()
    parts: list[tuple[npt.NDArray[Any], ...]] = []
    base_row = base_mop = 0
    for batch in parquet_batches(path, BATCH_ROWS, columns=_SUMMARY, texts=_TEXTS):
        lists: Any = batch.column(0)
        low, high = np.searchsorted(rows, (base_row, base_row + len(lists)))
        local = rows[low:high] - base_row
        if not valid(lists)[local].all():
            return None
        offsets = numbers(lists.offsets).astype(np.int64)
        size = offsets[local + 1] - offsets[local]
        mops = np.repeat(offsets[local] - np.cumsum(size) + size, size) + np.arange(int(size.sum()))
        f, key, value, length, hashed, last = lists.values.flatten()
        if numbers(value, null=0).min(initial=0) < LEAST:
            return None
        parts.append(
            (
                size,
                mops + base_mop,
                names[0].codes(f)[mops],
                names[1].codes(key)[mops],
                numbers(value, null=NIL)[mops],
                numbers(length, null=NO_LIST)[mops],
                numbers(hashed, null=0).view(np.uint64)[mops],
                numbers(last, null=0)[mops],
            )
        )
        base_row, base_mop = base_row + len(lists), base_mop + len(lists.values)
    if not parts:
        return None
    size, place, f, key, *rest = (np.concatenate(column) for column in zip(*parts, strict=True))
    start = np.concatenate([np.zeros(1, np.int64), np.cumsum(size)])
    kind = function_codes(list(names[0].names))[f]
    return _Found(start, place, kind, key, *rest, f_names=tuple(names[0].names), key_names=tuple(names[1].names))


class _Names:
    """Numbers texts that come as a dictionary with each batch."""

    def __init__(self) -> None:
        self.names: dict[str, int] = {}
        self._last: Any = None
        self._known = np.zeros(1, np.int32)

    def codes(self, column: Any) -> npt.NDArray[np.int32]:
        """The number of each text; the batches of a row group share one dictionary."""
        if self._last is None or not column.dictionary.equals(self._last):
            self._last = column.dictionary
            known = [self.names.setdefault(str(name), len(self.names)) for name in self._last.to_pylist()]
            self._known = np.array(known or [0], np.int32)
        return self._known[numbers(column.indices, null=0)]


def _refuse_unknown(found: _Found, rows: Ints, source: str) -> None:
    unknown = found.kind == UNKNOWN_FUNCTION
    if unknown.any():
        wrong = next(name for name in found.f_names if function_codes([name])[0] == UNKNOWN_FUNCTION)
        raise unknown_function(wrong, row_of(int(np.argmax(unknown)), found.start, rows), source)


def _in_order(found: _Found, shared: _Shared, rank: Ints) -> Flat:
    """The micro-operations by transaction, of each of which `rank` says which row of `found` it is."""
    size = np.diff(found.start)[rank]
    start = np.concatenate([np.zeros(1, np.int64), np.cumsum(size)])
    mops = np.repeat(found.start[rank] - start[:-1], size) + np.arange(int(start[-1]))
    return Flat(
        start=start,
        kind=found.kind[mops],
        key=found.key[mops],
        value=found.value[mops],
        list_start=shared.start[mops],
        list_length=found.length[mops],
        elements=shared.elements,
        key_names=found.key_names,
        value_names=None,
    )


# --- lists ------------------------------------------------------------------------------------------------------------


def _shared(path: Path, found: _Found, committed: npt.NDArray[np.bool_]) -> _Shared | None:
    """Decode the longest list of each key, and every list that is no prefix of it; None if a length is wrong."""
    reads = np.flatnonzero(committed & (found.length > 0))
    longest = _longest(found, reads)
    elements, offsets = _lists(path, found.place[longest])
    if not np.array_equal(np.diff(offsets), found.length[longest]):
        return None
    begin = np.zeros(len(found.key_names) + 1, np.int64)
    begin[found.key[longest]] = offsets[:-1]
    start = np.zeros(len(found.key), np.int64)
    start[reads] = begin[found.key[reads]]
    end = start[reads] + found.length[reads] - 1
    agrees = (prefix_hashes(elements, offsets)[end] == found.hash[reads]) & (elements[end] == found.last[reads])
    other = reads[~agrees]
    if len(other):
        further, bounds = _lists(path, found.place[other])
        if not np.array_equal(np.diff(bounds), found.length[other]):
            return None
        start[other] = bounds[:-1] + len(elements)
        elements = np.concatenate([elements, further])
    return _Shared(elements, start)


def _longest(found: _Found, reads: Ints) -> Ints:
    """The first of the longest reads of each key, ascending."""
    most = np.zeros(len(found.key_names) + 1, np.int32)
    np.maximum.at(most, found.key[reads], found.length[reads])
    candidates = reads[found.length[reads] == most[found.key[reads]]]
    first = np.full(len(most), -1, np.int64)
    first[found.key[candidates[::-1]]] = candidates[::-1]
    return np.sort(first[first >= 0])


def _lists(path: Path, places: Ints) -> tuple[Ints, Ints]:
    """The elements of the lists of some micro-operations, and where each begins; `places` are ascending."""
    parts = list(_pieces(path, places))
    elements = np.concatenate([each for each, _ in parts] or [np.zeros(0, np.int64)])
    sizes = np.concatenate([each for _, each in parts] or [np.zeros(0, np.int64)])
    return elements, np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])


def _pieces(path: Path, places: Ints) -> Iterator[tuple[Ints, Ints]]:
    """The same from batch to batch: elements, and the length of each list."""
    base = 0
    for batch in parquet_batches(path, BATCH_ROWS, columns=[f"{_MOP}values"]) if len(places) else ():
        [values] = batch.column(0).values.flatten()
        low, high = np.searchsorted(places, (base, base + len(values)))
        some = values.take(array(places[low:high] - base))
        offsets = numbers(some.offsets).astype(np.int64)
        yield numbers(some.values, null=NIL)[offsets[0] : offsets[-1]], np.diff(offsets)
        base += len(values)
