"""What the switches of the tree break, beside the same steps without them."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable

from splitbrain.cluster.bugs import M53, M54, M55, M56, M78, Bugs
from splitbrain.cluster.client import Client, MismatchingNodeError, StoredProcedure, UnavailableError
from splitbrain.cluster.patterns import IfNodeExists, IfPayloadVersion
from splitbrain.cluster.tree import NEWEST_VERSION
from tests.cluster.support import World, both, eventually, in_cluster
from tests.cluster.test_cluster_client_of_the_tree import COUNTING

EXISTS = IfNodeExists(True)


def on_one(bugs: Bugs, check: Callable[[World, Client], Awaitable[None]]) -> None:
    async def checked(world: World) -> None:
        await world.in_force(NEWEST_VERSION)
        await check(world, await world.client("n1"))

    world = World(["n1"], bugs=bugs)
    world.functions = COUNTING
    in_cluster(world, checked)


@both(M53)
def test_m53_leaves_what_depends_on_a_node_that_nothing_kept(bugs: Bugs, broken: bool) -> None:
    async def check(_: World, client: Client) -> None:
        await client.put("/vhost", 1)
        await client.put_nodes("/queue", 1, keep_while={"/vhost": EXISTS})
        await client.put_nodes("/binding", 1, keep_while={"/queue": EXISTS})
        await client.delete("/vhost")
        assert not await client.exists("/queue")
        assert await client.exists("/binding") is broken

    on_one(bugs, check)


@both(M54)
def test_m54_takes_grandchildren_for_children(bugs: Bugs, broken: bool) -> None:
    async def check(_: World, client: Client) -> None:
        await client.register_projection("items_v1", "/items/*")
        await client.put_nodes("/procedures/count", StoredProcedure("test/count", 1, "/count"))
        await client.register_trigger("t", "/items/*", "/procedures/count", on_actions=["create"])
        await client.put("/items/a", ["a", 1])
        await client.put("/items/a/deep", ["deep", 1])
        assert (await client.all_records("items_v1")).records == ((("a", 1), ("deep", 1)) if broken else (("a", 1),))

        async def counted() -> bool | None:
            return (await client.get("/count")).value == (2 if broken else 1) or None

        await eventually(counted)

    on_one(bugs, check)


@both(M55)
def test_m55_lets_an_update_by_version_overwrite_another(bugs: Bugs, broken: bool) -> None:
    async def check(_: World, client: Client) -> None:
        await client.put("/a", 1)
        version = (await client.get("/a")).payload_version
        await client.put_nodes("/a", 2, when=IfPayloadVersion(version))
        lost = False
        try:
            await client.put_nodes("/a", 3, when=IfPayloadVersion(version))
            lost = True
        except MismatchingNodeError:
            pass
        assert lost is broken

    on_one(bugs, check)


@both(M56)
def test_m56_keeps_records_of_nodes_that_nothing_kept(bugs: Bugs, broken: bool) -> None:
    async def check(_: World, client: Client) -> None:
        await client.register_projection("items_v1", "/items/*")
        await client.put("/keeper", 1)
        await client.put_nodes("/items/a", ["a", 1], keep_while={"/keeper": EXISTS})
        await client.put("/items/b", ["b", 1])
        await client.delete("/items/b")
        await client.delete("/keeper")
        assert await client.count("/items/*") == 0
        assert (await client.all_records("items_v1")).records == ((("a", 1),) if broken else ())

    on_one(bugs, check)


@both(M78)
def test_m78_says_that_what_it_does_not_know_is_not_there(bugs: Bugs, broken: bool) -> None:
    async def check(world: World) -> None:
        leader = await world.leader()
        await world.in_force(NEWEST_VERSION)
        first = await world.client(leader)
        await first.register_projection("items_v1", "/items/*")
        await first.put("/items/a", ["a", 1])
        name = next(each for each in world.names if each != leader)

        async def shown() -> bool | None:
            try:
                return (await (await world.client(name)).look_up("items_v1", "a")).records == (("a", 1),) or None
            except UnavailableError:
                return None

        await eventually(shown)
        world.isolate(name)
        await world.kill(name)
        await world.start(name)
        client = await world.client(name)
        negative = False
        with contextlib.suppress(UnavailableError):
            negative = (await client.look_up("items_v1", "a")).records == ()
        assert negative is broken
        world.cut = set()

    in_cluster(World(["n1", "n2", "n3"], bugs=bugs), check)
