"""Segments against the whole history, and against the definition of linearizability."""

from __future__ import annotations

import random
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from splitbrain.checkers import models
from splitbrain.checkers.linearizable import segments
from splitbrain.checkers.linearizable.ops import read_ops
from splitbrain.checkers.linearizable.search import Limits
from splitbrain.checkers.linearizable.segments import Plan, Relation, Segment, UndecidedError
from splitbrain.checkers.linearizable.transitions import Stepper, steps_by_assignment
from splitbrain.checkers.models import Model
from splitbrain.results.arrow import to_table
from splitbrain.results.history import Op, pairs
from tests.checkers.linearizable.bursts import bursty_history
from tests.checkers.linearizable.small_histories import VOCABULARIES
from tests.checkers.linearizable.support import Table, failing_index, finals, search

ASSIGNED = sorted(name for name, each in VOCABULARIES.items() if steps_by_assignment(models.model(each.model)))
CLOSED = ["semaphore", "set", "grow-set"]

shapes = st.tuples(
    st.integers(0, 2**32),
    st.integers(2, 6),
    st.integers(1, 5),
    st.integers(1, 3),
    st.sampled_from([0.0, 0.03, 0.2]),
    st.sampled_from([0.0, 0.05, 0.4]),
    st.sampled_from([1, 6, 12]),
    st.sampled_from([1, 2, 5]),
)


def history_of(vocabulary: str, shape: tuple[Any, ...]) -> list[Op]:
    seed, bursts, ops, processes, lies, crashes, _, _ = shape
    return bursty_history(
        random.Random(seed), vocabulary, bursts=bursts, ops=ops, processes=processes, lies=lies, crashes=crashes
    )


def pieces_of(history: Sequence[Op], plan: Plan) -> list[list[Op]]:
    """The rows of each segment, as one that has only the cuts would part them."""
    parts: list[list[Op]] = [[] for _ in range(len(plan.cuts) + 1)]
    for op in history:
        parts[int(np.searchsorted(plan.cuts, op.index, side="right"))].append(op)
    return parts


def worked_out(history: Sequence[Op], model: Model, plan: Plan) -> list[Segment]:
    limits = Limits(cells=1_000_000)
    return [segments.segment(to_table(part), model, plan.vocabulary, limits) for part in pieces_of(history, plan)]


