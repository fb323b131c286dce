"""A counter of whole numbers is stepped by adding, in the kernel; the answers are those of a model that is asked."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from splitbrain.checkers.linearizable import check_ops
from splitbrain.checkers.linearizable.depth_first import DepthFirst
from splitbrain.checkers.linearizable.encoding import events
from splitbrain.checkers.linearizable.limits import Limits
from splitbrain.checkers.linearizable.ops import Ops, read_ops
from splitbrain.checkers.linearizable.search import Search
from splitbrain.checkers.linearizable.transitions import Stepper
from splitbrain.checkers.models import Counter, Model, State
from splitbrain.results.arrow import to_table
from splitbrain.results.history import Op, OpType

AMOUNTS = (-3, -1, 0, 1, 2, 5)


class Asked(Counter):
    """The same counter with a step of its own, so that it is asked."""

    def step(self, state: State, f: str, value: Any, result: Any) -> Any:
        return super().step(state, f, value, result)


def stepped(history: list[Op], model: Model) -> tuple[Ops, Stepper]:
    ops = read_ops(to_table(history), model)
    counts = np.bincount(ops.transition, minlength=len(ops.transitions)).tolist()
    return ops, Stepper(model, ops.transitions, cells=1 << 16, ops=counts)


def answers(history: list[Op], model: Model) -> tuple[str, str]:
    ops, stepper = stepped(history, model)
    problem = events(ops, stepper.observer)
    return (
        DepthFirst(ops, stepper, Limits()).run().answer,
        Search(problem, stepper, Limits(time_s=60.0)).run().answer,
    )


def history_of(seed: int, initial: int) -> list[Op]:
    """Four clients that add and read; some results are wrong, and some ops crash."""
    rng, total, history = random.Random(seed), initial, list[Op]()
    under_way: dict[int, Op] = {}
    for _ in range(rng.randint(4, 24)):
        process = rng.randrange(4)
        op = under_way.pop(process, None)
        if op is None:
            f = rng.choice(["read", "increment", "add"])
            under_way[process] = Op(
                process=process, type="invoke", f=f, value=None if f == "read" else rng.choice(AMOUNTS)
            )
            history.append(under_way[process])
            continue
        kind: OpType = rng.choice(["ok", "ok", "ok", "info"])
        total += (op.value or 0) if kind == "ok" or rng.random() < 0.5 else 0
        result = op.value if op.f == "add" else total + (rng.random() < 0.1)
        history.append(op.complete(kind, result if kind == "ok" else None))
    return history


@pytest.mark.slow
@settings(max_examples=300)
@given(st.integers(0, 10**9), st.sampled_from([0, 7, -4]))
def test_sums_in_the_kernel_give_the_answers_of_a_model_that_is_asked(seed: int, initial: int) -> None:
    history = history_of(seed, initial)
    assert answers(history, Counter(initial)) == answers(history, Asked(initial))


def test_sums_below_the_first_one_and_above_it_are_numbered() -> None:
    history = [Op(process=0, type="invoke", f="increment", value=amount) for amount in (-3, 5)]
    ended = [op.complete("ok", total) for op, total in zip(history, (4, 9), strict=True)]
    _, stepper = stepped([history[0], ended[0], history[1], ended[1]], Counter(7))
    assert stepper.mode == "sums"
    assert sorted(stepper.states.known) == list(range(4, 13))
    assert stepper.states.known[stepper.following(0, 0)] == 4
    assert stepper.states.known[stepper.following(stepper.following(0, 0), 1)] == 9


@pytest.mark.parametrize(("model", "amount"), [(Counter(), 0.5), (Counter(0.5), 1), (Counter(), 10**9), (Asked(), 1)])
def test_other_counters_are_asked(model: Counter, amount: float) -> None:
    op = Op(process=0, type="invoke", f="increment", value=amount)
    _, stepper = stepped([op, op.complete("ok", model.initial + amount)], model)
    assert stepper.mode != "sums"


@pytest.mark.parametrize(("first", "second"), [(2**53, 1.0), (2.0**53, 1), (2**53 - 1, 2.0), (2.0**53, 1.0)])
def test_sums_that_are_equal_go_on_alike_whichever_way_they_were_reached(first: float, second: float) -> None:
    """As floats, sums from 2**53 on would not change if 1 is added; as ints they would, and both are one state."""
    total = int(first) + int(second)
    calls: list[tuple[str, float | None, float | None]] = [
        *(("add", first, None), ("add", second, None)),
        *(("increment", 1, total + 1), ("read", None, float(total + 1))),
    ]
    history: list[Op] = []
    for f, value, result in calls:
        asked = Op(process=0, type="invoke", f=f, value=value)
        history += [asked, asked.complete("ok", result)]
    assert check_ops(history, "counter").valid == "true"
    assert check_ops([*history[:-1], history[-2].complete("ok", total + 2)], "counter").valid == "false"
