"""Deciders that search keep to their share of a key's time, and leave the rest of it to the search."""

from __future__ import annotations

import importlib
import inspect
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from splitbrain.checkers.linearizable import deciders
from splitbrain.checkers.linearizable import judging as judging_module
from splitbrain.checkers.linearizable.deciders import (
    DECIDERS,
    SHARE,
    TIMED,
    Decision,
    fifo_pairs,
    queues,
    stack_nests,
    stacks,
)
from splitbrain.checkers.linearizable.deciders.sets import decide_set
from splitbrain.checkers.linearizable.judging import Judging
from splitbrain.checkers.linearizable.limits import WITHOUT_END, Budget
from splitbrain.checkers.linearizable.ops import Ops, read_ops
from splitbrain.checkers.linearizable.options import Options
from splitbrain.checkers.models import model
from splitbrain.results.arrow import to_table
from splitbrain.results.history import Op
from tests.checkers.linearizable.container_histories import (
    KINDS,
    Call,
    Kind,
    linearizable,
    random_calls,
    to_ops,
    twisted,
)
from tests.checkers.linearizable.decided import acknowledged, history_of
from tests.checkers.linearizable.support import Clock

LIMIT_S = 8.0


@pytest.fixture(scope="module", autouse=True)
def _compiled_kernels() -> None:
    deciders.warm_up()


def busy(kind: Kind, *, distinct: int | None, crashes: float) -> list[Call]:
    """A linearizable history of clients that are never idle."""
    rng = random.Random(f"timed {kind.name}")
    return random_calls(
        rng,
        kind,
        count=300,
        processes=8,
        crashed_puts=crashes,
        crashed_takes=crashes,
        hurry=0.0,
        distinct=distinct,
    )


def hard() -> Iterator[tuple[Kind, list[Call]]]:
    """Histories that only deciders which search have an answer to."""
    for kind in (KINDS[0], KINDS[2]):
        yield kind, busy(kind, distinct=3, crashes=0.0)
    for kind in KINDS:
        yield kind, busy(kind, distinct=None, crashes=0.1)


every_hard_one = pytest.mark.parametrize(
    ("kind", "calls"), [*hard()], ids=["fifo values", "stack values", *(f"{kind.name} crashes" for kind in KINDS)]
)


def history(calls: list[Call]) -> list[Op]:
    """As clients would have recorded it; each op is of a process of its own."""
    rows: list[tuple[int, Op]] = []
    for process, call in enumerate(calls):
        op = Op(process=process, type="invoke", f=call.f, value=call.value)
        rows.append((call.invoked, op))
        if not call.crashed:
            rows.append((call.completed, op.complete("ok", call.result)))
    return [op for _, op in sorted(rows, key=lambda row: row[0])]


def test_deciders_are_given_a_budget_exactly_if_they_take_one() -> None:
    for algorithm, location in {each for of_model in DECIDERS.values() for each in of_model}:
        module, _, function = location.partition(":")
        found = getattr(importlib.import_module(module), function)
        assert ("budget" in inspect.signature(found).parameters) == (algorithm in TIMED), algorithm


@every_hard_one
def test_a_decider_without_time_has_no_answer(kind: Kind, calls: list[Call]) -> None:
    ops = to_ops(calls)
    assert deciders.decide(ops, kind.model) is not None
    with Budget(LIMIT_S, Clock(LIMIT_S / 4).cpu_s) as budget:
        assert deciders.decide(ops, kind.model, budget) is None


@every_hard_one
@pytest.mark.parametrize("looks", [10, 100, 1000])
def test_deciders_together_take_no_more_than_their_share(kind: Kind, calls: list[Call], looks: int) -> None:
    clock = Clock(LIMIT_S / looks)
    with Budget(LIMIT_S, clock.cpu_s) as budget:
        deciders.decide(to_ops(calls), kind.model, budget)
    assert clock.now <= SHARE * LIMIT_S + 20 * LIMIT_S / looks


