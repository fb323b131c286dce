"""Links are cut as asked, both ways or one way, and what they swallow is counted; nothing else is touched."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from splitbrain.harness.contract.faults import DiskFault, FaultKind, LinkFault
from splitbrain.harness.contract.nodes import Link
from tests.backends.conformance.adapters import FOREIGN, REAL
from tests.backends.conformance.measures import (
    BYSTANDERS,
    LINK,
    Round,
    is_well,
    not_passing,
    silent_links,
    stores,
    until_silent,
)
from tests.backends.conformance.nodes import Nodes
from tests.backends.conformance.rows import Row

pytestmark = pytest.mark.cluster
real = pytest.mark.parametrize("row", REAL, indirect=True)

ALONE_1: list[Link] = [("n1", "n2"), ("n1", "n3"), ("n2", "n1"), ("n3", "n1")]
ALONE_3: list[Link] = [("n1", "n3"), ("n2", "n3"), ("n3", "n1"), ("n3", "n2")]


@pytest.mark.slow
def test_a_cut_link_drops_everything_and_counts_it_and_the_way_back_stays_open(row: Row) -> None:
    async def measure(nodes: Nodes) -> None:
        await is_well(nodes, LINK, *BYSTANDERS)  # connections that are there take no handshake over the link
        await nodes.deployment.cut(frozenset({LINK}))
        lost = await Round(nodes, LINK).send(20)
        await is_well(nodes, *BYSTANDERS)
        assert await lost.settled() == []
        dropped = (await nodes.deployment.dropped())[LINK]
        assert dropped == 20 if nodes.packets else dropped > 0
        await nodes.deployment.cut(frozenset())
        await is_well(nodes, LINK)
        if nodes.packets:
            assert await lost.arrived() == []
        assert await nodes.deployment.dropped() == {}

    row.measure(measure)


@pytest.mark.slow
def test_a_topology_replaces_the_one_before_it_whole(row: Row) -> None:
    async def measure(nodes: Nodes) -> None:
        await until_silent(nodes, [])
        for wanted in (ALONE_1, ALONE_3, [LINK], [("n2", "n3"), ("n3", "n2")], []):
            await nodes.deployment.cut(frozenset(wanted))
            assert await not_passing(nodes) == wanted
            assert sorted(await nodes.deployment.dropped()) == wanted
            await until_silent(nodes, wanted)
        assert await nodes.deployment.dropped() == {}

    row.measure(measure)


@pytest.mark.slow
def test_a_node_that_starts_again_never_hears_across_a_cut(row: Row) -> None:
    """Messages are sent all the time: one that arrived before the cut was there again would be counted."""
    cut: frozenset[Link] = frozenset({("n1", "n2"), ("n2", "n1")})

    async def measure(nodes: Nodes) -> None:
        await until_silent(nodes, [])
        await nodes.deployment.cut(cut)
        sent: list[Round] = []

        async def send() -> None:
            while True:
                sent.append(await Round(nodes, ("n1", "n2")).send(3))
                await asyncio.sleep(0.02)

        sending = asyncio.ensure_future(send())
        await nodes.deployment.kill("n2")
        before = (await nodes.deployment.dropped())["n1", "n2"]
        await nodes.deployment.start("n2")
        await asyncio.sleep(0.2)
        sending.cancel()
        assert sent
        assert [await each.arrived() for each in sent] == [[]] * len(sent)
        assert (await nodes.deployment.dropped())["n1", "n2"] >= before, "counted across the restart"
        await nodes.deployment.kill("n1")
        await nodes.deployment.start("n1")
        await until_silent(nodes, sorted(cut))
        await nodes.deployment.cut(frozenset())
        await until_silent(nodes, [])

    row.measure(measure)


@pytest.mark.slow
def test_links_are_measured_without_any_node_and_the_measurements_are_not_counted(row: Row) -> None:
    async def measure(nodes: Nodes) -> None:
        for node in nodes.deployment.nodes:
            await nodes.deployment.kill(node)  # no node runs: there is no other traffic
        await nodes.deployment.cut(frozenset({LINK}))
        for _ in range(3):
            assert await not_passing(nodes) == [LINK]
        assert await nodes.deployment.passes([]) == {}
        assert await nodes.deployment.dropped() == {LINK: 0}
        await nodes.deployment.cut(frozenset())
        for node in nodes.deployment.nodes:
            await nodes.deployment.start(node)

    row.measure(measure)


@pytest.mark.sampled(2)
def test_two_measurements_at_the_same_time_both_report_the_truth(row: Row) -> None:
    async def measure(nodes: Nodes) -> None:
        await nodes.deployment.cut(frozenset({LINK}))
        first, second = await asyncio.gather(
            nodes.deployment.passes([LINK, ("n2", "n3")]), nodes.deployment.passes([("n2", "n1"), LINK])
        )
        assert first == {LINK: False, ("n2", "n3"): True}
        assert second == {("n2", "n1"): True, LINK: False}
        await nodes.deployment.cut(frozenset())

    row.measure(measure)


@pytest.mark.slow
def test_a_link_that_stays_cut_keeps_its_count(row: Row) -> None:
    async def measure(nodes: Nodes) -> None:
        await until_silent(nodes, [])
        await nodes.deployment.cut(frozenset({LINK, ("n2", "n3")}))
        await (await Round(nodes, LINK).send(20)).settled()
        before = (await nodes.deployment.dropped())[LINK]
        assert before > 0
        await nodes.deployment.cut(frozenset({LINK, ("n3", "n1")}))
        after = await nodes.deployment.dropped()
        assert sorted(after) == [LINK, ("n3", "n1")]
        assert after[LINK] >= before
        await nodes.deployment.cut(frozenset())
        await until_silent(nodes, [])

    row.measure(measure)


def test_clients_reach_a_node_that_is_cut_off_from_all_peers(row: Row) -> None:
    async def measure(nodes: Nodes) -> None:
        await nodes.deployment.cut(frozenset(nodes.links))
        for node in nodes.deployment.nodes:
            await nodes.ask(node, "time")
        await nodes.deployment.cut(frozenset())

    row.measure(measure)


@pytest.mark.slow
@pytest.mark.parametrize("row", ["docker", "ssh"], indirect=True)
def test_rules_of_others_are_not_touched_and_no_rule_of_ours_stays(row: Row) -> None:
    async def measure(nodes: Nodes) -> None:
        async def on_n1(command: str) -> str:
            return await row.adapter.in_network_of(nodes.deployment, "n1", command)

        await on_n1(f"nft '{FOREIGN}'")
        before = await on_n1("nft list table inet somebody")
        await nodes.deployment.cut(frozenset({("n2", "n1")}))
        await nodes.deployment.disturb({LINK: LinkFault(loss=1.0)})
        assert "NFQUEUE" in await on_n1("iptables-save -t mangle")
        await nodes.deployment.disturb({})
        await nodes.deployment.cut(frozenset())
        assert "SPLITBRAIN" not in await on_n1("iptables-save -t mangle")
        assert await on_n1("nft list table inet somebody") == before
        await on_n1("nft delete table inet somebody")

    row.needs("loss")
    row.measure(measure)


@pytest.mark.slow
@pytest.mark.parametrize("row", ["local", "local by proxies", "docker"], indirect=True)
def test_deployments_at_the_same_time_share_no_cut_and_no_fault(row: Row, tmp_path: Path) -> None:
    """One of them is that of the row."""
    faults: list[FaultKind] = [kind for kind in ("hold", "disk-full") if row.supported[kind]]

    async def spoil(nodes: Nodes) -> None:
        await nodes.deployment.cut(frozenset(ALONE_3))
        if "hold" in faults:
            await nodes.deployment.disturb({LINK: LinkFault(held=True)})
        if "disk-full" in faults:
            await nodes.deployment.spoil("n1", DiskFault(full=True))

    async def is_spoiled(nodes: Nodes) -> None:
        assert await silent_links(nodes) == sorted({*ALONE_3, *([LINK] if "hold" in faults else [])})
        if "disk-full" in faults:
            assert (await nodes.ask("n1", "write"))["wrote"] == "ENOSPC"
        await stores(nodes, "n2")

    async def scenario(ours: Nodes) -> None:
        await is_well(ours, LINK, *BYSTANDERS)
        async with row.apart(tmp_path, ("n1", "n2", "n3"), faults) as other:
            for node in other.deployment.nodes:
                await other.deployment.start(node)
            await is_well(other, LINK, *BYSTANDERS)
            await spoil(ours)
            await is_spoiled(ours)
            await other.deployment.kill("n1")
            await other.deployment.start("n1")
            await is_well(other, LINK, *BYSTANDERS)
            await stores(other)
            await spoil(other)
            await other.tidy()
            await is_well(other, LINK)
            await stores(other)
            await is_spoiled(ours)
        await is_spoiled(ours)
        await ours.tidy()

    row.measure(scenario)
