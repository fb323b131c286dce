"""Programs in plain asyncio as simulated nodes: what they are given, what they are refused, and how they end."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from splitbrain.harness.contract.faults import DiskFault, LinkFault
from splitbrain.harness.contract.nodes import NodeCommand
from splitbrain.harness.contract.rng import Rng, Streams
from splitbrain.harness.simulation.clock import TrueClock
from splitbrain.harness.simulation.guard import forbidden
from splitbrain.harness.simulation.host import SimHost
from splitbrain.harness.simulation.loop import SimLoop
from splitbrain.harness.simulation.network import SimNetwork
from splitbrain.harness.simulation.programs.embedding import Program
from splitbrain.harness.simulation.worlds import world
from splitbrain.results.errors import SimulationError, UsageError
from tests.simulation import plain_programs

ROOT = Path(__file__).parents[2]


class Hosts:
    """Two machines that run `plain_programs`; what they print, by node."""

    def __init__(self, loop: SimLoop, seed: int) -> None:
        streams, nature = Streams(seed), world("lan", Rng(0))
        self.loop = loop
        self.clock = TrueClock(loop)
        self.network = SimNetwork(loop, streams, ("n1", "n2"), nature, None)
        self.hosts = {node: SimHost(loop, node, self.network, streams, nature, self, None) for node in ("n1", "n2")}
        self.printed: dict[str, list[str]] = {"n1": [], "n2": []}
        self.times: list[int] = []
        self._program = Program(plain_programs.main)

    def telemetry(self, node: str, time_ns: int, line: bytes) -> None:
        raise AssertionError("plain programs write none")

    def log(self, node: str, time_ns: int, line: str) -> None:
        self.printed[node].append(line)
        self.times.append(time_ns)

    async def start(self, node: str, *what: str) -> None:
        process, handed = self.hosts[node].boot()
        command = NodeCommand(("python", "-m", "plain_programs", node, *what))
        await process.run(self._program.embed(command, handed), "start")

    async def sleep(self, seconds: float) -> None:
        await self.clock.sleep_ns(round(seconds * 1e9))


def simulated(scenario: Callable[[Hosts], Coroutine[Any, Any, None]], seed: int = 1) -> Hosts:
    """Run a scenario; a forbidden call raises."""
    loop = SimLoop(Rng(seed))
    hosts = Hosts(loop, seed)
    with forbidden() as guard:
        loop.run(scenario(hosts), limit_ns=3600 * 10**9)
    if guard.offence is not None:
        raise guard.offence
    return hosts


def alone(*what: str, seconds: float = 10.0, seed: int = 1) -> list[str]:
    """What one node prints."""

    async def scenario(hosts: Hosts) -> None:
        await hosts.start("n1", *what)
        await hosts.sleep(seconds)

    return simulated(scenario, seed).printed["n1"]


# --- the network --------------------------------------------------------------------------------------------------


def test_nodes_talk_over_streams() -> None:
    async def scenario(hosts: Hosts) -> None:
        await hosts.start("n1", "serve")
        await hosts.start("n2", "say", "n1", "one", "two")
        await hosts.sleep(1)

    hosts = simulated(scenario)
    assert hosts.printed == {"n1": ["end of the stream"], "n2": ["one", "two"]}
    assert hosts.times[0] > 400_000, "two messages there and back, and the handshake, take their time"


def test_a_node_talks_to_itself() -> None:
    assert alone("say", "n1", "me") == ["me", "end of the stream"]


def test_nobody_listens() -> None:
    async def scenario(hosts: Hosts) -> None:
        await hosts.start("n1", "say", "n2", "one")
        await hosts.sleep(1)

    hosts = simulated(scenario)
    status = hosts.hosts["n1"].status()
    assert status.state == "stopped"
    assert status.evidence["exit"].startswith("ConnectionRefusedError")


@pytest.mark.parametrize(
    "fault", [LinkFault(loss=0.3), LinkFault(corrupt=0.3), LinkFault(duplicate=1), LinkFault(reorder=0.5)]
)
def test_a_stream_arrives_whole_and_in_order_over_a_link_that_loses_doubles_and_reorders(fault: LinkFault) -> None:
    lines = [str(number) for number in range(20)]

    async def scenario(hosts: Hosts) -> None:
        await hosts.start("n1", "serve")
        hosts.network.disturb({("n2", "n1"): fault})
        await hosts.start("n2", "say", "n1", *lines)
        await hosts.sleep(60)

    hosts = simulated(scenario)
    assert hosts.printed["n2"] == lines
    if fault.loss or fault.corrupt:
        assert hosts.times[-1] > 200 * 10**6, "what is sent again comes late"


def test_a_cut_that_lasts_breaks_a_connection_of_both_nodes() -> None:
    async def scenario(hosts: Hosts) -> None:
        await hosts.start("n1", "serve")
        await hosts.start("n2", "keep_saying", "n1")
        await hosts.sleep(1)
        hosts.network.cut(frozenset({("n1", "n2"), ("n2", "n1")}))
        await hosts.sleep(10)

    hosts = simulated(scenario)
    status = hosts.hosts["n2"].status()
    assert status.evidence["exit"] == "ConnectionResetError: no acknowledgement for two seconds"


# --- processes -----------------------------------------------------------------------------------------------------


def test_a_killed_process_reaches_no_finally_and_starts_again_without_its_globals() -> None:
    async def scenario(hosts: Hosts) -> None:
        for _ in range(3):
            await hosts.start("n1", "count_starts")
            await hosts.sleep(1)
            hosts.hosts["n1"].kill()
            await hosts.sleep(1)

    assert simulated(scenario).printed["n1"] == ["start 1"] * 3
    assert plain_programs.starts == 0


def test_two_nodes_share_no_globals() -> None:
    async def scenario(hosts: Hosts) -> None:
        await hosts.start("n1", "count_starts")
        await hosts.start("n2", "count_starts")
        await hosts.sleep(1)

    assert simulated(scenario).printed == {"n1": ["start 1"], "n2": ["start 1"]}


def test_the_peer_of_a_killed_process_reads_the_end_of_the_stream() -> None:
    async def scenario(hosts: Hosts) -> None:
        await hosts.start("n1", "serve")
        await hosts.start("n2", "keep_saying", "n1")
        await hosts.sleep(1)
        hosts.hosts["n1"].kill()
        await hosts.sleep(1)

    assert simulated(scenario).printed["n2"] == ["connection over"]


def test_a_paused_process_does_nothing_until_it_is_resumed() -> None:
    async def scenario(hosts: Hosts) -> None:
        await hosts.start("n1", "tell_time")
        process = hosts.hosts["n1"].process
        assert process is not None
        process.pause()
        await hosts.sleep(5)
        assert hosts.printed["n1"] == []
        process.resume()
        await hosts.sleep(5)

    [line] = simulated(scenario).printed["n1"]
    assert float(line.split()[1]) > 5


def test_an_error_in_a_task_is_logged_and_the_process_lives() -> None:
    assert alone("fail_in_a_task") == ["NumberedTask exception was never retrieved: ValueError: nobody looks", "lives"]


def test_an_exit_in_a_task_ends_the_process() -> None:
    async def scenario(hosts: Hosts) -> None:
        await hosts.start("n1", "exit_in_a_task")
        await hosts.sleep(1)

    hosts = simulated(scenario)
    assert hosts.printed["n1"] == ["stops: SystemExit: no more"]
    assert hosts.hosts["n1"].status().evidence["exit"] == "SystemExit: no more"


def test_a_program_whose_main_returns_has_ended() -> None:
    async def scenario(hosts: Hosts) -> None:
        process, handed = hosts.hosts["n1"].boot()
        command = NodeCommand(("python", "-m", "plain_programs", "n1", "sleep_a_little"))
        await process.run(Program(plain_programs.nap_a_little).embed(command, handed), "start")
        await hosts.sleep(1)

    assert simulated(scenario).hosts["n1"].status().evidence["exit"] == "ProgramEndError: main() returned"


@pytest.mark.parametrize(
    ("do", "printed", "evidence"),
    [
        ("end_on_sigterm", ["asked to stop", "done"], {}),
        ("exit_on_sigterm", ["asked to stop"], {}),
        ("forget_sigterm", [], {}),
        ("serve", [], {}),
        ("fail_on_sigterm", ["stops: ValueError: cannot stop"], {"exit": "ValueError: cannot stop"}),
    ],
)
def test_a_program_does_what_it_said_with_its_handler_of_sigterm(
    do: str, printed: list[str], evidence: dict[str, Any]
) -> None:
    async def scenario(hosts: Hosts) -> None:
        await hosts.start("n1", do)
        await hosts.sleep(1)
        assert not await hosts.hosts["n1"].stop(10**9)

    hosts = simulated(scenario)
    assert hosts.printed["n1"] == printed
    status = hosts.hosts["n1"].status()
    assert (status.state, {**status.evidence, "log": ""}) == ("stopped", {**evidence, "log": ""})


def test_a_program_that_goes_on_after_sigterm_is_killed_after_the_grace() -> None:
    async def scenario(hosts: Hosts) -> None:
        await hosts.start("n1", "ignore_sigterm")
        await hosts.sleep(1)
        before_ns = hosts.loop.now_ns
        assert await hosts.hosts["n1"].stop(3 * 10**9)
        assert hosts.loop.now_ns - before_ns == 3 * 10**9

    hosts = simulated(scenario)
    assert hosts.printed["n1"] == ["asked to stop"]
    assert hosts.hosts["n1"].status().state == "stopped"


def test_an_asynchronous_generator_that_is_left_is_closed_by_its_process() -> None:
    assert alone("numbers") == ["closed at 0"]


# --- time, chance, waiting -----------------------------------------------------------------------------------------


def test_time_is_the_nodes_own_and_a_call_that_blocks_takes_its_time() -> None:
    assert alone("tell_time") == ["2020 2.000 2.000"]


def test_what_is_sent_after_a_call_that_blocks_leaves_after_it() -> None:
    async def scenario(hosts: Hosts) -> None:
        await hosts.start("n1", "serve")
        await hosts.start("n2", "sync_and_send", "n1")
        await hosts.sleep(5)

    assert simulated(scenario).printed["n1"] == ["came at 2.0", "end of the stream"]


def test_chance_comes_from_the_seed() -> None:
    assert alone("draw") == alone("draw")
    assert alone("draw") != alone("draw", seed=2)


# The seed decides between timers of the same nanosecond.
WAITED = [
    "set ['task-5', 'task-6', 'task-7', 'task-8', 'task-9', 'task-10', 'task-11', 'task-12']",
    "wait [0, 1, 3, 4, 6, 7]",
    "completed [0, 3, 6, 7, 1, 4, 5, 2]",
    "gather [0, 1, 2, 3]",
    "timeout",
    "timeout",
    "cancelled [0, 1, 2, 3, 4, 5, 6, 7]",
    "tasks 2",
]


def test_every_way_of_waiting_has_an_order() -> None:
    assert alone("wait_in_every_way") == WAITED


# --- files ---------------------------------------------------------------------------------------------------------


def test_files_are_read_written_and_changed_in_the_middle() -> None:
    assert alone("edit") == ["b'01xy456789'", "b'01xy4'", "data/log"]


@pytest.mark.parametrize("do", ["synced", "unsynced"])
def test_a_loss_of_power_leaves_what_was_synced_and_perhaps_nothing_else(do: str) -> None:
    left: set[bool] = set()
    for seed in range(8):

        async def scenario(hosts: Hosts) -> None:
            await hosts.start("n1", "store", do)
            await hosts.sleep(1)
            hosts.hosts["n1"].power_off()
            await hosts.start("n1", "store", do)
            await hosts.sleep(1)

        printed = simulated(scenario, seed).printed["n1"]
        assert ("slow" in printed) == (do == "synced")
        left.add("found 'written' among ['file']" in printed)
    assert left == ({True} if do == "synced" else {True, False}) or left == {False}
    assert do == "unsynced" or left == {True}


def test_a_kill_leaves_what_was_written() -> None:
    async def scenario(hosts: Hosts) -> None:
        await hosts.start("n1", "store", "unsynced")
        await hosts.sleep(1)
        hosts.hosts["n1"].kill()
        await hosts.start("n1", "store", "unsynced")
        await hosts.sleep(1)

    assert "found 'written' among ['file']" in simulated(scenario).printed["n1"]


def _found_after(seconds: float, end: Callable[[SimHost], object], fault: DiskFault | None = None) -> str:
    """What `store_twice` finds that ended after this time."""

    async def scenario(hosts: Hosts) -> None:
        hosts.hosts["n1"].spoil(fault)
        await hosts.start("n1", "store_twice")
        await hosts.sleep(seconds)
        end(hosts.hosts["n1"])
        await hosts.start("n1", "store_twice")
        await hosts.sleep(10)

    return simulated(scenario).printed["n1"][-1]


@pytest.mark.parametrize("end", [SimHost.kill, SimHost.power_off], ids=["kill", "power"])
@pytest.mark.parametrize(("seconds", "found"), [(0.5, "['first']"), (1.5, "['first', 'second']")])
def test_who_is_blocked_has_not_done_what_comes_after(
    seconds: float, found: str, end: Callable[[SimHost], object]
) -> None:
    """All of it is one step of the program, so that a crash could only come before it or behind it."""
    assert _found_after(seconds, end) == found


def test_a_sync_that_is_under_way_has_made_nothing_durable() -> None:
    """A program that waits for each sync had nothing that a loss of power could take."""
    slow = DiskFault(slow_ms=1000)
    lost: list[int] = []

    def cut_the_power(host: SimHost) -> None:
        lost.append(sum(host.power_off().values()))

    assert _found_after(0.5, SimHost.kill, slow) == "['first']"
    _found_after(0.5, cut_the_power, slow)
    assert lost[0] > 0


def test_a_disk_that_fails_fails_the_programs_calls() -> None:
    async def scenario(hosts: Hosts) -> None:
        hosts.hosts["n1"].spoil(DiskFault(full=True))
        await hosts.start("n1", "store", "synced")
        await hosts.sleep(1)

    assert "No space left on device" in simulated(scenario).hosts["n1"].status().evidence["exit"]


# --- refusals ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "named"), plain_programs.REFUSED.items(), ids=lambda each: getattr(each, "__name__", "")
)
def test_what_cannot_be_simulated_is_refused_by_name_and_place(
    call: Callable[[], Awaitable[object]], named: str
) -> None:
    line = call.__code__.co_firstlineno + 1  # type: ignore[attr-defined]
    with pytest.raises(SimulationError) as caught:
        alone(call.__name__)  # type: ignore[attr-defined]
    assert named in str(caught.value)
    assert f"plain_programs.py:{line + (call is plain_programs.by_half_closing)}" in str(caught.value)
    assert "runtime" not in str(caught.value), "a program has none"


def test_a_program_needs_a_module_that_can_be_imported() -> None:
    async def main(_: object) -> None:
        await asyncio.sleep(0)

    with pytest.raises(UsageError, match="imports its program again"):
        Program(main)


def test_a_command_that_runs_no_module_is_refused() -> None:
    async def scenario(hosts: Hosts) -> None:
        process, handed = hosts.hosts["n1"].boot()
        with pytest.raises(UsageError, match="python -m MODULE"):
            await Program(plain_programs.main).embed(NodeCommand(("server", "n1")), handed)
        process.end()

    simulated(scenario)


@pytest.mark.slow
def test_the_order_depends_on_no_hash_seed() -> None:
    script = "from tests.simulation.test_programs import alone; print(*alone('wait_in_every_way'), *alone('draw'))"
    printed = {
        subprocess.run(
            [sys.executable, "-c", more + script],
            cwd=ROOT,
            env={"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed, more in (
            ("0", ""),
            ("1", "import json, decimal, zipfile; "),
            ("2", "kept = [object() for _ in range(999)]; "),
        )
    }
    assert len(printed) == 1
