"""Arrow columns made of Python's and NumPy's values, and read as NumPy arrays, buffer by buffer.

PyArrow's own conversions (`pyarrow.array`, `pyarrow.scalar`, `to_numpy`) import pandas on their first use, to ask
whether what they were given is of pandas: a third of a CPU second and 60 MB, where the whole check of a small history
takes less.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias, TypeVar, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Column: TypeAlias = Any
"""An Arrow array."""

N = TypeVar("N", bound=np.generic)

_arrow: Any = pa
_FEW = 8192
"""Rows that Python numbers in less time than it takes to import Arrow's functions."""

_TEXT = (pa.string(), pa.binary())


def array(values: Any, kind: Any = None) -> Column:
    """An Arrow array of the values, nulls for None.

    Args:
        values: a NumPy array of numbers or truth values, or a sequence.
        kind: the Arrow type; that of the values if left out.

    Raises:
        ValueError, TypeError, OverflowError, pa.ArrowException: as `pyarrow.array`.
    """
    if isinstance(values, pa.Array):
        return cast(Column, values)
    if isinstance(values, np.ndarray) and cast(Any, values).dtype.kind in "iufb" and values.ndim == 1:
        return _of_numbers(cast("npt.NDArray[Any]", values), kind)
    if kind in _TEXT and not isinstance(values, np.ndarray):
        return _of_texts(values, kind)
    if kind is not None and pa.types.is_integer(kind) and isinstance(values, list | tuple):
        found = _of_integers(cast("Sequence[Any]", values), kind)
        if found is not None:
            return found
    if kind is not None and isinstance(values, list):
        found = _of_nested(cast("list[Any]", values), kind)
        if found is not None:
            return found
    return _arrow.array(values, kind)


def text(value: str | None) -> Any:
    """A text, or null, as an Arrow scalar."""
    return array([value], pa.string())[0]


def numbers(column: Any, null: int | None = None) -> npt.NDArray[Any]:
    """A column of numbers as a NumPy array of its type; where it has no nulls it may be the column's own memory.

    A column of a table is copied out of memory that cannot be written: kernels would be compiled for that once more.

    Raises:
        ValueError: there are nulls, and it is not said what number to take for them.
    """
    whole = _whole(column)
    if whole.null_count:
        if null is None:
            raise ValueError(f"{whole.null_count} nulls in a column of numbers")
        kind = np.dtype(whole.type.to_pandas_dtype())
        content = np.frombuffer(whole.buffers()[1], kind, len(whole), whole.offset * kind.itemsize)
        return np.where(valid(whole), content, kind.type(null))
    kind = np.dtype(whole.type.to_pandas_dtype())
    content = whole.buffers()[1]
    if content is None or not len(whole):
        return np.zeros(0, kind)
    found = np.frombuffer(content, kind, len(whole), whole.offset * kind.itemsize)
    return found.copy() if isinstance(column, pa.ChunkedArray) and not found.flags.writeable else found


def flags(column: Any) -> npt.NDArray[np.bool_]:
    """A column of truth values; null counts as false."""
    whole = _whole(column)
    known, content = whole.buffers()
    if not len(whole):
        return np.zeros(0, np.bool_)
    found = _bits(content, whole)
    return found if known is None else found & _bits(known, whole)


def valid(column: Any) -> npt.NDArray[np.bool_]:
    """Which rows of a column are not null."""
    whole: Any = column
    if not whole.null_count:
        return np.ones(len(whole), np.bool_)
    if isinstance(column, pa.ChunkedArray):
        return np.concatenate([valid(chunk) for chunk in whole.chunks])
    known = whole.buffers()[0]
    return np.zeros(len(whole), np.bool_) if known is None else _bits(known, whole)


def codes(column: Any) -> tuple[npt.NDArray[np.int32], list[Any]]:
    """A column of texts as codes into its distinct texts, in the order of the first of each; null is one of them."""
    if len(column) <= _FEW:
        number: dict[Any, int] = {}
        of_row = [number.setdefault(each, len(number)) for each in column.to_pylist()]
        return np.array(of_row, np.int32), list(number)
    encoded = _whole(column).dictionary_encode(null_encoding="encode")
    return numbers(encoded.indices).astype(np.int32, copy=False), encoded.dictionary.to_pylist()


