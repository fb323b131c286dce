"""The runner on worlds in memory and the real clock: what is recorded when clients, nodes and plug-ins misbehave."""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec
import pytest
from virtual import VirtualClock
from worlds import (
    NODES,
    READ,
    FakeClient,
    FakeNemesis,
    MemoryDeployment,
    MemoryRecorder,
    MemorySystem,
    answer_ok,
    make_test,
    never,
)

from splitbrain import RunSummary, Stop, real_runtime, run_test
from splitbrain.harness.contract.clock import Runtime
from splitbrain.harness.contract.deployments import Deployment
from splitbrain.harness.contract.nodes import ClockOffset, NodeId, NodeStatus
from splitbrain.harness.contract.rng import Streams
from splitbrain.harness.contract.sessions import DefiniteError, IndefiniteError
from splitbrain.harness.contract.test import NemesisContext, OpShape, Test
from splitbrain.harness.generators import (
    Context,
    Generator,
    Pending,
    Result,
    each,
    final,
    invoke,
    limit,
    mix,
    once,
    rate,
    repeat,
    sequence,
    sleep,
)
from splitbrain.harness.running import scheduler
from splitbrain.harness.running.recovery import Ended, OwnProblem
from splitbrain.harness.running.runner import note_no_start
from splitbrain.results.arrow import to_table
from splitbrain.results.errors import (
    BackendError,
    HarnessError,
    NemesisError,
    ProtocolError,
    SystemUnderTestError,
    UsageError,
)
from splitbrain.results.history import HARNESS, NEMESIS, Op, pairs


def run(
    test: Test,
    deployment: MemoryDeployment | None = None,
    recorder: MemoryRecorder | None = None,
    beside: Callable[[], Awaitable[None]] | None = None,
    clock: VirtualClock | None = None,
    **options: Any,
) -> tuple[RunSummary, MemoryRecorder]:
    """Run a test under the real clock, or under a virtual one for claims about time that hold on a busy machine too."""
    recorder = recorder or MemoryRecorder()
    runtime = real_runtime(test.seed) if clock is None else Runtime(clock=clock, streams=Streams(test.seed))

    async def both() -> RunSummary:
        other = asyncio.ensure_future(beside()) if beside is not None else None
        pump = asyncio.ensure_future(clock.advance()) if clock is not None else None
        summary = await run_test(test, deployment or MemoryDeployment(), runtime, recorder, **options)
        if pump is not None:
            pump.cancel()
        if other is not None:
            await other
        return summary

    return asyncio.run(both()), recorder


def assert_well_formed(history: list[Op]) -> None:
    """Indexes without gaps, times that never go back, and processes that obey the rules of a history."""
    assert [op.index for op in history] == list(range(len(history)))
    assert all(a.time <= b.time for a, b in itertools.pairwise(history))
    assert all(pair.completion is not None for pair in pairs(history))
    crashed: set[int] = set()
    for op in history:
        if op.process >= 0:
            assert op.process not in crashed, f"process {op.process} acts after its crash"
            if op.type == "info":
                crashed.add(op.process)


# --- clients --------------------------------------------------------------------------------------------------------