@every_hard_one
def test_where_a_decider_runs_out_of_time_the_search_has_the_rest(kind: Kind, calls: list[Call]) -> None:
    tick = LIMIT_S / 50
    clock = Clock(tick)
    judging = Judging(to_table(history(calls)), kind.model, Options(kind.name, time_limit_s=LIMIT_S), clock.cpu_s)
    judging.start()
    begun = clock.now
    assert begun <= SHARE * LIMIT_S + 30 * tick  # some for the trial of the general search
    if judging.valid is None:
        while not judging.advance(1.0):
            assert clock.now <= LIMIT_S + 20 * tick
        assert clock.now >= begun + (1 - SHARE) * LIMIT_S / 2 or judging.valid == "true"
    assert judging.valid != "false"


def small(seed: int, kind: Kind, *, distinct: int | None, crashes: float) -> list[Call]:
    rng = random.Random(f"{kind.name} {seed}")
    calls = random_calls(
        rng, kind, count=8, processes=3, crashed_puts=crashes, crashed_takes=crashes, hurry=0.3, distinct=distinct
    )
    return twisted(rng, kind, calls)


SEARCHED = [
    pytest.param(replace(KINDS[0], decide=fifo_pairs.fifo), fifo_pairs.fifo, 2, id="fifo-pairs"),
    pytest.param(replace(KINDS[2], decide=stack_nests.stack), stack_nests.stack, 2, id="stack-nests"),
    pytest.param(KINDS[0], queues.fifo_crashed, None, id="fifo-crashes"),
    pytest.param(KINDS[2], stacks.stack_crashed, None, id="stack-crashes"),
]


def test_what_the_general_search_decides_at_once_is_not_left_to_a_decider_that_searches(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With values that repeat, such a decider may take most of a second where the search takes some milliseconds."""
    asked: list[bool | None] = []

    def decide(*given: Any, searching: bool | None = None) -> None:
        asked.append(searching)

    monkeypatch.setattr(judging_module, "decide", decide)
    rng = random.Random(1)
    calls = random_calls(rng, KINDS[0], count=30, processes=2, distinct=2)
    judging = Judging(to_table(history(calls)), KINDS[0].model, Options("fifo-queue"), Clock(1e-6).cpu_s)
    judging.start()
    assert judging.valid == "true"
    assert asked == [False]


@pytest.mark.parametrize(("kind", "decider", "distinct"), SEARCHED)
def test_what_a_decider_says_when_time_runs_out_on_the_way_is_true(
    kind: Kind, decider: deciders.TimedDecider, distinct: int | None
) -> None:
    """Whether before the verdict, while it looks for the smallest prefix, or among the culprits."""
    said: Counter[str] = Counter()
    for seed in range(40):
        ops = to_ops(small(seed, kind, distinct=distinct, crashes=0.3 if distinct is None else 0.0))
        whole = decider(ops, kind.model, WITHOUT_END)
        assert whole is not None
        assert whole.valid == linearizable(ops, kind.model)
        for looks in () if whole.valid else (2, 4, 8, 16, 32, 64, 2000):
            with Budget(LIMIT_S, Clock(LIMIT_S / looks).cpu_s) as budget:
                decision = decider(ops, kind.model, budget)
            said["nothing" if decision is None else "all" if decision == whole else "less"] += 1
            if decision is not None:
                assert_true_of(decision, ops, kind)
    assert said["all"] > 3
    assert said["nothing"] + said["less"] > 0


def assert_true_of(decision: Decision, ops: Ops, kind: Kind) -> None:
    """It cannot be linearized, the culprits are to blame, and what is called the smallest prefix is that."""
    assert not decision.valid
    assert decision.reason
    assert "null" not in decision.reason
    assert not linearizable(ops, kind.model, must=decision.culprits)
    if decision.exact:
        rows = ops.completed[~ops.crashed]
        end = int(ops.completed[list(decision.culprits)].max())
        assert linearizable(ops, kind.model, until=int(rows[rows < end].max(initial=-1)))


def test_the_searches_for_elements_of_a_set_end_with_their_time() -> None:
    rows = [row for i in range(40) for row in (*acknowledged(0, "add", i, True), *acknowledged(1, "contains", i, True))]
    ops = read_ops(to_table(history_of(*rows)), model("set"))
    assert decide_set(ops, model("set")) is not None
    with Budget(LIMIT_S, Clock(LIMIT_S).cpu_s) as budget:
        assert decide_set(ops, model("set"), budget) is None
