"""Prechecks refute only what is illegal by definition, and find values from nowhere, from the future, and gone ones."""

from __future__ import annotations

import itertools
import random
from typing import Any, Final

import pytest

from splitbrain.checkers import models
from splitbrain.checkers.linearizable.checker import check_ops
from splitbrain.checkers.linearizable.deciders import Decision
from splitbrain.checkers.linearizable.ops import read_ops
from splitbrain.checkers.linearizable.prechecks import refuted
from splitbrain.checkers.models import IMPOSSIBLE, UNKNOWN, Facts
from splitbrain.results.arrow import to_table
from splitbrain.results.errors import UsageError
from splitbrain.results.history import Op
from tests.checkers.linearizable import independent
from tests.checkers.linearizable.decided import history_of
from tests.checkers.linearizable.small_histories import VOCABULARIES, small_history

ORDERS = [
    (0, 0, 1, 1, 2, 2),
    (0, 1, 0, 1, 2, 2),
    (0, 1, 2, 0, 1, 2),
    (1, 1, 0, 2, 2, 0),
    (2, 2, 0, 0, 1, 1),
    (0, 1, 1, 2, 2, 0),
]

INVOKE: Final = "invoke"
OK: Final = "ok"
INFO: Final = "info"


def proof(history: list[Op], model: str) -> Decision | None:
    instance = models.model(model)
    found = refuted(read_ops(to_table(history), instance), instance)
    return None if found is None else found[1]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", sorted(VOCABULARIES))
def test_what_is_refuted_is_illegal_by_definition(name: str) -> None:
    vocabulary = VOCABULARIES[name]
    for seed in range(40):
        history = small_history(random.Random(f"{name} origins {seed}"), vocabulary)
        decision = proof(history, vocabulary.model)
        assert decision is None or not independent.legal(vocabulary.model, history), f"seed {seed}: {decision}"


def test_small_histories_of_a_register_are_refuted_only_if_they_are_illegal() -> None:
    """Three ops in many orders, one of which may crash; reads and failed compare-and-sets among them."""
    calls = [("read", None, 1), ("read", None, None), ("write", 1, 1), ("write", 2, 2), ("cas", [1, 2], False)]
    refutations = 0
    for chosen in itertools.combinations_with_replacement(calls, 3):
        for order in ORDERS:
            for crashed in (None, 1):
                rows: list[Any] = []
                for process in order:
                    f, value, result = chosen[process]
                    begun = any(row[0] == process for row in rows)
                    kind = INVOKE if not begun else INFO if process == crashed else OK
                    rows.append((process, kind, f, result if kind == OK else None if kind == INFO else value))
                history = history_of(*rows)
                decision = proof(history, "cas-register")
                refutations += decision is not None
                assert decision is None or not independent.legal("cas-register", history), rows
    assert refutations > 100


NOWHERE: dict[str, tuple[list[Any], tuple[str, Any, Any]]] = {
    "register": ([("write", 1)], ("read", None, 9)),
    "cas-register": ([("write", 1), ("cas", [1, 2])], ("read", None, 9)),
    "multi-register": ([("write", {"x": 1})], ("read", {"x": None}, {"x": 9})),
    "kv": ([("put", "a")], ("get", None, "z")),
    "create-once": ([("create", 1)], ("read", None, 9)),
    "set": ([("add", 1), ("add", 2)], ("contains", 9, True)),
    "grow-set": ([("add", 1)], ("read", None, [1, 9])),
    "fifo-queue": ([("enqueue", 1)], ("dequeue", None, 9)),
    "unordered-queue": ([("enqueue", 1)], ("dequeue", None, 9)),
    "priority-queue": ([("enqueue", 1)], ("dequeue", None, 9)),
    "stack": ([("push", 1)], ("pop", None, 9)),
}


@pytest.mark.parametrize("model", sorted(NOWHERE))
def test_a_value_that_no_op_can_have_brought_is_refuted_whatever_crashed(model: str) -> None:
    writes, (f, value, result) = NOWHERE[model]
    rows: list[Any] = []
    for process, (write, argument) in enumerate(writes):
        rows += [(process, INVOKE, write, argument), (process, INFO, write, None)]
    rows += [(50, INVOKE, f, value), (50, OK, f, result)]
    decision = proof(history_of(*rows), model)
    assert decision is not None
    assert "no op that may have happened" in decision.reason
    assert decision.culprits == (len(writes),)


