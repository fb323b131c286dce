"""Members of queues follow those of the cluster."""

from __future__ import annotations

from splitbrain.cluster.client import QueueOptions
from tests.cluster.queuegroups.support import drained, in_cluster, queues_on
from tests.cluster.support import World, eventually


def test_who_left_the_cluster_leaves_its_queues_and_who_joins_takes_part() -> None:
    async def check(world: World) -> None:
        queues = await queues_on(world, "n1")
        await queues.declare("orders", QueueOptions(initial_group_size=3))
        publisher = queues.publisher("orders")
        await publisher.publish(b"a")
        for gone in ("n3", "n2"):
            client = await world.client("n1")
            await world.wipe(gone)
            await client.remove_member(gone)
            await eventually(lambda gone=gone: are_members(world, set(THREE) - {gone}))
            await client.add_member(f"{gone}#1")
            await world.start(gone)
            await eventually(lambda gone=gone: are_members(world, {*THREE} - {gone} | {f"{gone}#1"}))
            THREE[THREE.index(gone)] = f"{gone}#1"
        await publisher.publish(b"b")
        await eventually(lambda: is_named(world))
        await world.kill("n1")
        assert await drained(await queues_on(world, "n3"), "orders") == [b"a", b"b"]

    in_cluster(check)


THREE = ["n1", "n2", "n3"]


async def are_members(world: World, expected: set[str]) -> bool | None:
    return set(world.nodes["n1"].members("queue.1").members) == expected or None


async def is_named(world: World) -> bool | None:
    record = await (await queues_on(world, "n1")).declare("orders")
    return set(record.record.members) == set(THREE) or None
