"""Locks of one replica: exclusion, and no deadlock, whatever is asked for in which order."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from splitbrain.cluster.tables.locks import Granted, LockTable, Mode, Tid
from splitbrain.cluster.tables.records import Item

A, B = Item("t", "a"), Item("t", "b")


def tid(age: int) -> Tid:
    return Tid(age, "n1", 1)


def test_readers_share_a_lock_and_a_writer_excludes_them() -> None:
    locks = LockTable()
    assert locks.request(tid(1), A, "read") == "granted"
    assert locks.request(tid(2), A, "read") == "granted"
    assert locks.request(tid(0), A, "write") == "queued"
    assert locks.release(tid(1)) == []
    assert locks.release(tid(2)) == [Granted(tid(0), A, "write")]


def test_an_older_transaction_waits_for_a_younger_one_and_a_younger_one_is_refused() -> None:
    locks = LockTable()
    locks.request(tid(5), A, "write")
    assert locks.request(tid(6), A, "write") == "refused"
    assert locks.request(tid(4), A, "write") == "queued"
    assert locks.release(tid(5)) == [Granted(tid(4), A, "write")]


def test_a_reader_does_not_overtake_an_older_writer_that_waits() -> None:
    locks = LockTable()
    locks.request(tid(9), A, "read")
    assert locks.request(tid(5), A, "write") == "queued"
    assert locks.request(tid(7), A, "read") == "refused"
    assert locks.request(tid(3), A, "read") == "queued"


def test_of_those_that_wait_the_youngest_is_granted_first_since_the_others_may_wait_for_it() -> None:
    locks = LockTable()
    locks.request(tid(9), A, "write")
    locks.request(tid(2), A, "write")
    assert locks.request(tid(1), A, "write") == "queued"
    assert locks.release(tid(9)) == [Granted(tid(2), A, "write")]
    assert locks.release(tid(2)) == [Granted(tid(1), A, "write")]


def test_a_reader_becomes_a_writer_once_it_is_alone() -> None:
    locks = LockTable()
    locks.request(tid(1), A, "read")
    assert locks.request(tid(1), A, "write") == "granted"
    assert locks.holds(tid(1), A, "write")
    locks.request(tid(2), B, "read")
    locks.request(tid(3), B, "read")
    assert locks.request(tid(3), B, "write") == "refused"
    assert locks.request(tid(2), B, "write") == "queued"
    assert locks.release(tid(3)) == [Granted(tid(2), B, "write")]


def test_a_transaction_that_is_gone_holds_nothing_and_waits_for_nothing() -> None:
    locks = LockTable()
    locks.request(tid(2), A, "write")
    locks.request(tid(1), A, "write")
    locks.release(tid(1))
    assert locks.release(tid(2)) == []
    assert locks.transactions() == []


MODES: list[Mode] = ["read", "write"]
REQUESTS = st.tuples(st.integers(0, 5), st.sampled_from([A, B]), st.sampled_from(MODES))


@settings(max_examples=100, deadline=None)
@given(st.lists(REQUESTS | st.integers(0, 5), max_size=60))
def test_no_writer_shares_and_everything_waits_for_younger_ones_only(
    events: list[tuple[int, Item, Mode] | int],
) -> None:
    locks = LockTable()
    held: dict[tuple[Tid, Item], Mode] = {}
    for event in events:
        if isinstance(event, int):
            held = {key: mode for key, mode in held.items() if key[0] != tid(event)}
            for granted in locks.release(tid(event)):
                held[granted.tid, granted.item] = granted.mode
        else:
            age, item, mode = event
            if locks.request(tid(age), item, mode) == "granted" and held.get((tid(age), item)) != "write":
                held[tid(age), item] = mode
        for item in (A, B):
            holders = [(holder, mode) for (holder, of), mode in held.items() if of == item]
            assert all(locks.holds(holder, item, held[holder, item]) for holder, _ in holders)
            assert len(holders) < 2 or all(mode == "read" for _, mode in holders)
        assert all(waiting < holder for waiting, holder in locks.waits_for())
