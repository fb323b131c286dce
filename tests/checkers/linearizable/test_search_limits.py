"""Limits hold for what a model costs: its states are memory, its steps are time, and evidence has one deadline."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest

from splitbrain.checkers import models
from splitbrain.checkers.linearizable import paths, transitions
from splitbrain.checkers.linearizable.checker import check_ops
from splitbrain.checkers.linearizable.depth_first import DepthFirst
from splitbrain.checkers.linearizable.judging import EXPLAIN_S, Judging
from splitbrain.checkers.linearizable.limits import EXPLAIN_LEAST_S, LOOK_S, Budget, Limits, Pace
from splitbrain.checkers.linearizable.ops import Ops, read_ops
from splitbrain.checkers.linearizable.options import Options
from splitbrain.checkers.linearizable.portfolio import search
from splitbrain.checkers.linearizable.search import Result, Search
from splitbrain.checkers.linearizable.transitions import Stepper
from splitbrain.checkers.models import IMPOSSIBLE, Model
from splitbrain.results.arrow import to_table
from splitbrain.results.errors import UsageError
from splitbrain.results.history import Op
from tests.checkers.linearizable.busy_registers import busy_register
from tests.checkers.linearizable.decided import acknowledged, history_of
from tests.checkers.linearizable.support import Clock, Texts
from tests.checkers.linearizable.support import search as breadth_first

MEGABYTE = 1 << 20


class Ring:
    """Counts around; a sum is as it was, or impossible."""

    name = "ring"
    fs = frozenset({"push", "sum"})

    def init(self) -> int:
        return 0

    def step(self, state: Any, f: str, value: Any, result: Any) -> Any:
        if f == "push":
            return (state + value) % 20
        return state if state == result else IMPOSSIBLE

    def observes(self, f: str, value: Any, result: Any) -> bool:
        return f == "sum"


def appends(clients: int, length: int) -> list[Op]:
    """Strings that are appended at once, and a read of what nobody wrote: all orders are possible before it."""
    rows: list[Any] = [(i, "invoke", "append", f"{i:02}" + length * "x") for i in range(clients)]
    rows += [(i, "ok", "append", None) for i in range(clients)]
    return history_of(*rows, (100, "invoke", "get", None), (100, "ok", "get", "zzz"))


def prepared(model: Model, history: list[Op], memory_bytes: int) -> tuple[Ops, Stepper]:
    ops = read_ops(to_table(history), model)
    return ops, Stepper(model, ops.transitions, cells=1_000_000, memory_bytes=memory_bytes)


def characters(stepper: Stepper) -> int:
    return sum(len(state) for state in stepper.states.known if isinstance(state, str))


def test_large_states_count_as_memory_of_the_frontier() -> None:
    result, _, _, stepper = breadth_first(Texts(), appends(18, 2000), Limits(memory_bytes=20 * MEGABYTE))
    assert result.answer == "memory"
    assert 10 * MEGABYTE < characters(stepper) < 20 * MEGABYTE


def test_large_states_count_as_memory_of_the_depth_first_arm() -> None:
    ops, stepper = prepared(Texts(), appends(18, 2000), 20 * MEGABYTE)
    result = DepthFirst(ops, stepper, Limits(memory_bytes=5 * MEGABYTE)).run()
    assert result.answer == "memory"
    assert 10 * MEGABYTE < characters(stepper) < 20 * MEGABYTE + 40 * 2000 * 18


def test_large_states_count_as_memory_of_both_arms_together() -> None:
    ops, stepper = prepared(Texts(), appends(18, 2000), 20 * MEGABYTE)
    result = search(ops, stepper, Limits(memory_bytes=20 * MEGABYTE))
    assert result.answer == "memory"
    assert characters(stepper) < 20 * MEGABYTE + 40 * 2000 * 18


def test_the_checker_gives_its_memory_limit_to_the_states() -> None:
    """Two pieces are alike, so that no decider refutes the read that misses the others."""
    alike = [*acknowledged(100, "append", "z"), *acknowledged(100, "append", "z")]
    history = [*history_of(*alike), *appends(18, 2000)[:-1], Op(process=100, type="ok", f="get", value="zz")]
    verdict = check_ops(
        [msgspec.structs.replace(op, index=i) for i, op in enumerate(history)], Texts(), memory_limit_mb=10
    )
    assert verdict.valid == "unknown"
    assert verdict.evidence["ran_out"] == "memory"


@pytest.mark.parametrize(
    ("state", "least"),
    [("x" * 5000, 5000), (tuple("x" * 500 + str(i) for i in range(1000)), 500_000), (frozenset[int](), 1)],
)
def test_a_state_is_as_large_as_its_elements(state: Any, least: int) -> None:
    states = transitions.States(Ring())
    states.number(state)
    assert least < states.bytes < 3 * least + 1000
    states.number(state)
    assert states.bytes < 3 * least + 1000


def test_no_cell_is_asked_for_that_no_configuration_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Values that were appended at once: states are their orders, and no value is appended twice."""
    monkeypatch.setattr(transitions, "CLOSURE_CELLS", 0)
    history = appends(6, 2)
    result, _, _, stepper = breadth_first(Texts(), history)
    orders = sum(len([*itertools.permutations(range(6), length)]) for length in range(7))
    assert result.answer == "violation"
    assert len(stepper.states.known) == orders


