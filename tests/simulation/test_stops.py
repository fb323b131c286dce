"""Nodes are stopped in good order in simulations: they do what they do at a stop, within a grace, and then end."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest

from splitbrain.checkers import engine
from splitbrain.checkers.verdict import Outcome
from splitbrain.cluster.embedded import EmbeddedNode
from splitbrain.cluster.node import Node
from splitbrain.cluster.snapshotting import Snapshotting
from splitbrain.harness.backends.sim import SimBackend
from splitbrain.harness.campaigns.compose import RunOptions, compose
from splitbrain.harness.campaigns.hunting.trial import carry_out
from splitbrain.harness.contract.faults import DiskFault
from splitbrain.harness.contract.rng import Rng, Streams
from splitbrain.harness.running import injector
from splitbrain.harness.running.simulate import Simulated, simulate
from splitbrain.harness.simulation.clock import TrueClock
from splitbrain.harness.simulation.host import ProcessWorld, SimHost
from splitbrain.harness.simulation.loop import SimLoop
from splitbrain.harness.simulation.marks import MarkedProcess
from splitbrain.harness.simulation.network import SimNetwork
from splitbrain.harness.simulation.process import SimProcess
from splitbrain.harness.simulation.worlds import world
from splitbrain.results.history import NEMESIS
from tests.cli.test_arguments import OPTIONS

SECOND = 1_000_000_000
GRACE_NS = 3 * SECOND

Act = Callable[[], Awaitable[None]]


class Machine:
    """A host, and what its node said."""

    def __init__(self, loop: SimLoop, process: type[SimProcess]) -> None:
        streams, nature = Streams(1), world("lan", Rng(0))
        self.loop = loop
        self.clock = TrueClock(loop)
        self.said: list[str] = []
        network = SimNetwork(loop, streams, ("n1",), nature, None)
        self.host = SimHost(loop, "n1", network, streams, nature, self, None, process)
        self.world: ProcessWorld = self.start()

    def start(self) -> ProcessWorld:
        _, self.world = self.host.boot()
        self.world.last_words(lambda: b"last words")
        return self.world

    def telemetry(self, node: str, time_ns: int, line: bytes) -> None:
        self.said.append(line.decode())

    def log(self, node: str, time_ns: int, line: str) -> None:
        self.said.append(line)

    async def stop(self) -> tuple[bool, float]:
        """Stop the node: whether it was killed, and how many seconds it took."""
        before_ns = self.loop.now_ns
        return await self.host.stop(GRACE_NS), (self.loop.now_ns - before_ns) / SECOND


@pytest.fixture(params=[SimProcess, MarkedProcess])
def play(request: pytest.FixtureRequest) -> Callable[[Callable[[Machine], Coroutine[Any, Any, None]]], Machine]:
    """Plays a scenario on a machine whose node runs; whichever kind of process it is."""

    def played(scenario: Callable[[Machine], Coroutine[Any, Any, None]]) -> Machine:
        loop = SimLoop(Rng(1))
        machine = Machine(loop, request.param)
        loop.run(scenario(machine), limit_ns=3600 * SECOND)
        return machine

    return played


def test_a_node_does_what_it_does_at_a_stop_and_nothing_after_that(play: Any) -> None:
    async def scenario(machine: Machine) -> None:
        handed = machine.world

        async def ticks() -> None:
            while True:
                await handed.clock.sleep(SECOND // 10)
                handed.log("ticks")

        async def stops() -> None:
            await handed.clock.sleep(SECOND // 4)
            handed.disk.open("log").append(b"at the stop")
            handed.log("has stopped")

        handed.spawn(ticks(), "ticks")
        handed.stops(stops)
        assert await machine.stop() == (False, pytest.approx(0.25, abs=0.01))
        assert machine.host.status().state == "stopped"
        assert machine.host.status().evidence == {}
        await machine.clock.sleep_ns(SECOND)
        assert machine.said == ["ticks", "ticks", "has stopped", "last words"], "it serves until it has stopped"
        assert machine.start().disk.read("log") == b"at the stop"

    play(scenario)


@pytest.mark.parametrize("paused", [False, True])
def test_a_timer_that_fails_ends_its_node_and_not_the_simulation(play: Any, paused: bool) -> None:
    async def scenario(machine: Machine) -> None:
        handed = machine.world

        def fails() -> None:
            handed.log("rings")
            raise KeyError("a message that is not there")

        handed.clock.call_later(SECOND, fails)
        handed.clock.call_later(SECOND + 1000, lambda: handed.log("rings as well"))
        process = machine.host.process
        assert process is not None
        if paused:
            process.pause()
        await machine.clock.sleep_ns(2 * SECOND)
        if paused:
            assert machine.said == []
            process.resume()
        await machine.clock.sleep_ns(SECOND)
        assert machine.said == ["rings", "stops: KeyError: 'a message that is not there'", "last words"]
        status = machine.host.status()
        assert (status.state, status.evidence["exit"]) == ("stopped", "KeyError: 'a message that is not there'")
        machine.start()
        assert machine.host.status().state == "running"

    play(scenario)


def test_a_node_that_says_nothing_ends_at_once_and_one_that_ended_stays_so(play: Any) -> None:
    async def scenario(machine: Machine) -> None:
        assert await machine.stop() == (False, 0.0)
        assert machine.host.status().state == "stopped"
        assert await machine.stop() == (False, 0.0)
        machine.start()
        assert machine.host.status().life == 2
        assert await machine.stop() == (False, 0.0), "what the life before did at a stop is not of this one"

    assert play(scenario).said == ["last words"] * 2


def test_a_paused_node_is_let_run_before_it_is_asked(play: Any) -> None:
    async def scenario(machine: Machine) -> None:
        handed = machine.world

        async def stops() -> None:
            await handed.clock.sleep(SECOND)
            handed.log("has stopped")

        handed.stops(stops)
        assert machine.host.process is not None
        machine.host.process.pause()
        assert await machine.stop() == (False, pytest.approx(1.0, abs=0.01))

    assert play(scenario).said == ["has stopped", "last words"]


@pytest.mark.parametrize("clings", [False, True], ids=["waits", "clings to life"])
def test_a_stop_that_never_ends_is_cut_off_by_the_grace(play: Any, clings: bool) -> None:
    async def scenario(machine: Machine) -> None:
        handed = machine.world

        async def never_stops() -> None:
            while True:
                try:
                    await asyncio.Event().wait()
                except asyncio.CancelledError:
                    if not clings:
                        raise
                    await handed.clock.sleep(SECOND)
                    return  # as if it had stopped after all, when the next life runs

        handed.stops(never_stops)
        assert await machine.stop() == (True, GRACE_NS / SECOND)
        assert machine.host.status().state == "stopped"
        machine.start()
        await machine.clock.sleep_ns(2 * SECOND)
        assert machine.host.status().state == "running", "the next life is not ended by the stop of the one before"

    assert play(scenario).said == ["last words"]


def test_a_stop_that_is_given_up_is_cut_off_by_the_grace_all_the_same(play: Any) -> None:
    async def scenario(machine: Machine) -> None:
        machine.world.stops(asyncio.Event().wait)  # type: ignore[arg-type]
        stopping = asyncio.ensure_future(machine.stop())
        await machine.clock.sleep_ns(SECOND)
        stopping.cancel()
        await machine.clock.sleep_ns(GRACE_NS - 2 * SECOND)
        assert machine.host.status().state == "running"
        await machine.clock.sleep_ns(2 * SECOND)
        assert machine.host.status().state == "stopped"

    play(scenario)


def test_a_node_that_fails_as_it_stops_has_ended_and_its_status_says_how(play: Any) -> None:
    async def scenario(machine: Machine) -> None:
        handed = machine.world

        async def fails() -> None:
            file = handed.disk.open("log")
            file.append(b"x")
            machine.host.spoil(DiskFault(fails=True))
            await file.sync()

        handed.stops(fails)
        killed, _ = await machine.stop()
        assert not killed
        status = machine.host.status()
        assert (status.state, status.evidence["exit"][:7]) == ("stopped", "OSError")

    play(scenario)


def test_a_node_that_is_killed_before_it_begins_to_stop_has_ended_then(play: Any) -> None:
    async def scenario(machine: Machine) -> None:
        machine.world.stops(asyncio.Event().wait)  # type: ignore[arg-type]
        stopping = asyncio.ensure_future(machine.stop())
        await asyncio.sleep(0)
        machine.host.kill()
        assert await stopping == (False, 0.0)

    play(scenario)


def test_a_node_that_is_asked_to_stop_twice_stops_once(play: Any) -> None:
    async def scenario(machine: Machine) -> None:
        handed = machine.world

        async def stops() -> None:
            handed.log("stops")
            await handed.clock.sleep(SECOND)

        handed.stops(stops)
        both = asyncio.gather(machine.stop(), machine.stop())
        assert [killed for killed, _ in await both] == [False, False]

    assert play(scenario).said == ["stops", "last words"]


def test_a_node_that_is_killed_as_it_stops_was_not_cut_off_by_the_grace(play: Any) -> None:
    async def scenario(machine: Machine) -> None:
        machine.world.stops(asyncio.Event().wait)  # type: ignore[arg-type]
        stopping = asyncio.ensure_future(machine.stop())
        await machine.clock.sleep_ns(SECOND)
        machine.host.power_off()
        assert await stopping == (False, pytest.approx(1.0, abs=0.01))

    play(scenario)


# --- nodes of the metadata cluster ------------------------------------------------------------------------------------

RESTARTS: dict[str, Any] = {
    "workload": "register",
    "nemesis": "restart-in-good-order",
    "system": "metadata",
    "backend": "sim",
    "nodes": "3",
    "rate": 60.0,
    "time_limit": 10.0,
    "interval": 2.0,
    "settings": "snapshot-interval=64,checkpoint-interval=4",
}


def restarted(seed: int, **others: Any) -> Simulated:
    left = simulate(compose(RunOptions.of(**{**OPTIONS, **RESTARTS, **others, "seed": seed})))
    assert left.failure is None
    return left


def test_the_simulation_says_that_it_can_stop_nodes_in_good_order() -> None:
    assert SimBackend().support()["stop"].works


def test_ra41_a_node_that_was_stopped_in_good_order_starts_with_what_it_had_applied() -> None:
    left = restarted(1)
    last: dict[str, dict[str, Any]] = {}
    compared = 0
    for row in left.telemetry.to_pylist():
        before = last.get(row["node"])
        if row["event"] == "start" and before is not None:
            assert before["event"] == "end", "the last words follow what the node says of its stop"
            assert row["applied_index"] == before["applied_index"], "nothing is applied again"
            compared += 1
        last[row["node"]] = row
    assert compared >= 6
    assert left.marks["checkpoint written at the stop"] > 0


def test_nodes_say_that_they_stop_and_nothing_of_them_follows_but_their_last_words() -> None:
    rows = restarted(2).telemetry.to_pylist()
    for node in ("n1", "n2", "n3"):
        events = [row["event"] for row in rows if row["node"] == node]
        stops = [place for place, event in enumerate(events) if event == "stop"]
        assert len(stops) >= 2
        assert {events[place + 1] for place in stops} == {"end"}


@pytest.mark.slow
@pytest.mark.parametrize("workload", ["register", "records", "queue", "conversion"])
def test_restarts_in_good_order_reach_what_is_written_at_a_stop_and_lose_nothing(workload: str) -> None:
    reached: Counter[str] = Counter()
    for seed in range(3, 6):
        test = compose(RunOptions.of(**{**OPTIONS, **RESTARTS, "workload": workload, "settings": "", "seed": seed}))
        left = simulate(test)
        assert left.failure is None
        ops = [op for op in left.ops if op.process == NEMESIS and op.type != "invoke"]
        assert [op.error for op in ops if op.type != "ok"] == []
        ends = [seen for op in ops if op.f == "restart" for seen in op.value["evidence"].values()]
        assert {seen["stopped"] for seen in ends} == {"in good order"}
        verdicts = engine.judge(left.history, test.workload.checkers, left.telemetry)
        assert [verdict.checker for verdict in verdicts if verdict.valid == "false"] == []
        reached.update(left.marks)
    assert reached["restarted in good order"]
    assert reached["checkpoint written at the stop"]


def test_a_node_that_fails_at_its_stop_has_crashed(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(_: Node) -> None:
        raise AssertionError("nothing is written down")

    monkeypatch.setattr(Node, "stopped", fails)
    left = restarted(1)
    crashes = [op.value for op in left.ops if op.f == "crash"]
    assert {crash["exit"] for crash in crashes} == {"AssertionError: nothing is written down"}
    assert not [op for op in left.ops if op.f == "halt"]
    assert left.marks["restarted in good order"] == 0


def test_the_same_seed_stops_nodes_in_the_same_way() -> None:
    first, second = restarted(3), restarted(3)
    assert first.telemetry.equals(second.telemetry)
    assert (first.marks, first.fingerprint) == (second.marks, second.fingerprint)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("nemesis", "is_seen"), [("restart-in-good-order", True), ("restart-at-once,restart-rolling", False)]
)
def test_what_is_wrong_with_a_checkpoint_at_the_stop_is_found_by_stops_alone(
    monkeypatch: pytest.MonkeyPatch, nemesis: str, is_seen: bool
) -> None:
    stopped = Snapshotting.stopped

    def under_the_entry_before(self: Snapshotting, applied: int, dump: Callable[[], bytes]) -> None:
        stopped(self, applied - 1, dump)

    monkeypatch.setattr(Snapshotting, "stopped", under_the_entry_before)
    seeds = range(1, 4)
    given = {**OPTIONS, **RESTARTS, "workload": "counter", "nemesis": nemesis}
    found = [carry_out(RunOptions.of(**{**given, "seed": seed})).outcome for seed in seeds]
    assert found.count(Outcome.VIOLATION) == (len(seeds) if is_seen else 0)


# --- stops that take long ---------------------------------------------------------------------------------------------


def stopping_for(seconds: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each node take so long for its stop."""
    stop = EmbeddedNode.stop

    async def slowly(self: EmbeddedNode) -> None:
        await self._runtime.clock.sleep(round(seconds * SECOND))  # pyright: ignore[reportPrivateUsage]
        await stop(self)

    monkeypatch.setattr(EmbeddedNode, "stop", slowly)


