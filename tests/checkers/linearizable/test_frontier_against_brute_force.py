"""The search against the definition of linearizability, on small random histories of every model."""

from __future__ import annotations

import random

import msgspec
import numpy as np
import pytest

from splitbrain.checkers import models
from splitbrain.checkers.linearizable import machine, transitions
from splitbrain.checkers.linearizable import search as search_module
from splitbrain.checkers.linearizable.evidence import Violation
from splitbrain.checkers.linearizable.search import Limits
from splitbrain.checkers.linearizable.witness import find
from splitbrain.checkers.models import Model
from splitbrain.results.history import Op
from tests.checkers.linearizable.support import (
    INVOCATIONS,
    Table,
    candidates,
    failing_index,
    finals,
    linearizable,
    random_history,
    search,
)

MODELS = sorted(INVOCATIONS)
HISTORIES = 150
UNBOUNDED = {
    *("counter", "kv", "reentrant-mutex", "fenced-mutex", "tree"),
    *("fifo-queue", "unordered-queue", "priority-queue", "stack"),
}
"""Models with no end of states."""


def generated(rng: random.Random, name: str) -> list[Op]:
    ops, processes = rng.randint(2, 7), rng.randint(1, 4)
    lies, crashes = rng.choice([0.0, 0.1, 0.3]), rng.choice([0.0, 0.2, 0.6])
    return random_history(rng, name, ops=ops, processes=processes, lies=lies, crashes=crashes)


def test_every_model_has_invocations_here() -> None:
    assert models.names() == MODELS


def assert_as_by_definition(model: Model, definition: Model, history: list[Op]) -> bool:
    """The verdict is right, the failing prefix is the smallest, and the possible states are all of them."""
    result, problem, ops, stepper = search(model, history)
    legal = linearizable(definition, history)
    assert result.answer == ("linearizable" if legal else "violation")
    if not legal:
        end = failing_index(problem, ops, result)
        assert linearizable(definition, history, end - 1)
        assert not linearizable(definition, history, end)
        found = {int(number) for number in result.reachable[:, 0]}
        possible = {stepper.states.number(state) for state in finals(definition, history, end - 1)}
        assert found == possible if result.complete else found <= possible
    return legal


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", MODELS)
def test_verdict_prefix_and_states_are_those_of_the_definition(name: str) -> None:
    rng = random.Random(name)
    verdicts = [
        assert_as_by_definition(models.model(name), models.model(name), generated(rng, name)) for _ in range(HISTORIES)
    ]
    assert HISTORIES / 20 < sum(verdicts) < len(verdicts) - HISTORIES / 20, "too few of one verdict to prove anything"


def assert_tabulated_alike(name: str, mode: str) -> None:
    rng = random.Random(f"{name} {mode}")
    for _ in range(80):
        history = random_history(rng, name, ops=6, processes=3, lies=0.1, crashes=0.2)
        assert_as_by_definition(Table(models.model(name)), models.model(name), history)
        assert search(Table(models.model(name)), history)[3].mode == mode


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", MODELS)
def test_a_model_that_is_asked_lazily_is_judged_like_the_model_itself(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transitions, "CLOSURE_CELLS", -1)
    assert_tabulated_alike(name, "lazy table")


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", sorted({*MODELS} - UNBOUNDED))
def test_a_model_with_few_states_is_tabulated_and_judged_like_the_model_itself(name: str) -> None:
    assert_tabulated_alike(name, "closed table")


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_stopping_and_growing_at_every_opportunity_changes_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search_module, "BUDGET", 1)
    monkeypatch.setattr(machine, "FRONTIER_ROWS", 1)
    monkeypatch.setattr(machine, "POOL_ROWS", 2)
    monkeypatch.setattr(transitions, "CLOSURE_CELLS", -1)
    rng = random.Random(name)
    for _ in range(80):
        history = random_history(rng, name, ops=7, processes=4, lies=0.05, crashes=0.3)
        assert_as_by_definition(models.model(name), models.model(name), history)


def numbered(history: list[Op]) -> list[Op]:
    return [msgspec.structs.replace(op, index=index) for index, op in enumerate(history)]


def crowded(history: list[Op], *, after: set[int]) -> tuple[list[Op], list[Op]]:
    """The history with 63 more invocations after some of its events, none of which completes before its end.

    They are cas of values that are never there, so that they occupy slots and counters, and change nothing: the ops in
    between share the same bit of different words. Processes of the copies are 1000 and up.
    """
    crowd: list[Op] = []
    wide: list[Op] = []
    for op in history:
        wide.append(op)
        if op.index in after:
            copies = [
                Op(process=1000 + number, type="invoke", f="cas", value=[1000 + number, 0])
                for number in range(len(crowd), len(crowd) + 63)
            ]
            crowd += copies
            wide += copies
    return numbered(wide), crowd