def test_every_op_is_recorded_with_its_completion_node_and_time() -> None:
    summary, recorder = run(make_test(FakeClient()))
    assert_well_formed(recorder.ops)
    ops = recorder.clients()
    assert summary.ok > 20
    assert summary.ok == len(ops) // 2
    assert (summary.fail, summary.info, summary.failure, summary.interrupted) == (0, 0, None, False)
    assert (summary.ops, summary.rows) == (len(ops) // 2, len(recorder.ops))
    assert {(op.process, op.node) for op in ops} == {(0, "n1"), (1, "n2"), (2, "n3")}
    assert 0 <= recorder.ops[0].time < recorder.ops[-1].time < 2_000_000_000


def test_ops_of_different_processes_overlap() -> None:
    together = most = 0

    async def slow(op: Op) -> Op:
        nonlocal together, most
        together += 1
        most = max(most, together)
        await asyncio.sleep(0.05)
        together -= 1
        return op.complete("ok")

    run(make_test(FakeClient(slow), rate=1000.0))
    assert most == 3


def test_the_rate_of_the_test_is_kept() -> None:
    summary, _ = run(make_test(FakeClient(), rate=100.0, time_limit_s=5), clock=VirtualClock())
    assert summary.ok == 500


class Shown(msgspec.Struct, frozen=True):
    """Reads, and notes as of which times it is shown ops that ended."""

    times: list[int]

    def op(self, ctx: Context) -> Result:
        return Op(process=ctx.processes[ctx.free_threads[0]], type="invoke", f="read"), self

    def update(self, ctx: Context, event: Op) -> Shown:
        if event.process >= 0 and event.type != "invoke":
            self.times.append(ctx.time_ns)
        return self


def test_a_generator_that_is_idle_is_not_asked_and_is_shown_each_op_as_of_its_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[int] = []
    ask = scheduler.validate.emitted

    def asks(generator: Generator, ctx: Context) -> Result:
        asked.append(ctx.time_ns)
        return ask(generator, ctx)

    def never_idle(_: Generator) -> int:
        return 0

    async def slow(op: Op) -> Op:
        await clock.sleep_ns(30_000_000)
        return op.complete("ok")

    monkeypatch.setattr(scheduler.validate, "emitted", asks)
    histories: list[list[Op]] = []
    for says in (scheduler.idle_until, never_idle):
        monkeypatch.setattr(scheduler, "idle_until", says)
        asked.clear()
        clock, shown = VirtualClock(), list[int]()
        _, recorder = run(make_test(FakeClient(slow), generator=Shown(shown), rate=10.0, time_limit_s=1), clock=clock)
        histories.append(recorder.clients())
        ends = [op.time for op in recorder.clients() if op.type == "ok"]
        assert shown == ends
        assert any(time_ns in ends for time_ns in asked) is (len(histories) == 2)
    assert histories[0] == histories[1]


class KillsAndStarts(msgspec.Struct, frozen=True):
    """Says that it is idle for a minute once it has killed a node, and starts it as soon as that is done."""

    state: str = "begins"

    def op(self, ctx: Context) -> Result:
        if self.state == "ended":
            return None
        if self.state == "waits" or not ctx.free & ctx.nemesis_bit:
            return Pending(60_000_000_000), self
        f, state = ("kill", "waits") if self.state == "begins" else ("start", "ended")
        return Op(process=NEMESIS, type="invoke", f=f), KillsAndStarts(state)

    def update(self, ctx: Context, event: Op) -> KillsAndStarts:
        return KillsAndStarts("starts") if (event.f, event.type) == ("kill", "ok") else self

    def idle_until(self) -> int:
        return 60_000_000_000


def test_an_op_of_the_nemesis_that_ends_ends_idleness() -> None:
    _, recorder = run(
        make_test(FakeClient(), nemesis=FakeNemesis(), faults=KillsAndStarts(), rate=0.1, time_limit_s=40),
        clock=VirtualClock(),
    )
    _, killed, starts, _ = recorder.of(NEMESIS)[:4]
    assert (killed.f, starts.f, starts.time) == ("kill", "start", killed.time)


def test_errors_are_recorded_as_what_is_known() -> None:
    async def fails(op: Op) -> Op:
        if op.f == "refused":
            raise DefiniteError("read-only")
        if op.f == "unclear":
            raise IndefiniteError("connection lost")
        if op.f == "surprise":
            raise KeyError("x")
        return op.complete("ok")

    source = sequence(*(once(invoke(f)) for f in ("refused", "unclear", "surprise", "fine")))
    summary, recorder = run(make_test(FakeClient(fails), generator=source))
    assert_well_formed(recorder.ops)
    found = {op.f: (op.type, op.error) for op in recorder.clients() if op.type != "invoke"}
    assert found == {
        "refused": ("fail", "read-only"),
        "unclear": ("info", "connection lost"),
        "surprise": ("info", "client failed: KeyError: 'x'"),
        "fine": ("ok", None),
    }
    assert (summary.ok, summary.fail, summary.info) == (1, 1, 2)


class MuteError(Exception):
    """An error that cannot say what it is."""

    def __str__(self) -> str:
        """Fails."""
        raise RuntimeError("in __str__")


class NoneOfThemError(BaseException):
    """As the outcomes of pytest: no Exception."""


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (MuteError(), "MuteError: (its __str__ failed)"),
        (NoneOfThemError("as pytest.fail"), "client failed: NoneOfThemError: as pytest.fail"),
    ],
)
def test_an_odd_error_of_a_client_is_recorded_at_once_and_is_no_timeout(error: BaseException, said: str) -> None:
    async def fails(op: Op) -> Op:
        raise error

    _, recorder = run(make_test(FakeClient(fails), generator=limit(1, READ)))
    assert [(op.type, op.error) for op in recorder.clients()] == [("invoke", None), ("info", said)]


