"""What every backend of real processes does alike to disks and clocks of nodes, with an agent that only takes note."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from splitbrain.harness.backends.shared.faketime import FakeClock, Measured, NodeClock
from splitbrain.harness.backends.shared.nodefaults import NodeFaults
from splitbrain.harness.contract.faults import ClockFault, DiskFault
from splitbrain.harness.contract.nodes import NodeCommand, NodeStatus
from splitbrain.harness.contract.rng import Streams
from splitbrain.results.errors import BackendError, FaultNotSupportedError


class Node:
    """A node, its agent, and what was asked of both, in order."""

    def __init__(self, state: str = "running", heals_stopped: bool = False, reads_clock: bool = True) -> None:
        self.running = NodeStatus("running", 1, {"pid": 77}) if state == "running" else NodeStatus("stopped", 1)
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.answers = {
            "heals_stopped": heals_stopped,
            "lose_power": {"bytes_lost": 7},
            "clock_reaches": reads_clock,
        }

    async def ask(self, op: str, **arguments: Any) -> Any:
        self.asked.append((op, arguments))
        await asyncio.sleep(0)
        return self.answers.get(op, {})

    async def status(self) -> NodeStatus:
        return self.running

    async def kill(self) -> NodeStatus:
        self.asked.append(("kill", {}))
        self.running = NodeStatus("stopped", 1, {"exit": "SIGKILL"})
        return self.running

    def faults(self, seed: int = 1, clock: NodeClock | None = None) -> NodeFaults:
        return NodeFaults("n1", self, self.status, self.kill, Streams(seed), clock)

    @property
    def ops(self) -> list[str]:
        return [op for op, _ in self.asked]

    @property
    def seeds(self) -> list[int]:
        return [arguments["seed"] for op, arguments in self.asked if op == "spoil"]


@pytest.mark.parametrize("fault", [DiskFault(rot=1), DiskFault(truncate=1), DiskFault(wipe=True)])
def test_files_of_a_node_that_runs_are_left_alone(fault: DiskFault) -> None:
    node = Node()
    with pytest.raises(FaultNotSupportedError, match="n1 can be damaged only while it is stopped"):
        asyncio.run(node.faults().spoil(fault))
    assert node.asked == []


def test_a_node_is_killed_for_the_heal_that_takes_it_and_for_no_other() -> None:
    held, free, stopped = Node(heals_stopped=True), Node(), Node("stopped", heals_stopped=True)
    assert asyncio.run(held.faults().spoil(None)) == {"killed": True}
    assert held.ops == ["heals_stopped", "kill", "spoil"]
    assert asyncio.run(free.faults().spoil(None)) == asyncio.run(stopped.faults().spoil(None)) == {}
    assert free.ops == ["heals_stopped", "spoil"]
    assert stopped.ops == ["spoil"]


def test_the_agent_is_told_whose_calls_a_fault_of_a_disk_can_refuse() -> None:
    running, halted = Node(), Node("stopped")
    halted.running = NodeStatus("stopped", 3, {"exit": "exit code 1", "by_itself": True})
    asyncio.run(running.faults().spoil(DiskFault(full=True)))
    asyncio.run(halted.faults().spoil(None))
    (told,) = [arguments for op, arguments in running.asked if op == "spoil"]
    assert (told["life"], told["pid"], told["halted"]) == (1, 77, False)
    (told,) = [arguments for op, arguments in halted.asked if op == "spoil"]
    assert (told["life"], told["pid"], told["halted"]) == (3, None, True)


def test_a_node_that_is_killed_for_its_heal_has_not_halted() -> None:
    node = Node(heals_stopped=True)
    asyncio.run(node.faults().spoil(None))
    assert [arguments["halted"] for op, arguments in node.asked if op == "spoil"] == [False]


def test_a_seed_draws_the_same_damage_each_time_and_another_one_for_each_fault() -> None:
    one, same, other = Node("stopped"), Node("stopped"), Node("stopped")

    async def twice(node: Node, seed: int) -> None:
        faults = node.faults(seed)
        await faults.spoil(DiskFault(rot=1))
        await faults.spoil(DiskFault(rot=1))

    for node, seed in ((one, 1), (same, 1), (other, 2)):
        asyncio.run(twice(node, seed))
    assert one.seeds == same.seeds
    assert len({*one.seeds, *other.seeds}) == 4


def test_power_is_lost_by_a_node_that_has_ended() -> None:
    node = Node()
    status = asyncio.run(node.faults().power_off())
    assert node.ops == ["kill", "lose_power"]
    assert (status.state, status.evidence) == ("stopped", {"exit": "SIGKILL", "bytes_lost": 7})


def test_a_node_starts_with_its_files_and_with_the_variables_of_its_clock(tmp_path: Path) -> None:
    node = Node("stopped")

    async def prepared(clock: NodeClock | None, files: dict[str, bytes]) -> dict[str, str]:
        return dict(await node.faults(clock=clock).prepare(NodeCommand(("true",), files=files)))

    assert asyncio.run(prepared(None, {})) == {}
    assert node.asked == []
    assert asyncio.run(prepared(_clock(tmp_path), {"laid": b"x"})) == {"FAKED": "yes"}
    assert node.asked == [("write_files", {"name": "n1", "files": {"laid": "eA=="}})]


def test_strobes_that_are_asked_for_at_once_end_with_the_heal(tmp_path: Path) -> None:
    async def run() -> None:
        faults = Node().faults(clock=_clock(tmp_path))
        strobe = ClockFault(offset_ms=1000, strobe_ms=1)
        await asyncio.gather(faults.skew(strobe), faults.skew(strobe))
        await asyncio.sleep(0.02)
        assert (await faults.skew(None))["jumps"] > 0
        assert asyncio.all_tasks() == {asyncio.current_task()}, "nothing jumps any more"
        assert (tmp_path / "clock").read_text() == "+0.000000 x1.000000000\n"
        await faults.close()
        assert list(tmp_path.iterdir()) == []

    asyncio.run(run())


def test_a_clock_is_made_wrong_only_for_a_process_that_reads_it(tmp_path: Path) -> None:
    jump = ClockFault(offset_ms=1000)
    deaf, listening, stopped = Node(reads_clock=False), Node(), Node("stopped", reads_clock=False)

    async def run() -> None:
        with pytest.raises(BackendError, match="the clock of n1 cannot be made wrong: its process 77 runs without"):
            await deaf.faults(clock=_clock(tmp_path)).skew(jump)
        assert (tmp_path / "clock").read_text() == "+0.000000 x1.000000000\n"
        assert (await listening.faults(clock=_clock(tmp_path)).skew(jump))["reached"] == 77
        assert listening.asked == [("clock_reaches", {"pid": 77})]
        assert "reached" not in await stopped.faults(clock=_clock(tmp_path)).skew(jump)
        assert "reached" not in await deaf.faults(clock=_clock(tmp_path)).skew(None), "a heal needs nobody to read it"

    asyncio.run(run())


def test_a_copy_of_a_clock_is_sent_after_each_change_before_it_is_looked_at(tmp_path: Path) -> None:
    sent: list[str] = []

    async def send() -> None:
        sent.append((tmp_path / "clock").read_text().split()[0])

    async def run() -> dict[str, Any]:
        clock = NodeClock(tmp_path / "clock", {}, _measured, send)
        await clock.begins()
        return await clock.skew(ClockFault(offset_ms=2000))

    evidence = asyncio.run(run())
    assert sent == ["+0.000000", "+2.000000"]
    assert (evidence["before"]["offset_ms"], evidence["after"]["offset_ms"]) == (0, 2000)


async def _measured(clock: FakeClock) -> Measured:
    await asyncio.sleep(0)
    return Measured(clock.offset_ms(), 0.0, at_s=0.0, changed_s=0.0)


def _clock(folder: Path) -> NodeClock:
    return NodeClock(folder / "clock", {"FAKED": "yes"}, _measured)
