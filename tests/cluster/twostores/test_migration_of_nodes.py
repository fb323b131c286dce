"""Whole nodes move their entities from tables to the tree: under load, and with processes that end at each step."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

import pytest

from splitbrain.cluster.client import ClientError, FlagNotEnabledError
from splitbrain.cluster.entities import queues, vhosts
from splitbrain.cluster.errors import ArgumentError
from splitbrain.cluster.members import member_id
from splitbrain.cluster.migration.converters import ORDER_OF_PLUGINS, OfRecords
from splitbrain.cluster.migration.shell import Shell
from splitbrain.cluster.migration.steps import (
    ClearTree,
    Effect,
    Event,
    SetAccess,
    Subscribe,
    SwapMarker,
    TakeCheckpoint,
    TakeEvents,
    WriteTree,
)
from splitbrain.cluster.node import Node
from splitbrain.cluster.tables.entities import layout
from splitbrain.cluster.tables.wire import Refusal, Result
from tests.cluster.support import eventually, in_virtual_time
from tests.cluster.test_cluster_membership import changed
from tests.cluster.twostores.support import THREE, TwoStoresWorld, stops

HISTORY = "rh_exchange_table"
"""The table of a plug-in."""


def _swaps_to(state: str) -> Callable[[Effect], bool]:
    return lambda effect: isinstance(effect, SwapMarker) and effect.wanted.state == state


def _sets(access: str) -> Callable[[Effect], bool]:
    return lambda effect: isinstance(effect, SetAccess) and effect.access == access


def _is(kind: type[Effect]) -> Callable[[Effect], bool]:  # pyright: ignore[reportInvalidTypeForm]
    return lambda effect: isinstance(effect, kind)


STEPS: dict[str, Callable[[Effect], bool]] = {
    "claiming": _swaps_to("in_flight"),
    "clearing": _is(ClearTree),
    "queueing": _is(Subscribe),
    "checkpoint": _is(TakeCheckpoint),
    "copying": _is(WriteTree),
    "closing": _sets("read_only"),
    "draining": _is(TakeEvents),
    "retiring": _sets("retired"),
    "preparing": _swaps_to("prepared"),
    "finishing": _swaps_to("finished"),
}


def test_m2k_2_under_load_nothing_acknowledged_is_lost_and_nothing_deleted_returns() -> None:
    async def check() -> None:
        world = TwoStoresWorld()
        there = set(await world.first())
        moved = asyncio.Event()

        async def client(name: str) -> int:
            store, done, at = await world.entities(name, 30_000), 0, 0
            while done < 6:  # some more once the tree is in force
                at += 1
                queue = f"{name}-{at}"
                await queues.declare(store, "/", queue)
                there.add(queue)
                if at % 2:
                    assert await queues.delete(store, "/", queue)
                    there.remove(queue)
                done += moved.is_set()
                await asyncio.sleep(0.002)
            return at

        async def migrate() -> None:
            await asyncio.sleep(0.05)
            await world.migrated("n2")
            moved.set()

        migration = asyncio.ensure_future(migrate())
        counts = await asyncio.gather(*map(client, THREE))
        await migration
        assert min(counts) > 10
        assert await world.all_see() == ("tree", sorted(there))
        await world.end()

    in_virtual_time(check())


def test_m2k_3_the_table_of_a_plug_in_moves_with_the_entities() -> None:
    """Its records, and those that it writes while entities are copied, are in the tree of each node afterwards."""
    history = ("recent_history",)

    async def written(node: Node, key: str, value: int) -> bool:
        ended: asyncio.Future[Result | Refusal] = asyncio.get_running_loop().create_future()
        assert node.tables is not None
        node.tables.begin("while_open", ("write", (HISTORY, key, value)), 4_000, ended.set_result)
        match await ended:
            case Result(value=[said, *_]):
                return said == "value"
            case other:
                raise AssertionError(other)

    async def check() -> None:
        world = TwoStoresWorld()
        world.converters = (OfRecords(HISTORY, ORDER_OF_PLUGINS, history, {}),)
        await world.first()
        assert await written(world.nodes["n1"], "before", 0)
        migration, there = asyncio.ensure_future(world.migrated("n2")), {"before": 0}

        async def writes(name: str) -> None:
            number = 0
            while await written(world.nodes[name], f"{name}-{number}", number):  # until the tables are closed
                there[f"{name}-{number}"] = number
                number += 1

        await asyncio.gather(migration, *map(writes, THREE))
        assert len(there) > 10
        for name in THREE:
            tree = await world.client(name)
            found = {key: await tree.get(f"/{history[0]}/{key}") for key in there}
            assert {key: node.value for key, node in found.items()} == there
        await world.end()

    in_virtual_time(check())


def test_m2k_3_a_node_whose_plug_in_has_the_converter_of_an_entity_does_not_start() -> None:
    async def check() -> None:
        world = TwoStoresWorld()
        world.converters = (OfRecords(layout.QUEUE, ORDER_OF_PLUGINS, ("queues",), {}),)
        with pytest.raises(ArgumentError, match=f"{layout.QUEUE} has a converter already"):
            await world.start("n1")
        await world.end()

    in_virtual_time(check())


@pytest.mark.slow
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("step", STEPS)
def test_m2k_2_all_nodes_end_at_a_step_and_start_again(step: str, after: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    async def check() -> None:
        world = TwoStoresWorld()
        there = await world.first()
        with stops(monkeypatch, STEPS[step], after=after) as stop:
            asked = asyncio.ensure_future((await world.client("n1")).migrate(timeout_ms=20_000))
            await stop.within()
            for name in THREE:
                await world.kill(name)
            await asyncio.gather(asked, return_exceptions=True)
            await world.start()
            store, found = await world.all_see()
            assert found == there
            assert store in ("tables", "tree")
            assert store == "tree" or step != "finishing"
            await queues.declare(await world.entities("n3"), "/", "then")
            await world.migrated("n2")
            assert await world.all_see() == ("tree", sorted([*there, "then"]))
        await world.end()

    in_virtual_time(check())


@pytest.mark.slow
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("step", STEPS)
def test_m2k_2_the_process_that_does_the_work_dies_and_the_others_answer_without_it(
    step: str, after: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def check() -> None:
        world = TwoStoresWorld()
        there = await world.first()
        with stops(monkeypatch, STEPS[step], after=after) as stop:
            asked = asyncio.ensure_future((await world.client("n1")).migrate(timeout_ms=20_000))
            dead = await stop.within()
            await world.kill(dead)
            left = [name for name in THREE if name != dead]
            store, found = await world.all_see(*left)
            assert found == there
            await queues.declare(await world.entities(left[0]), "/", "then")
            await asyncio.gather(asked, return_exceptions=True)
            await world.start(dead)
            assert await world.all_see() == (store, sorted([*there, "then"]))
            await world.migrated(dead)
            assert await world.all_see() == ("tree", sorted([*there, "then"]))
        await world.end()

    in_virtual_time(check())


def test_m2k_2_a_migration_ends_that_takes_longer_than_any_client_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Impatient clients that ask again must not keep it prepared for ever, with neither store in force."""
    carried_out = Shell.carry_out

    async def slow(self: Shell, effect: Effect) -> Event:
        await asyncio.sleep(0.15)
        return await carried_out(self, effect)

    async def check() -> None:
        world = TwoStoresWorld()
        there = await world.first(count=4)
        monkeypatch.setattr(Shell, "carry_out", slow)

        async def moved() -> bool | None:
            for name in THREE:
                with suppress(ClientError):
                    await (await world.client(name)).migrate(timeout_ms=100)
            return (await (await world.client("n1")).stores()).store == "tree" or None

        await eventually(moved, 20)
        assert await world.all_see() == ("tree", there)
        await world.end()

    in_virtual_time(check())


