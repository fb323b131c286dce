"""Containers whose values repeat and whose takes crash: decided by searches of their own, as by the definition."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from splitbrain.checkers.linearizable import deciders
from splitbrain.checkers.linearizable.deciders import Decision, fifo_pairs, priority_queues, queues, stack_nests, stacks
from splitbrain.checkers.linearizable.ops import Ops
from tests.checkers.linearizable.container_histories import (
    FAR,
    KINDS,
    Call,
    Kind,
    linearizable,
    part,
    random_calls,
    to_ops,
    twisted,
)

QUEUE = replace(KINDS[0], decide=fifo_pairs.fifo)
STACK = replace(KINDS[2], decide=stack_nests.stack)
SEARCHED = (QUEUE, STACK)
CRASHED = (
    replace(KINDS[0], decide=queues.fifo_crashed),
    replace(KINDS[1], decide=queues.unordered_crashed),
    replace(KINDS[2], decide=stacks.stack_crashed),
    replace(KINDS[3], decide=priority_queues.smallest_first_crashed),
)

every_kind = pytest.mark.parametrize("kind", SEARCHED, ids=lambda kind: kind.name)
every_crashed = pytest.mark.parametrize("kind", CRASHED, ids=lambda kind: kind.name)


@pytest.fixture(scope="module", autouse=True)
def _compiled_kernels() -> None:
    deciders.warm_up()


def small(seed: int, kind: Kind) -> Ops:
    """At most nine ops, of few values or of many, some of them crashed; two thirds with answers that were changed."""
    rng = random.Random(f"{kind.name} {seed}")
    calls = random_calls(
        rng,
        kind,
        count=rng.randint(4, 9),
        processes=rng.randint(2, 4),
        crashed_puts=rng.choice([0.0, 0.0, 0.3]),
        crashed_takes=rng.choice([0.0, 0.0, 0.3]),
        takes=rng.choice([0.4, 0.5, 0.6, 0.7]),
        hurry=rng.choice([0.0, 0.3, 0.5, 0.7]),
        distinct=rng.choice([1, 2, 2, 3, None]),
    )
    return to_ops(twisted(rng, kind, calls) if rng.random() < 0.7 else calls)


def assert_as_by_definition(kind: Kind, ops: Ops) -> Decision:
    """The verdict is right; culprits contradict each other whatever the others did; the prefix is the smallest."""
    decision = kind.decide(ops, kind.model)
    assert decision is not None
    assert decision.valid == linearizable(ops, kind.model), decision
    if decision.valid:
        return decision
    assert decision.reason
    assert decision.exact
    assert list(decision.culprits) == sorted(set(decision.culprits))
    assert not linearizable(ops, kind.model, must=decision.culprits), decision
    rows = ops.completed[~ops.crashed]
    end = int(ops.completed[list(decision.culprits)].max())
    assert not linearizable(ops, kind.model, until=end), decision
    assert linearizable(ops, kind.model, until=int(rows[rows < end].max(initial=-1))), decision
    return decision


def compare(kind: Kind, seeds: range) -> Counter[bool]:
    return Counter(assert_as_by_definition(kind, small(seed, kind)).valid for seed in seeds)


@pytest.mark.slow
@every_kind
def test_decisions_on_small_histories_are_those_of_the_definition(kind: Kind) -> None:
    said = compare(kind, range(1000))
    assert min(said[True], said[False]) > 125


@pytest.mark.slow
@every_kind
def test_decisions_on_many_small_histories_are_those_of_the_definition(kind: Kind) -> None:
    said = compare(kind, range(1000, 2_200))
    assert min(said[True], said[False]) > 120


def compare_crashed(kind: Kind, seeds: range) -> Counter[Any]:
    """Histories of distinct values, of which many takes crashed: the culprits alone are wrong, too."""
    said: Counter[Any] = Counter()
    for seed in seeds:
        rng = random.Random(f"crashed {kind.name} {seed}")
        calls = random_calls(
            rng,
            kind,
            count=rng.randint(4, 10),
            processes=rng.randint(2, 4),
            crashed_puts=rng.choice([0.0, 0.2]),
            crashed_takes=rng.choice([0.2, 0.3, 0.5]),
            takes=rng.choice([0.4, 0.5, 0.6]),
            hurry=rng.choice([0.0, 0.3, 0.5, 0.7]),
        )
        ops = to_ops(twisted(rng, kind, calls) if rng.random() < 0.7 else calls)
        decision = kind.decide(ops, kind.model)
        assert decision is not None
        assert decision.valid == linearizable(ops, kind.model), (seed, decision)
        said[decision.valid] += 1
        if not decision.valid:
            said["blames a crashed one"] += bool(ops.crashed[list(decision.culprits)].any())
            assert decision.reason
            assert not linearizable(part(ops, list(decision.culprits)), kind.model), (seed, decision)
            assert not linearizable(ops, kind.model, must=decision.culprits), (seed, decision)
    return said


@every_crashed
def test_which_values_crashed_takes_took_is_found_out_as_by_the_definition(kind: Kind) -> None:
    said = compare_crashed(kind, range(600))
    assert min(said[True], said[False]) > 75
    assert said["blames a crashed one"] > 4


@pytest.mark.slow
@every_crashed
def test_which_values_crashed_takes_took_is_found_out_in_many_histories(kind: Kind) -> None:
    said = compare_crashed(kind, range(600, 1_300))
    assert min(said[True], said[False]) > 75


def busy(seed: int, kind: Kind, *, clients: int, count: int, crashes: float = 0.0, distinct: int | None) -> list[Call]:
    """A linearizable history of clients that are never idle."""
    return random_calls(
        random.Random(f"busy {seed}"),
        kind,
        count=count,
        processes=clients,
        crashed_puts=crashes,
        crashed_takes=crashes,
        hurry=0.0,
        distinct=distinct,
    )


def spoilt(calls: list[Call], kind: Kind, how: str) -> list[Call]:
    """A history with one answer changed, two exchanged, one lost, or one given twice."""
    calls = list(calls)
    takes = [i for i, call in enumerate(calls) if call.f == kind.take and not call.crashed and call.result is not None]
    one = takes[int(0.6 * len(takes))]
    other = next(i for i in takes[int(0.8 * len(takes)) :] if calls[i].result != calls[one].result)
    if how == "lost":
        return calls[:one] + calls[one + 1 :]
    first, second = calls[one].result, calls[other].result
    calls[other] = replace(calls[other], result=first)
    if how == "exchanged":
        calls[one] = replace(calls[one], result=second)
    return calls


SHAPES = [
    pytest.param(5, 200, 0.0, 3, id="5-clients-3-values"),
    pytest.param(10, 400, 0.0, 3, id="10-clients-3-values"),
    pytest.param(5, 400, 0.05, None, id="5-clients-crashes"),
    pytest.param(10, 400, 0.05, None, id="10-clients-crashes"),
]


def judged(ops: Ops, kind: Kind) -> tuple[str, Decision]:
    decided = deciders.decide(ops, kind.model)
    assert decided is not None
    return decided


@every_kind
@pytest.mark.parametrize(("clients", "count", "crashes", "distinct"), SHAPES)
def test_what_the_contents_of_the_container_are_too_many_for_is_decided(
    clients: int, count: int, crashes: float, distinct: int | None, kind: Kind
) -> None:
    for seed in range(2):
        calls = busy(seed, kind, clients=clients, count=count, crashes=crashes, distinct=distinct)
        algorithm, decision = judged(to_ops(calls), kind)
        assert decision.valid
        assert algorithm in [name for name, _ in deciders.DECIDERS[kind.name][1:]]


@pytest.mark.slow
@every_kind
def test_a_busy_history_that_was_spoilt_is_decided_and_explained(kind: Kind) -> None:
    said: Counter[bool] = Counter()
    for how in ("changed", "exchanged", "lost"):
        for seed in range(2):
            ops = to_ops(spoilt(busy(seed, kind, clients=5, count=200, distinct=3), kind, how))
            _, decision = judged(ops, kind)
            said[decision.valid] += 1
            assert decision.valid or decision.exact
    assert said[False] >= 2


@pytest.mark.slow
def test_a_crowded_queue_of_three_values_that_was_spoilt_is_decided() -> None:
    calls = busy(1, QUEUE, clients=10, count=400, distinct=3)
    algorithm, decision = judged(to_ops(spoilt(calls, QUEUE, "exchanged")), QUEUE)
    assert algorithm in ("fifo-ranks", "fifo-pairs"), "whichever of them comes to an end in its share of the time"
    assert not decision.valid


@every_crashed
def test_a_value_that_only_one_of_many_crashed_takes_can_have_taken_too_late_is_a_violation(kind: Kind) -> None:
    """Two values are missing before one that came out, and one take had crashed by then."""
    first, second, third = (3, 2, 1) if kind.name == "stack" else (1, 2, 3)
    calls = [put(kind, value, 2 * i, 2 * i + 1) for i, value in enumerate((first, second, third))]
    last = first if kind.name == "stack" else third
    crashed = [Call(kind.take, None, 6), Call(kind.take, None, 20)]
    decision = decided(kind, *calls, *crashed, take(kind, last, 8, 9))
    assert decision is not None
    if kind.name == "unordered-queue":
        assert decision.valid
        return
    assert not decision.valid
    assert decision.culprits == (0, 1, 2, 3, 4)
    assert "and the " in decision.reason
    crashed[1] = replace(crashed[1], invoked=7)
    assert decided(kind, *calls, *crashed, take(kind, last, 8, 9)) == Decision(True)


# --- by example -------------------------------------------------------------------------------------------------------


def decided(kind: Kind, *calls: Call) -> Decision | None:
    return kind.decide(to_ops(list(calls)), kind.model)


def put(kind: Kind, value: Any, invoked: int, completed: int = FAR) -> Call:
    return Call(kind.put, value, invoked, completed)


def take(kind: Kind, result: Any, invoked: int, completed: int) -> Call:
    return Call(kind.take, None, invoked, completed, result)


def test_equal_values_come_out_as_often_as_they_went_in() -> None:
    twice = (put(QUEUE, 1, 0, 1), put(QUEUE, 1, 2, 3), take(QUEUE, 1, 4, 5), take(QUEUE, 1, 6, 7))
    assert decided(QUEUE, *twice) == Decision(True)
    decision = decided(QUEUE, *twice, take(QUEUE, 1, 8, 9))
    assert decision is not None
    assert decision.reason == "1 had come out 3 times by then, and ops had begun to enqueue it only twice"
    assert decision.culprits == (2, 3, 4)


def test_a_dequeue_that_crashed_may_have_taken_what_is_missing_but_only_one_value() -> None:
    puts = (put(QUEUE, 1, 0, 1), put(QUEUE, 2, 2, 3), put(QUEUE, 3, 4, 5))
    crashed = Call(QUEUE.take, None, 6)
    assert decided(QUEUE, *puts, crashed, take(QUEUE, 2, 8, 9)) == Decision(True)
    decision = decided(QUEUE, *puts, crashed, take(QUEUE, 3, 8, 9))
    assert decision is not None
    assert decision.reason == "no order of the ops makes 3 the first value in the queue at any moment of that dequeue"
    assert decided(QUEUE, *puts, crashed, replace(crashed, invoked=7), take(QUEUE, 3, 8, 9)) == Decision(True)


def test_the_later_of_two_equal_dequeues_may_have_to_wait_for_the_queue_to_be_empty() -> None:
    """The dequeue that returned first began after the enqueue of 0 must have ended: so it cannot be the second."""
    calls = [
        take(QUEUE, 1, 0, 3),
        take(QUEUE, 1, 1, 15),
        put(QUEUE, 1, 2, 5),
        put(QUEUE, 0, 4, 10),
        put(QUEUE, 1, 6, 7),
        put(QUEUE, 1, 8),
        take(QUEUE, None, 9, 16),
        put(QUEUE, 1, 11, 12),
        take(QUEUE, 1, 13, 14),
    ]
    ops = to_ops(calls)
    assert linearizable(ops, QUEUE.model)
    assert decided(QUEUE, *calls) == Decision(True)


def test_a_search_that_would_take_too_long_leaves_the_history_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fifo_pairs.Matching, "most", 10)
    assert decided(QUEUE, *busy(1, QUEUE, clients=5, count=200, distinct=3)) is None


def test_culprits_are_named_even_if_there_is_no_time_to_make_them_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("splitbrain.checkers.linearizable.deciders.repeated_values.TO_BLAME", 0)
    ops = to_ops(spoilt(busy(1, QUEUE, clients=5, count=200, distinct=3), QUEUE, "exchanged"))
    decision = QUEUE.decide(ops, QUEUE.model)
    assert decision is not None
    assert not decision.valid
    assert decision.exact
    end = int(ops.completed[list(decision.culprits)].max())
    assert len(decision.culprits) == int(np.count_nonzero(~ops.crashed & (ops.completed <= end)))
