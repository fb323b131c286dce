"""Reading transactions by the summaries of their lists gives what reading all lists gives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from splitbrain.checkers.transactions import by_summary
from splitbrain.checkers.transactions.columns import Transactions, transactions_of
from splitbrain.results import arrow
from splitbrain.results.columns import array
from splitbrain.results.errors import HistoryFormatError
from splitbrain.results.history import Mop, Op
from splitbrain.results.summarized import summarized

_KEYS = st.sampled_from(["x", "y", "z"])
_LISTS = st.lists(st.integers(1, 4), max_size=5).map(tuple)
_APPENDS = st.builds(Mop, st.just("append"), _KEYS, st.integers(1, 9))
_READS = st.builds(Mop, st.just("r"), _KEYS, st.none(), st.none() | _LISTS)
_MOPS = st.lists(_APPENDS | _READS, max_size=4).map(tuple)
_ENDS = st.sampled_from(["ok", "ok", "info", "fail", "none"])


def history(transactions: list[tuple[tuple[Mop, ...], str]]) -> list[Op]:
    """Two processes at a time: a transaction ends after the next one began."""
    ops: list[Op] = []
    late: list[Op] = []
    for process, (mops, end) in enumerate(transactions):
        asked = tuple(Mop(mop.f, mop.key, mop.value) for mop in mops)
        ops.append(Op(process=process, type="invoke", f="txn", mops=asked))
        ops += late
        ops.append(Op(process=-1, type="info", f="heal"))
        answered = mops if end == "ok" else asked
        late = [] if end == "none" else [Op(process=process, type=end, f="txn", mops=answered)]  # pyright: ignore[reportArgumentType]
    return [
        Op(index=index, time=index, process=op.process, type=op.type, f=op.f, mops=op.mops)
        for index, op in enumerate([*ops, *late])
    ]


def stored(path: Path, ops: list[Op], group_rows: int = 3) -> Path:
    """A file of several row groups."""
    table = arrow.to_table(ops).replace_schema_metadata({arrow.FORMAT_KEY: b"2"})
    pq.write_table(table, path, row_group_size=group_rows)
    return path


def transactions_by_summary(path: Path) -> Transactions | None:
    """The transactions of a file; None if the table has to be read."""
    history = summarized(path)
    return None if history is None else by_summary.transactions_by_summary(history)


def meaning(found: Transactions) -> list[Any]:
    """Everything that transactions say, without how it is stored."""
    ends = found.mop_start[1:].tolist()
    return [
        [
            (found.process[txn], found.invoked[txn], found.completed[txn], found.status[txn]),
            [
                (found.mop_kind[mop], found.key_names[found.mop_key[mop]], found.mop_value[mop], found.read(mop))
                for mop in range(int(found.mop_start[txn]), ends[txn])
            ],
        ]
        for txn in range(len(found))
    ]


@given(st.lists(st.tuples(_MOPS, _ENDS), min_size=1, max_size=8))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_it_reads_what_reading_all_lists_reads(tmp_path: Path, transactions: list[tuple[tuple[Mop, ...], str]]) -> None:
    path = stored(tmp_path / "history.parquet", history(transactions))
    found = transactions_by_summary(path)
    assert found is not None
    assert meaning(found) == meaning(transactions_of(arrow.read_parquet(path)))


def test_a_history_without_transactions_has_none(tmp_path: Path) -> None:
    ops = [Op(index=0, time=0, process=0, type="invoke", f="read")]
    found = transactions_by_summary(stored(tmp_path / "history.parquet", ops))
    assert found is not None
    assert len(found) == found.mop_count == 0


def test_prefixes_share_the_elements_of_the_longest_list_and_others_have_their_own(tmp_path: Path) -> None:
    lists = [(1,), (1, 2, 3), (), (1, 2), (2,), (1, 2, 4)]
    reads = [((Mop("r", "x", values=each),), "ok") for each in lists]
    found = transactions_by_summary(stored(tmp_path / "history.parquet", history(reads)))
    assert found is not None
    longest = found.list_start[1]
    assert (found.list_start == longest).tolist() == [True, True, True, True, False, False]
    assert sorted(found.elements.tolist()) == sorted([1, 2, 3, 2, 1, 2, 4])


def test_only_the_longest_lists_are_decoded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[int] = []
    lists = by_summary._lists  # pyright: ignore[reportPrivateUsage]

    def counted(path: Path, places: Any) -> Any:
        decoded.append(len(places))
        return lists(path, places)

    monkeypatch.setattr(by_summary, "_lists", counted)
    reads = [((Mop("r", key, values=tuple(range(size))),), "ok") for size in range(9) for key in "xy"]
    assert transactions_by_summary(stored(tmp_path / "history.parquet", history(reads))) is not None
    assert decoded == [2]


def test_a_file_without_summaries_or_with_transactions_as_text_is_left_to_the_reader_of_tables(tmp_path: Path) -> None:
    path = tmp_path / "history.parquet"
    table = arrow.to_table(history([((Mop("r", "x", values=(1,)),), "ok")]))
    pq.write_table(table.replace_schema_metadata({arrow.FORMAT_KEY: b"1"}), path)
    assert transactions_by_summary(path) is None
    text = [Op(index=0, time=0, process=0, type="invoke", f="txn", value=[["r", "x", None]])]
    assert transactions_by_summary(stored(path, text)) is None


@pytest.mark.parametrize(
    ("mops", "problem"),
    [((Mop("cas", "x", 1),), "op 2: .*found 'cas'"), ((Mop("append", "x"),), "op 2: a write of nothing")],
)
def test_what_no_checker_can_judge_is_refused_with_its_row(tmp_path: Path, mops: tuple[Mop, ...], problem: str) -> None:
    ops = history([((Mop("r", "x"),), "ok"), (mops, "none"), ((Mop("r", "x"),), "ok")])
    path = stored(tmp_path / "history.parquet", ops)
    with pytest.raises(HistoryFormatError, match=problem):
        transactions_by_summary(path)
    with pytest.raises(HistoryFormatError, match=problem):
        transactions_of(arrow.read_parquet(path))


def test_a_summary_that_disagrees_is_decided_by_the_list(tmp_path: Path) -> None:
    """Wrong summaries cost time, and change nothing, as long as they match no prefix."""
    path = tmp_path / "history.parquet"
    table = arrow.to_table(history([((Mop("r", "x", values=each),), "ok") for each in ((1, 2), (1,))]))
    mops: Any = table.column("mops").combine_chunks()
    parts = mops.values.flatten()
    wrong = np.full(len(mops.values), 7, np.int64)
    kinds = list(arrow.MOPS.value_type)
    struct: Any = pa.StructArray.from_arrays([*parts[:5], array(wrong), parts[6]], fields=kinds)
    column: Any = pa.Array.from_buffers(arrow.MOPS, len(mops), mops.buffers()[:2], children=[struct])
    changed = table.set_column(table.schema.get_field_index("mops"), "mops", column)
    pq.write_table(changed.replace_schema_metadata({arrow.FORMAT_KEY: b"2"}), path)
    found = transactions_by_summary(path)
    assert found is not None
    assert [found.read(mop) for mop in range(2)] == [[1, 2], [1]]
