"""Faults of clocks: one node sees them, also after it was started again, and the evidence has what was measured."""

from __future__ import annotations

import asyncio
from typing import Final

import pytest

from splitbrain.harness.contract.faults import ClockFault, FaultKind
from splitbrain.harness.contract.nodes import NodeId
from tests.backends.conformance.measures import ahead_s, until
from tests.backends.conformance.nodes import Nodes
from tests.backends.conformance.rows import Measurement, Row

pytestmark = [pytest.mark.cluster, pytest.mark.slow]


async def clock_jump(nodes: Nodes) -> None:
    assert abs(await ahead_s(nodes)) < 60
    did = await nodes.deployment.skew("n1", ClockFault(offset_ms=3_600_000))
    assert did["after"]["offset_ms"] - did["before"]["offset_ms"] == pytest.approx(3_600_000, abs=1000)
    assert abs(await ahead_s(nodes) - 3600) < 60
    assert abs(await ahead_s(nodes, "n2")) < 60
    await nodes.deployment.kill("n1")
    await nodes.deployment.start("n1")
    assert abs(await ahead_s(nodes) - 3600) < 60, "a wrong clock outlives the process"
    await nodes.deployment.skew("n1", ClockFault(offset_ms=-3_600_000))
    assert abs(await ahead_s(nodes) + 3600) < 60
    did = await nodes.deployment.skew("n1", None)
    assert did["after"]["offset_ms"] - did["before"]["offset_ms"] == pytest.approx(3_600_000, abs=1000)
    assert abs(await ahead_s(nodes)) < 60


async def clock_drift(nodes: Nodes) -> None:
    async def rates(node: NodeId) -> tuple[float, float]:
        """Bounds of the rate at which a node's clock goes, by what the true one shows around two looks at it."""
        seen: list[tuple[float, float, float]] = []
        for wait_s in (0.0, 0.3):
            await asyncio.sleep(wait_s)
            before_s = nodes.wall_s()
            shown_s = (await nodes.ask(node, "time"))["wall_s"]
            seen.append((before_s, shown_s, nodes.wall_s()))
        (first, shown_s, second), (third, later_s, fourth) = seen
        return (later_s - shown_s) / (fourth - first), (later_s - shown_s) / (third - second)

    async def is_true(node: NodeId = "n1") -> bool:
        return (await rates(node))[1] < 1.4

    async def is_fast() -> bool:
        return (await rates("n1"))[0] > 1.4

    await until("a clock at its rate", is_true)
    await nodes.deployment.skew("n1", ClockFault(drift_ppm=1_000_000))
    await until("a clock at twice its rate", is_fast)
    await until("the clock of another node at its rate", lambda: is_true("n2"))
    await nodes.deployment.skew("n1", None)
    await until("a clock at its rate", is_true)


async def clock_strobe(nodes: Nodes) -> None:
    seen: list[bool] = []

    async def jumps() -> bool:
        ahead = await ahead_s(nodes) > 1800
        if seen[-1:] != [ahead]:
            seen.append(ahead)
        return len(seen) >= 4

    assert abs(await ahead_s(nodes)) < 60
    before = (await nodes.deployment.skew("n1", ClockFault(offset_ms=3_600_000, strobe_ms=50)))["before"]
    await until("a clock that jumps to and fro", jumps)
    assert abs(await ahead_s(nodes, "n2")) < 60
    did = await nodes.deployment.skew("n1", None)
    assert did["jumps"] >= 1
    assert did["after"]["offset_ms"] == pytest.approx(before["offset_ms"], abs=100)
    for _ in range(20):
        assert abs(await ahead_s(nodes)) < 60
        await asyncio.sleep(0.01)


MEASUREMENTS: Final[dict[FaultKind, Measurement]] = {
    "clock-jump": clock_jump,
    "clock-drift": clock_drift,
    "clock-strobe": clock_strobe,
}


@pytest.mark.parametrize("kind", MEASUREMENTS)
def test_a_clock_has_its_fault_until_it_is_healed_and_no_other_clock_has_it(row: Row, kind: FaultKind) -> None:
    row.measure_fault(kind, MEASUREMENTS[kind])
