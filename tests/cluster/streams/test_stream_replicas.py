"""Copies of streams on whole nodes that come, go, fail and are drained (S001), and the group of the coordinator."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

import msgspec
import pytest

from splitbrain.cluster import queueoperators
from splitbrain.cluster.client import Streams
from splitbrain.cluster.errors import ClientError
from splitbrain.cluster.groupnames import STREAM_COORDINATOR
from splitbrain.cluster.marks import counted
from splitbrain.cluster.replicas import ReplicaSettings
from splitbrain.cluster.streamclient import StreamStatus
from tests.cluster.queuegroups.support import THREE
from tests.cluster.streams.test_stream_nodes import read_all, streams_on
from tests.cluster.support import World, eventually, in_virtual_time

FOUR = [*THREE, "n4"]
QUICK = ReplicaSettings(trigger_ms=1000, recovery_ms=4000, interval_ms=60_000)
WITHIN_S = 60.0


def in_cluster(
    check: Callable[[World], Awaitable[None]], names: list[str], founders: list[str], settings: ReplicaSettings = QUICK
) -> None:
    async def run() -> None:
        world = World(names)
        world.founders, world.replicas = tuple(founders), settings
        try:
            await world.start()
            await check(world)
            assert world.failures == []
        finally:
            await world.close()

    in_virtual_time(run())


async def tried(call: Callable[[], Awaitable[object]]) -> None:
    """Do what may be done twice, until it is done."""

    async def once() -> bool | None:
        with suppress(ClientError):
            await call()
            return True

    await eventually(once, WITHIN_S)


async def settled(streams: Streams, members: list[str], name: str = "s") -> StreamStatus:
    """Once these members, and no others, have copies with a vote, and run."""

    async def look() -> StreamStatus | None:
        with suppress(ClientError):
            found = next(each for each in await streams.status() if each.name == name)
            voters = found.voters == members and all(found.members[each] == "running" for each in members)
            return found if voters else None

    return await eventually(look, WITHIN_S)


async def group_is(world: World, members: list[str], on: str = "n1") -> None:
    async def look() -> bool | None:
        found = world.nodes[on].members(STREAM_COORDINATOR)
        return sorted(found.members) == members or None

    await eventually(look, WITHIN_S)


async def leader(world: World) -> str:
    """Who leads the coordinator's group."""

    async def look() -> str | None:
        leading = [name for name, node in world.nodes.items() if node.leads(STREAM_COORDINATOR)]
        return leading[0] if len(leading) == 1 else None

    return await eventually(look, WITHIN_S)


def test_a_node_that_joins_later_is_a_member_and_has_copies_and_its_clients_use_streams() -> None:
    async def check(world: World) -> None:
        client = await world.client("n1")
        streams = await client.streams()
        await tried(lambda: streams.declare("s", replicas=99))
        await tried(lambda: streams.declare("two", replicas=2))
        await settled(streams, THREE)
        await streams.publisher("s", "p").publish(b"x")
        await tried(lambda: client.add_member("n4"))
        await group_is(world, FOUR)
        await settled(streams, FOUR)
        later = await streams_on(world, "n4")
        assert (await later.publisher("s", "q").publish(b"y")).offset == 1
        assert await read_all(later, 2) == [b"x", b"y"]
        assert len((await settled(streams, ["n1", "n2"], "two")).members) == 2
        for name in FOUR:
            await world.kill(name)
        await world.start()
        assert (await settled(await streams_on(world, "n4"), FOUR)).is_running

    with counted() as marks:
        in_cluster(check, FOUR, THREE)
    assert marks["coordinator of streams begun on a node that came later"] == 1
    assert marks["copy of a stream given a vote"] >= 1


