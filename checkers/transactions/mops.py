"""Micro-operations of some rows of a history as flat arrays: from typed nested columns, or from text.

The nested columns are read buffer by buffer, without an object for each micro-operation; the lists that were read stay
where Arrow has them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, TypeAlias, cast

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from splitbrain.results.arrow import LEAST
from splitbrain.results.columns import array, codes, numbers, valid
from splitbrain.results.errors import HistoryFormatError
from splitbrain.results.keys import key_names
from splitbrain.results.values import canonical_json

Ints: TypeAlias = npt.NDArray[np.int64]

FUNCTIONS: Final = {"r": 0, "w": 1, "append": 2}
"""The code of each function of a micro-operation."""

_NIL: Final = -(1 << 63)
_NO_LIST: Final = -1
_arrow: Final[Any] = pa


@dataclass(frozen=True)
class Flat:
    """Micro-operations, as `splitbrain.checkers.transactions.columns.Transactions` has them."""

    start: Ints
    kind: npt.NDArray[np.uint8]
    key: npt.NDArray[np.int32]
    value: Ints
    list_start: Ints
    list_length: npt.NDArray[np.int32]
    elements: Ints
    key_names: tuple[str, ...]
    value_names: tuple[Any, ...] | None


def flat_mops(column: Any, rows: Ints, source: str, first: int = 0) -> Flat:
    """The micro-operations in some rows of a column of type `splitbrain.results.arrow.MOPS`.

    Args:
        column: of a history, or of rows of it that follow each other.
        rows: which ones, from 0.
        source: names the history in errors.
        first: the history's row that is the first of the column.

    Raises:
        HistoryFormatError: one is of an unknown function, or writes nothing.
    """
    chunks = cast("list[Any]", column.chunks if isinstance(column, pa.ChunkedArray) else [column])
    begins: list[Ints] = []
    ends: list[Ints] = []
    fields: list[list[Any]] = []
    shift = 0
    for chunk in chunks:
        offsets = numbers(chunk.offsets).astype(np.int64)
        begins.append(offsets[:-1] + shift)
        ends.append(offsets[1:] + shift)
        fields.append(list(chunk.values.flatten()))
        shift += len(chunk.values)
    begin, size = _joined(begins)[rows], _joined(ends)[rows]
    size = size - begin
    start = np.concatenate([np.zeros(1, np.int64), np.cumsum(size)])
    mops = np.repeat(begin - start[:-1], size) + np.arange(int(start[-1]))
    f, key, value, values = ([each[place] for each in fields] for place in range(4))
    said = rows + first
    kind = _kinds(_concat(f).take(array(mops)), start, said, source)
    key_code, key_names = codes(_concat(key).take(array(mops)))
    if any(numbers(each, null=0).min(initial=0) < LEAST for each in value):
        raise HistoryFormatError(source, f"a value is below {LEAST}, which a column of micro-operations cannot have.")
    written = _joined([numbers(each, null=_NIL) for each in value])[mops]
    refuse_empty_writes(kind, written, start, said, source)
    list_start, list_length, elements = _lists(values, mops)
    return Flat(
        start=start,
        kind=kind,
        key=key_code,
        value=written,
        list_start=list_start,
        list_length=list_length,
        elements=elements,
        key_names=tuple(map(str, key_names)),
        value_names=None,
    )


def _joined(parts: list[Ints]) -> Ints:
    return parts[0] if len(parts) == 1 else np.concatenate([*parts, np.zeros(0, np.int64)])


def _concat(parts: list[Any]) -> Any:
    return parts[0] if len(parts) == 1 else _arrow.concat_arrays(parts or [pa.nulls(0, pa.string())])


def _lists(columns: list[Any], mops: Ints) -> tuple[Ints, npt.NDArray[np.int32], Ints]:
    """Start and length of the list of each of these micro-operations, and all elements."""
    if all(column.null_count == len(column) for column in columns):  # registers have none
        return np.zeros(len(mops), np.int64), np.full(len(mops), _NO_LIST, np.int32), np.zeros(0, np.int64)
    starts: list[Ints] = []
    lengths: list[Ints] = []
    elements: list[Ints] = []
    shift = 0
    for column in columns:
        offsets = numbers(column.offsets).astype(np.int64)
        starts.append(offsets[:-1] + shift)
        lengths.append(np.where(valid(column), np.diff(offsets), _NO_LIST))
        elements.append(numbers(column.values, null=_NIL))
        shift += len(column.values)
    return _joined(starts)[mops], _joined(lengths)[mops].astype(np.int32), _joined(elements)


def _kinds(f: Any, start: Ints, rows: Ints, source: str) -> npt.NDArray[np.uint8]:
    code, names = codes(f)
    known = function_codes(names)
    kind = known[code]
    if (known == UNKNOWN_FUNCTION).any():
        mop = int(np.argmax(kind == UNKNOWN_FUNCTION))
        raise unknown_function(names[code[mop]], row_of(mop, start, rows), source)
    return kind


UNKNOWN_FUNCTION: Final = 255


def function_codes(names: list[Any]) -> npt.NDArray[np.uint8]:
    """The code of each of some functions; UNKNOWN_FUNCTION for others."""
    return np.array([FUNCTIONS.get(name, UNKNOWN_FUNCTION) for name in names] or [0], np.uint8)


def unknown_function(name: Any, row: int, source: str) -> HistoryFormatError:
    """The error for a micro-operation of a function that is none of `FUNCTIONS`."""
    return HistoryFormatError(source, f"op {row}: expected micro-operations r, w and append, found {name!r:.40}.")


def row_of(mop: int, start: Ints, rows: Ints) -> int:
    """The row of the history in which a micro-operation stands."""
    return int(rows[np.searchsorted(start, mop, side="right") - 1])


def refuse_empty_writes(kind: npt.NDArray[np.uint8], value: Ints, start: Ints, rows: Ints, source: str) -> None:
    """Refuse writes without a value.

    Raises:
        HistoryFormatError: there is one.
    """
    empty = (kind != 0) & (value == _NIL)
    if empty.any():
        row = row_of(int(np.argmax(empty)), start, rows)
        raise HistoryFormatError(source, f"op {row}: a write of nothing; every write needs a value of its own.")


# --- values as text ---------------------------------------------------------------------------------------------------


def flat_texts(column: Any, rows: Ints, source: str) -> Flat:
    """The micro-operations in some rows of a column of JSON: `[[f, key, value], ...]`, keys and values of any kind.

    Raises:
        HistoryFormatError: a value is not of that form, a function is unknown, or a write writes nothing.
    """
    read = _Texts(source)
    texts = column.take(array(rows)).to_pylist()
    for row, text in zip(rows.tolist(), texts, strict=True):
        read.transaction(row, text)
    return read.flat()


class _Texts:
    """Numbers keys and values while it reads transactions."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._keys: dict[str, int] = {}
        self._key_values: list[Any] = []
        self._values: dict[str, int] = {}
        self._names: list[Any] = []
        self._start = [0]
        self._mops: list[tuple[int, int, int, int, int]] = []
        self._elements: list[int] = []

    def transaction(self, row: int, text: str) -> None:
        mops: Any = msgspec.json.decode(text)
        if not isinstance(mops, list):
            raise HistoryFormatError(self._source, f"op {row}: expected a list of micro-operations, found {text:.40}.")
        for mop in cast("list[Any]", mops):
            self._mop(row, mop)
        self._start.append(len(self._mops))

    def _mop(self, row: int, mop: Any) -> None:
        if not isinstance(mop, list) or len(cast("list[Any]", mop)) not in (2, 3):
            found = canonical_json(mop)
            raise HistoryFormatError(self._source, f"op {row}: expected [f, key, value], found {found:.60}.")
        f, key, value = [*cast("list[Any]", mop), None][:3]
        kind = FUNCTIONS.get(f) if isinstance(f, str) else None
        if kind is None:
            raise unknown_function(f, row, self._source)
        if kind and value is None:
            raise HistoryFormatError(self._source, f"op {row}: a write of nothing; every write needs a value.")
        number = self._key(key)
        if kind == 0 and isinstance(value, list):
            elements = [self._value(each) for each in cast("list[Any]", value)]
            self._mops.append((kind, number, _NIL, len(self._elements), len(elements)))
            self._elements.extend(elements)
        else:
            self._mops.append((kind, number, self._value(value), 0, _NO_LIST))

    def _key(self, key: Any) -> int:
        """The number of a key: 1 and "1" are two, as their JSON is."""
        number = self._keys.setdefault(canonical_json(key), len(self._keys))
        if number == len(self._key_values):
            self._key_values.append(key)
        return number

    def _value(self, value: Any) -> int:
        if value is None:
            return _NIL
        text = canonical_json(value)
        code = self._values.setdefault(text, len(self._names))
        if code == len(self._names):
            self._names.append(value)
        return code

    def flat(self) -> Flat:
        """All that was read."""
        columns = np.array(self._mops, np.int64).reshape(-1, 5)
        return Flat(
            start=np.array(self._start, np.int64),
            kind=columns[:, 0].astype(np.uint8),
            key=columns[:, 1].astype(np.int32),
            value=columns[:, 2].copy(),
            list_start=columns[:, 3].copy(),
            list_length=columns[:, 4].astype(np.int32),
            elements=np.array(self._elements, np.int64),
            key_names=tuple(key_names(self._key_values)),
            value_names=tuple(self._names),
        )
