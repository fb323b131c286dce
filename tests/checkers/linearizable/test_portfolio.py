"""Both arms in turn: whichever answers is right, limits hold for the sum, one that gives up leaves the other going."""

from __future__ import annotations

import random
from typing import Any

import pytest

from splitbrain.checkers import models
from splitbrain.checkers.linearizable import depth_first, portfolio, transitions
from splitbrain.checkers.linearizable import search as search_module
from splitbrain.checkers.linearizable.depth_first import DepthFirst
from splitbrain.checkers.linearizable.encoding import events
from splitbrain.checkers.linearizable.machine import Machine
from splitbrain.checkers.linearizable.ops import Ops, read_ops
from splitbrain.checkers.linearizable.portfolio import search
from splitbrain.checkers.linearizable.search import Limits, Result, Search
from splitbrain.checkers.linearizable.transitions import Stepper
from splitbrain.checkers.models import Model
from splitbrain.results.arrow import to_table
from splitbrain.results.history import Op
from tests.checkers.linearizable.busy_registers import busy_register
from tests.checkers.linearizable.support import INVOCATIONS, Table, random_history

MODELS = sorted(INVOCATIONS)


def prepared(model: Model, history: list[Op], cells: int = 1_000_000) -> tuple[Ops, Stepper]:
    ops = read_ops(to_table(history), model)
    return ops, Stepper(model, ops.transitions, cells=cells)


def alone(model: Model, history: list[Op]) -> Result:
    ops, stepper = prepared(model, history)
    return Search(events(ops, stepper.observer), stepper, Limits()).run()


