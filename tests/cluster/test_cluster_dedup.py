"""Results by ref (KH-9): carried out once, acknowledged, bounded, and dropped when they were not used for long."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from splitbrain.cluster import dedup
from splitbrain.cluster.bugs import M32B, Bugs
from splitbrain.cluster.dedup import KEEP_MS, MAX_CLIENTS, MAX_OPEN, DropRefs, Ref, Table, ref_problem
from splitbrain.cluster.expiry import NOTE_INTERVAL_NS, Expiry
from splitbrain.cluster.tree import Done, Forgotten, Properties, Result, TooManyRefs
from tests.cluster.support import both

SECOND = 1_000_000_000


def result(number: int) -> Result:
    return Done(Properties(msgspec.msgpack.encode(number), 1, 1, 0))


def _ref(client: str, number: int, behind: int) -> Ref:
    return Ref(client, number, max(1, number - behind))


REFS = st.builds(
    _ref,
    st.sampled_from(["a", "b"]),
    st.integers(1, 6),
    st.integers(0, 3),
)


class PlainModel:
    """What is known by client and number, and what each client said that it needs."""

    def __init__(self) -> None:
        self.results: dict[tuple[str, int], Result] = {}
        self.needed: dict[str, int] = {}

    def send(self, ref: Ref, value: Result) -> Result | None:
        """What the copy is answered with; None if it was carried out."""
        known = (ref.client, ref.number)
        if ref.number < self.needed.get(ref.client, 0):
            return Forgotten(ref.number)
        if known in self.results:
            return self.results[known]
        self.results[known] = value
        self.needed[ref.client] = max(self.needed.get(ref.client, 0), ref.needed)
        return None


@given(st.lists(REFS, max_size=40))
def test_kh9_each_ref_is_carried_out_once_and_none_that_is_done_with_is_carried_out(refs: Sequence[Ref]) -> None:
    table, model = Table(), PlainModel()
    for index, ref in enumerate(refs, start=1):
        answer = table.answer(ref)
        assert answer == model.send(ref, result(index))
        if answer is None:
            table.keep(ref, result(index), index)
        again = Table.load(table.dump())
        assert (again.hash, again.dump()) == (table.hash, table.dump())


@given(st.lists(REFS, max_size=12), st.lists(REFS, max_size=12))
def test_kh9_hashes_are_equal_exactly_for_equal_tables(some: Sequence[Ref], others: Sequence[Ref]) -> None:
    tables: list[Table] = []
    for refs in (some, others):
        table = Table()
        for index, ref in enumerate(refs, start=1):
            if table.answer(ref) is None:
                table.keep(ref, result(ref.number), index)
        tables.append(table)
    assert (tables[0].hash == tables[1].hash) == (tables[0].dump() == tables[1].dump())


def test_kh9_what_a_client_needs_no_more_takes_no_room_and_late_copies_of_it_are_refused() -> None:
    table = Table()
    for number in range(1, 5 * MAX_OPEN):
        ref = Ref("a", number, number)
        assert table.answer(ref) is None
        table.keep(ref, result(number), number)
    assert len(table.dump()) < 100
    assert table.answer(Ref("a", 3, 1)) == Forgotten(3)


def test_kh9_a_full_table_refuses_what_is_new_and_still_answers_what_it_knows() -> None:
    table = Table()
    for number in range(1, MAX_OPEN + 1):
        table.keep(Ref("a", number, 1), result(number), number)
    assert isinstance(table.answer(Ref("a", MAX_OPEN + 1, 1)), TooManyRefs)
    assert table.answer(Ref("a", 2, 1)) == result(2)
    assert table.answer(Ref("a", MAX_OPEN + 1, 2)) is None
    for number in range(MAX_CLIENTS):
        table.keep(Ref(f"c{number}", 1, 1), result(number), number)
    assert isinstance(table.answer(Ref("new", 1, 1)), TooManyRefs)
    assert table.answer(Ref("c7", 1, 1)) == result(7)


def test_kh9_results_that_take_too_many_bytes_leave_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dedup, "MAX_BYTES", 40)
    table = Table()
    table.keep(Ref("a", 1, 1), Done(Properties(bytes(60), 1, 1, 0)), 1)
    assert isinstance(table.answer(Ref("b", 1, 1)), TooManyRefs)
    assert isinstance(Table.load(table.dump()).answer(Ref("b", 1, 1)), TooManyRefs)
    ((client, changed, _),) = table.ages()
    table.drop(((client, changed),))
    assert table.answer(Ref("b", 1, 1)) is None


def test_kh9_what_a_client_needs_no_more_makes_room_for_its_next_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is no other way to acknowledge it: refused, the client could only wait until its record is dropped."""
    monkeypatch.setattr(dedup, "MAX_BYTES", 40)
    table = Table()
    table.keep(Ref("a", 1, 1), Done(Properties(bytes(60), 1, 1, 0)), 1)
    assert isinstance(table.answer(Ref("a", 2, 1)), TooManyRefs)
    assert table.answer(Ref("a", 2, 2)) is None
    table.keep(Ref("a", 2, 2), result(2), 2)
    assert table.answer(Ref("b", 1, 1)) is None


