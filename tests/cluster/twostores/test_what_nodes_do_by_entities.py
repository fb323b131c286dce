"""A node drains, and limits deliveries, by the entities of the store in force: of the tables, then of the tree."""

from __future__ import annotations

from splitbrain.cluster.client import Client, ClientError
from splitbrain.cluster.entities import maintenance, policies, vhosts
from splitbrain.cluster.members import node_of
from tests.cluster.support import eventually, in_virtual_time
from tests.cluster.twostores.support import THREE, TwoStoresWorld

DRAINED_S = 60
"""A node looks each second; to hand a queue over takes an election at most."""


async def _world() -> TwoStoresWorld:
    world = TwoStoresWorld()
    await world.first(count=1)
    return world


async def _leader_of(client: Client, queue: str) -> str:
    """The node that leads a queue, once one does."""

    async def found() -> str | None:
        value = (await client.get(f"/quorum_queues/{queue}")).value
        return node_of(value["leader"]) if value.get("leader") else None

    return await eventually(found, DRAINED_S)


async def _other_leader(client: Client, queue: str, before: str) -> str:
    async def found() -> str | None:
        there = await _leader_of(client, queue)
        return there if there != before else None

    return await eventually(found, DRAINED_S)


def test_cmr_2_a_node_that_is_drained_hands_queues_over_whichever_store_is_in_force() -> None:
    async def scenario() -> None:
        world = await _world()
        client = await world.client("n1")
        await (await client.queues()).declare("orders")
        first = await _leader_of(client, "orders")
        await maintenance.put(await world.entities("n1"), first, "draining")
        second = await _other_leader(client, "orders", first)
        assert await world.all_see() == ("tables", ["q00"])
        await world.migrated()
        await maintenance.put(await world.entities("n1"), second, "draining")
        third = await _other_leader(client, "orders", second)
        assert {first, second, third} == set(THREE), "the note of the first one has moved"
        await world.end()

    in_virtual_time(scenario())


def test_m2k_4_a_rollback_has_the_tables_decide_again_who_is_drained() -> None:
    async def scenario() -> None:
        world = await _world()
        client = await world.client("n1")
        await (await client.queues()).declare("orders")
        await _leader_of(client, "orders")
        await world.migrated()
        await world.rolled_back()
        leader = await _leader_of(client, "orders")
        await maintenance.put(await world.entities("n1"), leader, "draining")
        await _other_leader(client, "orders", leader)
        await world.end()

    in_virtual_time(scenario())


def test_cq_6_a_policy_in_the_tables_limits_deliveries_of_a_classic_queue() -> None:
    async def scenario() -> None:
        world = await _world()
        client = await world.client("n1")
        queues = await client.classic_queues()
        await queues.declare("c", node="n2")
        store = await world.entities("n1")
        await vhosts.declare(store, "/")
        await policies.put(store, "/", "limit", "c", {"delivery-limit": 2}, apply_to="queues")

        async def limited() -> bool | None:
            try:
                return (await queues.look("c")).limit == 2 or None
            except ClientError:
                return None

        await eventually(limited, DRAINED_S)
        await world.end()

    in_virtual_time(scenario())
