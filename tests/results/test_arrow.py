from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings

from splitbrain.results import arrow
from splitbrain.results.errors import HistoryFormatError, StoreVersionError
from splitbrain.results.history import Mop, Op
from splitbrain.results.values import NotFiniteError, canonical_json

from .support import histories, writes


@pytest.mark.slow
@given(histories)
def test_a_history_comes_back_from_a_table_as_it_was(ops: list[Op]) -> None:
    assert arrow.from_table(arrow.to_table(ops)) == ops


@pytest.mark.slow
@settings(max_examples=25)
@given(histories)
def test_a_history_comes_back_from_a_file_as_it_was(tmp_path_factory: pytest.TempPathFactory, ops: list[Op]) -> None:
    path = tmp_path_factory.mktemp("history") / "history.parquet"
    arrow.write_parquet(arrow.to_table(ops), path)
    assert arrow.from_table(arrow.read_parquet(path)) == ops


def test_values_are_canonical_json_and_no_value_is_null() -> None:
    table = arrow.to_table(
        [
            Op(index=0, time=0, process=0, type="invoke", f="f", value={"b": 1, "a": [None, "é"]}),
            Op(index=1, time=0, process=0, type="ok", f="f", value=None),
            Op(index=2, time=0, process=0, type="ok", f="f", value=0),
        ]
    )
    assert table.column("value").to_pylist() == ['{"a":[null,"é"],"b":1}', None, "0"]
    assert canonical_json({"b": 1, "a": [None, "é"]}) == '{"a":[null,"é"],"b":1}'


def test_two_ops_never_share_a_value_that_can_change() -> None:
    twice = [Op(index=i, time=i, process=0, type="ok", f="read", value=[1]) for i in range(2)]
    first, second = arrow.from_table(arrow.to_table(twice))
    first.value.append(2)
    assert second.value == [1]


def test_the_columns_are_those_of_the_format() -> None:
    summary = "length: int32, hash: int64, last: int64"
    mop = f"list<item: struct<f: string, key: string, value: int64, values: list<item: int64>, {summary}>>"
    assert {field.name: str(field.type) for field in list[Any](arrow.HISTORY_SCHEMA)} == {
        "index": "int64",
        "time": "int64",
        "process": "int32",
        "type": "string",
        "f": "string",
        "key": "string",
        "value": "string",
        "mops": mop,
        "node": "string",
        "term": "int64",
        "error": "string",
        "due": "int64",
    }
    assert arrow.TELEMETRY_SCHEMA.names == [
        "time",
        "node",
        "group",
        "life",
        "event",
        "term",
        "role",
        "leader",
        "commit_index",
        "applied_index",
        "voters",
        "chain_hash",
        "state_hash",
        "last_index",
        "projection_hash",
        "projected_hash",
        "applied_count",
        "log_index",
        "log_term",
        "log_hash",
        "raised_by",
        "members",
        "counted_index",
        "counted",
    ]


