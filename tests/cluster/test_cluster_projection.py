"""Projections (KH-14, KH-15): equal to the tree after any commands and any snapshot; no wrong "not found"."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from splitbrain.cluster.bugs import M39, NO_BUGS, Bugs
from splitbrain.cluster.client import ClientError, InvalidRequestError, NodeNotFoundError, UnavailableError
from splitbrain.cluster.projection import PROJECTIONS, REGISTERS, CatchingUp
from splitbrain.cluster.raft import Entry
from splitbrain.cluster.store import Store
from splitbrain.cluster.tree import (
    Command,
    CompareAndSwap,
    Create,
    Delete,
    Increment,
    Path,
    Properties,
    Put,
    encode_command,
)
from tests.cluster.support import World, both, eventually, in_virtual_time

THREE = ["n1", "n2", "n3"]

PATHS = st.sampled_from(
    [
        (),
        ("registers",),
        *(("registers", name) for name in "ab"),
        ("registers", "a", "deep"),
        ("other",),
        ("other", "a"),
    ]
)
PAYLOADS = st.sampled_from([b"\x01", b"\x02", None])
COMMANDS: st.SearchStrategy[Command] = st.one_of(
    st.builds(Put, PATHS, PAYLOADS),
    st.builds(Create, PATHS, PAYLOADS),
    st.builds(CompareAndSwap, PATHS, st.just(b"\x01"), PAYLOADS),
    st.builds(Increment, PATHS, st.integers(0, 2)),
    st.builds(Delete, PATHS),
)


def apply(store: Store, command: Command) -> None:
    store.apply(Entry(store.applied_index + 1, 1, "command", encode_command(command)))


def assert_whole(store: Store) -> None:
    """The projection has exactly the direct children of its parent, and both hashes say so."""
    expected: dict[Path, Properties] = {}
    for name in "ab":
        path = (*PROJECTIONS[REGISTERS], name)
        properties = store.tree.properties(path)
        assert store.projected(REGISTERS, path) == properties
        if properties is not None:
            expected[path] = properties
    assert dict(store.tree.below(PROJECTIONS[REGISTERS])) == expected
    assert store.projection_hash == store.projected_hash


@given(st.lists(COMMANDS, max_size=40), st.integers(0, 40))
def test_kh14_a_projection_is_equal_to_the_tree_after_each_command_and_behind_a_snapshot(
    commands: Sequence[Command], snapshot_after: int
) -> None:
    store = Store()
    for number, command in enumerate(commands):
        if number == snapshot_after:
            store = store.reset(store.dump())
            assert_whole(store)
        apply(store, command)
        assert_whole(store)


def test_kh14_a_projection_is_no_part_of_the_state() -> None:
    store = Store()
    apply(store, Put(("registers", "a"), b"\x01"))
    assert store.projection_hash != Store().projection_hash
    assert store.reset(None).projection_hash == Store().projection_hash


@both(M39)
def test_m39_loses_what_a_snapshot_brings(bugs: Bugs, broken: bool) -> None:
    leader, follower = Store(bugs=bugs), Store(bugs=bugs)
    apply(leader, Put(("registers", "a"), b"\x01"))
    apply(follower, Put(("registers", "a"), b"\x01"))
    apply(leader, Put(("registers", "b"), b"\x02"))
    follower = follower.reset(leader.dump())
    assert (follower.projected(REGISTERS, ("registers", "b")) is None) == broken
    assert (follower.projection_hash != follower.projected_hash) == broken
    assert follower.state_hash == leader.state_hash


class TestCatchingUp:
    def test_kh15_a_new_node_has_caught_up_with_an_entry_of_a_term_whose_leader_it_knows(self) -> None:
        node = CatchingUp(0)
        node.applied(1, 3)
        assert not node.done
        node.leader_is_known(5)
        node.applied(2, 4)
        assert not node.done
        node.applied(3, 5)
        assert node.done

    def test_kh15_a_node_that_restarts_applies_all_that_it_had(self) -> None:
        node = CatchingUp(10)
        node.leader_is_known(2)
        node.applied(9, 2)
        assert not node.done
        node.applied(10, 2)
        assert node.done

    def test_kh15_what_a_leader_cuts_off_was_never_shown(self) -> None:
        node = CatchingUp(10)
        node.leader_is_known(2)
        node.cut(12)
        node.cut(7)
        node.applied(7, 2)
        assert node.done

    def test_kh15_a_leader_may_become_known_after_all_is_applied(self) -> None:
        node = CatchingUp(10)
        node.applied(10, 2)
        node.leader_is_known(2)
        assert node.done

    def test_kh15_later_terms_change_nothing_any_more(self) -> None:
        node = CatchingUp(0)
        node.leader_is_known(2)
        node.leader_is_known(9)
        node.applied(1, 2)
        node.leader_is_known(10)
        assert node.done


# --- nodes ------------------------------------------------------------------------------------------------------------


def in_cluster(check: Callable[[World], Awaitable[None]], bugs: Bugs = NO_BUGS) -> None:
    async def run() -> None:
        world = World(THREE, bugs=bugs)
        world.snapshot_interval = 20
        try:
            await world.start()
            await check(world)
            assert world.failures == []
        finally:
            await world.close()

    in_virtual_time(run())


async def value_at(world: World, name: str, path: str) -> object:
    """What the node projects; "none" where it has no record, "unavailable" where it says nothing."""
    client = await world.client(name)
    try:
        return (await client.projected(REGISTERS, path)).value
    except NodeNotFoundError:
        return "none"
    except UnavailableError:
        return "unavailable"
    finally:
        await client.close()


async def alike(world: World) -> None:
    async def met() -> bool | None:
        return len({node.status().applied_index for node in world.nodes.values()}) == 1 or None

    await eventually(met)


def test_kh15_every_member_answers_from_its_own_table_at_once_also_without_a_leader() -> None:
    async def check(world: World) -> None:
        leader = await world.leader()
        client = await world.client(leader)
        await client.put("/registers/a", 1)
        await alike(world)
        world.isolate("n1")
        assert [await value_at(world, name, "/registers/a") for name in THREE] == [1, 1, 1]
        assert await value_at(world, "n1", "/registers/b") == "none"
        with pytest.raises(InvalidRequestError, match="no projection 'other', only registers_v1"):
            await client.projected("other", "/registers/a")

    in_cluster(check)


def test_kh15_a_node_does_not_wait_for_what_its_log_lost() -> None:
    """What a leader appended alone was never shown: its end is not for the node to catch up with."""

    async def check(world: World) -> None:
        former = await world.leader()
        client = await world.client(former)
        await client.put("/registers/a", 1)
        await alike(world)
        world.isolate(former)
        lost = [asyncio.ensure_future(client.put(f"/registers/b{number}", 0, timeout_ms=50)) for number in range(90)]
        assert all(isinstance(each, ClientError) for each in await asyncio.gather(*lost, return_exceptions=True))
        await world.kill(former)
        writer = await world.client(next(name for name in THREE if name != former))
        await writer.put("/registers/a", 2)
        world.cut.clear()
        await world.start(former)

        async def answered() -> object | None:
            return await value_at(world, former, "/registers/a") == 2 or None

        await eventually(answered)
        assert " with 9" in next(line for line in reversed(world.logs[former]) if line.startswith("starts in term"))
        assert world.nodes[former].status().applied_index < 90

    in_cluster(check)


def test_kh15_a_node_that_restarts_says_nothing_until_it_has_caught_up() -> None:
    async def check(world: World) -> None:
        leader = await world.leader()
        follower = next(name for name in THREE if name != leader)
        client = await world.client(leader)
        await client.put("/registers/a", 1)
        await alike(world)
        await world.kill(follower)
        world.isolate(follower)
        await world.start(follower)
        assert await value_at(world, follower, "/registers/a") == "unavailable"
        world.cut.clear()

        async def answered() -> object | None:
            found = await value_at(world, follower, "/registers/a")
            return None if found == "unavailable" else found

        assert await eventually(answered) == 1

    in_cluster(check)


@both(M39)
def test_m39_a_node_that_took_over_a_snapshot_lacks_records_and_its_telemetry_shows_it(
    bugs: Bugs, broken: bool
) -> None:
    async def check(world: World) -> None:
        leader = await world.leader()
        lagging = next(name for name in THREE if name != leader)
        client = await world.client(leader)
        await client.put("/registers/a", 1)
        await alike(world)
        world.isolate(lagging)
        for number in range(120):
            await client.put(f"/registers/k{number % 30}", number)
        world.cut.clear()
        await alike(world)
        lines = world.telemetry[lagging]
        assert any(line["event"] == "snapshot" for line in lines)
        assert await value_at(world, lagging, "/registers/k5") == ("none" if broken else 95)
        assert any(line["projection"] != line["projected"] for line in lines) == broken

    in_cluster(check, bugs)
