"""Faults of links: nodes at both ends see what they do, and by the counts of the backend they did it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

import pytest

from splitbrain.harness.contract import faultkinds
from splitbrain.harness.contract.faults import FaultKind, LinkFault
from splitbrain.harness.contract.nodes import Link
from tests.backends.conformance.adapters import REAL
from tests.backends.conformance.measures import (
    BYSTANDERS,
    LINK,
    Round,
    crosses,
    is_well,
    not_passing,
    took_s,
    until,
    until_silent,
)
from tests.backends.conformance.nodes import Nodes
from tests.backends.conformance.rows import Measurement, Row

pytestmark = [pytest.mark.cluster, pytest.mark.slow]
real = pytest.mark.parametrize("row", REAL, indirect=True)


async def healed_link(nodes: Nodes) -> None:
    await nodes.deployment.disturb({})
    assert await nodes.deployment.disturbed() == {}
    await is_well(nodes, LINK)


def some_vanish(fault: LinkFault, word: str) -> Callable[[Nodes], Awaitable[None]]:
    async def measure(nodes: Nodes) -> None:
        await is_well(nodes, LINK)
        await nodes.deployment.disturb({LINK: fault})
        left = await (await Round(nodes, LINK).send(200)).settled()
        assert 0 < len(left) < 200
        assert left == sorted(set(left))
        assert await nodes.deployment.disturbed() == {LINK: {word: 200 - len(left)}}
        assert await not_passing(nodes) == [], "a link that loses messages is not cut"
        await is_well(nodes, *BYSTANDERS)
        await healed_link(nodes)

    return measure


async def duplicate(nodes: Nodes) -> None:
    await is_well(nodes, LINK)
    await nodes.deployment.disturb({LINK: LinkFault(duplicate=0.5)})
    seen = await (await Round(nodes, LINK).send(200)).settled()
    assert set(seen) == set(range(200))
    assert (await nodes.deployment.disturbed())[LINK]["duplicated"] == len(seen) - 200 > 0
    await is_well(nodes, *BYSTANDERS)
    await healed_link(nodes)


async def reorder(nodes: Nodes) -> None:
    await is_well(nodes, LINK)
    await nodes.deployment.disturb({LINK: LinkFault(reorder=0.5)})
    seen = await (await Round(nodes, LINK).send(200)).settled()
    assert sorted(seen) == list(range(200))
    assert seen != sorted(seen)
    assert (await nodes.deployment.disturbed())[LINK]["reordered"] > 0
    await is_well(nodes, *BYSTANDERS)
    await healed_link(nodes)


def slow(fault: LinkFault, word: str, count: int, size: int, least_s: float) -> Callable[[Nodes], Awaitable[None]]:
    async def measure(nodes: Nodes) -> None:
        async def quick(link: Link) -> None:
            async def tried() -> bool:
                return await took_s(lambda: crosses(nodes, link, count, size)) < least_s

            await until(f"messages over {link} in less than {least_s} s", tried)

        await quick(LINK)
        await nodes.deployment.disturb({LINK: fault})
        assert await took_s(lambda: crosses(nodes, LINK, count, size)) >= least_s
        assert (await nodes.deployment.disturbed())[LINK][word] > 0
        assert await not_passing(nodes) == [], "a slow link is not cut"
        for link in BYSTANDERS:
            await quick(link)
        await nodes.deployment.disturb({})
        await quick(LINK)

    return measure


async def mtu(nodes: Nodes) -> None:
    await is_well(nodes, LINK, size=1000)
    await nodes.deployment.disturb({LINK: LinkFault(mtu=600)})
    await is_well(nodes, LINK, size=100)
    assert await (await Round(nodes, LINK).send(20, 1000)).settled() == []
    counted = (await nodes.deployment.disturbed())[LINK]["oversized"]
    assert counted == 20 if nodes.packets else counted > 0
    await is_well(nodes, *BYSTANDERS, size=1000)
    await nodes.deployment.disturb({})
    await is_well(nodes, LINK, size=1000)


async def reset(nodes: Nodes) -> None:
    await is_well(nodes, LINK, ("n1", "n3"), how="stream")
    before = await nodes.ask("n1", "breaks")
    await nodes.deployment.disturb({LINK: LinkFault(resets=10)})

    async def broke() -> bool:
        await Round(nodes, LINK).send(1, how="stream")
        return (await nodes.ask("n1", "breaks"))["n2"] >= before["n2"] + 3

    await until("streams that break", broke)
    assert (await nodes.deployment.disturbed())[LINK]["reset"] >= 3
    await nodes.deployment.disturb({})
    await is_well(nodes, LINK, ("n1", "n3"), how="stream")
    after = await nodes.ask("n1", "breaks")
    await is_well(nodes, LINK, how="stream")
    assert await nodes.ask("n1", "breaks") == after, "no stream breaks without the fault"
    assert after["n3"] == before["n3"]


async def hold(nodes: Nodes) -> None:
    await is_well(nodes, LINK, *BYSTANDERS)  # connections that are there take no handshake over the link
    await nodes.deployment.disturb({LINK: LinkFault(held=True)})
    held = await Round(nodes, LINK).send(20)
    assert await held.settled() == []
    assert await not_passing(nodes) == [LINK]
    await is_well(nodes, *BYSTANDERS)
    assert (await nodes.deployment.disturbed())[LINK]["held"] > 0
    await nodes.deployment.disturb({})

    async def all_there() -> bool:
        return await held.arrived() == list(range(20))

    await until("what was held, in order", all_there)
    await is_well(nodes, LINK)


MEASUREMENTS: Final[dict[FaultKind, Measurement]] = {
    "delay": slow(LinkFault(delay_ms=800, jitter_ms=100), "delayed", count=1, size=100, least_s=0.8),
    "loss": some_vanish(LinkFault(loss=0.5), "lost"),
    "duplicate": duplicate,
    "reorder": reorder,
    "corrupt": some_vanish(LinkFault(corrupt=0.5), "corrupted"),
    "rate": slow(LinkFault(rate_kbit=100), "queued", count=12, size=1000, least_s=0.8),
    "mtu": mtu,
    "reset": reset,
    "hold": hold,
}


def test_every_kind_of_fault_of_a_link_is_measured() -> None:
    assert set(MEASUREMENTS) == set(faultkinds.LINK_KINDS)


@pytest.mark.parametrize("kind", MEASUREMENTS)
def test_a_link_has_its_fault_until_it_is_healed_and_no_other_link_has_it(row: Row, kind: FaultKind) -> None:
    row.measure_fault(kind, MEASUREMENTS[kind])


@real
def test_a_link_keeps_its_fault_when_the_nodes_at_its_ends_start_again(row: Row) -> None:
    fault, kind = (LinkFault(loss=1.0), "loss") if row.adapter.packets else (LinkFault(held=True), "hold")

    async def measure(nodes: Nodes) -> None:
        await is_well(nodes, LINK)
        await nodes.deployment.disturb({LINK: fault})
        for node in reversed(LINK):
            await nodes.deployment.kill(node)
            await nodes.deployment.start(node)
        assert await (await Round(nodes, LINK).send(20)).settled() == []
        await until_silent(nodes, [LINK])
        await healed_link(nodes)

    row.needs(kind)
    row.measure(measure)


def test_a_link_can_be_cut_and_have_a_fault_at_once(row: Row) -> None:
    other: Link = ("n3", "n1")

    async def measure(nodes: Nodes) -> None:
        await until_silent(nodes, [])
        await nodes.deployment.disturb({LINK: LinkFault(delay_ms=5), other: LinkFault(delay_ms=5)})
        assert sorted(await nodes.deployment.disturbed()) == [LINK, other]
        await nodes.deployment.cut(frozenset({LINK}))
        await until_silent(nodes, [LINK])
        assert await not_passing(nodes) == [LINK]
        await nodes.deployment.cut(frozenset())
        await until_silent(nodes, [])
        assert sorted(await nodes.deployment.disturbed()) == [LINK, other]
        await healed_link(nodes)

    row.needs("delay")
    row.measure(measure)
