"""Queues whose values repeat, decided by which of the equal ones is which: as by the definition, and in little time."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pytest

from splitbrain.checkers.linearizable import deciders
from splitbrain.checkers.linearizable.deciders import priority_queues, queues
from tests.checkers.linearizable.container_histories import (
    FAR,
    KINDS,
    Call,
    Kind,
    linearizable,
    random_calls,
    to_ops,
    twisted,
)

RANKED = (
    replace(KINDS[0], decide=queues.fifo_ranked),
    replace(KINDS[1], decide=queues.unordered_ranked),
    replace(KINDS[3], decide=priority_queues.smallest_first_ranked),
)
FIFO = RANKED[0]

every_kind = pytest.mark.parametrize("kind", RANKED, ids=lambda kind: kind.name)


@pytest.fixture(scope="module", autouse=True)
def _compiled_kernels() -> None:
    deciders.warm_up()


def compare(kind: Kind, seeds: range) -> Counter[bool | None]:
    """Verdicts are those of the definition; culprits contradict each other once they returned, whatever others did."""
    said: Counter[bool | None] = Counter()
    for seed in seeds:
        rng = random.Random(f"ranks {kind.name} {seed}")
        calls = random_calls(
            rng,
            kind,
            count=rng.randint(4, 10),
            processes=rng.randint(2, 5),
            crashed_puts=rng.choice([0.0, 0.0, 0.3]),
            crashed_takes=rng.choice([0.0, 0.0, 0.3]),
            takes=rng.choice([0.4, 0.5, 0.6]),
            hurry=rng.choice([0.0, 0.2, 0.5]),
            distinct=rng.choice([1, 2, 3]),
        )
        ops = to_ops(twisted(rng, kind, calls) if rng.random() < 0.6 else calls)
        decision = kind.decide(ops, kind.model)
        said[None if decision is None else decision.valid] += 1
        if decision is None:
            continue
        assert decision.valid == linearizable(ops, kind.model), (seed, decision)
        if not decision.valid:
            assert decision.reason
            assert list(decision.culprits) == sorted(set(decision.culprits))
            assert not linearizable(ops, kind.model, must=decision.culprits), (seed, decision)
            end = int(ops.completed[list(decision.culprits)].max())
            assert not linearizable(ops, kind.model, until=end), (seed, decision)
    return said


@pytest.mark.slow
@every_kind
def test_decisions_on_small_histories_are_those_of_the_definition(kind: Kind) -> None:
    said = compare(kind, range(400))
    assert said[True] > 150
    assert said[False] > 20


@pytest.mark.slow
@every_kind
def test_decisions_on_many_small_histories_are_those_of_the_definition(kind: Kind) -> None:
    said = compare(kind, range(1000, 1600))
    assert said[False] > 30
    assert said[None] < said[True]


@pytest.mark.parametrize(
    ("kind", "processes", "distinct", "count"),
    [*((kind, 30, 3000, 3000) for kind in RANKED), *((kind, 5, 3, 200) for kind in RANKED[1:])],
    ids=lambda each: each.name if isinstance(each, Kind) else None,
)
def test_long_histories_that_are_linearizable_are_found_to_be(
    kind: Kind, processes: int, distinct: int, count: int
) -> None:
    """Some values go in, or come out, within each other."""
    rng = random.Random(f"long {kind.name} {distinct}")
    calls = random_calls(rng, kind, count=count, processes=processes, hurry=0.0, distinct=distinct)
    decision = kind.decide(to_ops(calls), kind.model)
    assert decision is not None
    assert decision.valid


@every_kind
def test_a_value_that_came_out_oftener_than_it_went_in_is_refuted_whatever_crashed(kind: Kind) -> None:
    calls = [
        Call("enqueue", 1, 0, result=1),
        Call("enqueue", 1, 1, 2, 1),
        Call("dequeue", None, 3, 4, 1),
        Call("dequeue", None, 5, 6, 1),
        Call("dequeue", None, 7),
        Call("dequeue", None, 8, 9, 1),
    ]
    decision = kind.decide(to_ops(calls), kind.model)
    assert decision is not None
    assert not decision.valid
    assert decision.culprits == (2, 3, 5)
    assert decision.reason == "1 had come out 3 times by then, and ops had begun to enqueue it only twice"


def test_a_reason_names_which_of_the_equal_values_it_is_about() -> None:
    """Behind ops that lie within each other, so that the ranks before are not certain, and those after are."""
    calls = [
        *[Call("enqueue", 1, 0, 3, 1), Call("enqueue", 1, 1, 2, 1)],
        *[Call("dequeue", None, 4, 5, 1), Call("dequeue", None, 6, 7, 1)],
        *[Call("enqueue", 1, 8, 9, 1), Call("enqueue", 2, 10, 11, 2)],
        *[Call("dequeue", None, 12, 13, 2), Call("dequeue", None, 14, 15, 1)],
    ]
    decision = FIFO.decide(to_ops(calls), FIFO.model)
    assert decision is not None
    assert decision.reason == "1 (no. 3 of that value) was enqueued before 2 and dequeued after it"
    assert decision.culprits == tuple(range(8))


def test_ranks_that_a_crashed_dequeue_may_have_shifted_are_not_certain() -> None:
    calls = [
        *[Call("enqueue", 1, 0, 1, 1), Call("enqueue", 2, 2, 3, 2), Call("enqueue", 1, 4, 5, 1)],
        *[Call("dequeue", None, 6), Call("dequeue", None, 7, 8, 2), Call("dequeue", None, 9, 10, 1)],
    ]
    assert linearizable(to_ops(calls), FIFO.model)
    assert FIFO.decide(to_ops(calls), FIFO.model) is None
    certain = [replace(call, completed=11, result=None) if call.completed == FAR else call for call in calls]
    decision = FIFO.decide(to_ops(certain), FIFO.model)
    assert decision is not None
    assert not decision.valid


def test_of_a_refuted_queue_the_smallest_prefix_is_known_and_the_reason_kept() -> None:
    calls = [Call("enqueue", value, 2 * i, 2 * i + 1, value) for i, value in enumerate((1, 2, 1))]
    calls += [Call("dequeue", None, 6 + 2 * i, 7 + 2 * i, value) for i, value in enumerate((2, 1, 1))]
    decision = queues.fifo_ranked_exactly(to_ops(calls), FIFO.model)
    assert decision is not None
    assert decision.exact
    assert int(to_ops(calls).completed[list(decision.culprits)].max()) == 7
    alike = [*calls[:3], *[replace(calls[3], result=1), replace(calls[4], result=1), replace(calls[5], result=2)]]
    decision = queues.fifo_ranked_exactly(to_ops(alike), FIFO.model)
    assert decision is not None
    assert (decision.exact, linearizable(to_ops(alike), FIFO.model)) == (True, False)
    assert decision.reason.startswith("no order")


@every_kind
def test_culprits_leave_nothing_to_a_dequeue_that_crashed(kind: Kind) -> None:
    """Were the last dequeue left out, the crashed one could have taken the first value, and the next one the other."""
    calls = [
        *[Call("enqueue", 1, 0, 1, 1), Call("dequeue", None, 2), Call("dequeue", None, 3, 4, None)],
        *[Call("dequeue", None, 5, 7, 1), Call("enqueue", 1, 6, 8, 1), Call("dequeue", None, 9, 10, 1)],
    ]
    ops = to_ops(calls)
    decision = kind.decide(ops, kind.model)
    assert decision is not None
    assert decision.culprits == (0, 2, 3, 4, 5)
    assert not linearizable(ops, kind.model, must=decision.culprits)
    assert linearizable(ops, kind.model, must=(0, 2, 3, 4))