def test_d6_without_a_member_nothing_moves_and_the_tables_answer() -> None:
    async def check() -> None:
        world = TwoStoresWorld()
        there = await world.first()
        await world.kill("n3")
        with pytest.raises(FlagNotEnabledError, match="n3"):
            await (await world.client("n1")).migrate(timeout_ms=20_000)
        assert await world.all_see("n1", "n2") == ("tables", there)
        await world.start("n3")
        assert await world.all_see() == ("tables", there)
        for name in THREE:
            assert await world.flag(await world.client(name)) == "disabled"
        await world.migrated("n3")
        for name in THREE:
            assert await world.flag(await world.client(name)) == "enabled"
        await world.end()

    in_virtual_time(check())


def test_m2k_2_a_founder_that_lost_its_disk_joins_again_and_undoes_nothing() -> None:
    """It knows neither the flag nor the tables at first."""

    async def check() -> None:
        world = TwoStoresWorld()
        there = await world.first()
        await world.migrated()
        await queues.declare(await world.entities("n2"), "/", "then")
        await lose(world, "n1")
        assert await world.all_see() == ("tree", sorted([*there, "then"]))
        await world.end()

    in_virtual_time(check())


@pytest.mark.parametrize("ends_all", [False, True])
def test_m2k_5_the_tables_of_a_founder_that_lost_its_disk_are_those_of_the_others(ends_all: bool) -> None:
    async def check() -> None:
        world = TwoStoresWorld()
        there = await world.first()
        await world.migrated()
        await lose(world, "n1")
        await world.all_see()
        if ends_all:
            for name in THREE:
                await world.kill(name)
            await world.start()
        assert await world.all_see() == ("tree", there)
        await world.rolled_back("n1")
        assert await world.all_see() == ("tables", there)
        await world.end()

    in_virtual_time(check())


