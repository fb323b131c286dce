"""Registers whose values tell the order: zones against the definition and the frontier."""

from __future__ import annotations

from typing import Any

import pytest

from splitbrain.checkers import models
from splitbrain.checkers.linearizable.deciders.registers import decide_kv, decide_register
from tests.checkers.linearizable.clients import CAS_REGISTER, PUTS, REGISTER, REPEATED_WRITES, Clients
from tests.checkers.linearizable.decided import (
    HISTORIES,
    MANY,
    Row,
    acknowledged,
    assert_as_by_definition,
    assert_as_by_frontier,
    assert_exact,
    culprits,
    decided,
    history_of,
)


def test_register_with_unique_writes_is_decided_as_by_definition() -> None:
    assert_exact(decide_register, REGISTER, HISTORIES)


def test_chains_of_compare_and_set_are_decided_as_by_definition() -> None:
    assert_exact(decide_register, CAS_REGISTER, HISTORIES)


def test_string_store_with_unique_puts_is_decided_as_by_definition() -> None:
    assert_exact(decide_kv, PUTS, HISTORIES // 2)


def test_values_written_again_are_decided_as_by_definition_where_nobody_observed_them() -> None:
    assert_exact(decide_register, REPEATED_WRITES, HISTORIES // 2, declines=True)


@pytest.mark.slow
@pytest.mark.parametrize("clients", [REGISTER, CAS_REGISTER])
def test_registers_are_decided_as_by_definition_in_many_histories(clients: Clients) -> None:
    assert_exact(decide_register, clients, MANY, ops=8)


@pytest.mark.parametrize("clients", [REGISTER, CAS_REGISTER])
def test_registers_are_decided_as_by_the_frontier_in_longer_histories(clients: Clients) -> None:
    assert_as_by_frontier(decide_register, clients, 60, lies=0.005)


def test_a_stale_read_is_told_by_the_reads_around_it() -> None:
    history = history_of(
        (0, "invoke", "write", 1),
        (0, "ok", "write", None),
        (0, "invoke", "write", 2),
        (0, "ok", "write", None),
        (1, "invoke", "read", None),
        (1, "ok", "read", 1),
    )
    decision = decided(decide_register, "register", history)
    assert culprits(decision, "register", history) == ["write 1", "write 2", "read -> 1"]
    assert decision is not None
    assert decision.reason == "2 can only have been the value while 1 must have been, before and after"


def test_a_compare_and_set_that_crashed_counts_where_its_value_was_read() -> None:
    crashed: list[Row] = [(0, "invoke", "cas", [None, 1]), (0, "info", "cas", None)]
    taken: list[Row] = acknowledged(1, "cas", [None, 2])
    read: list[Row] = acknowledged(1, "read", None, 1)
    unread = decided(decide_register, "cas-register", history_of(*crashed, *taken))
    assert unread is not None
    assert unread.valid
    twice = decided(decide_register, "cas-register", history_of(*crashed, *taken, *read))
    assert twice is not None
    assert twice.reason == "two ops replaced the same null, which was written once"
    assert twice.culprits == (1, 2)


def test_a_compare_and_set_that_ended_first_bounds_its_block() -> None:
    """From its end to the last read nothing else can have been the value, though what it expected has no end."""
    history = history_of(
        (0, "invoke", "write", 1),
        *acknowledged(1, "cas", [1, 2]),
        *acknowledged(2, "write", 3),
        *acknowledged(2, "read", None, 2),
    )
    assert assert_as_by_definition(decide_register, models.model("cas-register"), history) is False


def test_a_read_stands_for_the_crashed_compare_and_set_that_it_proves() -> None:
    history = history_of(
        *acknowledged(0, "write", 1),
        (1, "invoke", "read", None),
        *acknowledged(2, "write", 3),
        (3, "invoke", "cas", [1, 2]),
        (1, "ok", "read", 2),
    )
    assert assert_as_by_definition(decide_register, models.model("cas-register"), history) is False
    decision = decided(decide_register, "cas-register", history)
    assert culprits(decision, "cas-register", history) == ["write 1", "read -> 2", "write 3"]


@pytest.mark.parametrize(
    "rows",
    [
        [("write", 1, None), ("write", 1, None), ("read", None, 1)],
        [("write", None, None), ("read", None, None)],
        [("write", 1, None), ("cas", [1, 2], False)],
        [("cas", [None, 1], False)],
    ],
    ids=["read value written twice", "initial value written", "mismatch with a written value", "with the initial one"],
)
def test_what_values_do_not_tell_is_left_to_others(rows: list[tuple[str, Any, Any]]) -> None:
    events: list[Row] = []
    for f, value, result in rows:
        events += acknowledged(0, f, value, result)
    assert decided(decide_register, "cas-register", history_of(*events)) is None


def test_a_mismatch_with_a_value_that_nobody_wrote_says_nothing() -> None:
    history = history_of((0, "invoke", "cas", [7, 1]), (0, "ok", "cas", False))
    decision = decided(decide_register, "cas-register", history)
    assert decision is not None
    assert decision.valid


def test_appends_are_left_to_others() -> None:
    history = history_of((0, "invoke", "append", "a"), (0, "ok", "append", None))
    assert decided(decide_kv, "kv", history) is None


@pytest.mark.parametrize(
    ("f", "value", "result"),
    [("put", 0, None), ("put", [], None), ("get", None, 0), ("get", None, False), ("get", None, [])],
)
def test_what_is_no_string_under_a_key_is_left_to_the_model(f: str, value: Any, result: Any) -> None:
    assert decided(decide_kv, "kv", history_of(*acknowledged(0, f, value, result))) is None


def test_null_that_was_put_is_the_empty_string() -> None:
    """So nobody can tell whether a get of it saw the put, unless something else was there in the beginning."""
    history = history_of(*acknowledged(0, "put", None), *acknowledged(0, "get", None, ""))
    assert decided(decide_kv, "kv", history) is None
    decision = decided(decide_kv, 'kv("a")', history)
    assert decision is not None
    assert decision.valid


def test_a_missing_key_is_the_empty_string() -> None:
    history = history_of((0, "invoke", "get", None), (0, "ok", "get", None))
    decision = decided(decide_kv, "kv", history)
    assert decision is not None
    assert decision.valid