@pytest.mark.slow
@given(histories)
def test_the_hash_does_not_depend_on_how_columns_are_cut_or_encoded(ops: list[Op]) -> None:
    table = arrow.to_table(ops)
    padded = pa.concat_tables([arrow.to_table(writes(3)), table, arrow.to_table(writes(2))])
    cut = pa.concat_tables([table.slice(0, len(ops) // 2), padded.slice(3 + len(ops) // 2, len(ops) - len(ops) // 2)])
    encoded = table.set_column(3, "type", table.column("type").dictionary_encode())
    wide = table.set_column(4, "f", table.column("f").cast(pa.large_string()))
    assert {arrow.history_hash(each) for each in (cut, encoded, wide)} == {arrow.history_hash(table)}


@pytest.mark.parametrize(
    "change",
    [
        {"time": 1},
        {"process": 1},
        {"type": "ok"},
        {"f": "g"},
        {"key": ""},
        {"key": "k"},
        {"value": 0},
        {"value": ""},
        {"mops": ()},
        {"mops": (Mop("r", "k"),)},
        {"mops": (Mop("r", "k", values=()),)},
        {"node": "n1"},
        {"term": 0},
        {"error": ""},
        {"due": 0},
    ],
)
def test_the_hash_depends_on_every_field(change: dict[str, Any]) -> None:
    op = Op(index=0, time=0, process=0, type="invoke", f="f")
    changed = msgspec.structs.replace(op, **change)
    assert arrow.history_hash(arrow.to_table([op])) != arrow.history_hash(arrow.to_table([changed]))


def test_a_history_from_before_ops_said_when_they_were_due_reads_as_one_without_a_schedule(tmp_path: Path) -> None:
    ops = writes(3)
    old = arrow.to_table(ops).drop_columns(["due"])
    arrow.write_parquet(old, tmp_path / "history.parquet")
    stored = arrow.read_parquet(tmp_path / "history.parquet")
    assert arrow.from_table(stored) == ops
    assert arrow.history_hash(stored) == arrow.history_hash(arrow.to_table(ops))


def test_the_hash_tells_where_one_string_ends_and_the_next_begins() -> None:
    def two(first: str, second: str) -> str:
        return arrow.history_hash(
            arrow.to_table([Op(index=i, time=0, process=0, type="ok", f=f) for i, f in enumerate([first, second])])
        )

    assert two("ab", "c") != two("a", "bc")


def test_the_hash_of_a_history_stays_the_same_across_versions() -> None:
    table = arrow.to_table(
        [
            Op(index=0, time=5, process=0, type="invoke", f="txn", mops=(Mop("r", "x"), Mop("append", "y", 1))),
            Op(
                index=1,
                time=9,
                process=0,
                type="ok",
                f="txn",
                value={"a": 1},
                term=3,
                node="n1",
                mops=(Mop("r", "x", values=(1, 2)), Mop("append", "y", 1)),
            ),
        ]
    )
    assert arrow.history_hash(table) == "8a0b0f66f522b429c7f42f3710488bbb710d4ce8978d275fe6d007066575a377"


@pytest.mark.parametrize(
    ("op", "problem"),
    [
        (Op(index=7, time=0, process=0, type="ok", f="read", value=object()), "op 7: .*cannot carry"),
        (Op(index=7, time=0, process=2**40, type="ok", f="read"), "op 7: .*cannot carry"),
        (Op(index=7, time=0, process=0, type="ok", f="read", term=2**70), "op 7: .*cannot carry"),
    ],
)
def test_an_op_that_cannot_be_stored_is_named(op: Op, problem: str) -> None:
    with pytest.raises(HistoryFormatError, match=problem):
        arrow.to_table([*writes(2), op])


def test_a_table_that_is_no_history_is_refused_with_the_reason() -> None:
    table = arrow.to_table(writes(2))
    with pytest.raises(HistoryFormatError, match="no column 'time'"):
        arrow.from_table(table.drop_columns(["time"]))
    with pytest.raises(HistoryFormatError, match="column 'time' is string"):
        arrow.from_table(table.set_column(1, "time", pa.array(["x", "y"])))
    with pytest.raises(HistoryFormatError, match=r"row 1: the value '\{' is not JSON"):
        arrow.from_table(table.set_column(6, "value", pa.array(["1", "{"])))
    with pytest.raises(HistoryFormatError, match="type is 'maybe'"):
        arrow.from_table(table.set_column(3, "type", pa.array(["invoke", "maybe"])))


def test_columns_that_may_be_null_may_be_missing_and_others_may_be_there() -> None:
    table = arrow.to_table(writes(2))
    other = table.drop_columns(["mops", "term"]).append_column("weight", pa.array([1.0, 2.0]))
    assert arrow.from_table(other) == arrow.from_table(table)


@pytest.mark.slow
def test_a_file_cut_in_half_a_damaged_one_and_a_newer_one_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "history.parquet"
    arrow.write_parquet(arrow.to_table(writes(50)), path)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(HistoryFormatError, match=r"history\.parquet: this is not a whole Parquet file"):
        arrow.read_parquet(path)
    whole, refused = arrow.to_table(writes(5000)), 0
    arrow.write_parquet(whole, path)
    content = bytearray(path.read_bytes())
    for position in range(4, len(content) * 3 // 4, 97):
        damaged = bytearray(content)
        damaged[position] ^= 1
        path.write_bytes(damaged)
        try:  # a bit of a page's head that nobody reads changes nothing
            found = arrow.read_parquet(path)
        except HistoryFormatError:
            refused += 1
        else:
            assert found.equals(whole), position
    assert refused > 50
    newer = arrow.to_table(writes(2)).replace_schema_metadata({arrow.FORMAT_KEY: b"3"})
    pq.write_table(newer, path)
    with pytest.raises(StoreVersionError, match="format 3"):
        arrow.read_parquet(path)


@dataclasses.dataclass
class Held:
    """A value that JSON carries as an object."""

    number: float


def held(number: float) -> list[object]:
    """Values that JSON carries, and that hold a number."""
    return [{number}, frozenset([number]), Held(number), [Held(number)], (number,), {"a": {"b": number}}]


@pytest.mark.parametrize("place", range(6))
@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_a_number_that_is_not_finite_is_refused_whatever_holds_it(place: int, number: float) -> None:
    with pytest.raises(NotFiniteError):
        canonical_json(held(number)[place])
    assert "-0.0" not in canonical_json(held(-0.0)[place])


def test_what_keeps_a_file_from_being_read_is_not_taken_for_damage(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "short").write_bytes(b"PAR1")
    for name, says in (
        ("loop", "cannot be read: Too many levels of symbolic links"),
        ("short", "this is not a whole Parquet file"),
    ):
        with pytest.raises(HistoryFormatError, match=says):
            arrow.read_parquet(tmp_path / name)


def test_numbers_that_rise_are_stored_as_differences_and_read_back_the_same(tmp_path: Path) -> None:
    ops = [
        Op(index=n, time=1_000_000 * n + n % 7, process=n % 5, type="invoke", f="read", key=str(n % 3))
        for n in range(20_000)
    ]
    table = arrow.to_table(ops)
    plain, ours = tmp_path / "plain.parquet", tmp_path / "ours.parquet"
    pq.write_table(table, plain, compression="zstd")
    arrow.write_parquet(table, ours)
    assert arrow.read_parquet(ours).equals(table), "what is read"
    assert arrow.read_parquet(plain).equals(arrow.read_parquet(ours)), "an older file reads as before"
    columns = {
        (column := pq.read_metadata(ours).row_group(0).column(at)).path_in_schema: set(column.encodings)
        for at in range(pq.read_metadata(ours).num_columns)
    }
    for name in ("index", "time", "due"):
        assert "DELTA_BINARY_PACKED" in columns[name], name
        assert "RLE_DICTIONARY" not in columns[name], name
    assert {name for name, kinds in columns.items() if "RLE_DICTIONARY" not in kinds} <= {"index", "time", "due"}
    assert ours.stat().st_size * 3 < plain.stat().st_size