async def lose(world: TwoStoresWorld, name: str) -> None:
    """Have a node begin anew without its disk."""
    other = next(each for each in THREE if each != name)
    former = member_id(name, world.incarnations.get(name, 0))
    await world.wipe(name)
    client = await world.client(other)
    await changed(lambda: client.remove_member(former, timeout_ms=20_000))
    await changed(lambda: client.add_member(member_id(name, world.incarnations[name]), timeout_ms=20_000))
    await world.start(name)
    await asyncio.sleep(5)


def test_m2k_2_a_cluster_that_nodes_without_tables_joined_moves_too() -> None:
    """A joined node refused the flag for ever, as it has no tables to move."""

    async def check() -> None:
        world = TwoStoresWorld([*THREE, "n4", "n5"])
        await world.start(*THREE)
        await world.leader()

        async def declared() -> bool | None:
            try:
                store = await world.entities("n1")
                await vhosts.declare(store, "/")
                await queues.declare(store, "/", "q")
            except ClientError:
                return None
            return True

        await eventually(declared, 60)
        client = await world.client("n1")
        await world.start("n4", "n5")
        await changed(lambda: client.add_member("n4", timeout_ms=20_000))
        await changed(lambda: client.add_member("n5", role="learner", learners=True, timeout_ms=20_000))
        await world.migrated()
        assert await world.all_see(*THREE, "n4") == ("tree", ["q"])
        assert not world.failures

    in_virtual_time(check())


def test_mn_7_each_replica_knows_how_many_clients_its_node_has() -> None:
    async def check() -> None:
        world = TwoStoresWorld()
        await world.first(count=1)
        counts = {name: [await world.client(name) for _ in range(at)] for at, name in enumerate(THREE, 2)}

        def seen(name: str) -> int:
            replica = world.nodes[name].tables
            return replica.machine.clients  # pyright: ignore

        await asyncio.sleep(1)
        before = {name: seen(name) for name in THREE}
        for at, name in enumerate(THREE, 2):
            for each in counts[name]:
                await each.close()

            async def gone(name: str = name, left: int = before[name] - at) -> bool | None:
                return seen(name) == left or None

            await eventually(gone)

    in_virtual_time(check())


def test_mn_5_a_node_that_pauses_ends_the_connections_of_its_clients_while_the_tables_are_in_force() -> None:
    async def check() -> None:
        world = TwoStoresWorld(strategy="pause-minority")
        there = await world.first(count=1)
        world.isolate("n3")
        client = await world.client("n3")

        async def ended() -> bool | None:
            try:
                await client.status()
            except ClientError:
                return True
            return None

        await eventually(ended)
        events = [(row["event"], row["role"]) for row in world.of_tables("n3")]
        assert events[0] == ("start", "stopped")
        assert ("pauses", "stopped") in events
        assert "pauses" not in [row["event"] for row in world.of_tables("n1")]
        world.cut.clear()
        assert await world.all_see() == ("tables", there)
        await world.migrated()
        world.isolate("n3")
        client = await world.client("n3")

        async def paused() -> bool | None:
            return [row["event"] for row in world.of_tables("n3")].count("pauses") == 2 or None

        await eventually(paused)
        await client.status()  # who uses the tree does not care
        world.cut.clear()
        assert await world.all_see() == ("tree", there)
        await world.end()

    in_virtual_time(check())