def test_a_crashed_process_is_followed_by_a_new_one_on_the_same_node_with_a_fresh_client() -> None:
    async def crash_once(op: Op) -> Op:
        if op.process == 1:
            raise IndefiniteError("lost")
        return op.complete("ok")

    client = FakeClient(crash_once)
    _, recorder = run(make_test(client))
    assert_well_formed(recorder.ops)
    assert {op.process for op in recorder.clients()} == {0, 1, 2, 4}
    assert {op.node for op in recorder.of(4)} == {"n2"}
    assert [opened.node for opened in client.opened[1:]].count("n2") == 2


def test_every_client_is_closed_exactly_once() -> None:
    turn = 0

    async def mixed(op: Op) -> Op:
        nonlocal turn
        turn += 1
        match turn % 5:
            case 0:
                raise IndefiniteError("lost")
            case 1:
                raise DefiniteError("refused")
            case 2:
                return await never(op)
            case 3:
                return op.complete("info", error="who knows")
            case _:
                return op.complete("ok")

    client = FakeClient(mixed)
    summary, recorder = run(make_test(client, op_timeout_s=0.05, time_limit_s=0.5))
    assert_well_formed(recorder.ops)
    assert summary.info > 5
    assert len(client.opened) > 10
    assert [opened.closes for opened in client.opened] == [1] * len(client.opened)
    assert client.closes == 0


def test_a_refused_process_lives_on_with_a_fresh_client() -> None:
    async def broken_for_good(op: Op) -> Op:
        raise DefiniteError("the connection is broken")

    client = FakeClient(broken_for_good)
    summary, recorder = run(make_test(client))
    assert summary.info == 0
    assert {op.process for op in recorder.clients()} == {0, 1, 2}
    assert len(client.opened) == summary.fail + 1  # and one that set up


def test_an_op_that_gets_no_answer_is_info_and_does_not_hold_up_the_others() -> None:
    async def stuck_on_n1(op: Op) -> Op:
        return await never(op) if op.node == "n1" else op.complete("ok")

    test = make_test(FakeClient(stuck_on_n1), op_timeout_s=0.1, time_limit_s=0.5)
    summary, recorder = run(test, clock=VirtualClock())
    assert_well_formed(recorder.ops)
    timeouts = [op for op in recorder.clients() if op.type == "info"]
    assert len(timeouts) == 5
    assert {op.error for op in timeouts} == {"timeout: no answer within 0.1 s"}
    assert [op.process for op in timeouts] == [3 * i for i in range(len(timeouts))]
    for pair in pairs(recorder.ops):
        if pair.completion is not None and pair.completion.type == "info":
            assert 0.1e9 <= pair.completion.time - pair.invoke.time <= 0.105e9
    assert summary.ok > 60


@pytest.mark.parametrize("last", [once(invoke("last")), limit(2, each(lambda ctx: invoke("last"))), sequence()])
def test_the_final_phase_ends_with_its_last_op_and_not_at_its_limit(last: Generator) -> None:
    clock = VirtualClock()
    begun_ns = clock.now_ns()
    run(make_test(FakeClient(answer_ok), final=last, time_limit_s=0.2), clock=clock)
    assert clock.now_ns() - begun_ns < 5e9, "the limit is a minute"


def test_an_op_of_several_requests_has_as_many_times_the_op_timeout() -> None:
    test = make_test(
        FakeClient(never), op_timeout_s=0.1, time_limit_s=3.0, generator=mix(READ, each(lambda ctx: invoke("write")))
    )
    shapes = {"write": OpShape(requests=3)}
    test = dataclasses.replace(test, workload=dataclasses.replace(test.workload, shapes=shapes))
    assert test.longest_timeout_s == pytest.approx(0.3)
    _, recorder = run(test, clock=VirtualClock())
    ended = [pair for pair in pairs(recorder.ops) if pair.invoke.f == "write" and pair.completion is not None]
    for pair in ended:
        assert pair.completion is not None
        assert pair.completion.error == "timeout: no answer within 0.3 s"
        assert 0.3e9 <= pair.completion.time - pair.invoke.time <= 0.305e9
    assert len(ended) > 3
    errors = {op.error for op in recorder.clients() if op.f == "read" and op.type == "info"}
    assert errors == {"timeout: no answer within 0.1 s"}


