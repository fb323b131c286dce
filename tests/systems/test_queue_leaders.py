"""Which nodes lead queues, for faults that aim at them."""

from __future__ import annotations

from splitbrain.cluster.client import QueueOptions
from splitbrain.cluster.tree import NEWEST_VERSION
from splitbrain.harness.systems.metadata_queues import queue_leaders
from tests.cluster.support import World, eventually, in_virtual_time


def test_a_node_names_those_that_lead_queues_and_follows_when_another_one_does() -> None:
    async def check() -> None:
        world = World(["n1", "n2", "n3"])
        try:
            await world.start()
            await world.in_force(NEWEST_VERSION)
            client = await world.client("n3")
            assert await queue_leaders(client) == ()
            queues = await client.queues()
            await queues.declare("orders", QueueOptions(initial_group_size=3))

            async def known() -> tuple[str, ...] | None:
                return await queue_leaders(client) or None

            [before] = await eventually(known, 20.0)
            other = await world.client("n1" if before == "n3" else "n3")
            await world.kill(before)

            async def another() -> bool | None:
                return (await queue_leaders(other) not in ((before,), ())) or None

            await eventually(another, 30.0)
        finally:
            await world.close()

    in_virtual_time(check())
