"""Nodes of two versions in one cluster: upgrades one by one, and a node that was started as it was before (RA-43)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import msgspec
import pytest

from splitbrain.cluster.arguments import parse
from splitbrain.cluster.bugs import M30, Bugs
from splitbrain.cluster.client import ChangeRefusedError, NodeNotFoundError, UnavailableError, member_id
from splitbrain.cluster.errors import ArgumentError, LaterVersionError
from splitbrain.cluster.projection import REGISTERS
from splitbrain.cluster.raft import Entry
from splitbrain.cluster.raft.versions import encode_version
from splitbrain.cluster.store import Store
from splitbrain.cluster.tree import NEWEST_VERSION, Delete, Put, encode_command
from tests.cluster.support import World, both, eventually, in_virtual_time

THREE = ["n1", "n2", "n3"]


def in_old_cluster(
    check: Callable[[World], Awaitable[None]], bugs: Bugs | None = None, names: list[str] = THREE
) -> None:
    """Nodes that all begin with version 1."""

    async def run() -> None:
        world = World(names) if bugs is None else World(names, bugs=bugs)
        world.machine_versions = dict.fromkeys(names, 1)
        try:
            await world.start()
            await check(world)
            assert world.failures == []
        finally:
            await world.close()

    in_virtual_time(run())


async def upgrade(world: World, *names: str) -> None:
    for name in names:
        await world.kill(name)
        world.machine_versions.pop(name, None)
        await world.start(name)
        await world.leader()


async def empty_parent_stays(world: World, name: str, parent: str) -> bool:
    """Whether a parent that nobody put is there when its only child has gone."""
    client = await world.client(name)
    await client.put(f"{parent}/child", 1, timeout_ms=5000)
    await client.delete(f"{parent}/child")
    try:
        await client.get(parent)
    except NodeNotFoundError:
        return False
    return True


async def alike(world: World) -> None:
    async def same() -> bool | None:
        views = [node.status() for node in world.nodes.values()]
        return len({(view.applied_index, view.chain_hash, view.state_hash) for view in views}) == 1 or None

    await eventually(same)


def test_ra43_d14_the_rules_change_when_the_last_node_is_upgraded_and_not_before() -> None:
    async def check(world: World) -> None:
        await world.leader()
        assert await empty_parent_stays(world, "n1", "/a")
        await upgrade(world, "n1", "n2")
        await asyncio.sleep(1)
        await world.in_force(1)
        assert await empty_parent_stays(world, "n2", "/b"), "two of three are a majority, and not all"
        await upgrade(world, "n3")
        await world.in_force(NEWEST_VERSION)
        assert not await empty_parent_stays(world, "n3", "/c")
        client = await world.client("n1")
        assert (await client.children("/")).names == ("a", "b"), "what was there stays"
        await alike(world)
        assert any(f"version {NEWEST_VERSION} of the state machine is in force" in line for line in world.logs["n3"])

    in_old_cluster(check)


def test_ra43_a_new_cluster_has_the_newest_version() -> None:
    async def check(world: World) -> None:
        await upgrade(world, *THREE)
        await world.in_force(NEWEST_VERSION)
        status = await (await world.client("n1")).status()
        assert (status.machine_version, status.supported_version) == (NEWEST_VERSION, NEWEST_VERSION)
        assert not status.outdated

    in_old_cluster(check)


def test_ra43_a_restart_applies_each_entry_by_the_version_of_its_time() -> None:
    async def check(world: World) -> None:
        await empty_parent_stays(world, "n1", "/a")
        await upgrade(world, *THREE)
        await world.in_force(NEWEST_VERSION)
        await empty_parent_stays(world, "n2", "/b")
        before = world.nodes["n1"].status()
        for name in THREE:
            await world.kill(name)
        await world.start()
        await world.leader()
        await world.in_force(NEWEST_VERSION)
        await alike(world)
        assert world.nodes["n1"].status().state_hash == before.state_hash

    in_old_cluster(check)


@pytest.mark.parametrize("checkpoints", [0, 3])
def test_ra40_ra42_ra43_snapshots_and_checkpoints_carry_the_version(checkpoints: int) -> None:
    async def check(world: World) -> None:
        world.snapshot_interval, world.checkpoint_interval = 12, checkpoints
        await upgrade(world, *THREE)
        await world.in_force(NEWEST_VERSION)
        leader = await world.leader()
        lagging = next(name for name in THREE if name != leader)
        world.isolate(lagging)
        leader = await world.leader([name for name in THREE if name != lagging])
        client = await world.client(leader)
        for number in range(60):
            await client.put(f"/k/{number}", number, timeout_ms=5000)
        world.cut.clear()
        await alike(world)
        assert any("took over the leader's snapshot" in line for line in world.logs[lagging])
        await world.kill(lagging)
        await world.start(lagging)
        await world.in_force(NEWEST_VERSION)
        await alike(world)
        assert not await empty_parent_stays(world, lagging, "/c")

    in_old_cluster(check)


async def roll_back(world: World) -> tuple[str, str]:
    """A follower that does not support the version in force, as it was down when that came to be; and the leader."""
    leader = await world.leader()
    await upgrade(world, leader)
    boss = await world.leader()
    first, last = sorted((name for name in THREE if name != leader), key=lambda name: name != boss)
    await upgrade(world, first)
    await eventually(lambda: _leads_and_is_not(world, last))
    boss = await world.leader()
    behind = next(name for name in THREE if name not in (boss, last))
    await asyncio.sleep(0.5)
    await world.kill(behind)
    await upgrade(world, last)
    await world.in_force(NEWEST_VERSION, boss, last)
    world.machine_versions[behind] = 1
    await world.start(behind)

    async def knows() -> bool | None:
        return world.nodes[behind].status().outdated or None

    await eventually(knows)
    return behind, boss


async def _leads_and_is_not(world: World, name: str) -> bool | None:
    """Have a node lose its leadership, if it has it."""
    if await world.leader() != name:
        return True
    world.isolate(name)
    await asyncio.sleep(1)
    world.cut.clear()
    return None


@both(M30)
def test_ra43_m30_a_node_that_does_not_support_the_version_answers_no_read_from_its_state(
    bugs: Bugs, broken: bool
) -> None:
    async def check(world: World) -> None:
        client = await world.client("n1")
        await client.put("/registers/x", "old", timeout_ms=5000)
        behind, boss = await roll_back(world)
        client = await world.client(behind)
        written = await client.put("/registers/x", "new", timeout_ms=5000)
        assert (await client.get("/registers/x")).value == "new", "it passes on what the leader answers"
        for after in (None, (written.index, written.term)):
            if broken:
                stale = await client.get("/registers/x", mode="local", after=after)
                assert stale.value == "old", "and it was written after that through this very node"
            else:
                with pytest.raises(UnavailableError, match=rf"{behind} does not support .* version in force"):
                    await client.get("/registers/x", mode="local", after=after)
        if not broken:
            with pytest.raises(UnavailableError, match="start it with a later program"):
                await client.projected(REGISTERS, "/registers/x")
        assert (await (await world.client(boss)).get("/registers/x", mode="local")).value == "new"

    in_old_cluster(check, bugs)


def test_ra43_such_a_node_appends_and_counts_and_catches_up_once_it_is_upgraded() -> None:
    async def check(world: World) -> None:
        behind, boss = await roll_back(world)
        third = next(name for name in THREE if name not in (behind, boss))
        await world.kill(third)
        client = await world.client(boss)
        await client.put("/a", 1, timeout_ms=5000)  # with its disk
        status = await (await world.client(behind)).status()
        assert status.applied_index < status.commit_index
        assert (status.machine_version, status.supported_version, status.outdated) == (1, 1, True)
        with pytest.raises(ChangeRefusedError, match="version_not_supported"):
            await client.transfer_leadership(behind)
        await world.start(third)
        await upgrade(world, behind)
        await world.in_force(NEWEST_VERSION)
        await alike(world)
        assert any("it applies nothing more" in line for line in world.logs[behind])

    in_old_cluster(check)


def test_ra43_a_node_refuses_to_go_back_behind_what_its_log_has() -> None:
    async def check(world: World) -> None:
        await upgrade(world, *THREE)
        await world.in_force(NEWEST_VERSION)
        await world.kill("n2")
        world.machine_versions["n2"] = 1
        with pytest.raises(
            LaterVersionError, match=rf"of version {NEWEST_VERSION} .* supports version 1 at most: start it with"
        ):
            await world.start("n2")
        world.machine_versions.clear()
        await world.start("n2")
        await alike(world)

    in_old_cluster(check)


def test_ra43_a_node_that_joins_with_an_earlier_version_becomes_a_voter_once_it_is_upgraded() -> None:
    async def check(world: World) -> None:
        world.machine_versions.clear()
        world.founders, world.learners_first = ("n1", "n2", "n3"), True
        for name in world.names:
            await world.kill(name)
            world.disks[name] = type(world.disks[name])()
        world.machine_versions["n4"] = 1
        await world.start()
        await world.in_force(NEWEST_VERSION, *THREE)
        client = await world.client(await world.leader())
        await client.add_member(member_id("n4", 0), timeout_ms=5000)
        await asyncio.sleep(2)
        assert await client.learners() == ("n4",), "it has the log, and does not understand it"
        await upgrade(world, "n4")

        async def promoted() -> bool | None:
            return "n4" in await client.members() or None

        await eventually(promoted)
        await alike(world)

    in_old_cluster(check, names=["n1", "n2", "n3", "n4"])


# --- the store ----------------------------------------------------------------------------------------------------


def applied(store: Store, *data: bytes, kind: str = "command") -> Store:
    for each in data:
        entry = Entry(store.applied_index + 1, 1, "noop" if kind == "noop" else "command", each)
        store.apply(entry)
    return store


def put(*path: str) -> bytes:
    return encode_command(Put(path, b"x"))


def test_ra43_the_step_to_a_version_is_an_entry_like_others_and_never_a_step_back() -> None:
    store = applied(Store(), b"", kind="noop")
    assert store.version == 1
    applied(store, encode_version(2), encode_version(1), b"", kind="noop")
    assert (store.version, store.applied_index) == (2, 4)


def test_ra43_a_dump_keeps_the_version_and_one_without_is_of_version_1() -> None:
    store = applied(Store(), encode_version(2), kind="noop")
    applied(store, put("a", "b"))
    loaded = Store.load(store.dump())
    assert (loaded.version, loaded.state_hash) == (2, store.state_hash)
    applied(loaded, encode_command(Delete(("a", "b"))))
    assert loaded.tree.properties(("a",)) is None, "it is still known to be implicit"
    fields = msgspec.msgpack.decode(Store().dump())
    fields.pop("machine")
    assert Store.load(msgspec.msgpack.encode(fields)).version == 1


def test_ra43_what_version_1_wrote_is_hashed_as_it_always_was() -> None:
    old, new = applied(Store(), put("a", "b")), applied(Store(), encode_version(2), kind="noop")
    applied(new, put("a", "b"))
    assert old.state_hash == "e48f960f0362a8b2f78045d3ddc48840"
    assert new.state_hash != old.state_hash, "an implicit node is another state"
    assert new.tree.recomputed_state_hash() == new.tree.state_hash


# --- the command line ---------------------------------------------------------------------------------------------


def test_ra43_a_node_supports_what_its_program_does_unless_it_is_given_less() -> None:
    least = ["--node", "n1", "--listen", "n1:1", "--data", "-"]
    assert parse(least)[0].machine_version == NEWEST_VERSION
    assert parse([*least, "--machine-version", "1"])[0].machine_version == 1
    for wrong in ("0", str(NEWEST_VERSION + 1)):
        with pytest.raises(ArgumentError, match=f"is 1 to {NEWEST_VERSION} with this program, not {wrong}"):
            parse([*least, "--machine-version", wrong])
