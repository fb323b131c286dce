"""What a node does that a client asks for a snapshot or a checkpoint."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from splitbrain.cluster.client import InvalidRequestError, OutcomeUnknownError, UnavailableError, WrittenState
from splitbrain.cluster.log.snapshot import parse_name
from splitbrain.cluster.tree import NEWEST_VERSION
from tests.cluster.support import World, eventually, in_cluster

THREE = ["n1", "n2", "n3"]


def files(world: World, name: str) -> list[tuple[str, int]]:
    """Snapshots and checkpoints of a node: what each is, and its index."""
    names = [each for each in world.disks[name].names() if each.startswith(("snapshot-", "checkpoint-"))]
    return [(parse_name(each).sort, parse_name(each).index) for each in names]


def run(check: Callable[[World], Awaitable[None]]) -> None:
    in_cluster(World(THREE), check)


def test_ra37_a_node_that_is_asked_has_a_durable_snapshot_of_what_it_has_applied() -> None:
    async def check(world: World) -> None:
        leader = await world.leader()
        client = await world.client(leader)
        put = await client.put("/a", 1)
        found = await client.snapshot()
        assert found == WrittenState(put.index, put.term)
        assert files(world, leader) == [("snapshot", put.index)]
        others = [name for name in THREE if name != leader]
        assert [files(world, name) for name in others] == [[], []]
        await world.kill(leader)
        await world.start(leader)
        again = await world.client(leader)
        assert (await again.get("/a", mode="local")).value == 1

    run(check)


def test_ra37_a_second_request_for_the_same_entry_is_answered_with_the_snapshot_that_is_there() -> None:
    async def check(world: World) -> None:
        client = await world.client(await world.leader())
        await client.put("/a", 1)
        first = await client.snapshot()
        world.disks[await world.leader()].gate = asyncio.Event()
        assert await client.snapshot() == first
        assert await client.checkpoint() == first

    run(check)


def test_ra38_a_checkpoint_on_request_is_not_synced_and_leaves_the_log() -> None:
    async def check(world: World) -> None:
        leader = await world.leader()
        client = await world.client(leader)
        await world.in_force(NEWEST_VERSION)
        put = await client.put("/a", 1)
        await asyncio.sleep(0.1)
        world.disks[leader].calls.clear()
        assert await client.checkpoint() == WrittenState(put.index, put.term)
        assert world.disks[leader].calls == ["append"]
        assert files(world, leader) == [("checkpoint", put.index)]
        assert await client.checkpoint() == WrittenState(put.index, put.term)
        later = await client.put("/a", 2)
        await asyncio.sleep(0.1)
        assert await client.snapshot() == WrittenState(later.index, later.term)
        assert files(world, leader) == [("snapshot", later.index)]

    run(check)


def test_ra38_what_is_not_durable_here_gets_no_checkpoint() -> None:
    async def check(world: World) -> None:
        leader = await world.leader()
        client = await world.client(leader)
        await client.put("/a", 1)
        await asyncio.sleep(0.1)
        gate = world.disks[leader].gate = asyncio.Event()
        await client.put("/a", 2)  # the others are a majority
        with pytest.raises(UnavailableError, match="not durable here yet"):
            await client.checkpoint()
        assert files(world, leader) == []
        gate.set()

    run(check)


def test_ra37_a_snapshot_that_is_not_durable_in_time_is_of_unknown_outcome_and_another_has_to_wait() -> None:
    async def check(world: World) -> None:
        leader = await world.leader()
        client = await world.client(leader)
        await client.put("/a", 1)
        await asyncio.sleep(0.1)
        gate = world.disks[leader].gate = asyncio.Event()
        with pytest.raises(OutcomeUnknownError, match="did not write its state in time"):
            await client.snapshot(timeout_ms=50)
        with pytest.raises(UnavailableError, match="a snapshot is being written"):
            await client.snapshot()
        gate.set()
        await asyncio.sleep(0.1)
        await client.put("/a", 2)
        assert (await client.snapshot()).index > 2

    run(check)


def test_ra42_a_node_that_is_taking_over_a_snapshot_writes_none() -> None:
    async def check(world: World) -> None:
        leader = await world.leader()
        behind = next(name for name in THREE if name != leader)
        client = await world.client(leader)
        await client.put("/a", 0)
        await asyncio.sleep(0.1)
        world.isolate(behind)
        last = (await client.put("/a", 1)).index
        await client.snapshot()
        gate = world.disks[behind].gate = asyncio.Event()
        world.cut = set()
        there = await world.client(behind)

        async def refused() -> bool | None:
            with pytest.raises((UnavailableError, OutcomeUnknownError)) as found:
                await there.snapshot(timeout_ms=20)
            return "is being taken over" in str(found.value) or None

        # Not asked before: a snapshot of its own that is under way would be refused for that.
        await asyncio.sleep(0.5)
        await eventually(refused)
        gate.set()
        await asyncio.sleep(0.1)
        assert (await there.snapshot()).index >= last

    run(check)


def test_ra37_a_node_that_has_applied_nothing_writes_nothing() -> None:
    async def check(world: World) -> None:
        await world.kill("n2")
        await world.kill("n3")
        await world.wipe("n1")
        world.founders = ("n2", "n3")
        world.incarnations.clear()
        await world.start("n1")
        client = await world.client("n1")
        for ask in (client.snapshot, client.checkpoint):
            with pytest.raises(InvalidRequestError, match="nothing is applied yet"):
                await ask()

    run(check)
