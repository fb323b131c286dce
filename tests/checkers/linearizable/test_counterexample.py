"""What is told of a violation: paths that really are possible orders, and contradictions that really are some."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest

from splitbrain.checkers import models
from splitbrain.checkers.linearizable import evidence, paths, witness
from splitbrain.checkers.linearizable.deciders import Decision
from splitbrain.checkers.linearizable.encoding import events
from splitbrain.checkers.linearizable.ops import OPEN, Ops, show
from splitbrain.checkers.linearizable.paths import Path, Paths
from splitbrain.checkers.linearizable.search import Limits, Result, Search
from splitbrain.checkers.linearizable.transitions import Stepper
from splitbrain.checkers.models import IMPOSSIBLE, Model
from splitbrain.results.history import Op
from tests.checkers.linearizable.support import INVOCATIONS, Table, finals, random_history, search

LIMITS = Limits(time_s=10)


def violations(
    name: str, count: int, *, ops: int, crashes: float, lies: float = 0.2, after: int = 0, processes: int = 4
) -> list[tuple[Any, ...]]:
    """(history, ops, stepper, problem, result) of random histories with a violation after so many events."""
    found: list[tuple[Any, ...]] = []
    rng = random.Random(f"{name} {ops} {crashes}")
    model = models.model(name)
    while len(found) < count:
        history = random_history(rng, name, ops=ops, processes=processes, lies=lies, crashes=crashes)
        result, problem, partition, stepper = search(model, history)
        if result.answer == "violation" and result.event >= after:
            found.append((history, partition, stepper, problem, result))
    return found


def begins(ops: Ops, stepper: Stepper, since: int, path: Path) -> bool:
    """Whether the history before `since` can have led to a path's beginning: its state, and what had taken effect."""
    ended = ~ops.crashed & (ops.completed < since)
    already = np.isin(np.arange(len(ops.crashed)), path.already)
    number = np.flatnonzero((ops.invoked < since) & (ended | already))
    before = replace(
        ops,
        invoked=ops.invoked[number],
        completed=np.where(already, since, ops.completed)[number],
        crashed=np.zeros(len(number), np.bool_),
        transition=ops.transition[number],
    )
    result = Search(events(before, np.zeros_like(stepper.observer)), stepper, LIMITS).run()
    states = [int(number) for number in np.unique(result.frontier[:, 0])]
    return result.answer == "linearizable" and stepper.states.number(path.begins) in states


def replayed(model: Model, ops: Ops, stepper: Stepper, told: Paths, failing: int) -> list[Any]:
    """The states in which the paths end, after a look whether each is what it claims to be."""
    until = int(ops.completed[failing])
    ends: list[Any] = []
    for path in told.paths:
        assert begins(ops, stepper, told.since, path)
        steps = [op for op, _ in path.steps]
        assert len(set(steps) | set(path.already)) == len(steps) + len(path.already)
        state = path.begins
        for position, (op, after) in enumerate(path.steps):
            what = ops.transitions[int(ops.transition[op])]
            state = model.step(state, what.f, what.value, what.result)
            assert state == after
            assert ops.invoked[op] < until
            for later in steps[position + 1 :]:
                assert ops.crashed[later] or ops.completed[later] == OPEN or ops.completed[later] > ops.invoked[op]
        must = np.flatnonzero(~ops.crashed & (ops.completed >= told.since) & (ops.completed < until))
        assert set(must.tolist()) <= {*steps, *path.already}
        last = ops.transitions[int(ops.transition[failing])]
        assert model.step(state, last.f, last.value, last.result) is IMPOSSIBLE
        assert path.ends == state
        ends.append(state)
    return ends