def test_a_node_that_leaves_the_cluster_leaves_the_group_and_its_copy_is_replaced() -> None:
    """Scenario One of S001."""

    async def check(world: World) -> None:
        client = await world.client("n1")
        streams = await client.streams()
        await tried(lambda: streams.declare("s", target_group_size=3))
        members = list((await settled(streams, THREE)).members)
        await streams.publisher("s", "p").publish(b"x")
        assert members == THREE
        await world.kill("n3")
        await tried(lambda: client.remove_member("n3"))
        await group_is(world, ["n1", "n2", "n4"])
        found = await settled(streams, ["n1", "n2", "n4"])
        assert await read_all(await streams_on(world, "n4"), 1) == [b"x"]
        assert found.target == 3

        async def forgotten() -> bool | None:
            return list((await streams.status())[0].members) == ["n1", "n2", "n4"] or None

        await eventually(forgotten, WITHIN_S)
        await streams.delete("s")

        async def gone() -> bool | None:
            there = [world.disks[name].names() for name in ("n1", "n2", "n4")]
            return not any(name.startswith("stream-") for names in there for name in names) or None

        await eventually(gone, WITHIN_S)

    in_cluster(check, FOUR, FOUR)


@pytest.mark.slow
def test_a_copy_that_failed_is_replaced_and_what_came_for_it_stays_when_it_is_back() -> None:
    """Scenario Two of S001; the leader of the coordinator's group goes with the first failure, and comes back later."""

    async def check(world: World) -> None:
        streams = await streams_on(world, "n1")
        await tried(lambda: streams.declare("s", target_group_size=3))
        await settled(streams, THREE)
        leads = await leader(world)
        down = leads if leads in ("n2", "n3") else "n3"
        await world.kill(down)
        stay = sorted({*FOUR} - {down})
        await settled(streams, stay)
        await streams.publisher("s", "p").publish(b"x")
        before = await settled(streams, stay)
        await world.start(down)
        await asyncio.sleep(6)
        after = await settled(streams, stay)
        assert list(after.members) == stay
        assert after.epoch == before.epoch
        assert not [name for name in world.disks[down].names() if name.startswith("stream-")]

    in_cluster(check, FOUR, FOUR)


def test_a_copy_that_is_back_within_the_recovery_interval_stays() -> None:
    """Scenario Three of S001."""

    async def check(world: World) -> None:
        streams = await streams_on(world, "n1")
        await tried(lambda: streams.declare("s", target_group_size=3))
        before = await settled(streams, THREE)
        await world.kill("n3")
        await asyncio.sleep(QUICK.recovery_ms / 1000 - 2)
        await world.start("n3")
        await asyncio.sleep(6)
        after = await settled(streams, THREE)
        assert (list(after.members), after.epoch) == (THREE, before.epoch)

    in_cluster(check, FOUR, FOUR)


@pytest.mark.slow
def test_nothing_goes_to_a_node_that_is_drained_and_it_leads_the_group_no_more() -> None:
    async def check(world: World) -> None:
        client = await world.client("n1")
        streams = await client.streams()
        await tried(lambda: streams.declare("s", replicas=2))
        await settled(streams, ["n1", "n2"])
        leads = await leader(world)
        drained = {"n4", leads}
        for name in sorted(drained):
            await queueoperators.note(client, name, "draining", 5000)
        await queueoperators.set_target(client, 3, "^s$", 5000)

        async def handed_over() -> bool | None:
            return (await leader(world)) not in drained or None

        await eventually(handed_over, WITHIN_S)
        await asyncio.sleep(6)
        added = set((await streams.status())[0].members) - {"n1", "n2"}
        assert added == ({"n3"} if leads != "n3" else set())
        await queueoperators.note(client, "n4", "regular", 5000)
        await settled(streams, ["n1", "n2", "n3"] if leads != "n3" else ["n1", "n2", "n4"])

    in_cluster(check, FOUR, FOUR)


@pytest.mark.slow
def test_the_target_is_that_of_the_argument_then_of_a_policy_then_of_the_configuration() -> None:
    async def check(world: World) -> None:
        client = await world.client("n1")
        streams = await client.streams()
        await tried(lambda: streams.declare("argument", replicas=1, target_group_size=2))
        await tried(lambda: streams.declare("policy", replicas=1))
        await tried(lambda: streams.declare("configuration", replicas=1))
        await queueoperators.set_target(client, 4, "^(argument|policy)$", 5000)
        await asyncio.sleep(12)
        found = {each.name: len(each.voters) for each in await streams.status()}
        assert found == {"argument": 2, "policy": 4, "configuration": 3}

    settings = msgspec.structs.replace(QUICK, target=3)
    in_cluster(check, FOUR, FOUR, settings)
