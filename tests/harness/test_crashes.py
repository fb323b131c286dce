"""Nodes that die although nobody killed them: told once, told apart from kills, and started again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import pytest
from virtual import VirtualClock
from worlds import FakeClient, FakeNemesis, MemoryDeployment, MemoryRecorder, make_test

from splitbrain import RunSummary, run_test
from splitbrain.harness.contract.clock import Runtime
from splitbrain.harness.contract.faults import DiskFault
from splitbrain.harness.contract.marks import counted
from splitbrain.harness.contract.nodes import NodeId, NodeStatus
from splitbrain.harness.contract.rng import Streams
from splitbrain.harness.contract.test import Test
from splitbrain.harness.generators import invoke, sequence, sleep
from splitbrain.harness.running.crashes import AFTERMATH_NS, LOOK_NS, Watched, watch_nodes
from splitbrain.harness.running.journal import Journal
from splitbrain.results.errors import BackendError
from splitbrain.results.history import Op


def run(
    test: Test, deployment: MemoryDeployment, beside: Callable[[VirtualClock], Awaitable[None]]
) -> tuple[RunSummary, MemoryRecorder]:
    recorder, clock = MemoryRecorder(), VirtualClock()

    async def main() -> RunSummary:
        tasks = [asyncio.ensure_future(clock.advance()), asyncio.ensure_future(beside(clock))]
        summary = await run_test(test, deployment, Runtime(clock=clock, streams=Streams(1)), recorder)
        for task in tasks:
            task.cancel()
        return summary

    return asyncio.run(main()), recorder


async def nothing(_: VirtualClock) -> None:
    return


def test_a_node_that_dies_by_itself_is_noted_once_and_started_when_the_run_is_healed() -> None:
    deployment = MemoryDeployment()

    async def crash(clock: VirtualClock) -> None:
        await clock.sleep_ns(1_000_000_000)
        deployment.states["n2"] = NodeStatus("stopped", 1, {"exit": "SIGKILL", "log": "bye"})

    summary, recorder = run(make_test(FakeClient(), time_limit_s=5), deployment, crash)
    assert recorder.notes("crash") == [{"node": "n2", "exit": "SIGKILL", "log": "bye"}]
    assert deployment.states["n2"] == NodeStatus("running", 2)
    assert summary.recovered_s is not None
    assert summary.failure is None


@pytest.mark.slow
def test_a_kill_by_the_nemesis_is_no_crash() -> None:
    kill = Op(process=-1, type="invoke", f="kill", value={"fault": "kill", "action": "start"})
    test = make_test(
        FakeClient(),
        nemesis=FakeNemesis(),
        time_limit_s=5,
        faults=sequence(kill, sleep(2.0), invoke("start"), sleep(1.0), invoke("kill")),
    )
    summary, recorder = run(test, MemoryDeployment(), nothing)
    assert summary.failure is None
    assert len(recorder.of(-1)) == 6
    assert recorder.notes("crash") == []


def test_a_crash_is_seen_also_if_the_nemesis_starts_the_node_before_anybody_looked() -> None:
    deployment = MemoryDeployment()

    async def crash(clock: VirtualClock) -> None:
        await clock.sleep_ns(590_000_000)
        deployment.states["n2"] = NodeStatus("stopped", 1, {"exit": "exit code 1"})

    test = make_test(FakeClient(), nemesis=FakeNemesis(), faults=sequence(sleep(0.6), invoke("start")), time_limit_s=2)
    _, recorder = run(test, deployment, crash)
    assert recorder.notes("crash") == [{"node": "n2", "exit": "exit code 1"}]


def test_a_backend_that_can_no_longer_say_how_nodes_are_ends_the_run() -> None:
    class Lost(MemoryDeployment):
        lost = False

        async def status(self, node: NodeId) -> NodeStatus:
            if self.lost:
                raise BackendError("the agent is gone.")
            return await super().status(node)

    deployment = Lost()

    async def lose(clock: VirtualClock) -> None:
        await clock.sleep_ns(1_000_000_000)
        deployment.lost = True

    summary, recorder = run(make_test(FakeClient(), time_limit_s=60), deployment, lose)
    assert isinstance(summary.failure, BackendError)
    assert recorder.ops[-1].time < 5_000_000_000


class SpoiledDisks(MemoryDeployment):
    """A deployment whose disks take faults; a node stops over its own a moment after it has it."""

    async def spoil(self, node: NodeId, fault: DiskFault | None) -> Mapping[str, Any]:
        self.states[node] = NodeStatus("stopped", self.states[node].life, {"exit": "OSError: no space"})
        return {}


@pytest.mark.parametrize("heal_after_ns", [0, 2_000_000_000])
def test_a_node_that_stops_while_its_disk_is_at_fault_halts_and_does_not_crash(heal_after_ns: int) -> None:
    deployment, clock, recorder = SpoiledDisks(), VirtualClock(), MemoryRecorder()
    watched = Watched(deployment, Journal(clock, recorder, None))

    async def main() -> None:
        ticking = asyncio.ensure_future(clock.advance())
        await watched.spoil("n2", DiskFault(full=True))
        await clock.sleep_ns(heal_after_ns)
        await watched.spoil("n2", None)
        await clock.sleep_ns(LOOK_NS)
        await watched.look()
        await watched.start("n2")
        await clock.sleep_ns(AFTERMATH_NS)
        deployment.states["n2"] = NodeStatus("stopped", 2, {"exit": "SIGSEGV"})
        await watched.look()
        ticking.cancel()

    with counted() as counts:
        asyncio.run(main())
    assert recorder.notes("halt") == [{"node": "n2", "exit": "OSError: no space"}]
    assert recorder.notes("crash") == [{"node": "n2", "exit": "SIGSEGV"}], "later it is its own doing"
    assert (counts["node stopped by its disk"], counts["node stopped by itself"]) == (1, 1)


class KillingDisks(MemoryDeployment):
    """A deployment whose nodes are killed for the heal of their disks, and which needs a second for that."""

    def __init__(self, clock: VirtualClock, killed: Mapping[str, Any]) -> None:
        super().__init__()
        self.clock = clock
        self.killed = killed

    async def spoil(self, node: NodeId, fault: DiskFault | None) -> Mapping[str, Any]:
        if fault is not None:
            return {}
        self.states[node] = NodeStatus("stopped", self.states[node].life, {"exit": "SIGKILL"})
        await self.clock.sleep_ns(1_000_000_000)
        return self.killed


@pytest.mark.parametrize("killed", [True, False])
def test_a_node_that_is_killed_for_the_heal_of_its_disk_did_not_halt(killed: bool) -> None:
    clock, recorder = VirtualClock(), MemoryRecorder()
    deployment = KillingDisks(clock, {"killed": True} if killed else {"refused_writes": 0})
    watched = Watched(deployment, Journal(clock, recorder, None))

    async def main() -> None:
        tasks = [
            asyncio.ensure_future(clock.advance()),
            asyncio.ensure_future(watch_nodes(clock, watched, lambda error: pytest.fail(str(error)))),
        ]
        await watched.spoil("n2", DiskFault(fails=True))
        await watched.spoil("n2", None)
        await clock.sleep_ns(2 * LOOK_NS)
        await watched.start("n2")
        await clock.sleep_ns(AFTERMATH_NS)
        deployment.states["n2"] = NodeStatus("stopped", 2, {"exit": "SIGSEGV"})
        await clock.sleep_ns(2 * LOOK_NS)
        for task in tasks:
            task.cancel()

    with counted() as counts:
        asyncio.run(main())
    assert recorder.notes("halt") == ([] if killed else [{"node": "n2", "exit": "SIGKILL"}])
    assert counts["node stopped by its disk"] == (0 if killed else 1)
    assert recorder.notes("crash") == [{"node": "n2", "exit": "SIGSEGV"}], "its next life is watched again"


class StoppingDeployment(MemoryDeployment):
    """Nodes that end with 1 as they stop in good order, and are gone for a second before that is known."""

    def __init__(self, clock: VirtualClock, **evidence: Any) -> None:
        super().__init__()
        self.clock = clock
        self.evidence = evidence

    async def stop(self, node: NodeId) -> NodeStatus:
        self.states[node] = NodeStatus("stopped", self.states[node].life, {"exit": "exit code 1"})
        await self.clock.sleep_ns(1_000_000_000)
        ended = self.states[node]
        return NodeStatus(ended.state, ended.life, {**ended.evidence, **self.evidence})

    async def spoil(self, node: NodeId, fault: DiskFault | None) -> Mapping[str, Any]:
        return {}


@pytest.mark.parametrize("spoiled", [False, True])
def test_a_node_that_certainly_failed_as_it_stopped_has_crashed_unless_its_disk_is_at_fault(spoiled: bool) -> None:
    clock, recorder = VirtualClock(), MemoryRecorder()
    watched = Watched(StoppingDeployment(clock, failed=True), Journal(clock, recorder, None))

    async def main() -> None:
        ticking = asyncio.ensure_future(clock.advance())
        if spoiled:
            await watched.spoil("n2", DiskFault(fails=True))
        await watched.stop("n2")
        await watched.stop("n2")
        await watched.look()
        ticking.cancel()

    asyncio.run(main())
    noted = [{"node": "n2", "exit": "exit code 1"}]
    assert (recorder.notes("crash"), recorder.notes("halt")) == (([], noted) if spoiled else (noted, []))


def test_a_node_that_is_stopped_in_good_order_did_not_crash_whatever_its_exit_code_is() -> None:
    clock, recorder = VirtualClock(), MemoryRecorder()
    deployment = StoppingDeployment(clock)
    watched = Watched(deployment, Journal(clock, recorder, None))

    async def main() -> None:
        tasks = [
            asyncio.ensure_future(clock.advance()),
            asyncio.ensure_future(watch_nodes(clock, watched, lambda error: pytest.fail(str(error)))),
        ]
        assert (await watched.stop("n2")).evidence == {"exit": "exit code 1"}
        await clock.sleep_ns(2 * LOOK_NS)
        assert recorder.notes("crash") == []
        await watched.start("n2")
        deployment.states["n2"] = NodeStatus("stopped", 2, {"exit": "SIGSEGV"})
        await clock.sleep_ns(2 * LOOK_NS)
        for task in tasks:
            task.cancel()

    asyncio.run(main())
    assert recorder.notes("crash") == [{"node": "n2", "exit": "SIGSEGV"}], "its next life is watched again"


def test_a_crash_before_a_stop_in_good_order_is_noted() -> None:
    clock, recorder = VirtualClock(), MemoryRecorder()
    deployment = StoppingDeployment(clock)

    async def main() -> None:
        ticking = asyncio.ensure_future(clock.advance())
        deployment.states["n2"] = NodeStatus("stopped", 1, {"exit": "SIGSEGV"})
        await Watched(deployment, Journal(clock, recorder, None)).stop("n2")
        ticking.cancel()

    asyncio.run(main())
    assert recorder.notes("crash") == [{"node": "n2", "exit": "SIGSEGV"}]


def test_a_deployment_that_can_only_kill_says_so_and_its_nodes_stay_watched() -> None:
    deployment, clock, recorder = MemoryDeployment(), VirtualClock(), MemoryRecorder()
    watched = Watched(deployment, Journal(clock, recorder, None))

    async def main() -> None:
        with pytest.raises(BackendError, match="cannot stop nodes in good order"):
            await watched.stop("n2")
        deployment.states["n2"] = NodeStatus("stopped", 1, {"exit": "SIGSEGV"})
        await watched.look()

    asyncio.run(main())
    assert recorder.notes("crash") == [{"node": "n2", "exit": "SIGSEGV"}]


class TruncatedDisks(MemoryDeployment):
    """A deployment that reports what its disks lost; it may be nothing."""

    def __init__(self, lost: Sequence[str]) -> None:
        super().__init__()
        self.lost = lost

    async def spoil(self, node: NodeId, fault: DiskFault | None) -> Mapping[str, Any]:
        return {"truncated": self.lost} if fault is not None and fault.truncate else {}


@pytest.mark.parametrize(
    ("lost", "then_wiped", "halts"),
    [(["log"], False, True), ([], False, False), (["log"], True, False)],
    ids=["a file lost its end", "no file lost anything", "the disk was wiped since"],
)
def test_a_node_may_stop_at_any_time_after_its_disk_was_seen_to_lose_data(
    lost: list[str], then_wiped: bool, halts: bool
) -> None:
    deployment, clock, recorder = TruncatedDisks(lost), VirtualClock(), MemoryRecorder()
    watched = Watched(deployment, Journal(clock, recorder, None))

    async def main() -> None:
        ticking = asyncio.ensure_future(clock.advance())
        await watched.spoil("n2", DiskFault(truncate=1))
        await watched.spoil("n2", None)
        if then_wiped:
            await watched.spoil("n2", DiskFault(wipe=True))
            await watched.spoil("n2", None)
        await clock.sleep_ns(2 * AFTERMATH_NS)
        deployment.states["n2"] = NodeStatus("stopped", 1, {"exit": "corrupt"})
        await watched.look()
        ticking.cancel()

    asyncio.run(main())
    assert recorder.notes("halt") == ([{"node": "n2", "exit": "corrupt", "damaged": True}] if halts else [])
    assert recorder.notes("crash") == ([] if halts else [{"node": "n2", "exit": "corrupt"}])


class WipedDisks(MemoryDeployment):
    """A deployment whose disks can be wiped."""

    async def spoil(self, node: NodeId, fault: DiskFault | None) -> Mapping[str, Any]:
        return {}


def test_a_node_that_may_end_by_itself_has_not_crashed_and_its_wiped_disk_is_no_fault_of_it() -> None:
    deployment, clock, recorder = WipedDisks(), VirtualClock(), MemoryRecorder()
    leaving = {"n2"}
    watched = Watched(deployment, Journal(clock, recorder, None), leaving.__contains__)

    async def main() -> None:
        deployment.states["n2"] = NodeStatus("stopped", 1, {"exit": "exit code 0"})
        await watched.look()
        await watched.kill("n2")
        await watched.spoil("n2", DiskFault(wipe=True))
        await watched.spoil("n2", None)
        await watched.start("n2")
        leaving.clear()
        deployment.states["n2"] = NodeStatus("stopped", 2, {"exit": "SIGSEGV"})
        await watched.look()

    asyncio.run(main())
    assert recorder.notes("halt") == []
    assert recorder.notes("crash") == [{"node": "n2", "exit": "SIGSEGV"}]


class SlowDeployment(MemoryDeployment):
    """Nodes need a second to start and are as before meanwhile; one question may be under way for long."""

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__()
        self.clock = clock
        self.slow_question = False

    async def start(self, node: NodeId) -> NodeStatus:
        await self.clock.sleep_ns(1_000_000_000)
        return await super().start(node)

    async def status(self, node: NodeId) -> NodeStatus:
        if not self.slow_question:
            return await super().status(node)
        self.slow_question = False
        await self.clock.sleep_ns(100_000_000)
        seen = await super().status(node)
        await self.clock.sleep_ns(2_000_000_000)
        return seen


def notes_of(script: Callable[[Watched, SlowDeployment, VirtualClock], Awaitable[None]]) -> list[Any]:
    """The crashes that are noted while the script runs, looked for as in a run."""
    clock, recorder = VirtualClock(), MemoryRecorder()
    deployment = SlowDeployment(clock)
    watched = Watched(deployment, Journal(clock, recorder, None))

    async def main() -> None:
        tasks = [
            asyncio.ensure_future(clock.advance()),
            asyncio.ensure_future(watch_nodes(clock, watched, lambda error: pytest.fail(str(error)))),
        ]
        await script(watched, deployment, clock)
        for task in tasks:
            task.cancel()

    asyncio.run(main())
    return recorder.notes("crash")


def test_a_node_that_left_the_cluster_and_is_not_back_is_not_started_when_the_run_is_healed() -> None:
    deployment = MemoryDeployment()

    async def main() -> None:
        watched = Watched(deployment, Journal(VirtualClock(), MemoryRecorder(), None), lambda node: node == "n2")
        for node in ("n1", "n2", "n3"):
            await watched.start(node)
        for node in ("n2", "n3"):
            await watched.kill(node)
        await watched.restart()

    asyncio.run(main())
    assert {node: status.state for node, status in deployment.states.items()} == {
        "n1": "running",
        "n2": "stopped",
        "n3": "running",
    }


def test_a_node_that_is_being_started_has_not_crashed() -> None:
    async def script(watched: Watched, deployment: SlowDeployment, clock: VirtualClock) -> None:
        await watched.kill("n2")
        await watched.start("n2")
        await clock.sleep_ns(2 * LOOK_NS)

    assert notes_of(script) == []


def test_a_node_that_is_killed_while_it_is_being_started_has_not_crashed() -> None:
    async def script(watched: Watched, deployment: SlowDeployment, clock: VirtualClock) -> None:
        await watched.kill("n2")
        starting = asyncio.ensure_future(watched.start("n2"))
        await clock.sleep_ns(100_000_000)
        await watched.kill("n2")
        await starting
        await deployment.kill("n2")
        await clock.sleep_ns(2 * LOOK_NS)

    assert notes_of(script) == []


def test_an_answer_that_is_older_than_a_kill_and_a_start_says_nothing() -> None:
    async def script(watched: Watched, deployment: SlowDeployment, clock: VirtualClock) -> None:
        deployment.slow_question = True
        looking = asyncio.ensure_future(watched.look())
        await clock.sleep_ns(50_000_000)
        await watched.kill("n1")  # the node that is asked first
        await watched.start("n1")
        await looking

    assert notes_of(script) == []


def test_a_node_that_dies_after_its_start_has_crashed() -> None:
    async def script(watched: Watched, deployment: SlowDeployment, clock: VirtualClock) -> None:
        await watched.kill("n2")
        await watched.start("n2")
        deployment.states["n2"] = NodeStatus("stopped", 2, {"exit": "SIGSEGV"})
        await clock.sleep_ns(2 * LOOK_NS)

    assert notes_of(script) == [{"node": "n2", "exit": "SIGSEGV"}]
