"""When a node reaches another one, and when it last did."""

from __future__ import annotations

import asyncio

import pytest

from splitbrain.cluster.reach import Reach
from tests.cluster.support import World, eventually, in_virtual_time

SECOND = 1_000_000_000
NODES = ("n1", "n2", "n3")


def reach_of(world: World, node: str) -> Reach:
    place = world.nodes[node]._place  # pyright: ignore[reportPrivateUsage]
    return Reach(node, place.links, place.detector)


def since_contact_ns(world: World, node: str, other: str) -> int:
    contact_ns = reach_of(world, node).contact_ns(other)
    assert contact_ns is not None
    place = world.nodes[node]._place  # pyright: ignore[reportPrivateUsage]
    return place.runtime.clock.monotonic_ns() - contact_ns


def test_a_node_that_is_back_for_less_than_it_takes_to_see_it_has_been_reached() -> None:
    """It is back for 0.7 s, after 5 s: a node judges the others once a second, and looks once a second as well."""

    async def check() -> None:
        world = World(list(NODES))
        try:
            await world.start()
            await eventually(lambda: _is_up(world))
            await world.kill("n2")
            await asyncio.sleep(5)
            assert not reach_of(world, "n1").is_up("n2")
            assert since_contact_ns(world, "n1", "n2") > 4.5 * SECOND
            await world.start("n2")
            await asyncio.sleep(0.7)
            await world.kill("n2")
            await asyncio.sleep(0.5)
            assert since_contact_ns(world, "n1", "n2") < SECOND
        finally:
            await world.close()

    in_virtual_time(check())


@pytest.mark.parametrize("way", [("n1", "n2"), ("n2", "n1")])
def test_a_node_that_only_one_way_is_left_of_is_not_reached(way: tuple[str, str]) -> None:
    async def check() -> None:
        world = World(list(NODES))
        try:
            await world.start()
            await eventually(lambda: _is_up(world))
            world.cut.add(way)
            await asyncio.sleep(15)
            assert not reach_of(world, "n1").is_up("n2")
            assert since_contact_ns(world, "n1", "n2") > 8 * SECOND
        finally:
            await world.close()

    in_virtual_time(check())


async def _is_up(world: World) -> bool | None:
    reach = reach_of(world, "n1")
    return (reach.is_up("n2") and reach.contact_ns("n2") is not None) or None
