"""The deciders of queues, stacks and priority queues, against the definition and against the search."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from splitbrain.checkers import models
from splitbrain.checkers.linearizable import deciders
from splitbrain.checkers.linearizable.deciders import Decision
from splitbrain.checkers.linearizable.ops import read_ops
from splitbrain.results.arrow import to_table
from splitbrain.results.history import Op
from tests.checkers.linearizable.container_histories import (
    KINDS,
    Call,
    Kind,
    frontier,
    linearizable,
    paired_calls,
    part,
    random_calls,
    small_calls,
    to_ops,
    twisted,
)

every_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
Make = Callable[[random.Random, Kind], list[Call]]


@pytest.fixture(scope="module", autouse=True)
def _compiled_kernels() -> None:
    deciders.warm_up()


def compare(kind: Kind, make: Make, seeds: range) -> Counter[Any]:
    """Decide the histories of the seeds; what was said, by verdict."""
    said: Counter[Any] = Counter()
    model = kind.model
    for seed in seeds:
        ops = to_ops(make(random.Random(f"{kind.name} {seed}"), kind))
        decision = kind.decide(ops, model)
        legal = linearizable(ops, model)
        said[None if decision is None else decision.valid] += 1
        if decision is None:
            continue
        assert decision.valid == legal, (kind.name, seed, decision)
        if not legal:
            said["more than four culprits"] += len(decision.culprits) > 4
            assert decision.reason
            assert list(decision.culprits) == sorted(set(decision.culprits))
            assert not linearizable(part(ops, list(decision.culprits)), model), (kind.name, seed, decision)
    return said


@pytest.mark.slow
@every_kind
def test_decisions_on_small_histories_are_those_of_the_definition_and_culprits_alone_are_wrong(kind: Kind) -> None:
    said = compare(kind, small_calls, range(1500))
    assert said[True] > 900
    assert said[False] > 150
    assert said[None] < 250  # a take has crashed, and somebody's value is missing


@pytest.mark.slow
@every_kind
def test_decisions_where_only_order_can_be_violated_are_those_of_the_definition(kind: Kind) -> None:
    said = compare(kind, paired_calls, range(1500))
    assert said[True] > 900
    assert said[False] > 120
    assert said[None] == 0
    assert said["more than four culprits"] > 0


def long_calls(rng: random.Random, kind: Kind) -> list[Call]:
    """100 to 300 ops, some with answers that were changed.

    Little is inside at a time: the search tries every order in which that can have gone in.
    """
    calls = random_calls(
        rng,
        kind,
        count=rng.randint(100, 300),
        processes=rng.randint(2, 4),
        crashed_puts=rng.choice([0.0, 0.01]),
        takes=0.5,
        hurry=rng.choice([0.4, 0.6]),
        full=4,
    )
    return twisted(rng, kind, calls) if rng.random() < 0.6 else calls


def compare_long(kind: Kind, seeds: range) -> Counter[bool]:
    said: Counter[bool] = Counter()
    model = kind.model
    for seed in seeds:
        ops = to_ops(long_calls(random.Random(f"long {kind.name} {seed}"), kind))
        decision = kind.decide(ops, model)
        assert decision is not None
        assert decision.valid == frontier(ops, model), (kind.name, seed, decision)
        said[decision.valid] += 1
    return said


@pytest.mark.slow
@every_kind
def test_decisions_on_long_histories_are_those_of_the_search(kind: Kind) -> None:
    said = compare_long(kind, range(40))
    assert min(said[True], said[False]) > 8


@every_kind
def test_a_large_history_falls_with_one_exchange_of_answers_and_stands_without(kind: Kind) -> None:
    rng = random.Random(7)
    calls = random_calls(rng, kind, count=20_000, processes=10, crashed_puts=0.01)
    decision = kind.decide(to_ops(calls), kind.model)
    assert decision == Decision(True)
    takes = [i for i, call in enumerate(calls) if call.f == kind.take and call.result is not None]
    one, other = takes[100], takes[-100]
    calls[one], calls[other] = (
        replace(calls[one], result=calls[other].result),
        replace(calls[other], result=calls[one].result),
    )
    ops = to_ops(calls)
    decision = kind.decide(ops, kind.model)
    assert decision is not None
    assert not decision.valid
    assert len(decision.culprits) <= 8
    assert not linearizable(part(ops, list(decision.culprits)), kind.model)


# --- by example -------------------------------------------------------------------------------------------------------


def decided(kind: Kind, *calls: Call) -> Decision | None:
    return kind.decide(to_ops(list(calls)), kind.model)


def put(kind: Kind, value: Any, invoked: int, completed: int) -> Call:
    return Call(kind.put, value, invoked, completed, value)


def take(kind: Kind, result: Any, invoked: int, completed: int) -> Call:
    return Call(kind.take, None, invoked, completed, result)


FIFO, BAG, STACK, PRIORITY = KINDS


@every_kind
def test_an_empty_history_is_linearizable(kind: Kind) -> None:
    assert decided(kind) == Decision(True)


@every_kind
def test_what_nobody_put_in_cannot_come_out(kind: Kind) -> None:
    decision = decided(kind, put(kind, 1, 0, 1), take(kind, 2, 2, 3))
    assert decision == Decision(False, (1,), f"{kind.take} returned 2, which no op had put in")


@every_kind
def test_a_value_cannot_come_out_before_it_is_put_in(kind: Kind) -> None:
    decision = decided(kind, take(kind, 1, 0, 1), put(kind, 1, 2, 3))
    assert decision == Decision(False, (0, 1), f"{kind.take} returned 1 before it was put in")
    assert decided(kind, take(kind, 1, 0, 2), put(kind, 1, 1, 3)) == Decision(True)


@every_kind
def test_a_value_comes_out_once(kind: Kind) -> None:
    decision = decided(kind, put(kind, 1, 0, 1), take(kind, 1, 2, 3), take(kind, 1, 4, 5))
    assert decision == Decision(False, (0, 1, 2), f"{kind.take} returned 1 twice, and it had been put in once")


@every_kind
def test_nothing_is_found_only_where_nothing_need_be_inside(kind: Kind) -> None:
    decision = decided(kind, put(kind, 1, 0, 1), take(kind, None, 2, 3), take(kind, 1, 4, 5))
    assert decision == Decision(False, (0, 1, 2), f"a {kind.take} found nothing while 1 was inside")
    decision = decided(
        kind,
        put(kind, 1, 0, 1),
        take(kind, None, 2, 9),
        put(kind, 2, 3, 4),
        take(kind, 1, 5, 6),
        take(kind, 2, 10, 11),
    )
    assert decision is not None
    if kind is STACK:  # 2 lies on 1
        assert decision.culprits == (0, 2, 3, 4)
        return
    assert decision.culprits == (0, 1, 2, 3, 4)
    assert decision.reason == "a dequeue found nothing, and at every moment of it one of 1, 2 was inside"
    assert decided(kind, put(kind, 1, 0, 3), take(kind, None, 1, 2), take(kind, 1, 4, 5)) == Decision(True)


def test_a_fifo_queue_keeps_the_order_in_which_values_went_in() -> None:
    in_order = (put(FIFO, 1, 0, 1), put(FIFO, 2, 2, 3))
    assert decided(FIFO, *in_order, take(FIFO, 2, 4, 5), take(FIFO, 1, 6, 7)) == Decision(
        False, (0, 1, 2, 3), "1 was enqueued before 2 and dequeued after it"
    )
    assert decided(FIFO, *in_order, take(FIFO, 2, 4, 5)) == Decision(
        False, (0, 1, 2), "2 was dequeued, and 1, which had been enqueued before it, never was"
    )
    assert decided(FIFO, *in_order, take(FIFO, 2, 4, 6), take(FIFO, 1, 5, 7)) == Decision(True)
    assert decided(FIFO, put(FIFO, 1, 0, 2), put(FIFO, 2, 1, 3), take(FIFO, 2, 4, 5)) == Decision(True)


def test_a_stack_gives_first_what_came_last() -> None:
    in_order = (put(STACK, 1, 0, 1), put(STACK, 2, 2, 3))
    assert decided(STACK, *in_order, take(STACK, 1, 4, 5), take(STACK, 2, 6, 7)) == Decision(
        False, (0, 1, 2, 3), "1 was popped from under 2, which had been pushed after it and was popped later"
    )
    assert decided(STACK, *in_order, take(STACK, 1, 4, 5)) == Decision(
        False, (0, 1, 2), "1 was popped from under 2, which had been pushed after it and was never popped"
    )
    assert decided(STACK, *in_order, take(STACK, 1, 4, 6), take(STACK, 2, 5, 7)) == Decision(True)


def test_three_values_of_a_stack_clash_though_any_two_of_them_agree() -> None:
    calls = [
        put(STACK, 1, 0, 2),
        put(STACK, 2, 1, 4),  # under 1, so before it
        put(STACK, 3, 3, 7),  # under 2, but after 1
        take(STACK, 1, 5, 6),
        take(STACK, 2, 8, 9),
        take(STACK, 3, 10, 11),
    ]
    for value in (1, 2, 3):
        assert decided(STACK, *[call for call in calls if value not in (call.value, call.result)]) == Decision(True)
    decision = decided(STACK, *calls)
    assert decision == Decision(
        False,
        (0, 1, 2, 3, 4, 5),
        "one of 1, 2, 3 must lie under the others, and each was pushed too late or popped too early for that",
    )


def test_a_priority_queue_gives_the_smallest() -> None:
    assert decided(PRIORITY, put(PRIORITY, 1, 0, 1), put(PRIORITY, 2, 2, 3), take(PRIORITY, 2, 4, 5)) == Decision(
        False, (0, 1, 2), "2 was dequeued while 1 was inside, which is smaller"
    )
    assert decided(PRIORITY, put(PRIORITY, 1, 0, 5), put(PRIORITY, 2, 2, 3), take(PRIORITY, 2, 4, 6)) == Decision(True)


def test_a_value_that_smaller_ones_held_back_holds_back_larger_ones() -> None:
    calls = [
        put(PRIORITY, 1, 0, 1),
        put(PRIORITY, 2, 2, 3),
        put(PRIORITY, 3, 4, 5),
        take(PRIORITY, 2, 6, 14),
        take(PRIORITY, 3, 7, 11),
        take(PRIORITY, 1, 12, 13),
    ]
    held_back = [call for call in calls if 1 not in (call.value, call.result)]
    assert decided(PRIORITY, *held_back) == Decision(True)
    decision = decided(PRIORITY, *calls)
    assert decision is not None
    assert not decision.valid


@pytest.mark.parametrize(
    ("values", "judged"),
    [
        (["a", "b"], True),
        ([1, 2.5], True),
        ([(1, "a"), (1, "b")], True),
        ([1, "a"], False),
        ([(1, 2), (1, "a")], False),
        ([frozenset("a"), frozenset("b")], False),
    ],
)
def test_priorities_need_one_order_for_all(values: list[Any], judged: bool) -> None:
    first, second = values
    calls = (put(PRIORITY, first, 0, 1), put(PRIORITY, second, 2, 3), take(PRIORITY, second, 4, 5))
    decision = decided(PRIORITY, *calls)
    assert (decision is not None and not decision.valid) == judged
    assert (decision is None) != judged


@every_kind
def test_a_put_that_crashed_happens_only_if_its_value_came_out(kind: Kind) -> None:
    crashed = Call(kind.put, 1, 0)
    assert decided(kind, crashed, take(kind, None, 1, 2)) == Decision(True)
    assert decided(kind, crashed, take(kind, None, 1, 2), take(kind, 1, 3, 4)) == Decision(True)
    assert decided(kind, crashed, take(kind, 1, 1, 2), take(kind, 1, 3, 4)) != Decision(True)


@every_kind
def test_a_take_that_crashed_is_harmless_if_every_value_was_seen_to_come_out(kind: Kind) -> None:
    crashed = Call(kind.take, None, 2)
    assert decided(kind, put(kind, 1, 0, 1), crashed, take(kind, 1, 3, 4)) == Decision(True)
    assert decided(kind, put(kind, 1, 0, 1), crashed, take(kind, None, 3, 4)) is None


@every_kind
def test_values_put_in_twice_are_left_to_others_where_a_take_found_nothing(kind: Kind) -> None:
    assert decided(kind, put(kind, 1, 0, 1), put(kind, True, 2, 3), take(kind, None, 4, 5)) is None


@every_kind
def test_null_stands_for_nothing_and_is_left_to_the_model(kind: Kind) -> None:
    assert decided(kind, put(kind, None, 0, 1)) is None


def random_repeats(rng: random.Random) -> list[Call]:
    """An unordered queue with values that go in more than once, crashes of all kinds, and nothing found empty."""
    calls = random_calls(
        rng, BAG, count=rng.randint(3, 9), processes=rng.randint(2, 4), crashed_puts=0.15, crashed_takes=0.15
    )
    few = [replace(call, value=call.value and call.value % 3, result=_few(call)) for call in calls]
    return [call for call in (twisted(rng, BAG, few) if rng.random() < 0.7 else few) if call.result is not None]


def _few(call: Call) -> Any:
    return call.result % 3 if isinstance(call.result, int) else call.result


@pytest.mark.slow
def test_a_bag_without_empty_takes_is_decided_whatever_repeats_or_crashed() -> None:
    said: Counter[bool] = Counter()
    for seed in range(1000):
        ops = to_ops(random_repeats(random.Random(seed)))
        decision = BAG.decide(ops, BAG.model)
        assert decision is not None
        assert decision.valid == linearizable(ops, BAG.model), (seed, decision)
        said[decision.valid] += 1
        if not decision.valid:
            assert not linearizable(part(ops, list(decision.culprits)), BAG.model)
    assert min(said.values()) > 75


def test_a_value_cannot_leave_a_bag_more_often_than_it_went_in() -> None:
    twice = (put(BAG, 1, 0, 1), put(BAG, 1, 2, 3), take(BAG, 1, 4, 5), take(BAG, 1, 6, 7))
    assert decided(BAG, *twice, Call(BAG.take, None, 8)) == Decision(True)
    assert decided(BAG, *twice, take(BAG, 1, 8, 9), put(BAG, 1, 10, 11)) == Decision(
        False, (0, 1, 2, 3, 4), "1 was dequeued more often than enqueues of it had begun: 3 times, and 2"
    )


@every_kind
def test_the_model_of_a_container_is_asked_by_its_name(kind: Kind) -> None:
    history = [
        Op(process=0, type="invoke", f=kind.put, value=1),
        Op(process=0, type="ok", f=kind.put, value=1),
        Op(process=1, type="invoke", f=kind.take),
        Op(process=1, type="ok", f=kind.take, value=2),
    ]
    model = models.model(kind.name)
    found = deciders.decide(read_ops(to_table(history), model), model)
    assert found is not None
    assert found[1] == Decision(False, (1,), f"{kind.take} returned 2, which no op had put in")
