"""Faults at moments of a simulation: the node that passes the mark is hit, before it does what follows the mark."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from splitbrain.harness.campaigns.compose import RunOptions, compose
from splitbrain.harness.contract.moments import Moment, Passed, SystemMarks
from splitbrain.harness.contract.rng import Rng, Streams
from splitbrain.harness.generators.script import ScriptedFault
from splitbrain.harness.running.simulate import Simulated, simulate
from splitbrain.harness.simulation.loop import SimLoop
from splitbrain.harness.simulation.marks import Listener, MarkedProcess
from splitbrain.harness.simulation.network import SimNetwork
from splitbrain.harness.simulation.worlds import world
from splitbrain.nemesis.requests import complete
from splitbrain.results.errors import HarnessError, UnknownNameError
from splitbrain.results.history import NEMESIS, Op
from tests.cli.test_arguments import OPTIONS

NODES = ("n1", "n2", "n3")
MS = 1_000_000
S = 1000 * MS


class Bench:
    """Two processes of nodes "n1" and "n2" whose marks are heard."""

    def __init__(self) -> None:
        self.loop = SimLoop(Rng(1))
        self.processes = {node: MarkedProcess(self.loop, 1, lambda: None) for node in ("n1", "n2")}
        self.hears: list[Callable[[str], None]] = []
        hosts: Any = {node: SimpleNamespace(process=process) for node, process in self.processes.items()}
        self.listener = Listener(self.loop, hosts, SystemMarks({"m": "a mark"}, self.heard, "MARKS"))
        self.did: list[str] = []

    @contextmanager
    def heard(self, hear: Callable[[str], None]) -> Generator[None]:
        self.hears.append(hear)
        yield
        self.hears.remove(hear)

    def passes(self) -> None:
        for hear in self.hears:
            hear("m")

    async def kill(self, node: str) -> None:
        self.did.append(f"{node} ends at {self.loop.now_ns // MS} ms")
        self.processes[node].end()

    def run(self, act: Any = None, *, within_ns: int = S, after_us: int = 0, occurrence: int = 1) -> Passed | None:
        wanted = Moment(mark="m", occurrence=occurrence, after_us=after_us)
        return self.loop.run(self.listener.at_moment([wanted], act or self.kill, within_ns))


def test_a_mark_is_charged_to_the_node_whose_callback_passes_it() -> None:
    bench = Bench()

    def outer() -> None:
        bench.processes["n2"].post(lambda: None)  # a step of n2 inside of n1's: what follows is n1's again
        bench.passes()
        bench.did.append("n1 goes on")

    bench.loop.after(3 * MS, lambda: bench.processes["n1"].post(outer))
    assert bench.run() == Passed(Moment(mark="m"), "n1")
    assert bench.did == ["n1 ends at 3 ms", "n1 goes on"]


def test_a_mark_is_charged_to_the_node_whose_task_passes_it_which_does_nothing_more() -> None:
    bench = Bench()

    async def work() -> None:
        bench.passes()
        await asyncio.sleep(0)
        bench.did.append("n2 goes on")

    bench.loop.after(3 * MS, lambda: bench.processes["n2"].spawn(work(), "work"))
    assert bench.run() == Passed(Moment(mark="m"), "n2")
    assert bench.did == ["n2 ends at 3 ms"]


@pytest.mark.parametrize("how", ["callback", "task"])
def test_a_mark_that_code_of_a_node_passes_after_the_node_was_ended_counts_for_none(how: str) -> None:
    bench = Bench()
    process = bench.processes["n1"]

    def step() -> None:
        bench.passes()
        bench.passes()  # the node was ended at the mark before, and never came here

    async def work() -> None:
        step()

    bench.loop.after(MS, lambda: process.post(step) if how == "callback" else process.spawn(work(), "work"))

    async def both() -> list[Passed | None]:
        first = bench.listener.at_moment([Moment(mark="m")], bench.kill, S)
        second = bench.listener.at_moment([Moment(mark="m", occurrence=2)], bench.kill, S)
        return list(await asyncio.gather(first, second))

    assert bench.loop.run(both()) == [Passed(Moment(mark="m"), "n1"), None]
    assert bench.did == ["n1 ends at 1 ms"]


def test_a_mark_that_no_node_passes_counts_for_none() -> None:
    bench = Bench()
    bench.loop.after(3 * MS, bench.passes)
    assert bench.run(within_ns=10 * MS) is None
    assert bench.loop.now_ns == 10 * MS


def test_what_fails_in_a_callback_since_its_node_was_ended_in_it_is_no_error() -> None:
    bench = Bench()

    def fails() -> None:
        bench.passes()
        raise OSError("the process has ended")

    bench.loop.after(MS, lambda: bench.processes["n1"].post(fails))
    assert bench.run() is not None
    bench.listener.close()
    assert bench.hears == []


def test_the_fault_follows_later_if_the_moment_says_so_and_not_after_the_time_is_up() -> None:
    bench = Bench()
    bench.loop.after(3 * MS, lambda: bench.processes["n1"].post(bench.passes))
    assert bench.run(after_us=2000) is not None
    assert bench.did == ["n1 ends at 5 ms"]
    bench = Bench()
    bench.loop.after(3 * MS, lambda: bench.processes["n1"].post(bench.passes))
    assert bench.run(after_us=2000, within_ns=4 * MS) is None
    assert bench.did == []


def test_what_is_done_at_a_moment_must_not_wait_and_its_errors_are_not_lost() -> None:
    bench = Bench()

    async def waits(_: str) -> None:
        await asyncio.sleep(1)

    bench.loop.after(MS, lambda: bench.processes["n1"].post(bench.passes))
    with pytest.raises(HarnessError, match="must not wait"):
        bench.run(waits)


def test_a_process_that_was_ended_in_the_middle_of_a_step_serves_nothing_afterwards() -> None:
    bench = Bench()
    network = SimNetwork(bench.loop, Streams(1), ("n1", "n2"), world("lan", Rng(1)), None)
    process = bench.processes["n2"]

    async def accept(_: object) -> None:
        raise AssertionError

    async def work() -> None:
        bench.passes()
        await network.of("n2", process).listen(("n2", 7000), accept)

    bench.loop.after(MS, lambda: process.spawn(work(), "work"))
    assert bench.run() is not None
    assert not network.listens(("n2", 7000))


# --- whole runs -------------------------------------------------------------------------------------------------------


def played(*faults: ScriptedFault, **changed: Any) -> Simulated:
    given = {"backend": "sim", "nemesis": "moment,bounce-at-moments", "nodes": "3", "time_limit": 8.0, "rate": 20.0}
    whole = [msgspec.structs.replace(fault, value=complete(fault.f, fault.value, NODES)) for fault in faults]
    return simulate(compose(RunOptions.of(**{**OPTIONS, **given, "scheduled": whole, **changed})))


def awaits(at_s: float, **fields: Any) -> ScriptedFault:
    return ScriptedFault(at_ns=round(at_s * S), f="await-moment", value=fields)


def ended(left: Simulated, f: str) -> list[Op]:
    return [op for op in left.ops if op.process == NEMESIS and op.type != "invoke" and op.f == f]


def votes_of_first_life(left: Simulated, node: str) -> int:
    rows = left.telemetry.to_pylist()
    begun = next(op.time for op in left.ops if op.f == "bounce-at-moments")
    return sum(
        row["event"] == "vote" and row["time"] > begun for row in rows if row["node"] == node and row["life"] == 1
    )


@pytest.mark.parametrize(("after_us", "votes"), [(0, 0), (50_000, 1)])
def test_a_node_that_is_killed_as_it_votes_never_did_what_follows(after_us: int, votes: int) -> None:
    value = {
        "moments": [{"mark": "vote granted", "after_us": after_us}],
        "downs_ms": [500],
        "first": "leader",
        "first_down_ms": 1000,
    }
    left = played(ScriptedFault(at_ns=2 * S, f="bounce-at-moments", value=value))
    assert left.failure is None
    (done,) = ended(left, "bounce-at-moments")
    assert done.type == "ok", done.error
    _, hit = done.value["evidence"]["bounces"]
    assert (hit["mark"], hit["occurrence"]) == ("vote granted", 1)
    assert votes_of_first_life(left, hit["node"]) == votes


def test_the_nth_occurrence_on_a_node_is_meant() -> None:
    waited: list[float] = []
    for node, occurrence in (("n2", 1), ("n2", 5), ("n3", 1)):
        wanted = [{"mark": "request forwarded", "occurrence": occurrence, "node": node}]
        (done,) = ended(played(awaits(1.0, moments=wanted, inject="pause", within_ms=5000)), "await-moment")
        assert (done.value["target"], done.value["paused"]) == (node, [node])
        assert done.value["evidence"]["passed"] == {"mark": "request forwarded", "occurrence": occurrence}
        waited.append(done.value["evidence"]["waited_ms"])
    assert waited[0] < waited[1]


def test_a_run_with_moments_is_the_same_again_and_in_it_a_wait_that_does_not_come_injects_nothing() -> None:
    faults = [
        awaits(1.0, moments=[{"mark": "corruption refused"}], within_ms=500),
        ScriptedFault(at_ns=3 * S, f="stop-moment"),
        awaits(4.0, moments=[{"mark": "request forwarded", "occurrence": 3}], inject="power"),
    ]
    first, second = played(*faults), played(*faults)
    assert first.failure is None
    assert first.history_hash == second.history_hash
    nothing, hit = ended(first, "await-moment")
    assert nothing.value["target"] == "none: no such moment came within 500 ms"
    assert nothing.value["evidence"] == {"waits": True}
    assert hit.value["down"] == [hit.value["target"]]


def test_a_mark_that_the_system_does_not_have_is_refused_before_the_run() -> None:
    with pytest.raises(UnknownNameError, match="there is no coverage mark 'vote grated' of system 'metadata'"):
        played(awaits(1.0, moments=[{"mark": "vote grated"}]))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("nemesis", ["moment,kill", "bounce-at-moments"])  # few moments come in a cluster at rest
def test_drawn_moments_come_and_the_cluster_survives_them(nemesis: str) -> None:
    left = played(nemesis=nemesis, time_limit=30.0, interval=1.0)
    assert left.failure is None
    assert left.marks["fault at a moment"] > 0
    assert [op.error for op in left.ops if op.process == NEMESIS and op.type == "info"] == []