def test_an_op_of_no_request_is_refused() -> None:
    with pytest.raises(UsageError, match="one request or more, not 0"):
        OpShape(requests=0)


def test_an_answer_that_comes_after_its_timeout_is_not_recorded() -> None:
    async def stubborn(op: Op) -> Op:
        try:
            await asyncio.sleep(0.2)
        except asyncio.CancelledError:
            return op.complete("ok", "too late")
        return op.complete("ok")

    client = FakeClient(stubborn)
    _, recorder = run(make_test(client, op_timeout_s=0.05, generator=limit(3, READ)))
    assert_well_formed(recorder.ops)
    assert {opened.closes for opened in client.opened} == {1}
    assert {op.type for op in recorder.clients()} == {"invoke", "info"}


def test_a_dead_node_fails_its_ops_slowly_and_only_its_own() -> None:
    async def refuse_when_dead(op: Op) -> Op:
        if deployment.states[op.node or ""].state == "stopped":
            raise DefiniteError("connection reset")
        return op.complete("ok")

    deployment = MemoryDeployment()
    summary, recorder = run(
        make_test(
            FakeClient(refuse_when_dead),
            nemesis=FakeNemesis("n2"),
            faults=once(invoke("kill")),
            time_limit_s=0.6,
            rate=500.0,
        ),
        deployment,
        clock=VirtualClock(),
    )
    assert_well_formed(recorder.ops)
    refused = [op for op in recorder.clients() if op.type == "fail"]
    assert len(refused) == 6  # one every 100 ms, not one every 2 ms
    assert {op.node for op in refused} == {"n2"}
    assert refused[-1].error == "no connection to n2: connection refused"
    assert summary.info == 0
    assert summary.ok > 150


def test_opening_that_hangs_is_a_certain_failure() -> None:
    class Hanging(FakeClient):
        async def open(self, test: Test, deployment: Deployment, node: str) -> FakeClient:
            if node == "n3":
                await asyncio.get_running_loop().create_future()
            return await super().open(test, deployment, node)

    summary, recorder = run(make_test(Hanging(), op_timeout_s=0.1, time_limit_s=0.5), clock=VirtualClock())
    assert_well_formed(recorder.ops)
    failed = [op for op in recorder.clients() if op.type == "fail"]
    assert {(op.process, op.error) for op in failed} == {(2, "no connection to n3 within 0.1 s")}
    assert summary.info == 0


def test_the_workload_is_set_up_once_by_an_open_client_before_the_first_op() -> None:
    client = FakeClient()
    run(make_test(client))
    assert client.setups == 1
    assert [opened.setups for opened in client.opened] == [1, 0, 0, 0]


def test_a_setup_that_fails_ends_the_run_with_the_node_and_the_reason() -> None:
    class Unprepared(FakeClient):
        async def open(self, test: Test, deployment: Deployment, node: str) -> FakeClient:
            raise DefiniteError("connection refused")

    summary, recorder = run(make_test(Unprepared(), nemesis=FakeNemesis()))
    assert isinstance(summary.failure, SystemUnderTestError)
    assert "could not prepare n1: connection refused" in str(summary.failure)
    assert recorder.clients() == []


@pytest.mark.parametrize(("late_s", "is_ready"), [(0.0, False), (30.0, True)])
def test_a_setup_has_as_much_more_time_as_something_may_arrive_late(*, late_s: float, is_ready: bool) -> None:
    clock = VirtualClock()

    class Slow(FakeClient):
        async def open(self, test: Test, deployment: Deployment, node: str) -> FakeClient:
            if not self.opened:
                await clock.sleep_ns(20_000_000_000)
            return await super().open(test, deployment, node)

    test = dataclasses.replace(make_test(Slow()), late_s=late_s)
    summary, _ = run(test, clock=clock)
    assert (summary.failure is None) is is_ready


