"""A member dies, or is cut off, after each message of a change of a feature flag: all members enable it, or none."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final

import pytest

from splitbrain.cluster.flags.machine import TAKEOVER_MS
from splitbrain.cluster.flags.registry import probe_name
from tests.cluster.flags.support import World

FLAG: Final = probe_name(1)

LONG_MS: Final = 8 * TAKEOVER_MS


def step(world: World) -> bool:
    """One message arrives, or one callback ends, at random; whether there was one."""
    count = len(world.network) + len(world.callbacks)
    if not count:
        return False
    drawn = world.rng.randrange(count)
    if drawn < len(world.network):
        world.deliver(drawn)
    else:
        world.call_back(drawn - len(world.network))
    agree(world)
    return True


def agree(world: World) -> None:
    states = set(world.states(FLAG).values())
    assert not {"enabled", "disabled"} <= states, world.states(FLAG)


def begun(members: int, seed: int) -> World:
    world = World(members, seed)
    world.controller = random.Random(seed).choice(list(world.members))
    world.enable(world.controller, FLAG)
    return world


def steps_of(members: int, seed: int) -> int:
    """How many steps the change takes if nothing happens to it."""
    world = begun(members, seed)
    count = 0
    while step(world):
        count += 1
    assert set(world.states(FLAG).values()) == {"enabled"}
    return count


def ends(members: int, seed: int, happens: Callable[[World], None]) -> dict[str, int]:
    """How often it ended how, where something happens after each of its steps."""
    found = {"enabled": 0, "disabled": 0}
    for count in range(steps_of(members, seed) + 1):
        world = begun(members, seed)
        for _ in range(count):
            step(world)
        happens(world)
        agree(world)
        world.cut.clear()
        for name in world.members:
            world.start(name)
        world.run(LONG_MS)
        agree(world)
        (state,) = set(world.states(FLAG).values())
        found[state] += 1
        answer = world.answers.get(1)
        if answer is not None and answer.failed != "timeout":
            assert (answer.failed is None) == (state == "enabled"), f"after {count} steps: {answer}, {state}"
    return found


@pytest.mark.parametrize("members", [2, 3, 5])
@pytest.mark.parametrize("seed", range(3))
def test_d6_where_the_controller_dies_the_others_finish_without_it_and_it_agrees_when_it_is_back(
    members: int, seed: int
) -> None:
    def die(world: World) -> None:
        world.kill(world.controller)
        world.run(LONG_MS)
        if members > 2:
            others = {state for name, state in world.states(FLAG).items() if name != world.controller}
            assert others in ({"enabled"}, {"disabled"}), f"a majority does not wait for the controller: {others}"

    found = ends(members, seed, die)
    assert min(found.values()) > 0, f"both ends are reached: {found}"


@pytest.mark.parametrize("seed", range(3))
def test_d6_where_the_controller_dies_and_returns_at_once_all_agree(seed: int) -> None:
    def restart(world: World) -> None:
        world.kill(world.controller)
        world.start(world.controller)

    found = ends(3, seed, restart)
    assert min(found.values()) > 0, f"both ends are reached: {found}"


@pytest.mark.parametrize("seed", range(3))
def test_d6_where_all_members_die_at_once_all_agree_when_they_are_back(seed: int) -> None:
    def all_die(world: World) -> None:
        for name in world.members:
            world.kill(name)
        world.network.clear()

    found = ends(3, seed, all_die)
    assert min(found.values()) > 0, f"both ends are reached: {found}"


@pytest.mark.parametrize("seed", range(3))
def test_d6_where_the_controller_is_cut_off_and_goes_on_both_sides_agree(seed: int) -> None:
    def cut(world: World) -> None:
        world.cut = {world.controller}
        world.run(LONG_MS)

    found = ends(3, seed, cut)
    assert min(found.values()) > 0, f"both ends are reached: {found}"


@pytest.mark.parametrize("seed", range(3))
def test_where_another_member_dies_it_agrees_when_it_is_back(seed: int) -> None:
    def die(world: World) -> None:
        world.kill(next(name for name in world.members if name != world.controller))
        world.run(LONG_MS)

    ends(3, seed, die)


@pytest.mark.parametrize("seed", range(3))
def test_ff_3_a_member_that_joins_half_way_agrees(seed: int) -> None:
    ends(3, seed, lambda world: world.add("n4"))


@pytest.mark.parametrize("seed", range(3))
def test_ff_3_a_member_that_joins_half_way_while_the_controller_dies_agrees(seed: int) -> None:
    def join(world: World) -> None:
        world.kill(world.controller)
        world.add("n4")
        world.run(LONG_MS)

    ends(3, seed, join)


@pytest.mark.parametrize("seed", range(3))
def test_a_flag_whose_callback_fails_on_one_member_stays_disabled_on_all(seed: int) -> None:
    world = begun(3, seed)
    world.failing.add(("n2", FLAG))
    while step(world):
        pass
    world.run(LONG_MS)
    assert set(world.states(FLAG).values()) == {"disabled"}
    assert world.answers[1].failed == "undone"
    assert "it fails here" in world.answers[1].detail
    assert all(FLAG not in member.done for member in world.members.values()), "what it took is undone"
    world.failing.clear()
    again = world.enable("n3", FLAG)
    world.run(LONG_MS)
    assert world.answers[again].failed is None
    assert set(world.states(FLAG).values()) == {"enabled"}
