"""Whole nodes have their tables back: before the first change of the tree, when processes end, and not after it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from splitbrain.cluster.entities import queues
from splitbrain.cluster.errors import MigrationRefusedError
from splitbrain.cluster.migration import expiry
from splitbrain.cluster.migration.steps import ClearTree, Effect, SetAccess, SwapMarker
from splitbrain.cluster.twostores import mover
from tests.cluster.support import in_virtual_time
from tests.cluster.twostores.support import THREE, TwoStoresWorld, stops


def _swaps_to(state: str) -> Callable[[Effect], bool]:
    return lambda effect: isinstance(effect, SwapMarker) and effect.wanted.state == state


STEPS: dict[str, Callable[[Effect], bool]] = {
    "claiming": _swaps_to("rolling_back"),
    "opening": lambda effect: isinstance(effect, SetAccess),
    "clearing": lambda effect: isinstance(effect, ClearTree),
    "ending": _swaps_to("idle"),
}


def test_m2k_5_before_the_first_change_the_tables_answer_again_and_take_changes() -> None:
    async def check() -> None:
        world = TwoStoresWorld()
        there = await world.first()
        await world.migrated("n1")
        assert await world.all_see() == ("tree", there)
        await world.rolled_back("n3")
        assert await world.all_see() == ("tables", there)
        await queues.declare(await world.entities("n2"), "/", "then")
        await asyncio.sleep(10)
        assert await world.all_see() == ("tables", sorted([*there, "then"]))
        await world.migrated("n2")
        assert await world.all_see() == ("tree", sorted([*there, "then"]))
        await world.end()

    in_virtual_time(check())


def test_m2k_5_after_the_first_change_it_is_refused_also_after_a_restart() -> None:
    async def check() -> None:
        world = TwoStoresWorld()
        there = await world.first()
        await world.migrated("n1")
        await queues.declare(await world.entities("n2"), "/", "then")
        for name in THREE:
            with pytest.raises(MigrationRefusedError, match="no way back"):
                await (await world.client(name)).roll_back(timeout_ms=20_000)
        for name in THREE:
            await world.kill(name)
        await world.start()
        assert await world.all_see() == ("tree", sorted([*there, "then"]))
        with pytest.raises(MigrationRefusedError, match="no way back"):
            await (await world.client("n3")).roll_back(timeout_ms=20_000)
        assert await world.all_see() == ("tree", sorted([*there, "then"]))
        await world.end()

    in_virtual_time(check())


@pytest.mark.slow
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("step", STEPS)
def test_m2k_5_the_process_that_rolls_back_dies_and_the_others_answer_without_it(
    step: str, after: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def check() -> None:
        world = TwoStoresWorld()
        there = await world.first()
        await world.migrated("n1")
        await world.all_see()
        await asyncio.sleep(3)  # each node knows by now that the tree is in force
        with stops(monkeypatch, STEPS[step], after=after) as stop:
            asked = asyncio.ensure_future((await world.client("n1")).roll_back(timeout_ms=20_000))
            assert await stop.within() == "n1"
            await world.kill("n1")
            await asyncio.gather(asked, return_exceptions=True)
            store, found = await world.all_see("n2", "n3")
            assert found == there
            assert store == ("tree" if (step, after) == ("claiming", False) else "tables")
            await queues.declare(await world.entities("n2"), "/", "then")
            await world.start("n1")
            assert await world.all_see() == (store, sorted([*there, "then"]))
        await world.end()

    in_virtual_time(check())


@pytest.mark.parametrize("waits", [False, True], ids=["in-the-middle", "waiting"])
def test_m2k_5_what_was_rolled_back_moves_again_only_when_it_is_asked_for(
    waits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where a node that starts finds the rollback under way, and waits for it."""

    async def check() -> None:
        world = TwoStoresWorld()
        there = await world.first()
        await world.migrated("n1")
        await world.all_see()
        await world.kill("n3")
        with stops(monkeypatch, STEPS["clearing"], after=False) as stop:
            asked = asyncio.ensure_future((await world.client("n1")).roll_back(timeout_ms=20_000))
            await stop.within()
            await world.start("n3")
            await asyncio.sleep(5)
            if waits:
                stop.go_on()
                assert (await asked).store == "tables"
            else:
                await world.kill("n1")
                await asyncio.gather(asked, return_exceptions=True)
                await world.start("n1")
        await asyncio.sleep(10)
        assert await world.all_see() == ("tables", there)
        await world.migrated("n2")
        assert await world.all_see() == ("tree", there)
        await world.end()

    in_virtual_time(check())


def test_m2k_5_a_node_that_has_just_started_migrates_again_what_was_rolled_back() -> None:
    async def check() -> None:
        world = TwoStoresWorld()
        there = await world.first()
        await world.migrated("n1")
        await world.rolled_back("n1")
        await world.kill("n2")
        await world.start("n2")
        state = await (await world.client("n2")).migrate(timeout_ms=20_000)
        assert state.store == "tree"
        assert await world.all_see() == ("tree", there)
        await world.end()

    in_virtual_time(check())


def test_d5_the_tables_are_kept_while_the_change_of_the_flag_can_be_undone(monkeypatch: pytest.MonkeyPatch) -> None:
    """All is copied and nothing is decided: the tables do not expire, however much time passes."""
    monkeypatch.setattr(mover, "EXPIRY_LOOKS", 1)
    monkeypatch.setattr(expiry, "RETENTION_MS", 0)

    async def check() -> None:
        world = TwoStoresWorld()
        there = await world.first()
        with stops(monkeypatch, _swaps_to("prepared"), after=True) as stop:
            asked = asyncio.ensure_future((await world.client("n1")).migrate(timeout_ms=20_000))
            dead = await stop.within()
            await asyncio.sleep(5)
            await world.kill(dead)
            await asyncio.gather(asked, return_exceptions=True)
            assert (await world.all_see(*(name for name in THREE if name != dead)))[1] == there
            await world.start(dead)
            assert (await world.all_see())[1] == there
        await world.end()

    in_virtual_time(check())


def test_d5_after_the_time_of_retention_the_tables_are_gone_and_there_is_no_way_back() -> None:
    async def check() -> None:
        world = TwoStoresWorld()
        there = await world.first()
        await world.migrated("n1")
        await world.all_see()
        assert (await (await world.client("n1")).stores()).keeps_tables
        await asyncio.sleep(3)
        for node in world.nodes.values():
            stores = node._stores  # pyright: ignore[reportPrivateUsage] - a day of heartbeats would take minutes
            assert stores is not None
            await stores.mover.expire(0)
        assert not (await (await world.client("n1")).stores()).keeps_tables
        assert await world.all_see() == ("tree", there)
        with pytest.raises(MigrationRefusedError, match="the tables are gone"):
            await (await world.client("n2")).roll_back(timeout_ms=20_000)
        for name in THREE:
            await world.kill(name)
        await world.start()
        assert await world.all_see() == ("tree", there)
        await world.end()

    in_virtual_time(check())
