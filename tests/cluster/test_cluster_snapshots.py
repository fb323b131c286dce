"""A node goes on from a snapshot, its own or that of its leader, as if it had applied every entry (RA-36 to RA-42)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from splitbrain.cluster import snapshotting
from splitbrain.cluster.members import member_id
from tests.cluster.support import World, eventually, in_virtual_time

THREE = ["n1", "n2", "n3"]


def in_cluster(check: Callable[[World], Awaitable[None]], interval: int = 20) -> None:
    async def run() -> None:
        world = World(THREE)
        world.snapshot_interval = interval
        try:
            await world.start()
            await check(world)
            assert world.failures == []
        finally:
            await world.close()

    in_virtual_time(run())


async def write(world: World, name: str, first: int, last: int) -> None:
    client = await world.client(name)
    for number in range(first, last + 1):
        await client.put(f"/k{number % 7}/x{number % 3}", number)


async def alike(world: World) -> None:
    """All nodes have applied the same entries, and have the same state."""

    async def met() -> bool | None:
        seen = {
            (status.applied_index, status.chain_hash, status.state_hash)
            for status in (each.status() for each in world.nodes.values())
        }
        return len(seen) == 1 or None

    await eventually(met)


def started(world: World, name: str) -> str:
    return [line for line in world.logs[name] if line.startswith("starts in term")][-1]


def test_a_node_that_restarts_goes_on_from_its_snapshot() -> None:
    async def check(world: World) -> None:
        await write(world, await world.leader(), 1, 90)
        await alike(world)
        await world.kill("n2")
        await world.start("n2")
        assert "behind entry" in started(world, "n2")
        assert int(started(world, "n2").split(" entries")[0].split()[-1]) <= 20 + 20
        await write(world, await world.leader(), 91, 95)
        await alike(world)

    in_cluster(check)


def test_a_cluster_that_restarts_as_a_whole_has_everything() -> None:
    async def check(world: World) -> None:
        await write(world, await world.leader(), 1, 90)
        for name in THREE:
            await world.kill(name)
        await world.start()
        assert all("behind entry" in started(world, name) for name in THREE)
        client = await world.client(await world.leader())
        assert (await client.get("/k6/x0")).value == 90
        await alike(world)

    in_cluster(check)


@pytest.mark.parametrize("chunk", [64, 1024 * 1024])
def test_a_follower_that_was_cut_off_takes_over_the_leaders_snapshot(
    chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshotting, "CHUNK_BYTES", chunk)

    async def check(world: World) -> None:
        leader = await world.leader()
        lagging = next(name for name in THREE if name != leader)
        await write(world, leader, 1, 5)
        world.isolate(lagging)
        await write(world, leader, 6, 120)
        world.cut.clear()
        await alike(world)
        assert any("took over the leader's snapshot" in line for line in world.logs[lagging])
        await write(world, lagging, 121, 130)
        await alike(world)

    in_cluster(check)


def test_a_node_that_lost_its_data_joins_by_a_snapshot() -> None:
    async def check(world: World) -> None:
        leader = await world.leader()
        lost = next(name for name in THREE if name != leader)
        await write(world, leader, 1, 100)
        client = await world.client(leader)
        await client.remove_member(lost)
        await world.wipe(lost)
        await client.add_member(member_id(lost, 1))
        await world.start(lost)
        await alike(world)
        assert any("took over the leader's snapshot" in line for line in world.logs[lost])

    in_cluster(check)
