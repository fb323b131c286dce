"""Summaries of list reads: what they say, and that files without them are still read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from splitbrain.results import arrow, formats, soundness
from splitbrain.results.columns import array
from splitbrain.results.history import Mop, Op
from splitbrain.results.listreads import list_hashes, prefix_hashes, summaries

_MASK = (1 << 64) - 1
_LISTS = st.lists(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=6), max_size=6)


def split_mix(state: int) -> int:
    """SplitMix64, as its paper has it."""
    z = state & _MASK
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & _MASK
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB & _MASK
    return z ^ (z >> 31)


def hash_of(elements: list[int]) -> int:
    return sum(split_mix(each + place * 0x9E3779B97F4A7C15) for place, each in enumerate(elements, 1)) & _MASK


def flat(lists: list[list[int]]) -> tuple[Any, Any]:
    elements = np.array([each for one in lists for each in one], np.int64)
    return elements, np.cumsum([0, *map(len, lists)])


def history() -> list[Op]:
    asked = (Mop("append", "x", 3), Mop("r", "x"), Mop("r", "y"), Mop("r", "z"))
    found = (Mop("append", "x", 3), Mop("r", "x", values=(1, 3)), Mop("r", "y", values=()), Mop("r", "z"))
    return [
        Op(index=0, time=0, process=0, type="invoke", f="txn", mops=asked),
        Op(index=1, time=1, process=-1, type="info", f="heal"),
        Op(index=2, time=2, process=0, type="ok", f="txn", mops=found),
    ]


@given(_LISTS)
def test_hashes_are_those_of_the_definition(lists: list[list[int]]) -> None:
    elements, offsets = flat(lists)
    assert list_hashes(elements, offsets).tolist() == [hash_of(one) for one in lists]
    prefixes = [hash_of(one[: end + 1]) for one in lists for end in range(len(one))]
    assert prefix_hashes(elements, offsets).tolist() == prefixes


def test_hashes_do_not_depend_on_how_many_elements_are_hashed_at_once() -> None:
    lists = [list(range(size)) for size in (70_000, 0, 3, 66_000)]
    elements, offsets = flat(lists)
    assert list_hashes(elements, offsets).tolist() == [hash_of(one) for one in lists]


@pytest.mark.parametrize(
    ("one", "other"),
    [([1, 2], [2, 1]), ([1], [1, 0]), ([0], []), ([1, 2, 3], [1, 3, 2]), ([7, 7], [7]), ([-1, 1], [0, 0])],
)
def test_order_length_and_elements_count(one: list[int], other: list[int]) -> None:
    assert len(set(list_hashes(*flat([one, other])).tolist())) == 2


@given(st.lists(st.none() | st.lists(st.integers(-(2**63), 2**63 - 1), max_size=4), max_size=8), st.data())
def test_a_summary_is_null_where_there_is_no_list(lists: list[list[int] | None], data: st.DataObject) -> None:
    begin = data.draw(st.integers(0, len(lists)))
    column = pa.array(lists, pa.list_(pa.int64())).slice(begin)
    length, hashed, last = (each.to_pylist() for each in summaries(column))
    kept = lists[begin:]
    assert length == [None if one is None else len(one) for one in kept]
    assert [None if each is None else each & _MASK for each in hashed] == [
        None if one is None else hash_of(one) for one in kept
    ]
    assert last == [one[-1] if one else None for one in kept]


def test_a_recorded_transaction_has_summaries_of_the_lists_that_it_read() -> None:
    mops: Any = arrow.to_table(history()).column("mops").to_pylist()[2]
    signed = np.array([hash_of([1, 3])], np.uint64).view(np.int64)[0]
    found = [(mop["length"], mop["hash"], mop["last"]) for mop in mops]
    assert found == [(None, None, None), (2, signed, 3), (0, 0, None), (None, None, None)]


def test_readers_of_other_formats_write_the_same_summaries(tmp_path: Path) -> None:
    lines = [
        "{:type :invoke, :process 0, :f :txn, :value [[:append :x 3] [:r :x nil] [:r :y nil] [:r :z nil]]}",
        "{:type :info, :process :nemesis, :f :heal}",
        "{:type :ok, :process 0, :f :txn, :value [[:append :x 3] [:r :x [1 3]] [:r :y []] [:r :z nil]]}",
    ]
    path = tmp_path / "history.edn"
    path.write_text("\n".join(lines) + "\n")
    expected = arrow.to_table(history()).column("mops")
    assert formats.read_table(path).column("mops").to_pylist() == expected.to_pylist()


def as_format_1(ops: list[Op]) -> pa.Table:
    """A history as the version before summaries stored it."""
    table = arrow.to_table(ops)
    plain: list[Any] = [
        None if mops is None else [{name: mop[name] for name in ("f", "key", "value", "values")} for mop in mops]
        for mops in table.column("mops").to_pylist()
    ]
    place = table.schema.get_field_index("mops")
    column = array(plain, arrow.PLAIN_MOPS)
    old = table.set_column(place, pa.field("mops", arrow.PLAIN_MOPS), column)
    return old.replace_schema_metadata({arrow.FORMAT_KEY: b"1"})


def test_a_file_without_summaries_reads_as_the_same_history(tmp_path: Path) -> None:
    path = tmp_path / "history.parquet"
    pq.write_table(as_format_1(history()), path)
    stored = soundness.sound_history(arrow.read_parquet(path), str(path))
    assert arrow.from_table(stored) == history()
    assert stored.column("mops").to_pylist() == arrow.to_table(history()).column("mops").to_pylist()
    assert arrow.history_hash(stored) == arrow.history_hash(arrow.to_table(history()))


def test_a_file_without_summaries_may_be_in_pieces(tmp_path: Path) -> None:
    path = tmp_path / "history.parquet"
    pq.write_table(as_format_1(history()), path, row_group_size=1)
    pieces = [arrow.conform(each) for each in arrow.read_parquet_pieces(path)]
    assert [op for each in pieces for op in arrow.from_table(each)] == history()
    assert arrow.conform(as_format_1(history()).slice(1)).column("mops").to_pylist() == (
        arrow.to_table(history()).column("mops").slice(1).to_pylist()
    )


def test_summaries_are_no_part_of_the_hash_of_a_history() -> None:
    table = arrow.to_table(history())
    place = table.schema.get_field_index("mops")
    mops: Any = table.column("mops").combine_chunks()
    parts = mops.values.flatten()
    wrong: Any = pa.StructArray.from_arrays(
        [*parts[:5], array(np.zeros(len(mops.values), np.int64)), parts[6]], fields=list(arrow.MOPS.value_type)
    )
    other: Any = pa.Array.from_buffers(arrow.MOPS, len(mops), mops.buffers()[:2], children=[wrong])
    changed = table.set_column(place, "mops", other)
    assert arrow.history_hash(changed) == arrow.history_hash(table)
