"""Entities and their migration on nodes of the table store: by clients over connections, and in a node's process."""

from __future__ import annotations

import asyncio

import pytest

from splitbrain.cluster.entities import bindings, exchanges, permissions, queues, topology, users, vhosts
from splitbrain.cluster.entities.errors import EntityExistsError
from splitbrain.cluster.entities.store import LocalStore
from splitbrain.cluster.entities.tables import REGISTER
from splitbrain.cluster.errors import InvalidRequestError
from splitbrain.cluster.migration.converters import of_entities
from splitbrain.cluster.migration.dispatch import FallbackStore
from splitbrain.cluster.migration.machine import Migration
from splitbrain.cluster.migration.shell import Shell, TreeSwitch
from splitbrain.cluster.migration.steps import Ended
from splitbrain.cluster.tables.entities.store import TablesStore
from splitbrain.cluster.tables.replica import ReplicaTables
from splitbrain.cluster.tree import NEWEST_VERSION, Tree
from tests.cluster.migration.interrupted import FUNCTIONS
from tests.cluster.tables.test_tables_node import THREE, Tables, on_nodes


class Around:
    """What a migration needs beside the stores: it is the only process, and time is the loop's."""

    async def is_alive(self, owner: str) -> bool:
        return False

    async def progress(self) -> None:
        await asyncio.sleep(0.05)

    def wall_ms(self) -> int:
        return int(asyncio.get_running_loop().time() * 1000)


def new_tree() -> LocalStore:
    tree = Tree(version=NEWEST_VERSION, functions=FUNCTIONS)
    for command in REGISTER:
        tree.execute(command)
    return LocalStore(tree)


def test_db_7_clients_of_several_nodes_use_entities_over_connections() -> None:
    async def check(tables: Tables) -> None:
        stores = [TablesStore(await tables.client(name)) for name in THREE]
        await vhosts.declare(stores[0], "/")
        await users.add(stores[1], "u")
        await permissions.grant(stores[2], "/", "u", read=".*")
        await exchanges.declare(stores[1], "/", "x", "direct")
        await queues.declare(stores[2], "/", "q", arguments={"n": 1})
        assert await bindings.add(stores[0], "/", "x", "queue", "q", "k")
        with pytest.raises(EntityExistsError):
            await users.add(stores[2], "u")
        with pytest.raises(InvalidRequestError, match="limit_reached"):
            await queues.declare(stores[0], "/", "big", arguments={"a": "x" * 100_000})
        assert len((await topology.read(stores[2])).bindings) == 1
        await vhosts.delete(stores[1], "/")
        found = [await topology.read(store) for store in stores]
        assert found[0] == found[1] == found[2]
        assert (found[0].queues, found[0].bindings, found[0].permissions) == ((), (), ())

    on_nodes(THREE, check)


def test_db_7_a_request_whose_names_are_no_texts_is_refused_and_the_nodes_go_on() -> None:
    """Sent to another replica, such a name would break their link, and each one after it, for ever."""

    async def check(tables: Tables) -> None:
        stores = [TablesStore(await tables.client(name)) for name in THREE]
        await vhosts.declare(stores[0], "/")
        for wrong in (5, ["a"], b"x", None):
            with pytest.raises(InvalidRequestError, match="queue_declare"):
                await stores[0].change(queues.DECLARE, {"vhost": wrong, "name": "q", "record": {"vhost": "/"}})
            if wrong is not None:
                with pytest.raises(InvalidRequestError, match="exchanges_v1"):
                    await stores[1].records(exchanges.TABLE, [wrong, "x"])
        await queues.declare(stores[0], "/", "q")
        assert await queues.find(stores[0], "/", "q") is not None

    on_nodes(THREE, check)


def test_m2k_2_what_ends_a_former_subscription_leaves_the_present_one_and_the_former_one_has_a_gap() -> None:
    """A migration of the same process that was taken for dead ends while the next one queues changes."""

    async def check(tables: Tables) -> None:
        store = TablesStore(await tables.client("n1"))
        seen: list[object] = []
        former, present = (ReplicaTables(tables.nodes["n1"], THREE) for _ in range(2))
        end_former = former.subscribe(lambda _: None)
        end_present = present.subscribe(seen.append)
        assert "another migration" in str(former.problem())
        end_former()
        await vhosts.declare(store, "/")
        assert len(seen) == 1
        assert present.problem() is None
        end_present()
        await vhosts.delete(store, "/")
        assert len(seen) == 1

    on_nodes(THREE, check)


def test_m2k_2_a_node_migrates_while_clients_declare_on_others() -> None:
    async def check(tables: Tables) -> None:
        tree = new_tree()
        stores = [
            FallbackStore(TablesStore(await tables.client(name)), tree, TreeSwitch(tree, Around().progress))
            for name in THREE
        ]
        await vhosts.declare(stores[0], "/")

        async def client(number: int) -> None:
            for at in range(40):
                await queues.declare(stores[number], "/", f"q{number}-{at}")
                if at % 2:
                    assert await queues.delete(stores[number], "/", f"q{number}-{at}")

        async def migrate() -> Ended:
            await asyncio.sleep(0.2)
            replica = ReplicaTables(tables.nodes["n2"], THREE)
            return await Shell(tree, replica, Around()).run(Migration("n2", of_entities(), 1).steps())

        *_, ended = await asyncio.gather(*(client(number) for number in range(3)), migrate())
        assert ended == Ended("finished")
        there = {each.name for each in await queues.every(tree)}
        assert there == {f"q{number}-{at}" for number in range(3) for at in range(0, 40, 2)}

    on_nodes(THREE, check)


def test_m2k_2_tables_of_which_a_replica_is_missing_are_not_migrated_and_stay_in_force() -> None:
    async def check(tables: Tables) -> None:
        tree = new_tree()
        store = TablesStore(await tables.client("n1"))
        await vhosts.declare(store, "/")
        replica = ReplicaTables(tables.nodes["n1"], [*THREE, "n4"])
        ended = await Shell(tree, replica, Around()).run(Migration("n1", of_entities()).steps())
        assert (ended.how, "replicas are missing: n4" in ended.why) == ("undone", True)
        await queues.declare(store, "/", "still")
        whole = ReplicaTables(tables.nodes["n1"], THREE)
        end = whole.subscribe(lambda _: None)
        assert whole.problem() is None
        tables.nodes["n1"].on_replaced()
        assert "took over the tables" in str(whole.problem())
        end()

    on_nodes(THREE, check)