@pytest.mark.parametrize(("late_s", "limit_s"), [(0.0, 60.0), (30.0, 420.0)])
def test_the_final_phase_has_more_time_where_something_may_arrive_late(late_s: float, limit_s: float) -> None:
    asking = each(lambda ctx: invoke("read"))
    test = make_test(FakeClient(), time_limit_s=0.5)
    endless = dataclasses.replace(test.workload, final_generator=rate(1.0, asking))
    test = dataclasses.replace(test, workload=endless, late_s=late_s)
    _, recorder = run(test, clock=VirtualClock())
    phases = {op.value["phase"]: op.time / 1e9 for op in recorder.ops if op.f == "phase"}
    last = max(op.time for op in recorder.clients()) / 1e9
    assert limit_s - 3 < last - phases["final"] < limit_s + 3


# --- phases ---------------------------------------------------------------------------------------------------------


def test_the_phases_follow_one_another_and_the_history_shows_them() -> None:
    nemesis = FakeNemesis("n2")
    test = make_test(
        FakeClient(),
        nemesis=nemesis,
        faults=sequence(sleep(0.05), invoke("kill")),
        heal=once(invoke("start")),
        final=final(invoke("last")),
    )
    summary, recorder = run(test)
    assert_well_formed(recorder.ops)
    assert recorder.notes("phase") == [{"phase": "faults"}, {"phase": "heal"}, {"phase": "final"}]
    assert [(op.type, op.f) for op in recorder.of(NEMESIS)] == [
        ("invoke", "kill"),
        ("ok", "kill"),
        ("invoke", "start"),
        ("ok", "start"),
    ]
    begins = {op.value["phase"]: op.index for op in recorder.of(HARNESS) if op.f == "phase"}
    for op in recorder.ops:
        if op.f == "read":
            assert begins["faults"] < op.index < begins["heal"]
        if op.f == "start":
            assert begins["heal"] < op.index < begins["final"]
        if op.f == "last":
            assert begins["final"] < op.index
    assert nemesis.heals == 1
    assert summary.recovered_s is not None
    assert recorder.notes("recovered")[0]["seconds"] < 1
    assert {op.node for op in recorder.clients() if op.f == "last" and op.type == "ok"} == set(NODES)


def test_nemesis_ops_run_beside_clients() -> None:
    class Slow(FakeNemesis):
        async def invoke(self, context: NemesisContext, op: Op) -> Op:
            await asyncio.sleep(0.15)
            return op.complete("ok", {})

    _, recorder = run(make_test(FakeClient(), nemesis=Slow(), faults=once(invoke("kill"))))
    begin, end = (op.index for op in recorder.of(NEMESIS))
    assert sum(1 for op in recorder.clients() if begin < op.index < end) > 20


def test_a_nemesis_error_is_recorded_as_info_and_the_run_goes_on() -> None:
    class Powerless(FakeNemesis):
        async def invoke(self, context: NemesisContext, op: Op) -> Op:
            raise NemesisError("n2 is running still: state S")

    summary, recorder = run(make_test(FakeClient(), nemesis=Powerless(), faults=once(invoke("kill"))))
    assert [(op.type, op.error) for op in recorder.of(NEMESIS)][1] == ("info", "n2 is running still: state S")
    assert summary.failure is None


def test_a_system_that_does_not_recover_is_named_node_by_node() -> None:
    system = MemorySystem()
    system.leaders = {"n1": "n1", "n2": "n1", "n3": None}
    summary, recorder = run(make_test(FakeClient(), system=system, recovery_s=0.3, final=final(invoke("last"))))
    assert recorder.notes("recovered") == [{"seconds": None, "missing": ["n3"], "problems": {"n3": "knows no leader"}}]
    assert summary.recovered_s is None
    assert summary.failure is None
    assert recorder.notes("phase")[-1] == {"phase": "final"}


def test_a_history_can_carry_what_is_said_of_a_node_that_ended() -> None:
    class OneEnded(MemoryDeployment):
        async def status(self, node: NodeId) -> NodeStatus:
            return NodeStatus("stopped", 1) if node == "n2" else await super().status(node)

    _, recorder = run(make_test(FakeClient(), recovery_s=0.2), deployment=OneEnded())
    assert recorder.notes("recovered")[0]["missing"] == ["n2"]
    assert to_table(recorder.ops).num_rows == len(recorder.ops)


@pytest.mark.parametrize("kind", [Ended, OwnProblem])
def test_a_history_can_carry_why_nodes_did_not_start(kind: Callable[[str], str]) -> None:
    recorder = MemoryRecorder()
    note_no_start({"n1": kind("is stopped")}, 1.0, real_runtime(1), recorder)
    assert recorder.notes("started")[0]["problems"] == {"n1": "is stopped"}
    assert to_table(recorder.ops).num_rows == len(recorder.ops)


