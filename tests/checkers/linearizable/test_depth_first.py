"""The depth-first arm: against the definition and the frontier, its order replayed on the model, its limits."""

from __future__ import annotations

import random

import msgspec
import numpy as np
import pytest

from splitbrain.checkers import models
from splitbrain.checkers.linearizable import dead_ends, depth_first, transitions
from splitbrain.checkers.linearizable.depth_first import DepthFirst
from splitbrain.checkers.linearizable.encoding import events
from splitbrain.checkers.linearizable.ops import Ops, read_ops
from splitbrain.checkers.linearizable.search import Limits, Result, Search
from splitbrain.checkers.linearizable.transitions import Stepper
from splitbrain.checkers.models import Model
from splitbrain.results.arrow import to_table
from splitbrain.results.history import Op
from tests.checkers.linearizable.busy_registers import busy_register
from tests.checkers.linearizable.orders import assert_linearization
from tests.checkers.linearizable.support import INVOCATIONS, Table, finals, linearizable, random_history

MODELS = sorted(INVOCATIONS)


def started(model: Model, history: list[Op], limits: Limits | None = None) -> tuple[DepthFirst, Ops, Stepper]:
    ops = read_ops(to_table(history), model)
    stepper = Stepper(model, ops.transitions, cells=1_000_000)
    return DepthFirst(ops, stepper, limits or Limits()), ops, stepper


def frontier(model: Model, ops: Ops) -> Result:
    stepper = Stepper(model, ops.transitions, cells=1_000_000)
    return Search(events(ops, stepper.observer), stepper, Limits()).run()


def assert_as_by_definition(model: Model, definition: Model, history: list[Op]) -> bool:
    """The verdict is right; there is a linearization, or the smallest failing prefix and the states before its end."""
    arm, ops, stepper = started(model, history)
    result = arm.run()
    legal = linearizable(definition, history)
    assert result.algorithm == "depth-first"
    assert result.answer == ("linearizable" if legal else "violation")
    if legal:
        assert_linearization(ops, definition, arm.order())
        return True
    problem = events(ops, stepper.observer)
    end = ops.cell("index", int(ops.completed[int(problem.op[result.event])]))
    assert linearizable(definition, history, end - 1)
    assert not linearizable(definition, history, end)
    found = {int(number) for number in result.reachable[:, 0]}
    assert found == {stepper.states.number(state) for state in finals(definition, history, end - 1)}
    return False


def judged(name: str, seed: str, count: int, *, tabulated: bool = False) -> int:
    """Compare on random histories, a third of them with crashed ops; how many were legal."""
    rng = random.Random(f"{name} {seed}")
    legal = 0
    for i in range(count):
        crashes = (0.0, 0.2, 0.6)[i % 3]
        history = random_history(
            rng, name, ops=rng.randint(2, 8), processes=rng.randint(1, 5), lies=0.15, crashes=crashes
        )
        model = Table(models.model(name)) if tabulated else models.model(name)
        legal += assert_as_by_definition(model, models.model(name), history)
    return legal


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", MODELS)
def test_verdict_prefix_states_and_order_are_those_of_the_definition(name: str) -> None:
    legal = judged(name, "definition", 120)
    assert 6 < legal < 114, "too few of one verdict to prove anything"


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", MODELS)
def test_stopping_and_growing_at_every_opportunity_changes_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(depth_first, "BUDGET", 1)
    monkeypatch.setattr(depth_first, "ROWS", 1)
    monkeypatch.setattr(transitions, "CLOSURE_CELLS", 0)
    judged(name, "stopping", 40, tabulated=True)


@pytest.mark.parametrize("crashes", [0.0, 0.05])
def test_position_of_a_violation_is_the_frontiers_on_longer_histories(crashes: float) -> None:
    model = models.model("cas-register")
    for seed in range(20):
        history = busy_register(seed, clients=6, ops=120, values=3, crashes=crashes, bad=True)
        arm, ops, _ = started(model, history)
        found, expected = arm.run(), frontier(model, ops)
        assert found.answer == expected.answer == "violation"
        assert found.event == expected.event
        assert set(found.reachable[:, 0].tolist()) == set(expected.reachable[:, 0].tolist())