def sums(clients: int, *, bad: bool = False) -> list[Op]:
    """Amounts that are added at once, no two sets of them with one sum; and a read of all of them, or of more."""
    adds = [Op(process=i, type="invoke", f="add", value=1 << i) for i in range(clients)]
    read = Op(process=clients, type="invoke", f="read")
    total = (1 << clients) - 1 + bad
    return [*adds, *(add.complete("ok", add.value) for add in adds), read, read.complete("ok", total)]


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_arms_that_take_turns_after_every_step_agree_with_the_frontier_alone(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a lazy table that both fill, so that each finds states that it has not met itself."""
    monkeypatch.setattr(portfolio, "SLICE_S", 0.0)
    monkeypatch.setattr(depth_first, "BUDGET", 1)
    monkeypatch.setattr(search_module, "BUDGET", 1)
    monkeypatch.setattr(transitions, "CLOSURE_CELLS", 0)
    rng = random.Random(name)
    winners: set[str] = set()
    for _ in range(100):
        history = random_history(rng, name, ops=8, processes=4, lies=0.1, crashes=0.2)
        expected = alone(models.model(name), history)
        result = search(*prepared(Table(models.model(name)), history), Limits())
        assert (result.answer, result.event) == (expected.answer, expected.event)
        winners.add(result.algorithm)
    assert winners == {"depth-first", "frontier"}


def test_a_legal_history_is_the_depth_first_arms() -> None:
    history = busy_register(1, clients=60, ops=1000, values=3)
    result = search(*prepared(models.model("cas-register"), history), Limits())
    assert (result.answer, result.algorithm) == ("linearizable", "depth-first")


def test_a_crowded_violation_is_the_frontiers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there is no explanation, the arm that keeps few configurations is ahead by far if slices are alike."""
    history = busy_register(1, clients=18, ops=4000, values=5, bad=True)
    monkeypatch.setattr(portfolio, "SLICE_S", 0.001)
    monkeypatch.setattr(depth_first, "BUDGET", 100)
    result = search(*prepared(models.model("cas-register"), history), Limits())
    assert (result.answer, result.algorithm) == ("violation", "frontier")
    assert len(result.reachable) > 0


def test_when_the_frontier_is_out_of_memory_the_other_arm_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Turns are so short that the frontier gives up first; from then on the other arm has all the memory."""
    allowed: list[int] = []
    limit = DepthFirst.limit_memory

    def recorded(self: DepthFirst, memory_bytes: int) -> None:
        allowed.append(memory_bytes)
        limit(self, memory_bytes)

    monkeypatch.setattr(DepthFirst, "limit_memory", recorded)
    monkeypatch.setattr(portfolio, "SLICE_S", 0.0)
    monkeypatch.setattr(depth_first, "BUDGET", 1)
    ops, stepper = prepared(models.model("counter"), sums(40))
    limits = Limits(memory_bytes=1_000_000)
    assert Search(events(ops, stepper.observer), stepper, limits).run().answer == "memory"
    result = search(ops, stepper, limits)
    assert (result.answer, result.algorithm) == ("linearizable", "depth-first")
    assert allowed == [limits.memory_bytes // 4, limits.memory_bytes]


def test_when_the_depth_first_arm_is_out_of_memory_the_frontier_answers() -> None:
    history = busy_register(1, clients=3, ops=3000, values=5)
    result = search(*prepared(models.model("cas-register"), history), Limits(memory_bytes=200_000))
    assert (result.answer, result.algorithm) == ("linearizable", "frontier")


@pytest.mark.slow
def test_time_runs_out_for_both_together_and_the_farther_one_tells_how_far() -> None:
    history = sums(40, bad=True)
    result = search(*prepared(models.model("counter"), history), Limits(time_s=0.3))
    assert result.answer == "time"
    assert result.algorithm == "depth-first"
    assert result.event == len(history) - 1


def test_memory_is_what_ran_out_if_neither_arm_has_enough() -> None:
    history = busy_register(1, clients=40, ops=1000, values=5)
    result = search(*prepared(models.model("cas-register"), history), Limits(memory_bytes=50_000))
    assert result.answer == "memory"


def test_a_full_table_of_steps_ends_both_arms(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transitions, "CLOSURE_CELLS", 0)
    history: list[Op] = []
    for _ in range(3000):
        add = Op(process=0, type="invoke", f="add", value=1)
        history += [add, add.complete("ok", 1)]
    result = search(*prepared(Table(models.model("counter")), history, cells=100), Limits())
    assert result.answer == "cells"
    assert 0 < result.event < len(history)


def test_the_frontier_is_not_built_where_the_first_turn_suffices(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object) -> Search:
        raise AssertionError("the second arm was built")

    monkeypatch.setattr(portfolio, "Search", refuse)
    history = busy_register(1, clients=5, ops=200, values=5)
    result = search(*prepared(models.model("cas-register"), history), Limits())
    assert result.answer == "linearizable"


def test_what_another_search_explained_shortens_the_way_to_the_same_failing_prefix() -> None:
    shorter = 0
    for seed in range(6):
        history = busy_register(seed, clients=6, ops=400, values=3, crashes=0.08, bad=True)
        ops, stepper = prepared(models.model("cas-register"), history)
        problem = events(ops, stepper.observer)
        expected = Search(problem, stepper, Limits()).run()
        for explained in (1, expected.event - 1, expected.event):
            result = Search(problem, stepper, Limits(), explained=explained).run()
            assert (result.answer, result.event, result.exact) == ("violation", expected.event, True)
            if result.covering and expected.complete:
                assert {*expected.reachable[:, 0]} <= {*result.reachable[:, 0]}
        shorter += result.expanded < expected.expanded
    assert shorter


def test_the_frontier_begins_with_what_the_first_arm_explained() -> None:
    history = busy_register(1, clients=10, ops=3_000, values=5, crashes=0.05, bad=True)
    ops, stepper = prepared(models.model("cas-register"), history)
    result = search(ops, stepper, Limits())
    alone_ = Search(events(ops, stepper.observer), stepper, Limits()).run()
    assert (result.answer, result.event, result.exact) == ("violation", alone_.event, True)
    assert result.covering
    assert result.expanded < alone_.expanded


@pytest.mark.parametrize(
    ("first", "second", "ratio"),
    [(1, 0, 1 / portfolio.BEHIND), (5, 2, 1 / portfolio.BEHIND), (0, 0, 1.0), (2, 5, portfolio.BEHIND)],
)
def test_the_arm_that_would_need_longer_for_the_rest_has_little_time(
    first: int, second: int, ratio: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: dict[str, list[float]] = {}
    clock = iter(range(1_000_000))
    for kind, progress in ((DepthFirst, first), (Search, second)):
        seconds = given[kind.__name__] = []

        def advance(_: Any, share_s: float, seconds: list[float] = seconds) -> None:
            seconds.append(share_s)

        def furthest(_: Any, progress: int = progress, seconds: list[float] = seconds) -> int:
            return progress * len(seconds)

        monkeypatch.setattr(kind, "advance", advance)
        monkeypatch.setattr(kind, "furthest", property(furthest))
        monkeypatch.setattr(kind, "events", 10**6)
    limits = Limits(time_s=1000.0, clock=lambda: next(clock) / 10)
    search(*prepared(models.model("counter"), sums(4)), limits)
    ratios = [two / one for one, two in zip(given["DepthFirst"], given["Search"], strict=False)]
    assert ratios[0] == 1.0
    assert ratios[2:8] == pytest.approx([ratio] * 6)


@pytest.mark.slow
def test_without_crashed_ops_the_frontier_never_begins_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search_module, "WIDE_SHARE", 0)
    began: list[int] = []
    for crashes in (0.0, 0.05):
        history = busy_register(1, clients=10, ops=3_000, values=5, crashes=crashes)
        ops, stepper = prepared(models.model("cas-register"), history)
        machines: list[Machine] = []

        def begin(*given: Any, machines: list[Machine] = machines, **more: Any) -> Machine:
            machines.append(Machine(*given, **more))
            return machines[-1]

        monkeypatch.setattr(search_module, "Machine", begin)
        assert Search(events(ops, stepper.observer), stepper, Limits(), explained=1).run().answer == "linearizable"
        began.append(len(machines))
    assert began[0] == 1
    assert began[1] > 1
