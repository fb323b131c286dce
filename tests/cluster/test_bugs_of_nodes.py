"""What the switches of requests, the state machine and snapshots break, beside the same steps without them."""

from __future__ import annotations

import asyncio

import pytest

from splitbrain.cluster.bugs import M16, M29, M31, M33, M35, M36, M37, Bugs
from splitbrain.cluster.client import ClientError, NodeNotFoundError
from splitbrain.cluster.errors import CorruptStorageError
from tests.cluster.support import World, both, eventually, in_cluster

THREE = ["n1", "n2", "n3"]


async def same_index(world: World) -> set[tuple[str, str]]:
    """Chain and state of the nodes, once all have applied the same number of entries."""

    async def met() -> set[tuple[str, str]] | None:
        seen = [node.status() for node in world.nodes.values()]
        if len({status.applied_index for status in seen}) > 1:
            return None
        return {(status.chain_hash, status.state_hash) for status in seen}

    return await eventually(met)


@both(M29)
def test_m29_reads_what_a_restarted_node_has_applied_so_far(bugs: Bugs, broken: bool) -> None:
    async def check(world: World) -> None:
        client = await world.client("n1")
        await client.put("/a", "old")
        for number in range(1500):
            await client.put("/b", number)
        await client.put("/a", "new")
        await world.kill("n1")
        await world.start("n1")
        assert (await (await world.client("n1")).get("/a", timeout_ms=5000)).value == ("old" if broken else "new")

    in_cluster(World(["n1"], bugs=bugs), check)


@both(M31)
def test_m31_proposes_a_command_again_that_may_have_happened(bugs: Bugs, broken: bool) -> None:
    async def check(world: World) -> None:
        leader = await world.leader()
        client = await world.client(leader)
        world.isolate(leader)
        writing = asyncio.get_running_loop().create_task(client.put("/a", 1, timeout_ms=60_000))
        await world.leader(among=[name for name in THREE if name != leader])
        await asyncio.sleep(5)
        world.cut.clear()
        if broken:
            assert (await writing).value == 1
        else:
            with pytest.raises(ClientError) as caught:
                await writing
            assert not caught.value.definite

    in_cluster(World(THREE, bugs=bugs), check)


@both(M33)
def test_m33_says_that_a_command_did_not_happen_when_it_is_not_known(bugs: Bugs, broken: bool) -> None:
    async def check(world: World) -> None:
        leader = await world.leader()
        client = await world.client(leader)
        world.isolate(leader)
        with pytest.raises(ClientError) as caught:
            await client.put("/a", 1, timeout_ms=50)
        assert caught.value.definite == broken

    in_cluster(World(THREE, bugs=bugs), check)


@both(M35)
def test_m35_leaves_nodes_with_different_states_of_the_same_log(bugs: Bugs, broken: bool) -> None:
    async def check(world: World) -> None:
        client = await world.client("n1")
        for number in range(200):
            await client.put(f"/a{number}", number)
        seen = await same_index(world)
        assert (len(seen) > 1) == broken
        assert len({chain for chain, _ in seen}) == 1

    in_cluster(World(THREE, bugs=bugs), check)


@both(M36)
def test_m36_ends_every_node_that_applies_the_command(bugs: Bugs, broken: bool) -> None:
    async def check(world: World) -> None:
        client = await world.client(await world.leader())
        if not broken:
            with pytest.raises(NodeNotFoundError):
                await client.update("/a", 1)
            assert world.failures == []
            return
        with pytest.raises(ClientError):
            await client.update("/a", 1, timeout_ms=2000)

        async def ended() -> bool | None:
            return any(isinstance(failure, LookupError) for failure in world.failures) or None

        assert await eventually(ended)

    in_cluster(World(THREE, bugs=bugs), check)


@both(M37)
def test_m37_applies_an_entry_again_behind_the_snapshot_that_has_it(bugs: Bugs, broken: bool) -> None:
    async def check(world: World) -> None:
        client = await world.client("n1")
        for number in range(90):
            await client.put("/a", number)
        assert len(await same_index(world)) == 1
        await world.kill("n2")
        await world.start("n2")
        assert (len(await same_index(world)) > 1) == broken

    world = World(THREE, bugs=bugs)
    world.snapshot_interval = 20
    in_cluster(world, check)


@both(M16)
def test_m16_has_a_checkpoint_of_entries_that_a_crash_takes_from_the_log(bugs: Bugs, broken: bool) -> None:
    async def check(world: World) -> None:
        leader = await world.leader()
        slow = next(name for name in THREE if name != leader)
        world.disks[slow].gate = asyncio.Event()  # what it applies, the others have made durable
        client = await world.client(leader)
        for number in range(30):
            await client.put("/a", number)
        await eventually(lambda: applied(world, slow, 30))
        await world.kill(slow)
        world.disks[slow].gate = None
        if broken:
            with pytest.raises(CorruptStorageError, match="there is a checkpoint of entry"):
                await world.start(slow)
        else:
            await world.start(slow)
            await eventually(lambda: applied(world, slow, 30))

    world = World(THREE, bugs=bugs)
    world.checkpoint_interval = 8
    in_cluster(world, check)


async def applied(world: World, name: str, index: int) -> bool | None:
    return world.nodes[name].status().applied_index >= index or None