@pytest.mark.slow
def test_forgetting_dead_ends_changes_no_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(depth_first, "ROWS", 2)
    rng = random.Random("forgetting")
    model = models.model("cas-register")
    forgot = 0
    verdicts: list[bool] = []
    for _ in range(300):
        history = random_history(rng, "cas-register", ops=9, processes=4, lies=0.1, crashes=0.3)
        arm, ops, _ = started(model, history)
        arm.limit_memory(arm.memory_bytes)
        result, expected = arm.run(), frontier(model, ops)
        assert (result.answer, result.event) == (expected.answer, expected.event)
        verdicts.append(result.answer == "linearizable")
        if result.answer == "linearizable":
            assert_linearization(ops, model, arm.order())
        elif arm.forgotten:
            assert len(result.reachable) == 0, "states of configurations that were forgotten are not known"
            forgot += 1
    assert 20 < sum(verdicts) < 280
    assert forgot > 20


def numbered(history: list[Op]) -> list[Op]:
    return [msgspec.structs.replace(op, index=index) for index, op in enumerate(history)]


@pytest.mark.slow
def test_ops_under_way_in_different_words_are_told_apart() -> None:
    """Each invocation is followed by 63 failed cas of a value that is never there: they occupy slots, and return last.

    Beside them an op under way stands in a word of its own.
    """
    rng = random.Random("live words")
    model = models.model("cas-register")
    verdicts: list[bool] = []
    for _ in range(200):
        history = random_history(rng, "cas-register", ops=7, processes=4, lies=0.1, crashes=0.1)
        wide: list[Op] = []
        crowd: list[Op] = []
        for op in history:
            wide.append(op)
            if op.type == "invoke":
                more = [Op(process=1000 + len(crowd) + i, type="invoke", f="cas", value=[99, 0]) for i in range(63)]
                wide += more
                crowd += more
        arm, _, _ = started(model, numbered(wide + [op.complete("ok", value=False) for op in crowd]))
        verdicts.append(linearizable(model, history))
        result = arm.run()
        assert result.words > 2
        assert result.answer == ("linearizable" if verdicts[-1] else "violation")
    assert 20 < sum(verdicts) < 180


def test_crashed_ops_in_different_words_are_told_apart() -> None:
    """70 crashed writes, each of a value of its own: it may be seen once, and once only."""
    crashed = [Op(process=100 + i, type="invoke", f="write", value=i) for i in range(70)]
    model = models.model("cas-register")

    def read(value: int) -> list[Op]:
        return [Op(process=0, type="invoke", f="read"), Op(process=0, type="ok", f="read", value=value)]

    once = [op for value in range(70) for op in read(value)]
    arm, ops, _ = started(model, numbered(crashed + once))
    assert arm.run().answer == "linearizable"
    assert_linearization(ops, model, arm.order())
    for again in (0, 5, 64, 68):
        arm, _, _ = started(model, numbered(crashed + once + read(again)))
        result = arm.run()
        assert (result.answer, result.event) == ("violation", len(crashed) + len(once) + 1)


def test_crashed_ops_that_are_alike_are_used_as_often_as_they_were_invoked() -> None:
    model = models.model("counter")
    crashed = [Op(process=100 + i, type="invoke", f="add", value=1) for i in range(3)]
    reads: list[Op] = []
    for value in (1, 2, 3):
        reads += [Op(process=0, type="invoke", f="read"), Op(process=0, type="ok", f="read", value=value)]
    arm, ops, _ = started(model, numbered(crashed + reads))
    assert arm.run().answer == "linearizable"
    assert_linearization(ops, model, arm.order())
    more = [Op(process=0, type="invoke", f="read"), Op(process=0, type="ok", f="read", value=4)]
    arm, _, _ = started(model, numbered(crashed + reads + more))
    assert arm.run().answer == "violation"


def test_a_crashed_op_takes_effect_after_its_invocation_though_one_like_it_came_before() -> None:
    model = models.model("counter")
    crashed = [Op(process=100 + i, type="invoke", f="add", value=1) for i in range(2)]
    one, two = (
        [Op(process=0, type="invoke", f="read"), Op(process=0, type="ok", f="read", value=value)] for value in (1, 2)
    )
    arm, _, _ = started(model, numbered([crashed[0], *one, crashed[1], *two]))
    assert arm.run().answer == "linearizable"
    arm, _, _ = started(model, numbered([crashed[0], *two, crashed[1]]))
    result = arm.run()
    assert (result.answer, result.event) == ("violation", 2)


def test_a_dead_end_says_nothing_of_configurations_with_more_crashed_ops_left() -> None:
    """1 then 2 are written first, and the crashed write explains the read of 1: then nothing explains the last one.

    2 then 1 leads to the same place with the crashed write left.
    """
    model = models.model("register")
    first, second, third = (Op(process=i, type="invoke", f="write", value=i) for i in (1, 2, 3))
    read = [Op(process=0, type="invoke", f="read"), Op(process=0, type="ok", f="read", value=1)]
    crashed = Op(process=9, type="invoke", f="write", value=1)
    history = [first, second, crashed, first.complete("ok", 1), second.complete("ok", 2), *read]
    history += [third, third.complete("ok", 3), *read]
    arm, ops, _ = started(model, numbered(history))
    assert arm.run().answer == "linearizable"
    assert_linearization(ops, model, arm.order())