@pytest.mark.slow
@pytest.mark.parametrize(("seconds", "stopped"), [(7.0, "in good order"), (60.0, "killed")])
def test_nodes_that_stop_slowly_are_waited_for_and_have_not_crashed(
    monkeypatch: pytest.MonkeyPatch, seconds: float, stopped: str
) -> None:
    stopping_for(seconds, monkeypatch)
    given = {**OPTIONS, **RESTARTS, "nodes": "5", "interval": 3.0, "time_limit": 70.0, "rate": 20.0}
    test = compose(RunOptions.of(**{**given, "seed": 1}))
    left = simulate(test)
    assert left.failure is None
    assert [op.f for op in left.ops if op.f in ("crash", "halt")] == []
    done = [op for op in left.ops if op.process == NEMESIS and op.f == "restart" and op.type != "invoke"]
    assert done
    assert [op.error for op in done if op.type != "ok"] == []
    evidence: list[dict[str, Any]] = [seen for op in done for seen in op.value["evidence"].values()]
    assert {seen["stopped"] for seen in evidence} == {stopped}


@pytest.mark.parametrize("is_healed", [False, True])
def test_a_node_whose_stop_was_given_up_is_ended_before_it_is_started_again(
    monkeypatch: pytest.MonkeyPatch, is_healed: bool
) -> None:
    """Else its start would find it running, and it would end afterwards, as it was asked to."""
    monkeypatch.setattr(injector, "OP_LIMIT_S", 5.0)
    monkeypatch.setattr(injector, "NODE_LIMIT_S", 0.0)
    stopping_for(9.0, monkeypatch)
    limit_s = 7.0 if is_healed else 40.0
    left = restarted(1, interval=1.0, time_limit=limit_s, rate=20.0)
    assert [op.f for op in left.ops if op.f in ("crash", "halt")] == []
    given_up = [op for op in left.ops if op.f == "restart" and op.error is not None]
    assert given_up
    assert all("no answer within 5 s" in str(op.error) for op in given_up)
    recovered = next(op for op in left.ops if op.f == "recovered")
    assert recovered.value["seconds"] is not None