def test_two_leaders_are_no_recovery() -> None:
    system = MemorySystem()
    system.leaders = {"n2": "n2"}
    _, recorder = run(make_test(FakeClient(), system=system, recovery_s=0.2))
    assert recorder.notes("recovered")[0]["missing"] == ["n2"]


def test_faults_end_with_the_workload() -> None:
    test = make_test(
        FakeClient(),
        generator=limit(5, READ),
        nemesis=FakeNemesis(),
        time_limit_s=60,
        faults=repeat(sequence(sleep(0.01), invoke("start"))),
    )
    summary, _ = run(test)
    assert summary.ok == 5


# --- interruption ---------------------------------------------------------------------------------------------------


def test_a_stop_ends_the_faults_at_once_heals_and_keeps_the_final_phase_short() -> None:
    stop, nemesis = Stop(), FakeNemesis()

    async def interrupt() -> None:
        await asyncio.sleep(0.2)
        stop.request()

    async def stuck(op: Op) -> Op:
        return op.complete("ok") if op.f == "last" else await never(op)

    test = make_test(FakeClient(stuck), time_limit_s=60, op_timeout_s=30, nemesis=nemesis, final=final(invoke("last")))
    began = time.monotonic()
    summary, recorder = run(test, stop=stop, beside=interrupt)
    assert time.monotonic() - began < 30
    assert summary.interrupted
    assert summary.failure is None
    assert nemesis.heals == 1
    assert_well_formed(recorder.ops)
    assert [note["phase"] for note in recorder.notes("phase")] == ["faults", "heal", "final"]
    assert recorder.notes("interrupted") == [{"requests": 1}]
    assert any(op.f == "last" and op.type == "ok" for op in recorder.ops)


def test_a_second_stop_skips_the_final_phase_but_not_the_healing() -> None:
    stop, nemesis = Stop(), FakeNemesis()

    async def interrupt() -> None:
        await asyncio.sleep(0.1)
        stop.request()
        stop.request()

    test = make_test(FakeClient(), time_limit_s=60, nemesis=nemesis, final=final(invoke("last")))
    summary, recorder = run(test, stop=stop, beside=interrupt)
    assert summary.interrupted
    assert nemesis.heals == 1
    assert [note["phase"] for note in recorder.notes("phase")] == ["faults", "heal"]


def test_a_stop_while_waiting_for_recovery_shortens_the_wait() -> None:
    stop, clock = Stop(), VirtualClock()

    def interrupt(op: Op) -> None:
        if op.value == {"phase": "heal"}:
            stop.request()

    system = MemorySystem()
    system.leaders = {"n3": None}
    _, recorder = run(make_test(FakeClient(), system=system, recovery_s=60), stop=stop, observe=interrupt, clock=clock)
    assert recorder.notes("recovered")[0]["missing"] == ["n3"]
    assert recorder.ops[-1].time < 10_000_000_000


def test_a_stop_after_the_end_is_not_written_into_the_history() -> None:
    stop = Stop()
    _, recorder = run(make_test(FakeClient()), stop=stop)
    count = len(recorder.ops)
    stop.request()
    assert len(recorder.ops) == count


def test_a_stop_in_the_final_phase_shortens_it_also_while_nothing_happens() -> None:
    stop = Stop()

    def interrupt(op: Op) -> None:
        if op.f == "last":
            stop.request()

    began = time.monotonic()
    source = sequence(invoke("last"), sleep(50), invoke("last"))
    summary, recorder = run(make_test(FakeClient(), final=source), stop=stop, observe=interrupt)
    assert time.monotonic() - began < 30
    assert summary.interrupted
    assert len([op for op in recorder.ops if op.f == "last"]) == 2


@pytest.mark.slow
def test_a_final_phase_without_end_is_cut_short_when_the_run_is_interrupted() -> None:
    stop = Stop()
    stop.request()
    began = time.monotonic()
    _, recorder = run(make_test(FakeClient(), final=each(lambda ctx: invoke("last"))), stop=stop)
    assert time.monotonic() - began < 30
    assert recorder.notes("interrupted") == [{"requests": 1}]
    assert any(op.f == "last" for op in recorder.ops)