@pytest.mark.slow
def test_ops_under_way_in_different_words_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "FRONTIER_ROWS", 1)
    monkeypatch.setattr(machine, "POOL_ROWS", 2)
    rng = random.Random("live")
    verdicts: list[bool] = []
    for _ in range(300):
        history = random_history(rng, "cas-register", ops=8, processes=5, lies=0.1, crashes=0.1)
        wide, crowd = crowded(history, after={op.index for op in history if op.type == "invoke"})
        answers = [op.complete("ok", value=False) for op in crowd]
        result, problem, _, _ = search(models.model("cas-register"), numbered(wide + answers))
        assert problem.slots > 128
        assert result.words > 2
        verdicts.append(linearizable(models.model("cas-register"), history))
        assert result.answer == ("linearizable" if verdicts[-1] else "violation")
    assert 20 < sum(verdicts) < 280


@pytest.mark.slow
def test_crashed_ops_in_different_words_are_told_apart() -> None:
    rng = random.Random("crashed")
    verdicts: list[bool] = []
    several_words = 0
    while len(verdicts) < 300:
        history = random_history(rng, "cas-register", ops=9, processes=3, lies=0.1, crashes=0.5)
        crashed = {
            pair.invoke.index
            for pair in candidates(history)
            if (pair.completion is None or pair.completion.type == "info") and pair.invoke.f != "read"
        }
        if len(crashed) < 2:
            continue
        result = search(models.model("cas-register"), crowded(history, after=crashed)[0])[0]
        verdicts.append(linearizable(models.model("cas-register"), history))
        assert result.answer == ("linearizable" if verdicts[-1] else "violation")
        several_words += result.reachable.shape[1] > 5
    assert 20 < sum(verdicts) < 280
    assert several_words > 20


@pytest.mark.slow
@pytest.mark.parametrize("name", ["register", "cas-register"])
def test_many_crashed_ops_are_judged_by_the_definition(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search_module, "CAP", 1 << 30)
    rng = random.Random(f"crashes {name}")
    verdicts: list[bool] = []
    for _ in range(300):
        history = random_history(rng, name, ops=10, processes=2, lies=0.15, crashes=0.5)
        verdicts.append(assert_as_by_definition(models.model(name), models.model(name), history))
    assert 20 < sum(verdicts) < 280


def test_used_crashed_ops_give_their_slots_back() -> None:
    """300 crashed writes, each seen to have happened: five words of slots if none came back."""
    history: list[Op] = []
    for i in range(300):
        history += [Op(process=i + 1, type="invoke", f="write", value=i), Op(process=0, type="invoke", f="read")]
        history += [Op(process=0, type="ok", f="read", value=i)]
    result = search(models.model("register"), numbered(history))[0]
    assert result.answer == "linearizable"
    assert result.peak == 1
    late = [Op(process=0, type="invoke", f="read"), Op(process=0, type="ok", f="read", value=298)]
    assert search(models.model("register"), numbered(history + late))[0].answer == "violation"


def test_a_crashed_op_stays_available_to_those_that_have_not_used_it() -> None:
    """The first read of 3 is explained by the crashed add or by the slow one; the read of 4 needs both, in turn."""
    slow = Op(process=2, type="invoke", f="add", value=1)
    history = [
        Op(process=0, type="invoke", f="add", value=1),
        Op(process=1, type="invoke", f="add", value=2),
        Op(process=1, type="ok", f="add", value=2),
        slow,
        Op(process=3, type="invoke", f="read"),
        Op(process=3, type="ok", f="read", value=3),
        Op(process=4, type="invoke", f="add", value=100),
        slow.complete("ok", 1),
        Op(process=3, type="invoke", f="read"),
        Op(process=3, type="ok", f="read", value=3),
        Op(process=3, type="invoke", f="read"),
        Op(process=3, type="ok", f="read", value=4),
    ]
    assert search(models.model("counter"), numbered(history))[0].answer == "linearizable"


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", MODELS)
def test_a_witness_is_impossible_whatever_the_others_did_and_smaller_ones_are_not(name: str) -> None:
    rng = random.Random(name)
    found = 0
    while found < 40:
        history = random_history(rng, name, ops=7, processes=3, lies=0.2, crashes=0.2)
        result, problem, ops, stepper = search(models.model(name), history)
        if result.answer != "violation":
            continue
        found += 1
        failing = Violation(None, ops, problem, stepper, result).failing
        witness = find(ops, stepper, failing, Limits())
        assert witness is not None
        assert witness.minimal
        assert witness.ops[-1] == failing
        indexes = {ops.cell("index", int(ops.invoked[op])) for op in witness.ops}
        end = failing_index(problem, ops, result)
        model = models.model(name)
        assert not linearizable(model, history, end, lambda pair: pair.invoke.index in indexes)  # noqa: B023
        for left_out in sorted(indexes)[:-1] if len(indexes) > 1 else []:
            fewer = indexes - {left_out}
            if int(ops.invoked[failing]) != left_out:
                assert linearizable(model, history, end, lambda pair: pair.invoke.index in fewer)  # noqa: B023


def test_equal_histories_have_equal_results_from_run_to_run() -> None:
    history = random_history(random.Random(7), "cas-register", ops=200, processes=8, lies=0.0, crashes=0.05)
    first, second = (search(models.model("cas-register"), history)[0] for _ in range(2))
    assert (first.answer, first.event, first.peak, first.expanded) == (
        second.answer,
        second.event,
        second.peak,
        second.expanded,
    )
    assert np.array_equal(first.reachable, second.reachable)