def test_a_value_that_was_written_only_after_it_was_read_is_refuted() -> None:
    rows: list[Any] = [(0, INVOKE, "read", None), (0, OK, "read", 3), (1, INVOKE, "write", 3), (1, OK, "write", 3)]
    decision = proof(history_of(*rows), "register")
    assert decision is not None
    assert "only later" in decision.reason
    concurrent: list[Any] = [rows[0], rows[2], rows[1], rows[3]]
    assert proof(history_of(*concurrent), "register") is None


def test_a_value_that_was_certainly_replaced_is_refuted_unless_somebody_may_bring_it_back() -> None:
    rows: list[Any] = [
        *[(0, INVOKE, "write", 1), (0, OK, "write", 1)],
        *[(1, INVOKE, "write", 2), (1, OK, "write", 2)],
        *[(2, INVOKE, "read", None), (2, OK, "read", 1)],
    ]
    decision = proof(history_of(*rows), "cas-register")
    assert decision is not None
    assert decision.culprits == (0, 1, 2)
    assert "gone" in decision.reason
    crashed: list[Any] = [(9, INVOKE, "write", 1), (9, INFO, "write", None)]
    assert proof(history_of(*crashed, *rows), "cas-register") is None
    swapped: list[Any] = [(9, INVOKE, "cas", [2, 1]), (9, INFO, "cas", None)]
    assert proof(history_of(*swapped, *rows), "cas-register") is None
    assert proof(history_of(*rows[:4], *swapped, *rows[4:]), "cas-register") is None
    assert proof(history_of(*rows, *swapped), "cas-register") is not None


def test_a_compare_and_set_that_did_not_match_proves_a_value_gone() -> None:
    rows: list[Any] = [
        *[(0, INVOKE, "write", 1), (0, OK, "write", 1)],
        *[(7, INVOKE, "write", 2)],
        *[(1, INVOKE, "cas", [1, 5]), (1, OK, "cas", False)],
        *[(2, INVOKE, "read", None), (2, OK, "read", 1)],
    ]
    decision = proof(history_of(*rows), "cas-register")
    assert decision is not None
    assert decision.culprits == (0, 2, 3)


class Journal:
    """A user's model: notes by number that are replaced; a look shows one of them."""

    name = "journal"
    fs = frozenset({"note", "look"})
    lies = False

    def init(self) -> Any:
        return ()

    def step(self, state: Any, f: str, value: Any, result: Any) -> Any:
        held = dict(state)
        if f == "note":
            return tuple(sorted({**held, value[0]: value[1]}.items()))
        return state if result is UNKNOWN or held.get(value) == result else IMPOSSIBLE

    def observes(self, f: str, value: Any, result: Any) -> bool:
        return f == "look"

    def facts(self, f: str, value: Any, result: Any) -> Facts:
        if f == "note":
            return Facts() if self.lies else Facts(leaves={value[0]: value[1]})
        return Facts() if result is UNKNOWN else Facts(sees={value: result})

    def at_first(self, place: Any) -> Any:
        return None


def noted(*answers: Any) -> list[Op]:
    rows: list[Any] = [(0, INVOKE, "note", [1, "a"]), (0, OK, "note", None)]
    for answer in answers:
        rows += [(1, INVOKE, "look", 1), (1, OK, "look", answer)]
    return history_of(*rows)


def test_a_users_model_may_tell_facts() -> None:
    assert check_ops(noted("a"), Journal()).valid == "true"
    for answer in ("b", None):
        verdict = check_ops(noted(answer), Journal())
        assert (verdict.valid, verdict.algorithm) == ("false", "value-origins")
        assert verdict.evidence["prefix_is_smallest"]


def test_facts_that_the_steps_contradict_are_the_models_fault() -> None:
    model = Journal()
    model.lies = True
    with pytest.raises(UsageError, match="facts"):
        check_ops(noted("a"), model)


def test_an_op_that_saw_what_it_left_brought_nothing() -> None:
    """An element that was there when it was added, and a compare-and-set that changed nothing."""
    calls: list[tuple[str, str, Any, Any]] = [("set", "add", 1, False), ("cas-register", "cas", [1, 1], [1, 1])]
    for model, f, value, result in calls:
        decision = proof(history_of((0, INVOKE, f, value), (0, OK, f, result)), model)
        assert decision is not None
        assert "no op that may have happened" in decision.reason


def test_a_proof_that_began_before_the_last_write_returned_is_none() -> None:
    rows: list[Any] = [
        *[(0, INVOKE, "write", 1), (1, INVOKE, "write", 2), (0, OK, "write", 1), (1, OK, "write", 2)],
        *[(2, INVOKE, "read", None), (2, OK, "read", 1)],
    ]
    assert proof(history_of(*rows), "register") is None
    assert proof(history_of(*rows[:1], rows[2], rows[1], *rows[3:]), "register") is not None
