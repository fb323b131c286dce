"""Plans: from a history, to a file and back, and carried out by the runner exactly as they say."""

from __future__ import annotations

import asyncio
import dataclasses
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from splitbrain import run_test
from splitbrain.checkers.verdict import CheckerSpec
from splitbrain.harness.contract.clock import Runtime
from splitbrain.harness.contract.rng import Streams
from splitbrain.harness.contract.sessions import DefiniteError, IndefiniteError
from splitbrain.harness.contract.test import Test
from splitbrain.harness.generators import each, final, invoke, mix, repeat, sequence, sleep
from splitbrain.harness.generators.script import ScriptedFault, ScriptedOp
from splitbrain.harness.running.plan import Expectation, Plan, decode, encode, figures, kinds, load, plan_of, scripted
from splitbrain.results.errors import HistoryFormatError, StoreVersionError, UsageError
from splitbrain.results.history import NEMESIS, Op
from tests.harness.virtual import VirtualClock
from tests.harness.worlds import NODES, FakeClient, FakeNemesis, MemoryDeployment, MemoryRecorder, answer_ok, make_test

MS = 1_000_000


def carry_out(test: Test, clock: VirtualClock | None = None) -> list[Op]:
    """The history of a test in memory, under virtual time."""
    recorder = MemoryRecorder()

    async def simulated() -> None:
        own = clock or VirtualClock()
        pump = asyncio.ensure_future(own.advance())
        runtime = Runtime(clock=own, streams=Streams(test.seed))
        summary = await run_test(test, MemoryDeployment(test.nodes), runtime, recorder)
        pump.cancel()
        assert summary.failure is None

    asyncio.run(simulated())
    return recorder.ops


def busy_test(clock: VirtualClock, burst: int = 1) -> Test:
    """Clients that answer late, refuse and crash, while a node is killed and started."""
    network = Streams(9)["network"]

    async def respond(op: Op) -> Op:
        await clock.sleep_ns(network.between(1 * MS, 40 * MS))
        fate = network.random()
        if fate < 0.1:
            raise DefiniteError("refused")
        if fate < 0.2:
            raise IndefiniteError("lost")
        return op.complete("ok", op.value)

    return make_test(
        FakeClient(respond),
        concurrency=5,
        generator=mix(repeat(invoke("read", key="a")), each(lambda ctx: invoke("write", ctx.rng.below(5), key="b"))),
        rate=100.0,
        burst=burst,
        time_limit_s=5.0,
        nemesis=FakeNemesis(),
        faults=repeat(
            sequence(sleep(1), invoke("kill", {"fault": "kill", "action": "start"}), sleep(1), invoke("start"))
        ),
        heal=sequence(invoke("start")),
        final=final(invoke("read", key="a")),
        options={"seed": 1, "workload": "w"},
    )


@pytest.mark.parametrize("burst", [1, 4])
def test_a_recorded_run_gives_a_plan_and_the_plan_gives_the_same_run(burst: int) -> None:
    clock = VirtualClock()
    test = busy_test(clock, burst)
    history = carry_out(test, clock)
    plan = plan_of(history, test)
    assert plan.options == {"seed": 1, "workload": "w"}
    assert plan.placement == ("n1", "n2", "n3", "n1", "n2")
    assert len(plan.ops) > 400
    assert len(plan.final_ops) >= 5
    assert [each.f for each in plan.faults] == ["kill", "start", "kill", "start"]
    again = VirtualClock()
    replayed = carry_out(scripted(busy_test(again, burst), plan), again)
    assert replayed == history


