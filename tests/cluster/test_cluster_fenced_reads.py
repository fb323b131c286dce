"""Reads behind a fence (KH-11): what they see, what they promise, and that they are not linearizable."""

from __future__ import annotations

import asyncio

import pytest

from splitbrain.cluster.client import Client, NodeNotFoundError, UnavailableError
from tests.cluster.support import World, eventually, in_cluster

FIVE = ["n1", "n2", "n3", "n4", "n5"]


async def seen(client: Client) -> object:
    return (await client.get("/a", mode="fenced", timeout_ms=300)).value


def test_kh11_a_fenced_read_sees_what_was_acknowledged_anywhere_while_one_leader_leads() -> None:
    async def check(world: World) -> None:
        writer = await world.client(await world.leader())
        readers = [await world.client(name) for name in FIVE]
        for number in range(10):
            await writer.put("/a", number)
            assert [await seen(reader) for reader in readers] == [number] * 5

    in_cluster(World(FIVE), check)


async def divided(world: World) -> tuple[str, str, Client]:
    """An old leader alone with one follower, which knows no other one; and a client of the majority's new leader, which
    has acknowledged a write that they lack."""
    old = await world.leader()
    client = await world.client(old)
    await client.put("/a", "old")
    follower = next(name for name in FIVE if name != old)
    rest = [name for name in FIVE if name not in (old, follower)]
    both = [await world.client(name) for name in (old, follower)]
    await eventually(lambda: _everywhere(both))
    world.isolate(old, follower)
    new = await world.leader(among=rest)
    other = await world.client(new)
    await other.put("/a", "new")
    return old, follower, other


async def _everywhere(clients: list[Client]) -> bool | None:
    try:
        return all([(await client.get("/a", mode="local")).value == "old" for client in clients]) or None
    except NodeNotFoundError:
        return None


def test_kh11_fenced_reads_are_not_linearizable_behind_a_leader_that_was_cut_off_with_the_node_that_is_asked() -> None:
    async def check(world: World) -> None:
        old, follower, other = await divided(world)
        assert world.nodes[old].status().role == "leader"
        # The write was acknowledged before these reads began.
        assert await seen(await world.client(follower)) == "old"
        assert await seen(await world.client(old)) == "old"
        assert await seen(other) == "new"

    in_cluster(World(FIVE), check)


def test_kh11_d12_it_ends_when_the_old_leader_steps_down() -> None:
    async def check(world: World) -> None:
        old, follower, _ = await divided(world)
        client = await world.client(follower)

        async def stepped_down() -> bool | None:
            return world.nodes[old].status().role != "leader" or None

        await eventually(stepped_down)
        await asyncio.sleep(0.5)
        with pytest.raises(UnavailableError):
            await seen(client)
        world.cut = set()
        await eventually(lambda: _is_new(client))

    in_cluster(World(FIVE), check)


async def _is_new(client: Client) -> bool | None:
    try:
        return await seen(client) == "new" or None
    except UnavailableError:
        return None


def test_kh11_a_fenced_read_waits_for_what_its_leader_has_also_if_that_is_not_committed() -> None:
    async def check(world: World) -> None:
        old = await world.leader()
        client = await world.client(old)
        await client.put("/a", "old")
        follower = next(name for name in FIVE if name != old)
        reader = await world.client(follower)
        await eventually(lambda: _everywhere([reader]))
        world.isolate(old, follower)
        writing = asyncio.ensure_future(client.put("/a", "lost", timeout_ms=50))
        await asyncio.sleep(0.02)
        with pytest.raises(UnavailableError, match="did not apply"):
            await client.get("/a", mode="fenced", timeout_ms=40)
        await asyncio.gather(writing, return_exceptions=True)

    in_cluster(World(FIVE), check)


def test_kh11_a_session_sees_its_own_writes_behind_a_fence_also_across_leaders() -> None:
    async def check(world: World) -> None:
        first = await world.leader()
        name = next(each for each in FIVE if each != first)
        client = await world.client(name)
        for number in range(6):
            written = await client.put("/a", number)
            if number % 2:
                next_one = next(each for each in FIVE if each not in (name, first))
                await (await world.client(first)).transfer_leadership(next_one)
            found = await client.get("/a", mode="fenced")
            assert found.value == number
            assert found.index >= written.index
            first = await world.leader()

    in_cluster(World(FIVE), check)
