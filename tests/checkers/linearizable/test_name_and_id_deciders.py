"""Names that are declared once, and ids that are given once, against the definition."""

from __future__ import annotations

import pytest

from splitbrain.checkers.linearizable.deciders import Decider
from splitbrain.checkers.linearizable.deciders.create_once import decide_create_once
from splitbrain.checkers.linearizable.deciders.unique_ids import decide_unique_ids
from tests.checkers.linearizable.clients import IDS, NAMES, Clients
from tests.checkers.linearizable.decided import HISTORIES, MANY, acknowledged, assert_exact, decided, history_of


@pytest.mark.slow
@pytest.mark.parametrize(("decider", "clients"), [(decide_create_once, NAMES), (decide_unique_ids, IDS)])
def test_names_and_ids_are_decided_as_by_definition(decider: Decider, clients: Clients) -> None:
    assert_exact(decider, clients, HISTORIES)


@pytest.mark.slow
@pytest.mark.parametrize(("decider", "clients"), [(decide_create_once, NAMES), (decide_unique_ids, IDS)])
def test_names_and_ids_are_decided_as_by_definition_in_many_histories(decider: Decider, clients: Clients) -> None:
    assert_exact(decider, clients, MANY, ops=8)


def test_a_crashed_create_is_the_one_that_was_read() -> None:
    history = history_of(
        (0, "invoke", "create", 1),
        (0, "info", "create", None),
        (1, "invoke", "read", None),
        (1, "ok", "read", 1),
        (2, "invoke", "read", None),
        (2, "ok", "read", None),
    )
    decision = decided(decide_create_once, "create-once", history)
    assert decision is not None
    assert decision.culprits == (1, 2)
    assert decision.reason == "read -> 1 had ended before read -> null began"


def test_a_name_that_is_null_is_left_to_others() -> None:
    history = history_of((0, "invoke", "create", None), (0, "ok", "create", None))
    assert decided(decide_create_once, "create-once", history) is None


def test_ids_are_equal_if_they_are_written_alike() -> None:
    """As `splitbrain.results.values` says: 1, 1.0 and true are three ids, and 1 is no second 1.0."""
    for given, culprits in (([1, 1.0, True], ()), ([1, 1.0, True, 1.0], (1, 3)), ([True, 1, True], (0, 2))):
        rows = [row for id_ in given for row in acknowledged(0, "generate", None, id_)]
        decision = decided(decide_unique_ids, "unique-ids", history_of(*rows))
        assert decision is not None
        assert (decision.valid, decision.culprits) == (not culprits, culprits)