def test_cancelling_the_run_heals_first() -> None:
    nemesis, client = FakeNemesis(), FakeClient()
    recorder = MemoryRecorder()

    async def cancelled() -> None:
        test = make_test(client, time_limit_s=60, nemesis=nemesis, faults=once(invoke("kill")))
        task = asyncio.ensure_future(run_test(test, MemoryDeployment(), real_runtime(1), recorder))
        await asyncio.sleep(0.1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())
    assert nemesis.heals == 1
    assert all(opened.closes == 1 for opened in client.opened)
    assert recorder.flushes > 0


# --- plug-ins that break the rules ----------------------------------------------------------------------------------


def test_a_client_that_breaks_its_protocol_ends_the_run_healed_with_the_history_kept() -> None:
    nemesis = FakeNemesis()

    async def wrong_process(op: Op) -> Op:
        return Op(process=op.process + 1, type="ok", f=op.f)

    client = FakeClient(wrong_process)
    summary, recorder = run(
        make_test(client, nemesis=nemesis, faults=once(invoke("kill")), final=final(invoke("last")), time_limit_s=60)
    )
    assert isinstance(summary.failure, ProtocolError)
    assert "client FakeClient: invoke of 'read'" in str(summary.failure)
    assert nemesis.heals == 1
    assert [note["phase"] for note in recorder.notes("phase")] == ["faults"]
    assert any(op.type == "invoke" for op in recorder.clients())
    assert all(opened.closes == 1 for opened in client.opened)


@pytest.mark.parametrize("error", [ValueError("bad"), ProtocolError("bad")])
def test_a_generator_that_raises_ends_the_run_healed(error: Exception) -> None:
    nemesis = FakeNemesis()
    made: list[None] = []

    def make(ctx: Any) -> Op:
        if len(made) == 3:
            raise error
        made.append(None)
        return invoke("read")

    summary, recorder = run(make_test(FakeClient(), generator=each(make), nemesis=nemesis))
    assert isinstance(summary.failure, ProtocolError)
    assert "bad" in str(summary.failure)
    assert nemesis.heals == 1
    assert len(recorder.clients()) > 2


def test_a_nemesis_that_does_not_know_its_own_op_ends_the_run() -> None:
    summary, recorder = run(make_test(FakeClient(), nemesis=FakeNemesis(), faults=once(invoke("explode"))))
    assert isinstance(summary.failure, ProtocolError)
    assert "nemesis FakeNemesis does not handle 'explode', only kill, start" in str(summary.failure)
    assert recorder.of(NEMESIS)[-1].type == "info"


def test_faults_without_a_nemesis_are_refused_not_dropped() -> None:
    summary, recorder = run(make_test(FakeClient(), faults=once(invoke("kill"))))
    assert isinstance(summary.failure, ProtocolError)
    assert "has a generator, but no nemesis" in str(summary.failure)
    assert recorder.clients() == []


def test_healing_that_fails_is_a_failure_of_the_run() -> None:
    class Unhealing(FakeNemesis):
        async def heal(self, context: NemesisContext) -> None:
            raise NemesisError("n2 stays cut off")

    summary, recorder = run(make_test(FakeClient(), nemesis=Unhealing(), final=final(invoke("last"))))
    assert isinstance(summary.failure, NemesisError)
    assert summary.ok > 20
    assert len(recorder.clients()) > 20


def test_a_history_that_cannot_be_written_ends_the_run_healed() -> None:
    class Full(MemoryRecorder):
        def record(self, op: Op) -> None:
            if len(self.ops) > 20:
                raise HarnessError("cannot write the history: no space left on device.")
            super().record(op)

    nemesis = FakeNemesis()
    summary, recorder = run(make_test(FakeClient(), nemesis=nemesis, time_limit_s=60), recorder=Full())
    assert isinstance(summary.failure, HarnessError)
    assert "no space left" in str(summary.failure)
    assert nemesis.heals == 1
    assert [op.index for op in recorder.ops] == list(range(21))


# --- the controller itself ------------------------------------------------------------------------------------------


def test_a_stall_of_the_controller_is_recorded() -> None:
    async def block(op: Op) -> Op:
        if op.f == "block":
            time.sleep(0.4)
        return op.complete("ok")

    source = sequence(limit(10, READ), invoke("block"), limit(10, READ))
    _, recorder = run(make_test(FakeClient(block), generator=source))
    stall = max(recorder.notes("stall"), key=lambda note: note["gap_ms"])
    assert stall["gap_ms"] >= 300