def test_a_model_that_takes_too_long_to_be_closed_is_asked_lazily() -> None:
    history = history_of(*[row for i in range(1, 8) for row in acknowledged(0, "push", i)])
    ops = read_ops(to_table(history), Ring())
    assert Stepper(Ring(), ops.transitions, cells=1000, closure_s=5).mode == "closed table"
    clock = Clock(1.0)
    slow = Stepper(Ring(), ops.transitions, cells=1000, closure_s=5, clock=clock.cpu_s)
    assert slow.mode == "lazy table"
    assert clock.now < 10
    assert Stepper(Ring(), ops.transitions, cells=1000, clock=clock.cpu_s).mode == "closed table"
    judging = Judging(to_table(history), Ring(), Options("ring"), Clock(1.0).cpu_s)
    judging.start()
    assert judging.advance(1000.0)
    assert judging.verdict().figures["transitions"] == "lazy table"


def test_final_paths_have_one_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every search ends without an answer when its time is over, and a clock counts what they were given."""
    given: list[float] = []
    clock = Clock(0.0)

    def gives_up(*args: Any) -> None:
        limits, deadline = args[-2:]
        given.append(deadline - clock.now)
        assert limits.time_s == 8.0
        clock.now += 3.0

    monkeypatch.setattr(paths, "_configurations_before", gives_up)
    result, problem, ops, stepper = breadth_first(Texts(), appends(4, 2))
    failing = int(problem.op[result.event])
    assert paths.find(ops, stepper, failing, Limits(time_s=8.0, clock=lambda: clock.now)) is None
    assert given == [8.0, 5.0, 2.0]


def test_the_replay_of_final_paths_ends_at_the_deadline() -> None:
    result, problem, ops, stepper = breadth_first(Texts(), appends(5, 2))
    failing = int(problem.op[result.event])
    assert paths.find(ops, stepper, failing, Limits(time_s=1000.0)) is not None
    clock = Clock(1.0)
    assert paths.find(ops, stepper, failing, Limits(time_s=50.0, clock=clock.cpu_s)) is None
    assert clock.now < 60


@pytest.mark.parametrize("limit", ["time_limit_s", "witness_time_s"])
@pytest.mark.parametrize("seconds", [np.nan, np.inf])
def test_limits_are_finite(limit: str, seconds: float) -> None:
    with pytest.raises(UsageError, match="must be a number of seconds"):
        check_ops(history_of(*acknowledged(0, "write", 1)), "register", **{limit: seconds})


# --- one clock for a key ----------------------------------------------------------------------------------------------


def spent_on(history: list[Op], model: str, tick: float, **options: Any) -> tuple[float, Judging]:
    """Judge and explain a history with a clock that passes with each look; what it said at the end."""
    clock = Clock(tick)
    judging = Judging(to_table(history), models.model(model), Options(model, **options), clock.cpu_s)
    judging.start()
    while judging.valid is None:
        judging.advance(1.0)
    judging.verdict()
    return clock.now, judging


@pytest.mark.parametrize("limit_s", [2.0, 10.0, 40.0])
@pytest.mark.parametrize("bad", [False, True])
def test_the_limit_holds_for_search_and_explanation_together(limit_s: float, bad: bool) -> None:
    """A look takes so long that the limit is near at all times; what is between looks may still end."""
    history = busy_register(1, clients=8, ops=300, values=3, crashes=0.05, bad=bad)
    tick = limit_s / 400
    spent, judging = spent_on(history, "cas-register", tick, time_limit_s=limit_s, witness_time_s=1000.0)
    assert spent <= limit_s + 40 * tick
    assert judging.valid in ({"false", "unknown"} if bad else {"true", "unknown"})


def test_a_violation_is_not_explained_for_longer_than_it_took_to_find() -> None:
    clock = Clock(0.0)
    for took, expected in ((0.1, EXPLAIN_LEAST_S), (1.0, 1.0), (30.0, EXPLAIN_S)):
        judging = Judging(to_table(appends(4, 2)), Texts(), Options("texts"), clock.cpu_s)
        with judging.budget:
            clock.now += took
        assert judging.explain_s() == pytest.approx(expected)
    asked = Options("texts", time_limit_s=20.0, witness_time_s=7.0)
    judging = Judging(to_table(appends(4, 2)), Texts(), asked, clock.cpu_s)
    assert judging.explain_s() == 7.0
    with judging.budget:
        clock.now += 15.0
    assert judging.explain_s() == 5.0


def test_a_budget_counts_only_while_it_is_entered() -> None:
    clock = Clock(0.0)
    budget = Budget(10.0, clock.cpu_s)
    with budget:
        clock.now += 4.0
        assert (budget.spent(), budget.left()) == (4.0, 6.0)
    clock.now += 100.0
    with budget:
        clock.now += 7.0
    assert (budget.spent(), budget.left()) == (11.0, 0.0)


def test_a_part_of_a_budget_is_a_share_of_what_is_left_and_no_more_than_is_asked_for() -> None:
    clock = Clock(0.0)
    with Budget(10.0, clock.cpu_s) as budget:
        clock.now += 2.0
        assert budget.part(0.5).left() == 4.0
        assert budget.part(0.5, 1.0).left() == 1.0
        assert budget.part(0.5, 9.0).left() == 4.0


def test_no_time_goes_into_a_violation_that_is_not_to_be_explained() -> None:
    """It has neither a witness nor final paths, which take a search."""
    judging = Judging(to_table(appends(4, 2)), Texts(), Options("texts"), Clock(0.0).cpu_s)
    judging.start()
    while judging.valid is None:
        judging.advance(1.0)
    plain, explained = (judging.verdict(explained=each).evidence for each in (False, True))
    assert (plain["witness"], plain["final_paths"]) == (None, None)
    assert explained["witness"] is not None
    assert explained["final_paths"] is not None
    assert plain["failing_op"] == explained["failing_op"]


def test_steps_between_two_looks_at_the_clock_become_fewer_where_they_are_slow() -> None:
    pace = Pace(100_000)
    for _ in range(20):
        pace.learn(pace.steps(), 0.0001)
    assert pace.steps() == 100_000
    pace.learn(100_000, 4.0)
    assert pace.steps() * 4.0 / 100_000 <= LOOK_S


def test_a_violation_that_is_known_is_no_unknown_when_time_runs_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The frontier knows that there is one, and not yet where the smallest failing prefix ends."""
    found = breadth_first(Texts(), appends(3, 2))[0]

    def known(_: Search) -> Result:
        return replace(found, exact=False)

    def no_answer(*_: Any) -> None:
        """Neither arm comes to an end."""

    monkeypatch.setattr(Search, "given_up", known)
    monkeypatch.setattr(Search, "advance", no_answer)
    monkeypatch.setattr(DepthFirst, "advance", no_answer)
    ops, stepper = prepared(Texts(), appends(3, 2), MEGABYTE)
    result = search(ops, stepper, Limits(time_s=5.0, clock=Clock(0.5).cpu_s))
    assert (result.answer, result.exact) == ("violation", False)
