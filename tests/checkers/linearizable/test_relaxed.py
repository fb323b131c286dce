"""Questions about a few ops of a short history are answered as the search on arrays answers them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from splitbrain.checkers import kernels, models
from splitbrain.checkers.linearizable import relaxed, witness
from splitbrain.checkers.linearizable.encoding import events
from splitbrain.checkers.linearizable.limits import Limits
from splitbrain.checkers.linearizable.ops import Ops, read_ops
from splitbrain.checkers.linearizable.relaxed import Relaxed, TooManyStepsError
from splitbrain.checkers.linearizable.search import Search
from splitbrain.checkers.linearizable.transitions import Stepper
from splitbrain.checkers.models import Model
from splitbrain.results.arrow import to_table
from tests.checkers.linearizable.support import INVOCATIONS, Table, random_history

LIMITS = Limits(time_s=60.0)

CONTAINERS = frozenset({"fifo-queue", "unordered-queue", "priority-queue", "stack"})
"""Models with a state for every choice of the optional ops: their histories have to be smaller."""


def searched(ops: Ops, stepper: Stepper, obliged: Sequence[int], starts: Sequence[int], until: int) -> bool:
    must = np.zeros(len(ops.crashed), np.bool_)
    must[list(obliged)] = True
    problem = events(ops, stepper.observer, until_row=until, obliged=must)
    answer = Search(problem, stepper, LIMITS, starts).run().answer
    assert answer in ("linearizable", "violation")
    return answer == "violation"


def question(ops: Ops, stepper: Stepper, starts: Sequence[int], until: int, **limits: float) -> Relaxed:
    return Relaxed(ops, stepper, starts, until, clock=LIMITS.clock, deadline=limits.get("deadline", float("inf")))


def compared(model: Model, name: str, rng: random.Random, histories: int) -> list[bool]:
    """The answers to random questions, each found to be that of the search."""
    answers: list[bool] = []
    for _ in range(histories):
        ops_count = rng.randrange(6, 12 if name in CONTAINERS else 30)
        history = random_history(rng, name, ops=ops_count, processes=4, lies=0.3, crashes=0.15)
        ops = read_ops(to_table(history), model)
        ended = np.flatnonzero(~ops.crashed)
        if len(ended) == 0:
            continue
        stepper = Stepper(model, ops.transitions, cells=LIMITS.cells)
        until = int(rng.choice(ops.completed[ended].tolist()))
        candidates = [int(op) for op in ended if ops.completed[op] <= until]
        starts = rng.sample(range(len(stepper.states.known)), min(len(stepper.states.known), rng.randrange(1, 4)))
        asked = question(ops, stepper, starts, until)
        for _ in range(6):
            obliged = rng.sample(candidates, rng.randrange(1, min(len(candidates), 9) + 1))
            answers.append(asked.impossible(obliged))
            assert answers[-1] == searched(ops, stepper, obliged, starts, until), (history, obliged, starts, until)
    return answers


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", INVOCATIONS)
def test_it_answers_as_the_search_does(name: str) -> None:
    model = models.model(name)
    answers = compared(model, name, random.Random(f"relaxed {name}"), 12)
    assert {*answers} == {True, False}
    compared(Table(model), name, random.Random(f"lazy {name}"), 3)


def violated(name: str, rng: random.Random) -> tuple[Ops, Stepper, int]:
    """A history, and an op whose return cannot be explained if all ops are obliged."""
    model = models.model(name)
    while True:
        history = random_history(rng, name, ops=30, processes=4, lies=0.2, crashes=0.1)
        ops = read_ops(to_table(history), model)
        stepper = Stepper(model, ops.transitions, cells=LIMITS.cells)
        problem = events(ops, stepper.observer)
        result = Search(problem, stepper, LIMITS).run()
        if result.answer == "violation":
            return ops, stepper, int(problem.op[result.event])


@pytest.mark.parametrize("name", ["cas-register", "kv", "set"])
def test_a_witness_is_the_same_without_it(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(name)
    for _ in range(8):
        found = violated(name, rng)
        quick = witness.find(*found, LIMITS)
        with monkeypatch.context() as without:
            without.setattr(witness, "RELAXED", 0)
            slow = witness.find(*found, LIMITS)
        assert quick == slow
        assert quick is not None


def test_a_witness_of_a_small_history_takes_no_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    found = violated("cas-register", random.Random(1))
    ran: list[str] = []
    monkeypatch.setattr(kernels.Kernel, "__call__", lambda kernel, *_: ran.append(kernel.__name__))  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType, reportUnknownMemberType]
    small = witness.find(*found, LIMITS)
    assert small is not None
    assert ran == []


def test_a_question_that_takes_too_many_steps_is_left_to_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    ops, stepper, failing = violated("cas-register", random.Random(2))
    sure = witness.find(ops, stepper, failing, LIMITS)
    monkeypatch.setattr(relaxed, "STEPS", 0)
    asked = question(ops, stepper, (0,), int(ops.completed[failing]))
    with pytest.raises(TooManyStepsError):
        asked.impossible([op for op in range(len(ops.crashed)) if ops.completed[op] <= ops.completed[failing]])
    assert witness.find(ops, stepper, failing, LIMITS) == sure


def test_a_slow_model_is_not_asked_beyond_the_deadline() -> None:
    ops, stepper, failing = violated("cas-register", random.Random(3))
    asked = question(ops, stepper, (0,), int(ops.completed[failing]), deadline=0.0)
    with pytest.raises(TooManyStepsError):
        asked.impossible([failing])
    out_of_time = witness.find(ops, stepper, failing, replace(LIMITS, time_s=0.0))
    assert out_of_time is None
