"""Tables of projections: what they hold, their hash, and that a function that fails changes nothing (KH-14)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from splitbrain.cluster.tree.tables import Table

RECORDS = st.lists(st.tuples(st.sampled_from(["a", "b"]), st.sampled_from([1, 1.0, True])), max_size=8)
CHANGES = st.lists(
    st.tuples(st.sampled_from(["insert", "delete_record", "delete"]), st.sampled_from(["a", "b"]), st.integers(1, 2)),
    max_size=6,
)


def changed(table: Table, changes: list[tuple[str, str, int]]) -> None:
    for how, key, value in changes:
        getattr(table, how)(key if how == "delete" else [key, value])


@given(st.sampled_from(["set", "bag"]), RECORDS, CHANGES)
def test_what_is_undone_never_was(
    kind: str, records: list[tuple[str, float]], changes: list[tuple[str, str, int]]
) -> None:
    table = Table("bag" if kind == "bag" else "set")
    for record in records:
        table.insert(record)
    before = table.all(), table.hash
    table.begin()
    changed(table, changes)
    table.end(undo=True)
    assert (table.all(), table.hash) == before


@given(CHANGES)
def test_the_hash_is_that_of_a_table_that_was_filled_with_the_same_records(
    changes: list[tuple[str, str, int]],
) -> None:
    table, again = Table("bag"), Table("bag")
    changed(table, changes)
    for record in table.all():
        again.insert(record)
    assert (again.all(), again.hash) == (table.all(), table.hash)
    for record in again.all():
        again.delete_record(record)
    assert (len(again), again.hash) == (0, 0)


def test_a_set_has_one_record_of_a_key_and_a_bag_those_that_differ_in_type_alone() -> None:
    unique, many = Table("set"), Table("bag")
    for value in (1, 1.0, True, 1):
        unique.insert(["k", value])
        many.insert(["k", value])
    assert unique.lookup("k") == [("k", 1)]
    assert len(many.lookup("k")) == 3
