"""The first replicas of a queue or a stream are not on nodes that are being drained, either (S001)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec
import pytest

from splitbrain.cluster import queueoperators
from splitbrain.cluster.client import Client, QueueOptions
from splitbrain.cluster.entities.records import NodeState
from splitbrain.cluster.errors import UnavailableError
from splitbrain.cluster.members import node_of
from splitbrain.cluster.tree import NEWEST_VERSION
from tests.cluster.queuegroups.support import FIVE
from tests.cluster.streams.test_stream_replicas import QUICK, WITHIN_S, in_cluster, settled, tried
from tests.cluster.support import World, eventually

SETTINGS = msgspec.structs.replace(QUICK, interval_ms=5000)


def on_five_nodes(check: Callable[[World], Awaitable[None]]) -> None:
    async def once_entities_can_be_noted(world: World) -> None:
        await world.in_force(NEWEST_VERSION)
        await check(world)

    in_cluster(once_entities_can_be_noted, FIVE, FIVE, SETTINGS)


async def note(client: Client, state: NodeState, names: list[str]) -> None:
    for name in names:
        await queueoperators.note(client, name, state, 5000)


async def nodes_of(client: Client, queue: str) -> list[str]:
    record = await (await client.queues()).record(queue)
    return sorted(node_of(member) for member in record.members)


def test_no_queue_begins_on_a_drained_node_also_not_on_the_one_that_is_asked() -> None:
    async def check(world: World) -> None:
        client = await world.client("n1")
        queues = await client.queues()
        await note(client, "draining", ["n1", "n3"])
        for number in range(4):
            await queues.declare(f"q{number}")
            assert await nodes_of(client, f"q{number}") == ["n2", "n4", "n5"]
        await queues.publisher("q0").publish(b"x")
        await note(client, "regular", ["n1", "n3"])
        founders = (await queues.declare("later")).record.founders
        assert founders[0] == "n1", "the node that is asked comes first, as it is drained no more"

    on_five_nodes(check)


def test_a_queue_begins_with_the_nodes_that_are_left_and_grows_when_others_are_revived() -> None:
    async def check(world: World) -> None:
        client = await world.client("n1")
        queues = await client.queues()
        await note(client, "draining", FIVE[:4])
        await queues.declare("plain")
        await queues.declare("kept", QueueOptions(target_group_size=3))
        assert await nodes_of(client, "plain") == await nodes_of(client, "kept") == ["n5"]
        await note(client, "regular", ["n2", "n4"])

        async def grown() -> bool | None:
            return all([await nodes_of(client, name) == ["n2", "n4", "n5"] for name in ("plain", "kept")]) or None

        await eventually(grown, WITHIN_S)

    on_five_nodes(check)


def test_with_every_node_drained_no_queue_is_made_and_one_that_is_there_is_found() -> None:
    async def check(world: World) -> None:
        client = await world.client("n1")
        queues = await client.queues()
        await queues.declare("there")
        await note(client, "draining", FIVE)
        with pytest.raises(UnavailableError, match="every node is being drained") as refused:
            await queues.declare("new")
        assert refused.value.definite
        assert not (await queues.declare("there")).is_new
        assert [each.name for each in await queueoperators.every(client)] == ["there"]

    on_five_nodes(check)


def test_no_stream_and_no_partition_begins_on_a_drained_node() -> None:
    async def check(world: World) -> None:
        client = await world.client("n1")
        streams = await client.streams()
        await note(client, "draining", ["n1", "n3"])
        await tried(lambda: streams.declare("s"))
        assert (await settled(streams, ["n2", "n4", "n5"])).writer == "n2"
        await streams.publisher("s", "p").publish(b"x")
        assert await streams.declare_super("orders", partitions=4, replicas=2, timeout_ms=60_000)
        found = await streams.partitions("orders")
        assert len(found) == 4
        assert {member for each in found for member in each.members} == {"n2", "n4", "n5"}
        assert [each.writer for each in found] == ["n2", "n4", "n5", "n2"]

    on_five_nodes(check)


def test_a_stream_begins_with_the_nodes_that_are_left_and_grows_when_others_are_revived() -> None:
    async def check(world: World) -> None:
        client = await world.client("n1")
        streams = await client.streams()
        await note(client, "draining", FIVE[:4])
        await tried(lambda: streams.declare("s"))
        await tried(lambda: streams.declare("kept", target_group_size=3))
        for name in ("s", "kept"):
            await settled(streams, ["n5"], name)
        await note(client, "regular", ["n2", "n4"])
        for name in ("s", "kept"):
            await settled(streams, ["n2", "n4", "n5"], name)

    on_five_nodes(check)


def test_with_every_node_drained_no_stream_is_made_and_one_that_is_there_is_found() -> None:
    async def check(world: World) -> None:
        client = await world.client("n1")
        streams = await client.streams()
        await tried(lambda: streams.declare("there"))
        await tried(lambda: streams.declare_super("orders", partitions=2, timeout_ms=60_000))
        await note(client, "draining", FIVE)
        with pytest.raises(UnavailableError, match="every node is being drained") as refused:
            await streams.declare("new")
        assert refused.value.definite
        assert not await streams.declare("there")
        assert not await streams.declare_super("orders", partitions=2)
        with pytest.raises(UnavailableError, match="every node is being drained"):
            await streams.declare_super("orders", partitions=3)
        assert [each.name for each in await streams.status()] == ["there", "orders-0", "orders-1"]

    on_five_nodes(check)
