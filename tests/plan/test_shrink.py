"""Shrinking on made-up failures: the result fails, nothing can go from it, and it does not depend on the cores."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from splitbrain.harness.generators.script import ScriptedFault, ScriptedOp
from splitbrain.harness.running.plan import Expectation, Plan, encode, figures
from splitbrain.nemesis import reductions
from splitbrain.nemesis.shrink import ROOM_NS, Judge, Step, shrink
from splitbrain.results.errors import ProtocolError

MS = 1_000_000
S = 1000 * MS
NODES = ("n1", "n2", "n3", "n4", "n5")

Fails = Callable[[Plan], bool]


def one_by_one(fails: Fails) -> Judge:
    return lambda candidates: next((each for each in candidates if fails(each)), None)


def on_cores(count: int, fails: Fails) -> Judge:
    """Takes so many at once and judges the last of them first, as unlucky processes would."""

    def judge(candidates: Iterator[Plan]) -> Plan | None:
        while batch := list(itertools.islice(candidates, count)):
            failing = [each for each in reversed(batch) if fails(each)]
            if failing:
                return failing[-1]
        return None

    return judge


def fault(at_ms: int, kind: str, action: str, **request: Any) -> ScriptedFault:
    return ScriptedFault(at_ns=at_ms * MS, f=f"{action}-{kind}", value={"fault": kind, "action": action, **request})


def large_plan(**changes: Any) -> Plan:
    """Two minutes of ten clients on five nodes and four keys, with a partition or a kill all the time."""
    ops = [
        ScriptedOp(
            at_ns=(100 + 200 * i) * MS, thread=i % 10, f=("write", "read")[i // 10 % 2], key=str(i // 150), value=i
        )
        for i in range(600)
    ]
    faults = list[ScriptedFault]()
    for i in range(12):
        kind = ("partition", "kill")[i % 2]
        faults.append(fault(1000 + 10_000 * i, kind, "start", order=list(NODES), number=i))
        faults.append(fault(8000 + 10_000 * i, kind, "stop"))
    plan = Plan(
        options={"seed": 7},
        nodes=NODES,
        placement=tuple(NODES[i % 5] for i in range(10)),
        end_ns=121_000 * MS,
        faults=tuple(faults),
        ops=tuple(ops),
        final_ops=tuple(ScriptedOp(at_ns=0, thread=i, f="read", key=str(i % 4)) for i in range(10)),
    )
    return msgspec.structs.replace(plan, **changes)


def has(plan: Plan, *values: int) -> bool:
    found = [op.value for op in plan.ops]
    return all(value in found for value in values)


def strikes(plan: Plan, number: int) -> bool:
    return any(each.value.get("number") == number for each in plan.faults)


def test_what_matters_stays_and_everything_else_goes() -> None:
    def fails(plan: Plan) -> bool:
        return has(plan, 203, 217) and strikes(plan, 4) and len(plan.final_ops) >= 1 and "n4" in plan.nodes

    found = shrink(large_plan(), one_by_one(fails))
    assert found.minimal
    assert fails(found.plan)
    small = figures(found.plan)
    assert (small.faults, small.ops) == (1, 3)
    # one client takes over what three did; its node and the one that the failure asks for stay, for faults as well
    assert (small.clients, small.nodes) == (1, 1)
    assert [each.value["order"] for each in found.plan.faults] == [["n4"]]
    assert small.seconds < 1
    found.plan.check()


def test_a_run_that_fails_whatever_is_done_comes_down_to_one_idle_client() -> None:
    found = shrink(large_plan(), one_by_one(lambda plan: True))
    assert found.plan.ops == found.plan.final_ops == found.plan.faults == ()
    assert (len(found.plan.nodes), len(found.plan.placement)) == (1, 1)


@pytest.mark.parametrize(("needed_ns", "first"), [(60 * S, [60 * S]), (61 * S, [60 * S, 62 * S])])
def test_what_comes_after_the_evidence_goes_first(needed_ns: int, first: list[int]) -> None:
    ends: list[int] = []

    def fails(plan: Plan) -> bool:
        ends.append(plan.end_ns)
        return plan.end_ns >= needed_ns

    shrink(large_plan(), one_by_one(fails), evident_ns=60 * S - ROOM_NS[0])
    assert [round(end_ns / S) * S for end_ns in ends[: len(first)]] == first
    assert max(ends[len(first) :]) <= first[-1], "nothing as long as the whole run is tried again"


def test_evidence_that_says_nothing_of_the_end_does_no_harm() -> None:
    found = shrink(large_plan(), one_by_one(lambda plan: has(plan, 203)), evident_ns=1 * MS)
    assert [op.value for op in found.plan.ops] == [203]


@pytest.mark.slow
def test_a_run_that_fails_only_as_a_whole_stays_whole() -> None:
    plan = large_plan()
    found = shrink(plan, one_by_one(lambda candidate: candidate == plan))
    assert found.minimal
    assert found.plan == plan


def test_a_failure_that_needs_lucky_delays_is_tried_with_those_of_other_seeds() -> None:
    """Without them the search stays with hundreds of ops, since no half of them fails with the delays of this seed."""

    def fails(plan: Plan) -> bool:
        lucky = hashlib.blake2b(f"{plan.options.get('seed')} {len(plan.ops)}".encode()).digest()[0] < 64
        return has(plan, 300) and (len(plan.ops) == 600 or (lucky and len(plan.ops) >= 8))

    found = shrink(large_plan(options={"seed": 3}), one_by_one(fails)).plan
    assert fails(found)
    assert len(found.ops) <= 16
    assert found.options["seed"] > 3


def test_the_key_of_the_violation_is_kept_first() -> None:
    plan = large_plan(expect=Expectation(outcome="violation", key="2"))
    tried: list[Plan] = []

    def fails(candidate: Plan) -> bool:
        tried.append(candidate)
        return has(candidate, 310)

    assert [op.value for op in shrink(plan, one_by_one(fails)).plan.ops] == [310]
    with_several = [len(reductions.keys(each)) > 1 for each in tried]
    beginning = with_several.index(False)
    assert not any(with_several[beginning:])


def test_a_fault_goes_with_what_heals_it() -> None:
    plan = large_plan()
    assert [len(window) for window in reductions.windows(plan)] == [2] * 12
    unhealed = msgspec.structs.replace(plan, faults=(*plan.faults[:1], *plan.faults[2:]))
    assert reductions.windows(unhealed)[0] == (0,)
    without_first = reductions.with_windows(plan, reductions.windows(plan)[1:])
    assert without_first.faults == plan.faults[2:]


def test_nodes_go_with_their_clients_and_with_what_names_them() -> None:
    faults = (
        fault(1, "partition", "start", order=list(NODES)),
        fault(2, "packet", "start", links=[["n1", "n2"], ["n1", "n3"]]),
        fault(3, "kill", "start", node="n2"),
        fault(4, "disk", "start", nodes=["n2"]),
        fault(5, "clock", "start", offsets={"n1": 5, "n2": 7}),
    )
    less = reductions.with_nodes(large_plan(faults=faults), ["n1", "n3", "n4", "n5"])
    assert less is not None
    less.check()
    assert less.placement == ("n1", "n3", "n4", "n5") * 2
    assert [request["fault"] for request in (each.value for each in less.faults)] == ["partition", "packet", "clock"]
    assert less.faults[0].value["order"] == ["n1", "n3", "n4", "n5"]
    assert less.faults[1].value["links"] == [["n1", "n3"]]
    assert less.faults[2].value["offsets"] == {"n1": 5}
    assert len(less.ops) == 480
    assert reductions.with_nodes(large_plan(placement=("n1",) * 10), ["n2"]) is None


def test_clients_that_are_left_stay_on_their_nodes() -> None:
    less = reductions.with_threads(large_plan(), [3, 7, 8])
    assert less is not None
    less.check()
    assert less.placement == ("n4", "n3", "n4")
    before = {op.value: NODES[op.thread % 5] for op in large_plan().ops}
    assert all(less.placement[op.thread] == before[op.value] for op in less.ops)
    assert reductions.with_threads(large_plan(), []) is None


def test_a_run_begins_later_with_the_faults_that_are_in_force_then() -> None:
    later = reductions.beginning_at(large_plan(), 15_000 * MS)
    assert later is not None
    assert later.faults[0].value["number"] == 1
    assert later.faults[0].at_ns == 0
    assert later.faults[1].at_ns == 3000 * MS
    assert later.end_ns == 106_000 * MS
    assert min(op.at_ns for op in later.ops) == 100 * MS


def test_times_get_shorter_and_round_where_that_still_fails() -> None:
    def fails(plan: Plan) -> bool:
        if not has(plan, 203, 217):
            return False
        first, second = (op.at_ns for op in plan.ops if op.value in (203, 217))
        return second - first >= 1_700 * MS

    found = shrink(large_plan(), one_by_one(fails))
    first, second = (op.at_ns for op in found.plan.ops)
    assert second - first == 2000 * MS
    assert first % (500 * MS) == 0
    assert found.plan.end_ns <= second + 500 * MS


def test_the_budget_ends_the_search_with_what_it_has() -> None:
    left = iter(range(40))

    def fails(plan: Plan) -> bool:
        return has(plan, 203)

    found = shrink(large_plan(), one_by_one(fails), go_on=lambda: next(left, None) is not None)
    assert not found.minimal
    assert found.tried <= 40
    assert fails(found.plan)
    assert len(found.plan.ops) < 600


def test_progress_counts_what_was_tried_and_never_grows() -> None:
    steps: list[Step] = []
    found = shrink(large_plan(), one_by_one(lambda plan: has(plan, 203)), progress=steps.append)
    assert [step.tried for step in steps] == sorted(step.tried for step in steps)
    sizes = [reductions.size(step.plan) for step in steps]
    assert sizes == sorted(sizes, reverse=True)
    assert steps[-1] == Step(found.plan, found.tried, steps[-1].doing)


def test_a_judge_that_answers_with_another_plan_is_refused() -> None:
    with pytest.raises(ProtocolError, match="not given"):
        shrink(large_plan(), lambda candidates: large_plan(options={"seed": 8}))


# --- any failure whatever ---------------------------------------------------------------------------------------------

small_ops = st.builds(
    ScriptedOp,
    at_ns=st.integers(0, 3000).map(lambda ms: ms * MS),
    thread=st.integers(0, 3),
    f=st.sampled_from(["read", "write"]),
    key=st.sampled_from([None, "0", "1"]),
    value=st.integers(0, 3),
)


@st.composite
def small_plans(draw: st.DrawFn) -> Plan:
    kinds = draw(
        st.lists(st.tuples(st.sampled_from(["partition", "kill"]), st.sampled_from(["start", "stop"])), max_size=5)
    )
    times = sorted(draw(st.lists(st.integers(0, 3000), min_size=len(kinds), max_size=len(kinds))))
    return Plan(
        options={},
        nodes=("n1", "n2", "n3"),
        placement=("n1", "n2", "n3", "n1"),
        end_ns=3001 * MS,
        faults=tuple(fault(at, kind, action) for at, (kind, action) in zip(times, kinds, strict=True)),
        ops=tuple(draw(st.lists(small_ops, max_size=10))),
        final_ops=tuple(draw(st.lists(small_ops, max_size=3))),
    )


def erratic(plan: Plan, salt: int) -> Fails:
    """Fails for that plan, and for about a third of all others: nothing about it is monotonic."""
    own = encode(plan)

    def fails(candidate: Plan) -> bool:
        text = encode(candidate)
        return text == own or (sum(text) * 31 + len(text) + salt) % 3 == 0

    return fails


def single_steps(plan: Plan) -> Iterator[Plan | None]:
    """Every plan that lacks one thing."""
    for kept, build in (
        (plan.ops, reductions.with_ops),
        (plan.final_ops, reductions.with_final_ops),
        (plan.faults, reductions.with_faults),
        (range(len(plan.placement)), reductions.with_threads),
        (plan.nodes, reductions.with_nodes),
        (reductions.keys(plan), reductions.with_keys),
        (reductions.windows(plan), reductions.with_windows),
    ):
        for at in range(len(kept)):
            yield build(plan, [*kept[:at], *kept[at + 1 :]])  # pyright: ignore[reportArgumentType]


@pytest.mark.slow
@settings(max_examples=80)
@given(plan=small_plans(), salt=st.integers(0, 2))
def test_nothing_more_can_go_whatever_the_failure_is_like(plan: Plan, salt: int) -> None:
    fails = erratic(plan, salt)
    found = shrink(plan, one_by_one(fails))
    assert found.minimal
    assert fails(found.plan)
    found.plan.check()
    assert reductions.size(found.plan) <= reductions.size(plan)
    left = [each for each in single_steps(found.plan) if each is not None and fails(each) and each != plan]
    assert left == []


@pytest.mark.slow
@settings(max_examples=30)
@given(plan=small_plans(), salt=st.integers(0, 2))
def test_the_result_does_not_depend_on_how_many_are_judged_at_once(plan: Plan, salt: int) -> None:
    found = [shrink(plan, on_cores(count, erratic(plan, salt))) for count in (1, 2, 3, 16)]
    assert all(each == found[0] for each in found)
