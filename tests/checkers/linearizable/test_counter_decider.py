"""Counters: levels against the definition and the frontier, and what bounds can and cannot refute."""

from __future__ import annotations

import random
from typing import Any

import pytest

from splitbrain.checkers import models
from splitbrain.checkers.linearizable.deciders import Decision, decide
from splitbrain.checkers.linearizable.deciders.counters import CULPRITS, decide_by_bounds, decide_by_levels
from splitbrain.checkers.linearizable.ops import read_ops
from splitbrain.results.arrow import to_table
from splitbrain.results.history import Op
from tests.checkers.linearizable.clients import (
    ADDS_OF_ANY,
    ADDS_OF_MINUS_TWO,
    ADDS_OF_MORE,
    ADDS_OF_ONE,
    Clients,
    random_history,
)
from tests.checkers.linearizable.decided import (
    HISTORIES,
    MANY,
    acknowledged,
    assert_as_by_definition,
    assert_as_by_frontier,
    assert_exact,
    culprits,
    decided,
    history_of,
)


@pytest.mark.slow
@pytest.mark.parametrize("clients", [ADDS_OF_ONE, ADDS_OF_MINUS_TWO], ids=["by one", "by minus two"])
def test_adds_of_one_amount_are_decided_as_by_definition(clients: Clients) -> None:
    assert_exact(decide_by_levels, clients, HISTORIES)


@pytest.mark.slow
def test_adds_of_one_amount_are_decided_as_by_definition_in_many_histories() -> None:
    assert_exact(decide_by_levels, ADDS_OF_ONE, MANY, ops=8)


@pytest.mark.slow
def test_adds_of_one_amount_are_decided_as_by_the_frontier_in_longer_histories() -> None:
    assert_as_by_frontier(decide_by_levels, ADDS_OF_ONE, 100, lies=0.01)


@pytest.mark.parametrize("clients", [ADDS_OF_MORE, ADDS_OF_ANY], ids=["growing", "any amount"])
def test_bounds_refute_only_what_the_definition_refutes(clients: Clients) -> None:
    rng = random.Random(1)
    model = models.model(clients.model)
    refuted = 0
    for _ in range(HISTORIES):
        history = random_history(rng, clients, ops=7, processes=3, lies=0.3, crashes=0.1)
        answer = assert_as_by_definition(decide_by_bounds, model, history)
        assert answer is not True, "bounds cannot prove"
        refuted += answer is False
    assert refuted > HISTORIES / 4


@pytest.mark.parametrize(
    "history", [[], history_of((0, "invoke", "add", 1), (0, "fail", "add", 1))], ids=["none", "failed"]
)
def test_a_counter_on_which_no_op_took_effect_is_linearizable(history: list[Op]) -> None:
    assert decided(decide_by_levels, "counter", history) == Decision(True)


def test_two_reads_that_saw_two_concurrent_adds_in_different_orders_are_refuted_within_the_bounds() -> None:
    """Each read is within its bounds; only one of the adds can have come before both reads."""
    history = history_of(
        (0, "invoke", "add", 1),
        (1, "invoke", "add", 1),
        *acknowledged(2, "read", None, 2),
        *acknowledged(2, "read", None, 1),
        (0, "ok", "add", None),
        (1, "ok", "add", None),
    )
    decision = decided(decide_by_levels, "counter", history)
    assert culprits(decision, "counter", history) == ["read -> 2", "read -> 1"]


def test_more_adds_between_two_reads_than_these_are_apart_are_told_with_both_reads() -> None:
    history = history_of(
        *acknowledged(0, "add", 1),
        *acknowledged(0, "read", None, 1),
        *acknowledged(0, "add", 1),
        *acknowledged(0, "add", 1),
        *acknowledged(0, "add", 1),
        *acknowledged(0, "read", None, 2),
    )
    decision = decided(decide_by_levels, "counter", history)
    assert culprits(decision, "counter", history) == ["read -> 1", "add 1", "add 1", "read -> 2"]
    assert decision is not None
    assert decision.reason == "3 adds of 1 happened between read -> 1 and read -> 2, where there is room for 1"


def test_where_very_many_adds_contradict_a_read_only_some_are_listed() -> None:
    adds = [row for _ in range(40) for row in acknowledged(0, "add", 1)]
    decision = decided(decide_by_levels, "counter", history_of(*adds, *acknowledged(0, "read", None, 39)))
    assert decision is not None
    assert len(decision.culprits) == CULPRITS + 1
    assert decision.reason.startswith("40 adds of 1 happened before")


def test_amounts_that_differ_go_to_the_bounds_and_then_to_others() -> None:
    refuted = history_of(*acknowledged(0, "add", 1), *acknowledged(0, "add", 2), *acknowledged(0, "read", None, 2))
    model = models.model("counter")
    found = decide(read_ops(to_table(refuted), model), model)
    assert found is not None
    assert found[0] == "counter-bounds"
    fine = history_of(*acknowledged(0, "add", 1), *acknowledged(0, "add", 2), *acknowledged(0, "read", None, 3))
    assert decide(read_ops(to_table(fine), model), model) is None


@pytest.mark.parametrize(
    ("f", "value", "result"),
    [("add", True, None), ("add", None, None), ("read", None, False), ("read", None, ""), ("read", None, [])],
)
def test_what_is_no_number_is_left_to_the_model(f: str, value: Any, result: Any) -> None:
    history = history_of(*acknowledged(0, "add", 1), *acknowledged(0, f, value, result))
    assert decided(decide_by_levels, "counter", history) is None
    assert decided(decide_by_bounds, "counter", history) is None


@pytest.mark.parametrize("amount", [0.5, 1 << 70], ids=["a fraction", "beyond 64 bits"])
def test_amounts_that_are_no_machine_integers_are_left_to_others(amount: float) -> None:
    history = history_of(*acknowledged(0, "add", amount), *acknowledged(0, "read", None, amount))
    assert decided(decide_by_levels, "counter", history) is None
    assert decided(decide_by_bounds, "counter", history) is None