def test_kh9_a_record_that_was_used_since_its_drop_was_proposed_stays() -> None:
    table = Table()
    table.keep(Ref("a", 1, 1), result(1), 5)
    table.keep(Ref("a", 2, 1), result(2), 8)
    table.drop((("a", 5), ("unknown", 1)))
    assert table.answer(Ref("a", 1, 1)) == result(1)
    table.drop((("a", 8),))
    assert (len(table), table.hash, table.dump()) == (0, 0, Table().dump())


@pytest.mark.parametrize(
    ("ref", "problem"),
    [
        (Ref("a", 1, 1), None),
        (Ref("", 1, 1), "1 to 64 characters"),
        (Ref("a" * 65, 1, 1), "1 to 64 characters"),
        (Ref("a", 0, 0), "from 1 on"),
        (Ref("a", 1, 2), "no result above"),
        (Ref("a", 1, 1, 0), "1 to 3600000 ms"),
        (Ref("a", 1, 1, 3_600_001), "1 to 3600000 ms"),
    ],
)
def test_refs_that_make_no_sense_are_refused(ref: Ref, problem: str | None) -> None:
    found = ref_problem(ref)
    assert found is None if problem is None else found is not None and problem in found


# --- expiry -----------------------------------------------------------------------------------------------------------


def ticks(expiry: Expiry, ages: list[tuple[str, int, int]], seconds: int, applied: int, begin: int = 0) -> Any:
    """The first command that comes of ticks every 100 ms, and the second in which it came."""
    for tenth in range(10 * seconds):
        now_ns = (begin * 10 + tenth) * SECOND // 10
        command = expiry.due(now_ns, applied, ages)
        if command is not None:
            return command, now_ns // SECOND
    return None


def test_kh9_a_leader_drops_what_it_saw_unused_for_as_long_as_it_is_to_be_kept() -> None:
    expiry = Expiry()
    command, second = ticks(expiry, [("a", 3, 10_000), ("b", 4, 60_000)], 100, applied=7)
    assert command == DropRefs((("a", 3),))
    assert 10 <= second <= 10 + NOTE_INTERVAL_NS // SECOND


def test_kh9_what_is_used_again_is_kept_anew_from_then_on() -> None:
    expiry = Expiry()
    assert ticks(expiry, [("a", 3, 10_000)], 8, applied=7) is None
    assert ticks(expiry, [("a", 9, 10_000)], 9, applied=9, begin=8) is None
    assert ticks(expiry, [("a", 9, 10_000)], 9, applied=9, begin=17) is not None


def test_kh9_a_new_leader_measures_anew_and_one_drop_is_under_way_at_a_time() -> None:
    expiry = Expiry()
    ages = [("a", 3, 10_000)]
    assert ticks(expiry, ages, 9, applied=7) is None
    expiry.reset()
    assert ticks(expiry, ages, 9, applied=7, begin=9) is None
    assert ticks(expiry, ages, 9, applied=7, begin=18) is not None
    assert ticks(expiry, ages, 9, applied=7, begin=27) is None
    expiry.answered()
    assert ticks(expiry, ages, 9, applied=7, begin=36) is not None


@both(M32B)
def test_m32b_drops_refs_at_the_next_tick(bugs: Bugs, broken: bool) -> None:
    assert (Expiry(bugs).due(SECOND, 7, [("a", 3, KEEP_MS)]) is not None) == broken