@pytest.mark.sampled(4)
@pytest.mark.parametrize("crashes", [0.0, 0.3])
@pytest.mark.parametrize("name", sorted(INVOCATIONS))
def test_paths_are_possible_orders_and_end_in_every_possible_state(name: str, crashes: float) -> None:
    model = models.model(name)
    for history, ops, stepper, problem, result in violations(name, 12, ops=9, crashes=crashes):
        failing = int(problem.op[result.event])
        told = paths.find(ops, stepper, failing, LIMITS)
        assert told is not None
        assert told.every
        ends = replayed(model, ops, stepper, told, failing)
        assert len(set(ends)) == len(ends) == min(told.states, paths.PATHS)
        before = int(ops.cell("index", int(ops.completed[failing]))) - 1
        possible = {stepper.states.number(state) for state in finals(model, history, before)}
        assert {stepper.states.number(state) for state in ends} <= possible
        if told.states <= paths.PATHS and not crashes:
            assert {stepper.states.number(state) for state in ends} == possible


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "crashes", "processes"),
    [("register", 0.0, 7), ("cas-register", 0.0, 6), ("cas-register", 0.02, 4), ("kv", 0.0, 4), ("counter", 0.02, 4)],
)
def test_paths_of_a_long_history_begin_in_its_middle(name: str, crashes: float, processes: int) -> None:
    model = models.model(name)
    late = 2 * max(paths.WINDOWS)
    long = violations(name, 6, ops=400, crashes=crashes, lies=0.004, after=late, processes=processes)
    for _, ops, stepper, problem, result in long:
        failing = int(problem.op[result.event])
        told = paths.find(ops, stepper, failing, LIMITS)
        assert told is not None
        assert told.since > int(ops.invoked[0])
        ends = replayed(model, ops, stepper, told, failing)
        reachable = {int(number) for number in np.unique(result.reachable[:, 0])}
        ending = {stepper.states.number(state) for state in ends}
        assert ending <= reachable
        if told.every and told.states <= paths.PATHS:
            assert ending == reachable


@pytest.mark.slow
def test_where_not_all_configurations_are_known_paths_go_on_from_one(monkeypatch: pytest.MonkeyPatch) -> None:
    late = 2 * max(paths.WINDOWS)
    long = violations("cas-register", 4, ops=400, crashes=0.02, lies=0.004, after=late, processes=6)
    monkeypatch.setattr(paths, "Search", GivesUp)
    for _, ops, stepper, problem, result in long:
        failing = int(problem.op[result.event])
        told = paths.find(ops, stepper, failing, LIMITS)
        assert told is not None
        assert not told.every
        assert told.since > int(ops.invoked[0])
        reachable = {stepper.states.known[int(number)] for number in np.unique(result.reachable[:, 0])}
        assert set(replayed(models.model("cas-register"), ops, stepper, told, failing)) <= reachable


class GivesUp(Search):
    def run(self) -> Result:
        return replace(super().run(), answer="memory")


def long_history(model_name: str, ops: int, tail: list[tuple[int, str, Any, Any]]) -> list[Op]:
    """A valid beginning by two processes, then `tail`: sequential ops as (process, f, value, result)."""
    rng = random.Random(7)
    history: list[Op] = []
    value: Any = None
    for number in range(ops):
        process = number % 2
        if model_name == "register":
            f = rng.choice(["read", "write"])
            argument = rng.randrange(5) if f == "write" else None
            value = argument if f == "write" else value
            result = value
        else:
            f, argument, result = "add", number, number
        op = Op(process=process, type="invoke", f=f, value=argument)
        history += [op, op.complete("ok", result)]
    for process, f, argument, result in tail:
        op = Op(process=process, type="invoke", f=f, value=argument)
        history += [op, op.complete("ok", result)]
    return [msgspec.structs.replace(op, index=index, time=index) for index, op in enumerate(history)]


REVERSAL = [(0, "write", 7, 7), (1, "read", None, 7), (0, "write", 8, 8), (1, "read", None, 8), (0, "read", None, 7)]


def test_a_write_that_was_overwritten_unseen_before_the_paths_begin_is_in_none_of_them() -> None:
    hidden = Op(process=5, type="invoke", f="write", value=1)
    seen = Op(process=0, type="invoke", f="write", value=2)
    read = Op(process=0, type="invoke", f="read")
    reads = [read, read.complete("ok", 2)] * max(paths.WINDOWS)
    end = [hidden.complete("ok", 1), read, read.complete("ok", 2), read, read.complete("ok", 9)]
    history = [hidden, seen, seen.complete("ok", 2), *reads, *end]
    ops, stepper, failing = found_in(
        [msgspec.structs.replace(op, index=index, time=index) for index, op in enumerate(history)],
        models.model("register"),
    )
    told = paths.find(ops, stepper, failing, LIMITS)
    assert told is not None
    (path,) = told.paths
    assert told.every
    assert path.already == [0]
    assert replayed(models.model("register"), ops, stepper, told, failing) == [2]


def found_in(history: list[Op], model: Model) -> tuple[Ops, Stepper, int]:
    result, problem, ops, stepper = search(model, history)
    assert result.answer == "violation"
    return ops, stepper, int(problem.op[result.event])