def ranked(values: npt.NDArray[np.integer[Any]]) -> tuple[npt.NDArray[Any], npt.NDArray[np.int32]]:
    """The distinct values, ascending, and the number among them of each value.

    As `numpy.unique` with its inverse, which sorts all values: where there are few distinct ones, of a million, this
    takes a quarter of the time and of the room.
    """
    if len(values) <= _FEW:
        distinct, number = np.unique(values, return_inverse=True)
        return distinct, number.reshape(-1).astype(np.int32)
    encoded = array(values).dictionary_encode()
    found = numbers(encoded.dictionary)
    order = np.argsort(found)
    rank = np.empty(len(found), np.int32)
    rank[order] = np.arange(len(found), dtype=np.int32)
    return found[order], rank[numbers(encoded.indices)]


def distinct(values: npt.NDArray[N]) -> npt.NDArray[N]:
    """The distinct numbers, ascending, of an array of any shape.

    As `numpy.unique`, which imports NumPy's masked arrays on its first use.
    """
    ascending = np.sort(values, axis=None)
    return ascending[np.append(True, ascending[1:] != ascending[:-1])[: len(ascending)]]


def _whole(column: Any) -> Any:
    """The column in one piece. Arrow copies a single chunk too, with all that is nested in it: here it stays."""
    whole: Any = column
    if not isinstance(column, pa.ChunkedArray):
        return whole
    return whole.chunk(0) if whole.num_chunks == 1 else whole.combine_chunks()


def _bits(content: Any, column: Any) -> npt.NDArray[np.bool_]:
    first, end = column.offset, column.offset + len(column)
    octets = np.frombuffer(content, np.uint8, -(-end // 8))
    return np.unpackbits(octets, count=end, bitorder="little")[first:].view(np.bool_)


def _of_numbers(values: npt.NDArray[Any], kind: Any) -> Column:
    own = _arrow.from_numpy_dtype(values.dtype)
    content = np.packbits(values, bitorder="little") if values.dtype.kind == "b" else np.ascontiguousarray(values)
    made = _arrow.Array.from_buffers(own, len(values), [None, _arrow.py_buffer(content)])
    return made if kind is None or kind == own else made.cast(kind)


def _of_texts(values: Iterable[Any], kind: Any) -> Column:
    builder = _arrow.lib.StringBuilder()
    builder.append_values(values)
    return builder.finish().view(kind)


def _of_nested(values: list[Any], kind: Any) -> Column | None:
    """A column of lists or of structs; None where a value is of another shape, or too large."""
    given = [value for value in values if value is not None]
    kinds: list[Any]
    if pa.types.is_list(kind) and all(isinstance(value, list | tuple) for value in given):
        ends = np.cumsum([0, *(0 if value is None else len(value) for value in values)])
        if ends[-1] > np.iinfo(np.int32).max:
            return None
        content, children = [_arrow.py_buffer(ends.astype(np.int32))], [[each for value in given for each in value]]
        kinds = [kind.value_type]
    elif pa.types.is_struct(kind) and all(isinstance(value, dict) for value in given):
        names = [kind.field(place).name for place in range(kind.num_fields)]
        content = []
        children = [[None if value is None else value.get(name) for value in values] for name in names]
        kinds = [kind.field(place).type for place in range(kind.num_fields)]
    else:
        return None
    made = [array(each, of) for each, of in zip(children, kinds, strict=True)]
    return _arrow.Array.from_buffers(kind, len(values), [_known(values), *content], children=made)


def _known(values: Sequence[Any]) -> Any:
    """The bitmap of values that are not null; None if all are."""
    null = np.fromiter((value is None for value in values), np.bool_, len(values))
    return _arrow.py_buffer(np.packbits(~null, bitorder="little")) if null.any() else None


def _of_integers(values: Sequence[Any], kind: Any) -> Column | None:
    """None where a value needs a closer look: it is no whole number, or too large."""
    width = np.dtype(kind.to_pandas_dtype())
    if not all(value is None or type(value) is int for value in values):
        return None
    try:
        content = np.fromiter((0 if value is None else value for value in values), width, len(values))
    except OverflowError:
        return None
    return _arrow.Array.from_buffers(kind, len(values), [_known(values), _arrow.py_buffer(content)])
