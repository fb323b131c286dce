"""Models that choose: judged as if every choice had been tried; and an unordered queue that needs no trying."""

from __future__ import annotations

import random
from collections.abc import Hashable, Iterable
from itertools import product
from typing import Any

import pytest

from examples.own_model import Lease
from splitbrain.checkers import models
from splitbrain.checkers.linearizable import check_ops
from splitbrain.checkers.models import IMPOSSIBLE, UNKNOWN, NondeterministicModel, frozen
from splitbrain.results.errors import UsageError
from splitbrain.results.history import Op
from tests.checkers.linearizable.support import FAR, candidates, finals, linearizable, search


class Bag(NondeterministicModel):
    """A queue without an order, by its definition: a dequeue takes any of the values."""

    name = "bag"
    fs = frozenset({"enqueue", "dequeue"})

    def first(self) -> Iterable[Hashable]:
        return [()]

    def steps(self, state: Any, f: str, value: Any, result: Any) -> Iterable[Hashable]:
        if f == "enqueue":
            yield tuple(sorted((*state, value)))
        elif not state:
            if result in (None, UNKNOWN):
                yield state
        else:
            for at, held in enumerate(state):
                if result in (held, UNKNOWN):
                    yield (*state[:at], *state[at + 1 :])


class Flaky(NondeterministicModel):
    """A register that starts as 0 or 1, whose writes may be lost, and whose reads may be of the value before."""

    name = "flaky"
    fs = frozenset({"read", "write"})

    def first(self) -> Iterable[Hashable]:
        return [(0, 0), (1, 1)]

    def steps(self, state: Any, f: str, value: Any, result: Any) -> Iterable[Hashable]:
        before, now = state
        if f == "write":
            return [state, (now, value)]
        return [state] if result in (UNKNOWN, before, now) else []


CALLS: dict[str, list[tuple[str, Any, list[Any]]]] = {
    "bag": [("enqueue", 1, [None]), ("enqueue", 2, [None]), ("dequeue", None, [None, 1, 2])],
    "flaky": [("write", 1, [None]), ("write", 2, [None]), ("read", None, [0, 1, 2])],
    "lease": [("acquire", None, [1, 2, 3]), ("holds", 1, [True, False]), ("holds", 2, [True, False])],
}


def random_ops(rng: random.Random, name: str) -> list[Op]:
    """Ops at random moments with random results; every third crashes."""
    ops: list[Op] = []
    under_way: list[tuple[Op, Any]] = []
    for process in range(rng.randint(2, 6)):
        f, value, results = rng.choice(CALLS[name])
        op = Op(process=process, type="invoke", f=f, value=value)
        ops.append(op)
        under_way.append((op, rng.choice(results)))
        while under_way and rng.random() < 0.6:
            op, result = under_way.pop(rng.randrange(len(under_way)))
            ops.append(op.complete("info") if rng.random() < 0.33 else op.complete("ok", result))
    ops += [op.complete("ok", result) for op, result in under_way]
    return [Op(index=i, process=op.process, type=op.type, f=op.f, value=op.value) for i, op in enumerate(ops)]


def explained(model: NondeterministicModel, history: list[Op]) -> bool:
    """Whether some order of the ops and some choice at each of them explains the history: tried one by one."""
    ops = candidates(history)
    end = [FAR if pair.completion is None or pair.completion.type != "ok" else pair.completion.index for pair in ops]
    calls = [
        (
            pair.invoke.f,
            frozen(pair.invoke.value),
            UNKNOWN if pair.completion is None or end[i] == FAR else frozen(pair.completion.value),
        )
        for i, pair in enumerate(ops)
    ]

    def extend(state: Any, left: frozenset[int]) -> bool:
        if all(end[i] == FAR for i in left):
            return True
        first_end = min(end[i] for i in left)
        return any(
            extend(after, left - {i})
            for i in left
            if ops[i].invoke.index < first_end
            for after in model.steps(state, *calls[i])
        )

    return any(extend(state, frozenset(range(len(ops)))) for state in model.first())


@pytest.mark.slow
@pytest.mark.parametrize(("make", "least"), [(Bag, 30), (Flaky, 30), (Lease, 30)])
def test_a_model_that_chooses_is_judged_as_if_every_choice_had_been_tried(
    make: type[NondeterministicModel], least: int
) -> None:
    rng = random.Random(make.name)
    verdicts: list[bool] = []
    for _ in range(250):
        history = random_ops(rng, make.name)
        verdicts.append(explained(make(), history))
        assert linearizable(make(), history) == verdicts[-1]
        assert search(make(), history)[0].answer == ("linearizable" if verdicts[-1] else "violation")
    assert least < sum(verdicts) < len(verdicts) - least


def test_the_layers_of_an_unordered_queue_are_all_the_bags_that_are_possible() -> None:
    """Every sequence of nine ops: an answer is possible exactly if it is in one of the bags."""
    layers, bags = models.model("unordered-queue"), Bag()
    ops = [("enqueue", 1, None), ("enqueue", 2, None), *(("dequeue", None, r) for r in (None, 1, 2, UNKNOWN))]
    same: dict[Any, Any] = {}
    reached = {(layers.init(), bags.init())}
    compared = 0
    for _ in range(9):
        following: set[tuple[Any, Any]] = set()
        for (state, possible), (f, value, result) in product(reached, ops):
            after, expected = layers.step(state, f, value, result), bags.step(possible, f, value, result)
            assert (after is IMPOSSIBLE) == (expected is IMPOSSIBLE)
            compared += 1
            if after is not IMPOSSIBLE:
                assert same.setdefault(after, expected) == expected
                following.add((after, expected))
        reached = following
    assert compared > 2_000
    assert max(len(state) for state in same) > 2


def test_crashed_dequeues_do_not_multiply_the_states_of_an_unordered_queue() -> None:
    """Twenty values and ten crashed dequeues: 184,756 sets of values are possible, in one state."""
    model = models.model("unordered-queue")
    state: Any = model.init()
    for value in range(20):
        state = model.step(state, "enqueue", value, None)
    for _ in range(10):
        state = model.step(state, "dequeue", None, UNKNOWN)
    assert len(state) == 11
    for value in range(10):
        state = model.step(state, "dequeue", None, value)
    assert state == model.init()


def test_the_states_of_a_model_that_chooses_are_sets_of_its_states() -> None:
    write = Op(index=0, process=0, type="invoke", f="write", value=2)
    history = [write, Op(index=1, process=0, type="ok", f="write", value=2)]
    assert set(finals(Flaky(), history, 1)) == {frozenset({(0, 0), (1, 1), (0, 2), (1, 2)})}


class Nothing(NondeterministicModel):
    name = "nothing"
    fs = frozenset({"read"})


class NoSteps(Nothing):
    def first(self) -> Iterable[Hashable]:
        return [0]


def test_what_must_be_written_is_named() -> None:
    read = Op(process=0, type="invoke", f="read")
    for model, method in ((Nothing(), "first"), (NoSteps(), "steps")):
        with pytest.raises(UsageError, match=rf"has no method `{method}`: write one"):
            check_ops([read, read.complete("ok")], model)
