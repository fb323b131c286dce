"""Columns made and read buffer by buffer are those of PyArrow's own conversions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from splitbrain.results import columns

arrow: Any = pa

VOTERS = pa.list_(pa.string())
MOP = pa.struct([pa.field("f", pa.string()), pa.field("k", pa.int64())])


SEQUENCES: list[tuple[Any, Any]] = [
    ([], pa.string()),
    (["a", None, "é", ""], pa.string()),
    ([b"1", None], pa.string()),
    (["a", None], pa.binary()),
    ([1, None, -(2**63)], pa.int64()),
    ([1, 2], pa.int32()),
    (np.arange(5), None),
    (np.arange(5, dtype=np.int32), pa.int64()),
    (np.arange(20)[::3], None),
    (np.arange(13) % 3 == 0, None),
    (np.zeros(0, np.bool_), None),
    ([], VOTERS),
    ([["n1", "n2"], None, [], ("n3",), [None]], VOTERS),
    ([None, None], VOTERS),
    ([[[1], None], [[]]], pa.list_(pa.list_(pa.int64()))),
    ([{"f": "r", "k": 1}, None, {"f": None, "k": None}, {"f": "w"}], MOP),
    ([[{"f": "r", "k": 1}], None, []], pa.list_(MOP)),
]


@pytest.mark.parametrize(("values", "kind"), SEQUENCES)
def test_an_array_is_what_arrow_makes_of_the_values(values: Any, kind: Any) -> None:
    made, expected = columns.array(values, kind), arrow.array(values, kind)
    assert made.equals(expected)
    assert made.type == expected.type
    made.validate(full=True)


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([1], pa.string()),
        (["x"], pa.int64()),
        ([2**31], pa.int32()),
        ([[1]], VOTERS),
        ([[1]], MOP),
        ([{"f": 1}], MOP),
    ],
)
def test_what_does_not_fit_the_type_is_refused(values: Any, kind: Any) -> None:
    with pytest.raises((TypeError, ValueError, OverflowError, pa.ArrowException)):
        columns.array(values, kind)


@pytest.mark.parametrize("offset", [0, 3, 9])
def test_sliced_and_chunked_columns_are_read_as_arrow_reads_them(offset: int) -> None:
    integers = arrow.array([None if each % 4 == 1 else each for each in range(30)], pa.int32())[offset:]
    truths = arrow.array([None if each % 4 == 1 else each % 3 == 0 for each in range(30)])[offset:]
    assert columns.numbers(integers, null=-7).tolist() == integers.fill_null(-7).to_pylist()
    assert columns.numbers(integers.drop_null()).tolist() == integers.drop_null().to_pylist()
    assert columns.flags(truths).tolist() == truths.fill_null(False).to_pylist()
    assert columns.valid(truths).tolist() == truths.is_valid().to_pylist()
    chunked = pa.chunked_array([integers.drop_null(), integers.drop_null()[2:5]])
    assert columns.numbers(chunked).tolist() == chunked.to_pylist()
    assert columns.numbers(pa.nulls(3, pa.int64()), null=0).tolist() == [0, 0, 0]
    with pytest.raises(ValueError):
        columns.numbers(integers)


@pytest.mark.parametrize("rows", [0, 5, 20_000])
def test_codes_are_by_the_first_of_each_text(rows: int) -> None:
    texts = [(None, "b", "a")[each % 3] for each in range(rows)]
    codes, distinct = columns.codes(arrow.array(texts, pa.string()))
    assert [distinct[code] for code in codes] == texts
    assert distinct == list(dict.fromkeys(texts))


@pytest.mark.parametrize("rows", [0, 7, 30_000])
def test_ranks_are_those_of_sorted_values(rows: int) -> None:
    values = np.random.default_rng(rows).integers(-50, 50, rows)
    distinct, rank = columns.ranked(values)
    expected, inverse = np.unique(values, return_inverse=True)
    assert np.array_equal(distinct, expected)
    assert np.array_equal(rank, inverse.reshape(-1))


def test_a_column_of_one_chunk_is_read_where_it_is() -> None:
    values = np.arange(1000)
    column = pa.chunked_array([columns.array(values)[10:]])
    found = columns.numbers(column)
    assert np.shares_memory(found, values)
    assert found.tolist() == values[10:].tolist()


def test_a_column_in_memory_that_cannot_be_written_is_copied() -> None:
    buffer = pa.py_buffer(np.arange(100).tobytes())
    column = pa.chunked_array([arrow.Array.from_buffers(pa.int64(), 90, [None, buffer], offset=10)])
    found = columns.numbers(column)
    assert found.flags.writeable
    assert found.tolist() == list(range(10, 100))


def test_which_rows_of_lists_in_chunks_are_not_null() -> None:
    lists = arrow.array([[1], None, [], [2, 3], None], pa.list_(pa.int64()))
    for column in (pa.chunked_array([lists[1:], lists[:3]]), pa.chunked_array([lists[2:]]), lists[3:]):
        assert columns.valid(column).tolist() == column.is_valid().to_pylist()
    assert columns.valid(pa.chunked_array([], pa.int64())).tolist() == []