def test_what_was_planned_is_invoked_at_its_time_on_its_thread_and_node() -> None:
    plan = Plan(
        options={},
        nodes=("n1", "n3"),
        placement=("n3", "n1", "n3"),
        end_ns=900 * MS,
        faults=(ScriptedFault(at_ns=200 * MS, f="kill"), ScriptedFault(at_ns=600 * MS, f="start")),
        ops=(
            ScriptedOp(at_ns=100 * MS, thread=2, f="write", key="k", value=1),
            ScriptedOp(at_ns=100 * MS, thread=0, f="read", key="k"),
            ScriptedOp(at_ns=350 * MS, thread=1, f="cas", key="k", value=[1, 2]),
        ),
        final_ops=(ScriptedOp(at_ns=0, thread=1, f="read", key="k"), ScriptedOp(at_ns=0, thread=1, f="read", key="l")),
    )
    test = make_test(FakeClient(answer_ok), nemesis=FakeNemesis("n3"), faults=repeat(invoke("kill")))
    history = carry_out(scripted(test, plan))
    begun = [op for op in history if op.type == "invoke"]
    clients = [(op.time // MS, op.process, op.node, op.f, op.key, op.value) for op in begun if op.process >= 0]
    assert clients[:3] == [
        (100, 2, "n3", "write", "k", 1),
        (100, 0, "n3", "read", "k", None),
        (350, 1, "n1", "cas", "k", [1, 2]),
    ]
    assert [each[1:5] for each in clients[3:]] == [(1, "n1", "read", "k"), (1, "n1", "read", "l")]
    assert [(op.time // MS, op.f) for op in begun if op.process == NEMESIS] == [(200, "kill"), (600, "start")]
    [heal] = [op.time // MS for op in history if op.f == "phase" and op.value["phase"] == "heal"]
    assert heal == 900


def test_a_busy_thread_holds_back_its_own_ops_only_and_goes_on_with_its_next_process() -> None:
    clock = VirtualClock()

    async def respond(op: Op) -> Op:
        await clock.sleep_ns(300 * MS if op.value == "slow" else 0)
        if op.value == "slow":
            raise IndefiniteError("lost")
        return op.complete("ok")

    plan = Plan(
        options={},
        nodes=NODES,
        placement=("n1", "n2"),
        end_ns=1000 * MS,
        ops=(
            ScriptedOp(at_ns=100 * MS, thread=0, f="write", value="slow"),
            ScriptedOp(at_ns=200 * MS, thread=0, f="read", value="second"),
            ScriptedOp(at_ns=210 * MS, thread=0, f="read", value="third"),
            ScriptedOp(at_ns=250 * MS, thread=1, f="read", value="other"),
        ),
    )
    history = carry_out(scripted(make_test(FakeClient(respond)), plan), clock)
    begun = [(op.time // MS, op.process, op.value) for op in history if op.type == "invoke"]
    assert begun == [(100, 0, "slow"), (250, 1, "other"), (400, 2, "second"), (400, 2, "third")]


def test_a_script_for_more_threads_than_there_are_is_refused() -> None:
    plan = Plan(options={}, nodes=NODES, placement=("n1",), end_ns=1, ops=(ScriptedOp(at_ns=0, thread=1, f="read"),))
    with pytest.raises(UsageError, match=r"ops\[0\] is for thread 1"):
        scripted(make_test(FakeClient()), plan)


def test_faults_need_a_nemesis() -> None:
    plan = Plan(options={}, nodes=NODES, placement=("n1",), end_ns=1, faults=(ScriptedFault(at_ns=0, f="kill"),))
    with pytest.raises(UsageError, match="no nemesis"):
        scripted(make_test(FakeClient()), plan)


def test_a_scripted_test_asks_for_no_coverage_beyond_its_plan() -> None:
    test = make_test(FakeClient())
    specs = (
        CheckerSpec("linearizable"),
        CheckerSpec("coverage", {"fs": ["cas"], "faults": ["kill"], "max_stall_share": 1}),
    )
    test = dataclasses.replace(test, workload=dataclasses.replace(test.workload, checkers=specs))
    plan = Plan(options={}, nodes=NODES, placement=("n1",), end_ns=1)
    linearizable, coverage = scripted(scripted(test, plan), plan).workload.checkers
    assert linearizable == specs[0]
    asked = {name: value for name, value in coverage.options.items() if name != "load"}
    judges = ["linearizable"]
    little: dict[str, Any] = {"fs": [], "faults": False, "floors": False}
    assert asked == {**little, "max_stall_share": 1, "judges": judges, "ended": True}
    assert scripted(scripted(test, plan), plan).name == "memory-plan"


def test_a_run_that_was_cut_off_gives_the_plan_of_what_there_is() -> None:
    clock = VirtualClock()
    test = busy_test(clock)
    history = carry_out(test, clock)[:300]
    plan = plan_of(history, test)
    assert plan.end_ns == history[-1].time
    assert plan.final_ops == ()
    plan.check()


# --- placement --------------------------------------------------------------------------------------------------------


def test_clients_are_where_the_placement_puts_them() -> None:
    client = FakeClient()
    history = carry_out(make_test(client, concurrency=3, placement=("n3", "n3", "n1")))
    nodes = {op.process: op.node for op in history if op.process >= 0}
    assert nodes == {0: "n3", 1: "n3", 2: "n1"}
    assert {each.node for each in client.opened[1:]} == {"n1", "n3"}


@pytest.mark.parametrize(
    ("placement", "problem"), [(("n1", "n2"), "2 nodes for 3 client threads"), (("n1", "n2", "n9"), "'n9'")]
)
def test_a_placement_must_fit_the_test(placement: tuple[str, ...], problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        make_test(FakeClient(), concurrency=3, placement=placement)


# --- files ------------------------------------------------------------------------------------------------------------

plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)
times = st.integers(0, 10**12)
names = st.text(min_size=1, max_size=5)
client_ops = st.builds(
    ScriptedOp, at_ns=times, thread=st.integers(0, 2), f=names, key=st.none() | st.text(max_size=3), value=plain
)
anything = st.builds(
    Plan,
    options=st.dictionaries(names, plain, max_size=4),
    nodes=st.just(("n1", "n2")),
    placement=st.just(("n1", "n2", "n1")),
    end_ns=st.integers(1, 10**12),
    faults=st.lists(st.builds(ScriptedFault, at_ns=times, f=names, value=plain), max_size=3).map(tuple),
    ops=st.lists(client_ops, max_size=5).map(tuple),
    final_ops=st.lists(client_ops, max_size=2).map(tuple),
    expect=st.none()
    | st.builds(
        Expectation,
        outcome=st.sampled_from(["pass", "violation", None]),
        anomalies=st.lists(names, max_size=2).map(tuple),
    ),
    versions=st.dictionaries(names, names, max_size=2),
)


@pytest.mark.slow
@given(plan=anything)
def test_a_plan_survives_its_file(plan: Plan) -> None:
    text = encode(plan)
    assert decode(text) == plan
    assert encode(decode(text)) == text


def small_plan(**changes: Any) -> Plan:
    plan = Plan(
        options={"workload": "register", "seed": 7},
        nodes=NODES,
        placement=("n1", "n2"),
        end_ns=2000 * MS,
        faults=(
            ScriptedFault(at_ns=500 * MS, f="kill", value={"fault": "kill", "action": "start"}),
            ScriptedFault(at_ns=700 * MS, f="start", value={"fault": "kill", "action": "stop"}),
        ),
        ops=(ScriptedOp(at_ns=5, thread=0, f="read", key="0"), ScriptedOp(at_ns=7, thread=1, f="write", value=3)),
    )
    return msgspec.structs.replace(plan, **changes)


def test_a_file_has_a_line_for_each_op() -> None:
    lines = encode(small_plan()).decode().splitlines()
    assert '    {"at_ns":5,"f":"read","key":"0","thread":0},' in lines
    assert '    {"at_ns":7,"f":"write","thread":1,"value":3}' in lines
    assert '  "final_ops": [],' in lines


def test_figures_count_what_strikes_and_not_what_heals() -> None:
    found = figures(small_plan())
    assert (found.faults, found.ops, found.clients, found.nodes, found.seconds) == (1, 2, 2, 3, 2.0)
    assert kinds(small_plan().faults) == ("kill",)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (encode(small_plan()).replace(b'"thread":1', b'"thread":5'), r"ops\[1\] is for thread 5"),
        (encode(small_plan()).replace(b'"thread":1', b'"thread":"1"'), r"\$\.ops\[1\]\.thread"),
        (encode(small_plan()).replace(b'"at_ns":7', b'"at_ns":-7'), r"ops\[1\] has a negative time"),
        (encode(small_plan()).replace(b'"ops"', b'"opps"'), "opps"),
        (encode(small_plan(end_ns=0)), "end_ns must be positive"),
        (
            encode(small_plan()).replace(b'"end_ns": 2000000000', b'"end_ns": ' + b"9" * 400),
            "end_ns is no time of a run",
        ),
        (encode(small_plan()).replace(b'"at_ns":7', b'"at_ns":' + b"9" * 400), r"ops\[1\] is due after more than 292"),
        (encode(small_plan(placement=("n9",))), "n9"),
        (encode(small_plan(nodes=())), "at least one node"),
        (b"[]", "not a plan"),
    ],
)
def test_a_wrong_plan_is_refused_with_its_place(text: bytes, problem: str, tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_bytes(text)
    with pytest.raises(HistoryFormatError, match=problem) as caught:
        load(path)
    assert str(path) in str(caught.value)


def test_a_syntax_error_is_told_with_its_line() -> None:
    text = encode(small_plan())
    line = text[: text.index(b'"thread":1')].count(b"\n") + 1
    with pytest.raises(HistoryFormatError) as caught:
        decode(text.replace(b'"thread":1', b'"thread"::1'), "mine.json")
    assert str(caught.value).startswith(f"mine.json:{line}: ")


def test_a_newer_plan_is_refused_and_a_missing_one_told() -> None:
    with pytest.raises(StoreVersionError, match="format 2"):
        decode(encode(small_plan(format=2)))
    with pytest.raises(UsageError, match="nowhere"):
        load("nowhere.json")


def _plan_text(**changes: Any) -> bytes:
    plan = Plan(
        options={"workload": "register", "seed": 1},
        nodes=("n1", "n2"),
        placement=("n1", "n2"),
        end_ns=1000,
        faults=(ScriptedFault(at_ns=10, f="kill", value={"action": "start", "fault": "kill"}),),
        ops=(ScriptedOp(at_ns=20, thread=1, f="read", key="0"),),
    )
    return encode(msgspec.structs.replace(plan, **changes))


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"nodes": ("../../x",), "placement": ("../../x",) * 2}, "'../../x' is not a valid node name"),
        ({"nodes": ("/etc",), "placement": ("/etc",) * 2}, "'/etc' is not a valid node name"),
        ({"faults": (ScriptedFault(at_ns=1, f="kill", value={"action": "boom"}),)}, "the action 'boom'"),
        ({"end_ns": 15}, r"ops\[0\] is due at 20, after end_ns 15"),
        ({"format": 0}, "there is no format 0"),
    ],
)
def test_a_plan_file_that_would_do_harm_or_nothing_is_refused_with_the_place(
    changes: dict[str, Any], problem: str, tmp_path: Path
) -> None:
    file = tmp_path / "plan.json"
    file.write_bytes(_plan_text(**changes))
    with pytest.raises(HistoryFormatError, match=problem):
        load(file)


def test_a_plan_that_is_nested_without_end_is_refused() -> None:
    with pytest.raises(HistoryFormatError):
        decode(b"[" * 100_000)


def test_the_digest_is_of_what_is_to_be_done_and_of_nothing_else() -> None:
    plan = decode(_plan_text())
    same = msgspec.structs.replace(plan, of_seed="x", versions={"python": "3"}, expect=Expectation(history="h"))
    assert same.digest() == plan.digest()
    assert msgspec.structs.replace(plan, ops=()).digest() != plan.digest()
    assert msgspec.structs.replace(plan, options={**plan.options, "seed": 2}).digest() != plan.digest()


def test_what_came_of_a_plan_is_known_until_it_is_changed() -> None:
    recorded = decode(_plan_text())
    recorded = msgspec.structs.replace(recorded, of_seed=recorded.digest())
    expect = Expectation(history="h", fingerprint="f")
    assert recorded.expecting(expect).known() == msgspec.structs.replace(expect, plan=recorded.digest())
    assert msgspec.structs.replace(recorded.expecting(expect), ops=()).known() is None
    assert msgspec.structs.replace(recorded, expect=expect, ops=()).known() is None


def test_what_came_of_a_plan_that_was_made_of_a_recorded_one_is_known() -> None:
    """As `shrink` makes it of a stored run; it does not follow the seed any more."""
    recorded = decode(_plan_text())
    smaller = msgspec.structs.replace(recorded, of_seed=recorded.digest(), ops=()).expecting(Expectation(history="h"))
    assert smaller.of_seed is None
    assert smaller.known() == smaller.expect
    assert msgspec.structs.replace(smaller, of_seed=recorded.digest()).known() == smaller.expect