@contextmanager
def probing_after(events: int) -> Generator[None]:
    """Compare searches after so few events, in small histories too, and search from any number of states."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(segments, "FIRST_PROBE", events)
        patch.setattr(segments, "MOST_APART", 1000)
        yield


def assert_as_whole(history: list[Op], model: Model, rows: int) -> tuple[bool, int]:
    """What the segments say is what the frontier says of the whole; whether that is good, and how many there are."""
    plan = segments.plan(to_table(history), model, segment_rows=rows)
    whole, problem, ops, _ = search(model, history)
    failing = segments.first_impossible([each.relation for each in worked_out(history, model, plan)], model.init())
    assert (failing is None) == (whole.answer == "linearizable")
    if failing is not None:
        index = failing_index(problem, ops, whole)
        assert np.searchsorted(plan.cuts, index, side="right") == failing
    assert sum(each.ops for each in worked_out(history, model, plan)) == plan.judged == len(ops.invoked)
    return failing is None, len(plan.cuts) + 1


@pytest.mark.slow
@pytest.mark.parametrize("vocabulary", ASSIGNED)
@settings(max_examples=12)
@given(shape=shapes)
def test_segments_say_what_the_frontier_says_of_the_whole(vocabulary: str, shape: tuple[Any, ...]) -> None:
    history = history_of(vocabulary, shape)
    model = models.model(VOCABULARIES[vocabulary].model)
    with probing_after(shape[-1]):
        assert_as_whole(history, model, shape[-2])
        assert_as_whole(history, Table(model), shape[-2])


@pytest.mark.parametrize("vocabulary", CLOSED)
@settings(max_examples=20)
@given(shape=shapes)
def test_segments_of_a_closed_table_do_too(vocabulary: str, shape: tuple[Any, ...]) -> None:
    history = history_of(vocabulary, shape)
    with probing_after(shape[-1]):
        assert_as_whole(history, models.model(VOCABULARIES[vocabulary].model), shape[-2])


@pytest.mark.slow
@pytest.mark.parametrize("vocabulary", [*ASSIGNED, *CLOSED])
def test_segments_agree_with_the_whole_on_many_histories(vocabulary: str) -> None:
    rng = random.Random(vocabulary)
    model = models.model(VOCABULARIES[vocabulary].model)
    for _ in range(40):
        lies, crashes = rng.choice([0.0, 0.02, 0.1]), rng.choice([0.0, 0.02, 0.1, 0.3])
        history = bursty_history(
            rng,
            vocabulary,
            bursts=rng.randint(2, 6),
            ops=rng.randint(2, 7),
            processes=rng.randint(2, 4),
            lies=lies,
            crashes=crashes,
        )
        with probing_after(rng.choice([1, 2, 3, 5, 8])):
            assert_as_whole(history, model, rng.choice([1, 6, 12, 20]))


@pytest.mark.slow
@pytest.mark.parametrize("vocabulary", ["cas-register", "register, unique writes", "mutex"])
def test_the_random_histories_are_cut_and_are_of_both_kinds(vocabulary: str) -> None:
    rng = random.Random(vocabulary)
    model = models.model(VOCABULARIES[vocabulary].model)
    found = [
        assert_as_whole(
            bursty_history(rng, vocabulary, bursts=5, ops=4, processes=3, lies=lies, crashes=0.02), model, 6
        )
        for lies in (0.0, 0.1)
        for _ in range(15)
    ]
    assert 5 < sum(good for good, _ in found) < 28
    assert sum(count > 2 for _, count in found) > 15


class From:
    """A model that begins in another state."""

    def __init__(self, model: Model, state: Any) -> None:
        self.name, self.fs, self.step, self.observes = model.name, model.fs, model.step, model.observes
        self._state = state

    def init(self) -> Any:
        return self._state


@pytest.mark.parametrize("vocabulary", ["register", "cas-register", "create-once", "mutex"])
def test_a_relation_is_what_the_definition_says_from_every_state(vocabulary: str) -> None:
    rng = random.Random(vocabulary)
    model = models.model(VOCABULARIES[vocabulary].model)
    impossible = possible = 0
    for _ in range(60):
        history = bursty_history(rng, vocabulary, bursts=2, ops=4, processes=3, lies=0.1, crashes=0.0)
        with probing_after(rng.choice([1, 2, 64])):
            relation = segments.segment(to_table(history), model, None, Limits()).relation
        for state in (None, 0, 1, 2, "free", "held", "never heard of"):
            ends = frozenset(finals(From(model, state), history, history[-1].index))
            assert relation.after(state) == ends
            impossible += not ends
            possible += bool(ends)
    assert min(impossible, possible) > 15


@pytest.mark.slow
@pytest.mark.parametrize("vocabulary", ["cas-register", "cas-register, unique values"])
def test_parts_compose_to_the_whole(vocabulary: str) -> None:
    rng = random.Random(vocabulary)
    model = models.model(VOCABULARIES[vocabulary].model)
    for _ in range(20):
        history = bursty_history(rng, vocabulary, bursts=4, ops=3, processes=3, lies=0.05, crashes=0.0)
        plan = segments.plan(to_table(history), model, segment_rows=1)
        parts = [each.relation for each in worked_out(history, model, plan)]
        whole = segments.segment(to_table(history), model, None, Limits()).relation
        for state in [None, *range(15)]:
            ends = frozenset({state})
            for part in parts:
                ends = part.image(ends)
            assert ends == whole.after(state)


def test_a_state_that_no_part_names_stays_apart_from_the_others() -> None:
    """Whatever was there is still there after a cas that did not match, unless it is what did not match."""
    same = frozenset({segments.SAME})
    reads_1, refuses_1 = Relation({1: frozenset({1})}, frozenset()), Relation({1: frozenset()}, same)
    writes_1 = Relation({}, frozenset({1}))
    assert refuses_1.image({1, 2, 3}) == {2, 3}
    assert segments.first_impossible([refuses_1, reads_1], 1) == 0
    assert segments.first_impossible([refuses_1, reads_1], 2) == 1
    assert segments.first_impossible([refuses_1, refuses_1, writes_1, reads_1], 2) is None
    assert segments.first_impossible([], 2) is None


@settings(max_examples=60)
@given(shape=shapes)
def test_a_cut_is_where_nothing_is_pending_and_nothing_that_crashed_may_still_happen(shape: tuple[Any, ...]) -> None:
    history = history_of("cas-register", shape)
    model = models.model("cas-register")
    ops = read_ops(to_table(history), model)
    stepper = Stepper(model, ops.transitions, cells=1)
    expected: list[int] = []
    for row in range(1, len(history)):
        here = history[row].index
        open_ = False
        for pair in pairs(history):
            end = pair.completion
            crashed = end is None or end.type == "info"
            if crashed:
                open_ |= pair.invoke.f != "read" and not is_identity(pair.invoke) and pair.invoke.index < here
            else:
                assert end is not None
                open_ |= pair.invoke.index < here <= end.index
        if not open_:
            expected.append(row)
    assert segments.quiescent(ops, stepper.observer).tolist() == expected


def is_identity(op: Op) -> bool:
    return op.f == "cas" and op.value[0] == op.value[1]


def sequential(*calls: tuple[str, Any, Any]) -> list[Op]:
    rows: list[Op] = []
    for f, value, result in calls:
        invoke = Op(process=0, type="invoke", f=f, value=value)
        rows += [invoke, invoke.complete("ok", result)]
    return [msgspec.structs.replace(op, index=index) for index, op in enumerate(rows)]


def test_what_crashed_and_observes_may_end_in_a_later_segment() -> None:
    slow = Op(process=1, type="invoke", f="read")
    calls = sequential(*[("write", n, n) for n in range(6)])
    rows = [calls[0], slow, *calls[1:7], slow.complete("info"), *calls[7:]]
    history = [msgspec.structs.replace(op, index=index) for index, op in enumerate(rows)]
    plan = segments.plan(to_table(history), models.model("register"), segment_rows=4)
    assert len(plan.cuts) == 2
    assert any(op.type == "info" for op in pieces_of(history, plan)[1])
    assert assert_as_whole(history, models.model("register"), 4) == (True, 3)


def test_an_op_of_a_function_that_is_not_judged_is_not_cut_in_two() -> None:
    model, rows, asked = models.model("register"), list[Op](), None
    for number in range(40):
        if number % 3 == 0:  # of a second process, around three writes
            rows += [] if asked is None else [asked.complete("ok", [number])]
            asked = Op(process=2, type="invoke", f="runs", time=number) if number % 6 else None
            rows += [] if asked is None else [asked]
        write = Op(process=1, type="invoke", f="write", value=number, time=number)
        rows += [write, write.complete("ok", number)]
    history = [msgspec.structs.replace(op, index=index) for index, op in enumerate(rows)]
    found = segments.plan(to_table(history), model, functions=("write",), segment_rows=8)
    assert len(found.cuts) > 2
    assert found.ops == found.judged == 40
    parts = [
        segments.segment(to_table(part), model, found.vocabulary, Limits(), ("write",))
        for part in pieces_of(history, found)
    ]
    assert sum(part.ops for part in parts) == 40


def test_a_failed_op_is_not_cut_in_two() -> None:
    """Half of it would be an op that may have happened: a write of 7 that explains the read of 7."""
    failed = Op(process=1, type="invoke", f="write", value=7)
    calls = sequential(("write", 1, 1), ("read", None, 1), ("read", None, 7))
    rows = [failed, *calls, failed.complete("fail", 7)]
    history = [msgspec.structs.replace(op, index=index) for index, op in enumerate(rows)]
    assert segments.plan(to_table(history), models.model("register"), segment_rows=1).cuts == ()
    assert assert_as_whole(history, models.model("register"), 1) == (False, 1)


class Modulo:
    """Counts to a thousand and begins again: too many states for a closed table."""

    name = "modulo"
    fs = frozenset({"add"})

    def init(self) -> Any:
        return 0

    def step(self, state: Any, f: str, value: Any, result: Any) -> Any:
        return (state + value) % 1000

    def observes(self, f: str, value: Any, result: Any) -> bool:
        return False


@pytest.mark.parametrize("model", [models.model("counter"), Modulo()], ids=["counter", "modulo"])
def test_a_model_with_too_many_states_is_not_cut_and_says_why(model: Model) -> None:
    history = sequential(*[("add", 1, 1)] * 6000)
    plan = segments.plan(to_table(history), model, segment_rows=10)
    assert (plan.cuts, plan.why_not) == ((), f"a segment could begin in any state of the model {model.name!r}")


def test_a_history_without_a_quiet_moment_says_that() -> None:
    ends = [Op(process=n % 2, type="invoke", f="write", value=n) for n in range(9)]
    rows = [ends[0]]
    for before, after in pairwise(ends):
        rows += [after, before.complete("ok", before.value)]
    busy = [msgspec.structs.replace(op, index=index) for index, op in enumerate(rows)]
    register = models.model("register")
    assert segments.plan(to_table(busy), register, segment_rows=4).why_not == "at no moment was nothing under way"
    crashed = [msgspec.structs.replace(op, index=index) for index, op in enumerate([*sequential(("read", None, None))])]
    crashed += [
        Op(index=2, process=1, type="invoke", f="write", value=1),
        *[msgspec.structs.replace(op, index=op.index + 3) for op in sequential(*[("read", None, 1)] * 9)],
    ]
    plan = segments.plan(to_table(crashed), register, segment_rows=4)
    assert plan.why_not == "op 2 crashed and may have taken effect at any later time"
    quiet = sequential(("write", 1, 1), ("read", None, 1))
    plan = segments.plan(to_table(quiet), register, segment_rows=4)
    assert plan.why_not == "at no moment after its first 4 rows was nothing under way"


def test_segments_are_as_long_as_asked_and_end_where_a_crash_does_not() -> None:
    history = sequential(*[("write", n, n) for n in range(100)])
    register = models.model("register")
    assert segments.plan(to_table(history), register, segment_rows=50).cuts == (50, 100, 150)
    crash = Op(index=1000, process=5, type="invoke", f="write", value=7)
    after = [msgspec.structs.replace(op, index=op.index + 1001) for op in history]
    assert segments.plan(to_table([*history, crash, *after]), register, segment_rows=50).cuts == (50, 100, 150, 1000)


def calls_in_order(*steps: tuple[int, str, str, Any]) -> list[Op]:
    """Rows by process, type, function and value, as they come."""
    rows = [Op(process=process, type=kind, f=f, value=value) for process, kind, f, value in steps]  # pyright: ignore[reportArgumentType]
    return [msgspec.structs.replace(op, index=index) for index, op in enumerate(rows)]


def test_equal_states_are_not_an_equal_future() -> None:
    """One that begins with 1 need not have used the slow write of 1 for the first read, and has it for the second."""
    history = calls_in_order(
        (0, "invoke", "write", 1),
        (1, "invoke", "read", None),
        (1, "ok", "read", 1),
        (1, "invoke", "write", 5),
        (1, "ok", "write", 5),
        (1, "invoke", "read", None),
        (1, "ok", "read", 1),
        (0, "ok", "write", 1),
    )
    with probing_after(3):
        relation = segments.segment(to_table(history), models.model("register"), None, Limits()).relation
    assert relation == Relation({1: frozenset({1})}, frozenset())


def test_searches_that_have_come_to_the_same_go_on_as_one() -> None:
    """From 0 and from anything else the first read is possible; after the two writes nothing tells them apart."""
    first = calls_in_order(
        (1, "invoke", "write", 0),
        (0, "invoke", "read", None),
        (0, "ok", "read", 0),
        (1, "ok", "write", 0),
    )
    rest = sequential(*[("write", n % 3, n % 3) for n in range(2000)])
    history = [msgspec.structs.replace(op, index=index) for index, op in enumerate([*first, *rest])]
    found = segments.segment(to_table(history), models.model("register"), None, Limits())
    assert found.relation == Relation({}, frozenset({1}))
    assert found.searches == 3
    assert found.expanded < 1.2 * search(models.model("register"), history)[0].expanded


@pytest.mark.slow
@pytest.mark.parametrize("vocabulary", ["cas-register", "register, unique writes", "mutex"])
def test_states_that_cannot_be_the_first_cost_next_to_nothing(vocabulary: str) -> None:
    """All segments together expand hardly more configurations than one search of the whole, from one state."""
    history = bursty_history(random.Random(1), vocabulary, bursts=60, ops=40, processes=10, lies=0.0, crashes=0.0)
    model = models.model(VOCABULARIES[vocabulary].model)
    whole = search(model, history)[0]
    plan = segments.plan(to_table(history), model, segment_rows=1000)
    parts = worked_out(history, model, plan)
    assert len(parts) >= 4
    assert segments.first_impossible([each.relation for each in parts], model.init()) is None
    assert sum(each.expanded for each in parts) < 1.25 * whole.expanded + 1000
    assert max(each.searches for each in parts) < 30


def test_a_limit_that_is_reached_leaves_a_segment_undecided() -> None:
    history = bursty_history(random.Random(1), "cas-register", bursts=2, ops=40, processes=5, lies=0.0, crashes=0.0)
    with pytest.raises(UndecidedError, match="time"):
        segments.segment(to_table(history), models.model("cas-register"), None, replace(Limits(), time_s=0.0))


def test_transitions_that_python_takes_for_equal_stay_apart() -> None:
    """1 and true are equal to Python; to a set one of them answers whether it was changed."""
    model = models.model("set")
    for asked, valid in (
        ([("contains", 5, False), ("add", 0, 0), ("remove", 0, False), ("remove", 0, 0)], False),
        ([("remove", 1, 1), ("add", 1, 1), ("remove", 1, True)], True),
    ):
        calls = [Op(process=0, type="invoke", f=f, value=value) for f, value, _ in asked]
        both = zip(calls, asked, strict=True)
        ops = [op for call, (_, _, result) in both for op in (call, call.complete("ok", result))]
        history = [msgspec.structs.replace(op, index=index) for index, op in enumerate(ops)]
        plan = segments.plan(to_table(history), model, segment_rows=2)
        assert len(plan.cuts) > 1
        worked_out = [
            segments.segment(to_table(piece), model, plan.vocabulary, Limits()).relation
            for piece in pieces_of(history, plan)
        ]
        assert (segments.first_impossible(worked_out, model.init()) is None) == valid
