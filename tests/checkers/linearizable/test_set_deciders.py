"""Sets by element, and sets that only grow with reads of all elements, against the definition and the frontier."""

from __future__ import annotations

import pytest

from splitbrain.checkers import models
from splitbrain.checkers.linearizable import check_ops
from splitbrain.checkers.linearizable.deciders import sets
from splitbrain.checkers.linearizable.deciders.grow_sets import decide_grow_set, decide_set_without_removes
from splitbrain.checkers.linearizable.deciders.sets import decide_set
from tests.checkers.linearizable.clients import (
    NO_REMOVES,
    ONE_ELEMENT,
    REPEATED_ADDS,
    TWO_ELEMENTS,
    UNIQUE_ADDS,
    Clients,
)
from tests.checkers.linearizable.decided import (
    HISTORIES,
    MANY,
    Row,
    acknowledged,
    assert_as_by_frontier,
    assert_exact,
    culprits,
    decided,
    history_of,
)


@pytest.mark.slow
@pytest.mark.parametrize("clients", [ONE_ELEMENT, TWO_ELEMENTS], ids=["one element", "two elements"])
def test_elements_are_decided_as_by_definition(clients: Clients) -> None:
    assert_exact(decide_set, clients, HISTORIES // 2)


@pytest.mark.slow
@pytest.mark.parametrize("few", [0, 1])
def test_elements_with_crashed_ops_are_decided_as_by_definition_on_their_own(
    few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sets, "FEW_CRASHED", few)
    assert_exact(decide_set, TWO_ELEMENTS, HISTORIES // 2)


@pytest.mark.slow
@pytest.mark.parametrize("clients", [ONE_ELEMENT, TWO_ELEMENTS], ids=["one element", "two elements"])
def test_elements_are_decided_as_by_definition_in_many_histories(clients: Clients) -> None:
    assert_exact(decide_set, clients, MANY, ops=8)


@pytest.mark.parametrize("crashes", [0.0, 0.03, 0.2])
def test_elements_are_decided_as_by_the_frontier_in_longer_histories(crashes: float) -> None:
    assert_as_by_frontier(decide_set, TWO_ELEMENTS, 40, lies=0.01, crashes=crashes, ops=60)


@pytest.mark.parametrize("clients", [UNIQUE_ADDS, REPEATED_ADDS], ids=["unique adds", "repeated adds"])
def test_sets_that_only_grow_are_decided_as_by_definition(clients: Clients) -> None:
    assert_exact(decide_grow_set, clients, HISTORIES)


@pytest.mark.slow
@pytest.mark.parametrize("clients", [UNIQUE_ADDS, REPEATED_ADDS], ids=["unique adds", "repeated adds"])
def test_sets_that_only_grow_are_decided_as_by_definition_in_many_histories(clients: Clients) -> None:
    assert_exact(decide_grow_set, clients, MANY, ops=8)


@pytest.mark.slow
def test_sets_that_only_grow_are_decided_as_by_the_frontier_in_longer_histories() -> None:
    assert_as_by_frontier(decide_grow_set, UNIQUE_ADDS, 60, lies=0.01, ops=60)


def test_sets_of_which_nothing_is_removed_are_decided_as_by_definition() -> None:
    assert_exact(decide_set_without_removes, NO_REMOVES, HISTORIES)


@pytest.mark.parametrize(
    "rows",
    [
        acknowledged(0, "remove", 1),
        [(0, "invoke", "remove", 1)],
        acknowledged(0, "contains", 1, True),
        acknowledged(0, "add", 1, True),
        acknowledged(0, "add", 1, False),
        acknowledged(0, "read", None, "ab"),
    ],
    ids=["remove", "crashed remove", "contains", "an add that changed it", "one that did not", "a read of no list"],
)
def test_sets_that_tell_more_than_their_elements_are_left_to_others(rows: list[Row]) -> None:
    assert decided(decide_set_without_removes, "set", history_of(*acknowledged(0, "add", 1), *rows)) is None


def test_many_crashed_adds_with_reads_of_all_elements_are_decided_without_a_search() -> None:
    crashed: list[Row] = [(process, "invoke", "add", process) for process in range(20)]
    history = history_of(
        *crashed,
        *acknowledged(60, "read", None, [1, 5, 7]),
        *acknowledged(60, "read", None, [1, 5]),
    )
    verdict = check_ops(history, "set", witness_time_s=0)
    assert (verdict.valid, verdict.algorithm) == ("false", "grow-set-stages")


def test_only_ops_of_the_element_that_fails_are_culprits() -> None:
    history = history_of(
        *acknowledged(0, "add", 1),
        *acknowledged(0, "add", 2),
        *acknowledged(0, "contains", 2, True),
        *acknowledged(0, "contains", 1, False),
    )
    decision = decided(decide_set, "set", history)
    assert culprits(decision, "set", history) == ["add 1", "contains 1 -> false"]


def test_reads_of_all_elements_are_left_to_others_unless_nobody_saw_the_answer() -> None:
    assert decided(decide_set, "set", history_of(*acknowledged(0, "read", None, []))) is None
    unseen = decided(decide_set, "set", history_of((0, "invoke", "read", None)))
    assert unseen is not None
    assert unseen.valid


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        (
            [*acknowledged(0, "add", 1), *acknowledged(0, "read", None, [])],
            "1 had been added, and is missing from a read that began later",
        ),
        (
            [*acknowledged(0, "read", None, [1]), *acknowledged(0, "add", 1)],
            "1 was read before any op added it",
        ),
        (acknowledged(0, "read", None, [1]), "1 was read and never added"),
        (
            [(0, "invoke", "add", 1), *acknowledged(1, "read", None, [1]), *acknowledged(1, "read", None, [])],
            "1 was read, and is missing from a read that began later",
        ),
        (
            [
                (0, "invoke", "add", 1),
                (1, "invoke", "add", 2),
                *acknowledged(2, "read", None, [1]),
                *acknowledged(3, "read", None, [2]),
            ],
            "one read saw 1 without 2, another 2 without 1",
        ),
        (
            [
                (2, "invoke", "read", None),
                *acknowledged(0, "add", 1),
                *acknowledged(0, "add", 2),
                (2, "ok", "read", [2]),
            ],
            "2 was read without 1, which had been added before any op added the other",
        ),
        (
            [*acknowledged(0, "add", 1), *acknowledged(0, "add", 2), *acknowledged(0, "read", None, [1, 1])],
            "a read listed an element twice",
        ),
    ],
)
def test_what_is_wrong_with_a_set_that_only_grows_is_said(rows: list[Row], reason: str) -> None:
    decision = decided(decide_grow_set, "grow-set", history_of(*rows))
    assert decision is not None
    assert not decision.valid
    assert decision.reason == reason


def test_a_read_that_lists_an_element_twice_is_no_read_of_as_many_elements() -> None:
    for name in ("grow-set", "set"):
        model = models.model(name)
        assert model.step(frozenset({1, 2}), "read", None, (1, 1)) is models.IMPOSSIBLE
        assert model.step(frozenset({1, 2}), "read", None, (2, 1)) == frozenset({1, 2})
