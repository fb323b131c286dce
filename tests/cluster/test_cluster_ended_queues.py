"""Queues of lives of nodes and of connections: their records go once these have ended, not before (DB-5, DB-6)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec
import pytest

from splitbrain.cluster.bugs import M59, NO_BUGS, Bugs
from splitbrain.cluster.client import Client, ClientError
from splitbrain.cluster.endedqueues import EndedQueues
from splitbrain.cluster.entities import queues, vhosts
from splitbrain.cluster.entities.client import ClientStore
from splitbrain.cluster.entities.inforce import RecordsInForce
from splitbrain.cluster.entities.names import node_name
from splitbrain.cluster.entities.paths import QUEUES
from splitbrain.cluster.entities.records import Queue
from splitbrain.cluster.lives import connection_of, life_of, owner_of, place_of
from splitbrain.cluster.runtime import Runtime
from splitbrain.cluster.tree import NEWEST_VERSION
from splitbrain.cluster.tree.paths import format_path
from splitbrain.cluster.wire import ClientAddress
from tests.cluster.entities.support import new_store, now
from tests.cluster.support import LoopRng, World, both, eventually, in_cluster, in_virtual_time
from tests.cluster.twostores.support import TwoStoresWorld

THREE = ["n1", "n2", "n3"]
LONG_S = 8.0
"""Much longer than a node is silent before it is taken for down, and looks at its queues."""


class Lives(World):
    """Nodes of which each process has a life of its own."""

    starts = 0

    def runtime(self, name: str) -> Runtime:
        self.starts += 1
        made = super().runtime(name)
        rng = LoopRng(f"{name} {self.starts}")
        return Runtime(made.clock, rng, made.network, made.disk, made.spawn, made.telemetry, made.log)


async def stocked(client: Client) -> ClientAddress:
    """Declare a durable, a transient and an exclusive queue on a connection; which that is."""
    store, address = ClientStore(client, 5000), await client.address()
    await vhosts.declare(store, "/")
    await queues.declare(store, "/", "durable", node=address.node)
    await queues.declare(store, "/", "transient", durable=False, node=place_of(address))
    await queues.declare(*(store, "/", "exclusive"), durable=False, owner=owner_of(address, 1), node=place_of(address))
    return address


ALL = ["durable", "exclusive", "transient"]


async def there(world: World, node: str) -> list[str]:
    """The queues that there are, linearizable."""
    store = ClientStore(await world.client(node), 5000)
    found = await store.ask(queues.SELECT, {"pattern": queues._pattern({})})  # pyright: ignore[reportPrivateUsage]
    return sorted(value["name"] for _, _, value in found)


async def become(world: World, node: str, names: Sequence[str]) -> None:
    """Wait until these are the queues that there are."""

    async def same() -> bool | None:
        try:
            return await there(world, node) == list(names) or None
        except ClientError:
            return None

    await eventually(same, 30.0)


def three(check: Callable[[World], Awaitable[None]], bugs: Bugs = NO_BUGS) -> None:
    async def carry_out(world: World) -> None:
        await world.in_force(NEWEST_VERSION)
        await check(world)

    in_cluster(Lives(THREE, bugs=bugs), carry_out)


def test_db_5_a_node_that_starts_anew_removes_what_lived_in_its_former_life_and_nothing_of_this_one() -> None:
    async def check(world: World) -> None:
        await stocked(await world.client("n1"))
        await world.kill("n1")
        await asyncio.sleep(LONG_S)
        assert await there(world, "n2") == ALL, "it may come back with them"
        await world.start("n1")
        await become(world, "n2", ["durable"])
        client = await world.client("n1")
        await stocked(client)
        await asyncio.sleep(LONG_S)
        assert await there(world, "n2") == ALL

    three(check)


def test_db_5_what_could_not_be_removed_without_a_majority_is_removed_later() -> None:
    async def check(world: World) -> None:
        await stocked(await world.client("n1"))
        await world.kill("n1")
        await world.kill("n2")
        await world.start("n1")
        world.isolate("n1")
        await asyncio.sleep(LONG_S)
        world.cut = set()
        await world.start("n2")
        await become(world, "n3", ["durable"])

    three(check)


def test_db_5_a_queue_that_comes_under_the_name_while_the_former_one_is_removed_stays() -> None:
    """The second connection claims the name as soon as it can, again and again."""

    async def check(world: World) -> None:
        await stocked(await world.client("n1"))
        await world.kill("n1")
        await world.start("n1")
        client = await world.client("n1")
        store, address = ClientStore(client, 5000), await client.address()

        async def claimed() -> bool | None:
            try:
                await queues.declare(
                    *(store, "/", "exclusive"), durable=False, owner=owner_of(address, 1), node=place_of(address)
                )
            except ClientError:
                return None
            return True

        await eventually(claimed, 30.0)
        await asyncio.sleep(LONG_S)
        assert await there(world, "n2") == ["durable", "exclusive"]

    three(check)


def test_a_record_that_makes_no_sense_neither_stops_a_node_nor_keeps_others_from_being_removed() -> None:
    """Clients may write anything below the path of queues, and a node that failed by it would fail at each start."""

    async def check(world: World) -> None:
        client = await world.client("n1")
        address = await stocked(client)
        queue = Queue("/", "odd", durable=False, node=place_of(address))
        odd = msgspec.structs.asdict(queue) | {"owner": 5}
        await client.put(format_path((*QUEUES, node_name("/"), "odd")), odd)
        await world.kill("n1")
        await world.start("n1")
        await become(world, "n2", ["durable", "odd"])
        await asyncio.sleep(LONG_S)
        assert world.failures == []

    three(check)


def test_db_6_a_queue_goes_with_the_connection_whoever_ended_that() -> None:
    async def check(world: World) -> None:
        client = await world.client("n1")
        await stocked(client)
        await client.close()
        await become(world, "n2", ["durable", "transient"])

    three(check)


def test_db_6_a_queue_that_is_made_long_after_its_node_began_goes_with_its_connection_too() -> None:
    """What a node remembers of the records is from before."""

    async def check(world: World) -> None:
        first = await world.client("n1")
        await stocked(first)
        await asyncio.sleep(LONG_S)
        second = await world.client("n1")
        store, address = ClientStore(second, 5000), await second.address()
        await queues.declare(*(store, "/", "late"), durable=False, owner=owner_of(address, 1), node=place_of(address))
        await asyncio.sleep(LONG_S)
        assert await there(world, "n2") == [*ALL[:2], "late", *ALL[2:]]
        await second.close()
        await become(world, "n2", ALL)

    three(check)


@both(M59)
def test_m59_queues_of_a_node_that_is_cut_off_are_removed_by_those_that_take_it_for_down(
    bugs: Bugs, broken: bool
) -> None:
    async def check(world: World) -> None:
        await stocked(await world.client("n1"))
        world.isolate("n1")
        await asyncio.sleep(LONG_S)
        assert await there(world, "n2") == (["durable"] if broken else ALL)
        world.cut = set()
        await asyncio.sleep(LONG_S)
        assert await there(world, "n1") == (["durable"] if broken else ALL)

    three(check, bugs)


def test_db_5_queues_of_a_node_that_has_left_the_cluster_are_removed() -> None:
    async def check(world: World) -> None:
        await stocked(await world.client("n3"))
        client = await world.client("n1")

        async def left() -> bool | None:
            try:
                await client.remove_member("n3", timeout_ms=5000)
            except ClientError:
                return None
            return True

        await eventually(left)
        await world.kill("n3")
        await become(world, "n1", ["durable"])

    three(check)


def test_without_queues_that_end_a_node_proposes_nothing() -> None:
    async def check(world: World) -> None:
        store = ClientStore(await world.client("n1"), 5000)
        await vhosts.declare(store, "/")
        await queues.declare(store, "/", "durable", node="n1")
        await queues.declare(store, "/", "of another program", durable=False, owner="c1", node="n1")
        await asyncio.sleep(1.0)
        before = world.nodes["n1"].status().applied_index
        await asyncio.sleep(LONG_S)
        assert world.nodes["n1"].status().applied_index == before

    three(check)


@pytest.mark.parametrize("store", ["tables", "tree"])
def test_db_5_the_store_in_force_loses_what_lived_in_a_former_life(store: str) -> None:
    async def scenario() -> None:
        world = TwoStoresWorld()
        await world.first(count=1)
        if store == "tree":
            await world.migrated()
        await stocked(await world.client("n1"))
        assert await world.all_see() == (store, sorted([*ALL, "q00"]))
        await world.kill("n1")
        await world.start("n1")

        async def gone() -> bool | None:
            return await world.seen("n2") == (store, ["durable", "q00"]) or None

        await eventually(gone, 30.0)
        await world.end()

    in_virtual_time(scenario())


class Host:
    """A node without clients, that others may be down for."""

    members: Any = None
    down = ""

    def is_connected(self, client: ClientAddress, /) -> bool:
        return client.number == 1

    def may_have_queues(self) -> Any:
        return self.members

    def is_down(self, node: str, /) -> bool:
        return node == self.down


def left_after_a_look(host: Host, bugs: Bugs = NO_BUGS) -> list[str]:
    """The queues that are left once life 7 of n1 has looked."""
    tree, store = new_store()
    now(vhosts.declare(store, "/"))
    for node in ("n1", "n2"):
        for life in (6, 7):
            address = ClientAddress(node, life, 1)
            name = place_of(address)
            now(queues.declare(store, "/", f"{node} {life} transient", durable=False, node=name))
            for number in (1, 2):
                owner = owner_of(ClientAddress(node, life, number), 3)
                now(queues.declare(store, "/", f"{node} {life} {number}", durable=number == 2, owner=owner, node=name))
    now(queues.declare(store, "/", "elsewhere", durable=False, owner="c1", node="n1"))

    def spawn(task: Any, _: str) -> None:
        now(task)

    ended = EndedQueues("n1", 7, host, RecordsInForce(), store, spawn, bugs)
    before = {each.name for each in now(queues.every(store))}
    ended.tick(tree)
    ended.tick(tree)
    return sorted(before - {each.name for each in now(queues.every(store))})


FORMER = ["n1 6 1", "n1 6 2", "n1 6 transient", "n1 7 2"]
OF_N2 = ["n2 6 1", "n2 6 2", "n2 6 transient", "n2 7 1", "n2 7 2", "n2 7 transient"]


def test_a_node_removes_what_is_of_its_former_lives_or_of_connections_that_it_has_no_more() -> None:
    assert left_after_a_look(Host()) == FORMER


def test_the_leader_removes_what_is_of_nodes_that_are_no_members_and_nobody_what_is_of_one_that_is_down() -> None:
    host = Host()
    host.members, host.down = {"n1", "n2"}, "n2"
    assert left_after_a_look(host) == FORMER
    assert left_after_a_look(host, Bugs(["M59"])) == FORMER + OF_N2
    host.members = {"n1"}
    assert left_after_a_look(host) == FORMER + OF_N2


def test_names_of_lives_and_connections_are_told_from_other_names() -> None:
    client = ClientAddress("n.1", 7, 3)
    assert life_of(place_of(client)) == ("n.1", 7)
    assert connection_of(owner_of(client, 2)) == client
    for other in ("n1", "n1#7", "n1#lifeless", "", "c1"):
        assert life_of(other) is None
    for other in ("c1", "n1#life7", "n1#life7.3", "n1#life7.x.1", "7.3.1"):
        assert connection_of(other) is None