def obliged_only(ops: Ops, stepper: Stepper, kept: list[int], until: int) -> str:
    """What the search says of the whole history in which only `kept` are obliged."""
    obliged = np.zeros(len(ops.crashed), np.bool_)
    obliged[kept] = True
    return Search(events(ops, stepper.observer, until_row=until, obliged=obliged), stepper, LIMITS).run().answer


def test_the_witness_of_a_long_history_is_found_near_its_end_and_holds_for_the_whole() -> None:
    ops, stepper, failing = found_in(long_history("register", 300, REVERSAL), models.model("register"))
    small = witness.find(ops, stepper, failing, LIMITS)
    assert small is not None
    assert small.minimal
    assert small.since is not None
    assert small.since > int(ops.invoked[0])
    assert small.states is None
    assert [str(ops.transitions[int(ops.transition[op])]) for op in small.ops] == ["read -> 8", "read -> 7"]
    until = int(ops.completed[failing])
    assert obliged_only(ops, stepper, small.ops, until) == "violation"
    for op in small.ops:
        assert obliged_only(ops, stepper, [other for other in small.ops if other != op], until) == "linearizable"


def test_a_witness_reaches_back_as_far_as_it_must() -> None:
    silent = [(number % 2, "cas", [5, 6], False) for number in range(300)]
    tail = [(0, "write", 4, 4), (1, "write", 99, 99), *silent, (0, "read", None, 4)]
    ops, stepper, failing = found_in(long_history("register", 300, tail), models.model("cas-register"))
    small = witness.find(ops, stepper, failing, LIMITS)
    assert small is not None
    assert small.minimal
    assert [str(ops.transitions[int(ops.transition[op])]) for op in small.ops] == ["write 99", "read -> 4"]


def test_where_states_cannot_be_told_from_steps_the_witness_rests_on_those_that_were_possible() -> None:
    tail = [(0, "add", 1000, 1000), (1, "read", None, list(range(300)))]
    ops, stepper, failing = found_in(long_history("grow-set", 300, tail), Table(models.model("grow-set")))
    small = witness.find(ops, stepper, failing, LIMITS)
    assert small is not None
    assert small.minimal
    assert small.states is not None
    assert len(small.states) == 1
    assert [ops.transitions[int(ops.transition[op])].f for op in small.ops] == ["add", "read"]


def test_the_evidence_tells_paths_step_by_step_with_the_state_after_each() -> None:
    history = long_history("register", 20, REVERSAL)
    result, problem, ops, stepper = search(models.model("register"), history)
    told = evidence.explain(evidence.Violation("k", ops, problem, stepper, result), LIMITS).facts
    (path,) = told["final_paths"]["paths"]
    assert [step["op"] for step in path["steps"][-4:]] == ["write 7", "read -> 7", "write 8", "read -> 8"]
    assert [step["state"] for step in path["steps"][-4:]] == ["7", "7", "8", "8"]
    assert path["then"] == "read -> 7 cannot follow: the state is 8"
    assert told["prefix_is_smallest"] is True
    assert msgspec.json.decode(msgspec.json.encode(told)) == told


def test_a_violation_that_a_decider_proved_is_told_by_its_culprits() -> None:
    model = models.model("register")
    ops, _, failing = found_in(long_history("register", 20, REVERSAL), model)
    culprits = (failing - 1, failing)
    reason = "7 was read after 8 had replaced it"
    told = evidence.explain_decision("k", ops, model, Decision(False, culprits, reason))
    assert told.sentence.startswith('Not linearizable: key "k". process 0 answered read -> 7 at ')
    assert (
        "but 7 was read after 8 had replaced it. These 2 ops contradict each other, also without the other ops: "
        in told.sentence
    )
    assert [op["op"] for op in told.facts["witness"]["ops"]] == ["read -> 8", "read -> 7"]
    assert told.facts["failing_op"]["op"] == "read -> 7"
    assert told.facts["prefix_is_smallest"] is False
    assert told.facts["prefix"]["last_index"] == ops.table.num_rows - 1


def test_values_of_any_shape_are_told_as_text() -> None:
    history = long_history("register", 0, [(0, "write", {"a": [1, None]}, {"a": [1, None]}), (1, "read", None, [2])])
    result, problem, ops, stepper = search(models.model("register"), history)
    told = evidence.explain(evidence.Violation(None, ops, problem, stepper, result), LIMITS).facts
    (path,) = told["final_paths"]["paths"]
    assert path["ends"] == show(models.frozen({"a": [1, None]})) == '{"a":[1,null]}'
