"""Entities through the nodes of a cluster: a client's store, and what members hold after a restart."""

from __future__ import annotations

import pytest

from splitbrain.cluster.client import RefusedError, UnavailableError
from splitbrain.cluster.entities import bindings, exchanges, queues, topology, users, vhosts
from splitbrain.cluster.entities.client import ClientStore
from splitbrain.cluster.entities.errors import EntityNotFoundError, PreconditionFailedError
from splitbrain.cluster.entities.routing import route, routed_by
from splitbrain.cluster.tree import NEWEST_VERSION
from tests.cluster.support import World, eventually, in_cluster

NODES = ["n1", "n2", "n3"]


async def routes(store: ClientStore) -> list[str]:
    """Where a message goes, once the member has what was acknowledged before."""

    async def found() -> list[str] | None:
        try:
            return await routed_by(store, route("/", "orders", "order.7.created")) or None
        except UnavailableError:
            return None

    return await eventually(found)


def test_a_topology_is_declared_through_one_node_and_routed_by_all_also_after_a_restart() -> None:
    async def check(world: World) -> None:
        await world.in_force(NEWEST_VERSION)
        store = ClientStore(await world.client("n1"), 5000)
        await store.register()
        await store.register()
        await vhosts.declare(store, "/")
        await exchanges.declare(store, "/", "orders", "topic")
        await queues.declare(store, "/", "new")
        assert await bindings.add(store, "/", "orders", "queue", "new", "order.*.created")
        for node in NODES:
            assert await routes(ClientStore(await world.client(node), 5000)) == ["new"]
        await world.kill("n2")
        await world.start("n2")
        assert await routes(ClientStore(await world.client("n2"), 5000)) == ["new"]
        found, tables = await store.at_one_moment(topology.READ, topology.TABLES)
        assert topology.of_read(found).bindings == topology.of_tables(tables).bindings

    in_cluster(World(NODES), check)


def test_what_is_refused_is_a_definite_error_of_an_entity() -> None:
    async def check(world: World) -> None:
        await world.in_force(NEWEST_VERSION)
        store = ClientStore(await world.client("n1"), 5000)
        await vhosts.declare(store, "/")
        await queues.declare(store, "/", "q")
        with pytest.raises(PreconditionFailedError) as found:
            await queues.declare(store, "/", "q", durable=False)
        assert found.value.definite
        with pytest.raises(EntityNotFoundError, match="exchange 'x'"):
            await bindings.add(store, "/", "x", "queue", "q")
        with pytest.raises(EntityNotFoundError):
            await users.delete(store, "nobody")

    in_cluster(World(["n1"]), check)


def test_before_the_version_with_transactions_is_in_force_entities_are_unavailable() -> None:
    async def check(world: World) -> None:
        await world.in_force(2)
        store = ClientStore(await world.client("n1"), 5000)
        with pytest.raises(UnavailableError):
            await users.find(store, "u")
        with pytest.raises(RefusedError, match="version 3"):
            await users.add(store, "u")

    world = World(["n1"])
    world.machine_versions = {"n1": 2}
    in_cluster(world, check)