@pytest.mark.parametrize(("clients", "values"), [(40, 2), (40, 5), (80, 3), (150, 3)])
def test_crowds_of_clients_with_few_values_are_explained_with_little_backtracking(clients: int, values: int) -> None:
    model = models.model("cas-register")
    arm, ops, _ = started(model, busy_register(1, clients=clients, ops=1000, values=values))
    result = arm.run()
    assert result.answer == "linearizable"
    assert result.expanded < 10 * len(ops.invoked)
    assert_linearization(ops, model, arm.order())


@pytest.mark.parametrize("seed", range(5))
def test_many_crashed_ops_leave_a_legal_history_easy(seed: int) -> None:
    model = models.model("cas-register")
    arm, ops, _ = started(model, busy_register(seed, clients=10, ops=5000, values=5, crashes=0.05))
    assert ops.crashed.sum() > 200
    result = arm.run()
    assert result.answer == "linearizable"
    assert result.expanded < 10 * len(ops.invoked)
    assert_linearization(ops, model, arm.order())


@pytest.mark.parametrize("seed", range(3))
def test_crashed_ops_that_leave_what_nothing_asks_for_are_not_tried(seed: int) -> None:
    model = models.model("cas-register")
    arm, ops, _ = started(model, busy_register(seed, clients=10, ops=5000, values=200, crashes=0.05))
    assert len(set(ops.transition[ops.crashed].tolist())) > 100
    result = arm.run()
    assert result.answer == "linearizable"
    assert result.expanded < 2 * len(ops.invoked)
    assert_linearization(ops, model, arm.order())


def crashed_assignments(rng: random.Random, values: int) -> list[Op]:
    """Writes and cas that crashed at once, among reads and cas that answer anything."""
    history: list[Op] = []
    for process in range(rng.randint(2, 5)):
        f = rng.choice(["write", "cas"])
        value = rng.randrange(values) if f == "write" else [rng.randrange(values), rng.randrange(values)]
        history.append(Op(process=100 + process, type="invoke", f=f, value=value))
    for process in range(rng.randint(2, 5)):
        f = rng.choice(["read", "write", "cas"])
        value = [rng.randrange(values), rng.randrange(values)] if f == "cas" else rng.randrange(values)
        call = Op(process=process, type="invoke", f=f, value=None if f == "read" else value)
        at = rng.randint(0, len(history))
        history.insert(at, call)
        answer = False if f == "cas" and rng.random() < 0.6 else value
        history.insert(rng.randint(at + 1, len(history)), call.complete("ok", answer))
    return numbered(history)


@pytest.mark.slow
def test_what_is_asked_for_is_enough_in_chains_of_crashed_ops_and_where_values_are_refused() -> None:
    rng = random.Random("asked for")
    model = models.model("cas-register")
    legal = sum(assert_as_by_definition(model, model, crashed_assignments(rng, rng.randint(2, 5))) for _ in range(400))
    assert 50 < legal < 350


@pytest.mark.parametrize("clients", [5, 10, 20])
def test_values_are_put_into_a_queue_in_the_order_in_which_they_are_taken(clients: int) -> None:
    """All enqueues are under way at once, then they are taken in an order that the calls do not show."""
    values = list(range(clients))
    random.Random(clients).shuffle(values)
    enqueues = [Op(process=i, type="invoke", f="enqueue", value=i) for i in range(clients)]
    history = enqueues + [op.complete("ok", op.value) for op in enqueues]
    for value in values:
        history += [Op(process=0, type="invoke", f="dequeue"), Op(process=0, type="ok", f="dequeue", value=value)]
    model = models.model("fifo-queue")
    arm, ops, _ = started(model, numbered(history))
    result = arm.run()
    assert result.answer == "linearizable"
    assert result.expanded <= 3 * clients
    assert_linearization(ops, model, arm.order())


def test_memory_stays_within_its_limit_when_dead_ends_are_more() -> None:
    model = models.model("cas-register")
    history = busy_register(1, clients=40, ops=300, values=5, bad=True)
    limits = Limits(time_s=0.3, memory_bytes=200_000)
    arm, _, _ = started(model, history, limits)
    result = arm.run()
    assert result.answer == "time"
    assert arm.memory_bytes <= limits.memory_bytes
    assert arm.forgotten > 0
    assert 0 < result.event <= len(history)