@pytest.mark.slow
def test_no_stall_is_recorded_when_there_was_none() -> None:
    _, recorder = run(make_test(FakeClient(), time_limit_s=30), clock=VirtualClock())
    assert recorder.notes("stall") == []


@pytest.mark.slow
def test_the_history_is_flushed_at_least_twice_a_second() -> None:
    recorder = MemoryRecorder()
    run(make_test(FakeClient(), time_limit_s=60, rate=10.0), recorder=recorder, clock=VirtualClock())
    assert recorder.flushes >= 120


def test_whoever_watches_sees_every_op_and_the_beginning() -> None:
    seen: list[Op] = []
    begun: list[int] = []
    summary, recorder = run(make_test(FakeClient(answer_ok)), observe=seen.append, began=begun.append)
    assert seen == recorder.ops
    assert begun == [summary.started_ns]


def test_the_plan_of_a_run_is_a_function_of_its_seed() -> None:
    source = limit(60, mix(each(lambda ctx: invoke("w", ctx.rng.below(1000))), repeat(invoke("read"))))

    def plan(seed: int) -> list[tuple[str, Any]]:
        test = make_test(FakeClient(), generator=source, seed=seed, concurrency=1, time_limit_s=60, rate=1e6)
        _, recorder = run(test)
        return [(op.f, op.value) for op in recorder.clients() if op.type == "invoke"]

    assert plan(1) == plan(1)
    assert plan(1) != plan(2)


@pytest.mark.slow
def test_a_client_that_never_comes_to_its_end_does_not_hold_up_the_run() -> None:
    class Sticky(FakeClient):
        async def open(self, test: Test, deployment: Deployment, node: str) -> FakeClient:
            return Sticky(self._invoke, node=node)

        async def close(self) -> None:
            await asyncio.get_running_loop().create_future()

    began = time.monotonic()
    summary, _ = run(make_test(Sticky(), generator=limit(5, READ)))
    assert summary.failure is None
    assert time.monotonic() - began < 30


class Drifting(MemoryDeployment):
    """Hosts that tell of their clocks, one answer after the other; the last one again and again."""

    def __init__(self, *told: Mapping[str, ClockOffset]) -> None:
        super().__init__()
        self._told = list(told)

    async def offsets(self) -> Mapping[str, ClockOffset]:
        return self._told.pop(0) if len(self._told) > 1 else self._told[0]


def test_how_far_clocks_are_apart_is_noted_first_and_in_the_end_what_it_was_in_between() -> None:
    _, recorder = run(
        make_test(FakeClient(), generator=limit(1, READ)),
        Drifting({"n1": ClockOffset(10, 4, 2)}, {"n1": ClockOffset(20, 4, 3)}),
    )
    first, last = recorder.notes("clocks")
    assert first == {"offsets_s": {"n1": 10e-9}, "errors_s": {"n1": 2e-9}, "walls_s": {"n1": 4e-9}}
    assert last == {"offsets_s": {"n1": 15e-9}, "errors_s": {"n1": 8e-9}, "walls_s": {"n1": 4e-9}}
    harness = [op.f for op in recorder.ops if op.process == HARNESS]
    assert (harness[0], *harness[-2:]) == ("clocks", "clocks", "ended")


def test_clocks_that_are_known_exactly_are_noted_once_and_those_that_are_not_known_never() -> None:
    _, recorder = run(make_test(FakeClient(), generator=limit(1, READ)), Drifting({"n1": ClockOffset()}))
    assert recorder.notes("clocks") == [{"offsets_s": {"n1": 0.0}, "errors_s": {"n1": 0.0}, "walls_s": {"n1": 0.0}}]
    _, recorder = run(make_test(FakeClient(), generator=limit(1, READ)))
    assert recorder.notes("clocks") == []


def test_a_host_that_does_not_tell_the_time_in_the_end_is_an_error_of_the_run_whose_first_estimate_stays() -> None:
    class Lost(Drifting):
        async def offsets(self) -> Mapping[str, ClockOffset]:
            if len(self._told) == 1:
                raise BackendError("n1 does not answer.")
            return await super().offsets()

    summary, recorder = run(make_test(FakeClient(), generator=limit(1, READ)), Lost({"n1": ClockOffset(1)}, {}))
    assert isinstance(summary.failure, BackendError)
    assert len(recorder.notes("clocks")) == 1