def test_a_history_whose_path_does_not_fit_ends_with_memory() -> None:
    history = busy_register(1, clients=5, ops=1000, values=5)
    arm, _, _ = started(models.model("cas-register"), history, Limits(memory_bytes=10_000))
    assert arm.run().answer == "memory"


def test_a_lazy_table_at_its_budget_ends_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transitions, "CLOSURE_CELLS", 0)
    model = Table(models.model("counter"))
    history: list[Op] = []
    for _ in range(3000):
        add = Op(process=0, type="invoke", f="add", value=1)
        history += [add, add.complete("ok", 1)]
    ops = read_ops(to_table(numbered(history)), model)
    arm = DepthFirst(ops, Stepper(model, ops.transitions, cells=100), Limits())
    result = arm.run()
    assert result.answer == "cells"
    assert 0 < result.event < len(history)


def test_going_on_in_slices_gives_the_result_of_one_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(depth_first, "BUDGET", 20)
    model = models.model("cas-register")
    history = busy_register(3, clients=8, ops=300, values=4, crashes=0.02, bad=True)
    whole = started(model, history)[0].run()
    arm, _, _ = started(model, history)
    slices = 1
    while (result := arm.advance(0.0)) is None:
        slices += 1
    assert slices > 10
    assert (result.answer, result.event, result.expanded) == (whole.answer, whole.event, whole.expanded)


def test_rows_that_others_imply_are_dropped_and_their_room_is_used_again() -> None:
    """Of two dead ends that differ in used crashed ops, the one that used fewer stands for both."""
    model = models.model("register")
    history = [Op(process=100 + i, type="invoke", f="write", value=i % 2) for i in range(12)]
    history += [Op(process=0, type="invoke", f="read"), Op(process=0, type="ok", f="read", value=7)]
    arm, _, _ = started(model, numbered(history))
    assert arm.run().answer == "violation"
    assert arm.dead_ends <= 3


def test_a_dead_end_is_found_again_after_the_memory_grew() -> None:
    rng = np.random.default_rng(1)
    rows = rng.integers(0, 1 << 62, (200, 3), dtype=np.uint64)
    dead = dead_ends.empty(2, 3, 1)
    for i, row in enumerate(rows):
        if i == dead.chain.size:
            dead = dead_ends.enlarged(dead, 2 * dead.chain.size)
        dead_ends.remember(dead, row)
    assert all(dead_ends.is_dead(dead, row) for row in rows)
    assert all(dead_ends.is_dead(dead, row | np.array([0, 0, 1 << 63], np.uint64)) for row in rows)
    assert not any(dead_ends.is_dead(dead, row ^ np.array([0, 1, 0], np.uint64)) for row in rows)


def test_pieces_of_text_are_tried_in_the_order_in_which_a_read_shows_them() -> None:
    """Twenty appends at once, and a put that hides some more: 20! orders, of which one is tried."""
    rng = random.Random(1)
    pieces = [f"<{number}>" for number in rng.sample(range(100), 20)]
    hidden = [f"({number})" for number in range(6)]
    called = rng.sample([*pieces[1:], *hidden], 25)
    appends = [Op(process=i, type="invoke", f="append", value=each) for i, each in enumerate(called)]
    put = Op(process=30, type="invoke", f="put", value=pieces[0])
    read = Op(process=31, type="invoke", f="get")
    ended = [each.complete("ok", each.value) for each in [*appends, put]]
    history = [*appends, put, *ended, read, read.complete("ok", "".join(pieces))]
    ops = read_ops(to_table(history), models.model("kv"))
    arm = DepthFirst(ops, Stepper(models.model("kv"), ops.transitions, cells=1_000_000), Limits())
    assert arm.run().answer == "linearizable"
    assert arm.explored < 100


@pytest.mark.parametrize("name", ["cas-register", "kv", "set"])
def test_what_a_search_takes_at_least_is_no_more_than_it_takes(name: str) -> None:
    """One that is refused before it is made would have been refused afterwards."""
    for seed in range(10):
        history = random_history(random.Random(seed), name, ops=20, processes=3, lies=0.1, crashes=0.2)
        arm, ops, _ = started(models.model(name), numbered(history))
        assert 0 < depth_first.least_bytes(ops) <= arm.memory_bytes
        assert depth_first.least_bytes(ops, int(ops.invoked[0])) == depth_first.OP_BYTES * (not ops.crashed[0])
