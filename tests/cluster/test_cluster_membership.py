"""Nodes that leave the cluster and join it: what clients are answered, who is listened to, and what telemetry tells."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from splitbrain.cluster.arguments import parse
from splitbrain.cluster.bugs import M51, NO_BUGS, Bugs
from splitbrain.cluster.client import ChangeRefusedError, InvalidRequestError, UnavailableError
from splitbrain.cluster.errors import ArgumentError, WrongNodeError
from splitbrain.cluster.marks import counted
from splitbrain.cluster.members import incarnation_of, is_member_id, member_id, names, node_of
from splitbrain.cluster.node import NodeConfig
from tests.cluster.support import FAST, World, both, eventually, in_virtual_time

FIVE = ["n1", "n2", "n3", "n4", "n5"]


Story = Callable[[World], Awaitable[None]]


def in_world(story: Story, nodes: list[str] = FIVE, founders: tuple[str, ...] = (), bugs: Bugs = NO_BUGS) -> None:
    """Tell a story of nodes that are started, none of which may fail."""

    async def tell() -> None:
        world = World(nodes, bugs=bugs)
        world.founders = founders
        try:
            await world.start()
            await story(world)
            assert world.failures == []
        finally:
            await world.close()

    in_virtual_time(tell())


async def agreed(world: World, members: tuple[str, ...], nodes: list[str]) -> None:
    """Wait until these nodes have this configuration."""

    async def same() -> bool | None:
        found = [world.nodes[node].members().members for node in nodes]
        return True if found == [members] * len(nodes) else None

    await eventually(same)


async def changed(change: Callable[[], Awaitable[tuple[str, ...]]]) -> tuple[str, ...]:
    """Ask for a change until it is permitted."""

    async def ask() -> tuple[str, ...] | None:
        try:
            return await change()
        except ChangeRefusedError as refusal:
            if refusal.reason != "change_not_permitted":
                raise
            return None

    return await eventually(ask)


def test_a_cluster_grows_from_three_to_five_and_every_node_serves() -> None:
    async def story(world: World) -> None:
        await world.leader()
        client = await world.client("n2")
        await client.put("/a", 1)
        assert await changed(lambda: client.add_member("n4")) == ("n1", "n2", "n3", "n4")
        assert await changed(lambda: client.add_member("n5")) == tuple(FIVE)
        await agreed(world, tuple(FIVE), FIVE)
        for name in ("n4", "n5"):
            there = await world.client(name)
            assert (await there.get("/a")).value == 1
            assert await there.members() == tuple(FIVE)
            await there.close()
        await world.kill("n1")
        await world.kill("n2")
        await world.leader(["n3", "n4", "n5"])
        await client.close()

    in_world(story, founders=("n1", "n2", "n3"))


def test_who_is_no_member_yet_answers_nothing_and_elects_nobody() -> None:
    async def story(world: World) -> None:
        await world.leader(["n1", "n2", "n3"])
        client = await world.client("n4")
        with pytest.raises(UnavailableError, match="no_leader"):
            await client.put("/a", 1, timeout_ms=300)
        assert await client.members() == ("n1", "n2", "n3")
        assert {(line["role"], line["term"]) for line in world.telemetry["n4"]} == {("follower", 0)}
        await client.close()

    in_world(story, ["n1", "n2", "n3", "n4"], founders=("n1", "n2", "n3"))


def test_a_leader_that_is_removed_answers_steps_down_and_the_others_go_on() -> None:
    async def story(world: World) -> None:
        first = await world.leader()
        others = [name for name in world.names if name != first]
        client = await world.client(first)
        left = tuple(others)
        assert await changed(lambda: client.remove_member(first)) == left
        assert await world.leader(others) in others
        there = await world.client(others[0])
        await there.put("/a", 1)
        await agreed(world, left, others)
        await there.close()
        await client.close()

    with counted() as marks:
        in_world(story)
    assert marks["leader left"] == 1


def test_a_node_that_left_and_lost_its_data_joins_as_another_member() -> None:
    async def story(world: World) -> None:
        leader = await world.leader()
        gone = next(name for name in world.names if name != leader)
        client = await world.client(leader)
        await client.put("/a", 1)
        await changed(lambda: client.remove_member(gone))
        await world.wipe(gone)
        with pytest.raises(ChangeRefusedError, match="was_member") as refused:
            await client.add_member(gone)
        assert refused.value.reason == "was_member"
        back = member_id(gone, 1)
        members = await changed(lambda: client.add_member(back))
        assert (back in members, gone in members) == (True, False)
        await world.start(gone)
        await agreed(world, members, world.names)
        there = await world.client(gone)
        assert (await there.get("/a")).value == 1
        await there.put("/a", 2)
        assert (await there.status()).leader in world.names
        await there.close()
        await client.close()
        assert [line["voters"] for line in world.telemetry[gone]][-1] == world.names

    with counted() as marks:
        in_world(story)
    assert marks["link to a former member closed"] >= 1


@both(M51)
def test_m51_says_nothing_of_another_member_when_a_node_that_lost_its_data_joins_again(
    bugs: Bugs, broken: bool
) -> None:
    """So what it had said is durable, and its votes, are looked for at its start."""

    async def story(world: World) -> None:
        leader = await world.leader()
        gone = next(name for name in world.names if name != leader)
        client = await world.client(leader)
        await client.put("/a", 1)
        await changed(lambda: client.remove_member(gone))
        await world.wipe(gone)
        world.telemetry[gone].clear()
        await changed(lambda: client.add_member(member_id(gone, 1)))
        await world.start(gone)
        assert [line for line in world.telemetry[gone] if line["event"] == "start"]
        assert any(line["event"] == "new-member" for line in world.telemetry[gone]) != broken
        await client.close()

    in_world(story, bugs=bugs)


def test_who_has_not_heard_of_any_change_gets_no_majority_with_a_member_that_lost_its_data() -> None:
    """As in the docstring of `splitbrain.cluster.members`: two of three founders, of whom one is another member now."""

    async def story(world: World) -> None:
        leader = await world.leader(["n1", "n2", "n3"])
        gone, stale = (name for name in world.founders if name != leader)
        client = await world.client(leader)
        await client.put("/a", 1)
        world.isolate(stale)
        await changed(lambda: client.add_member("n4"))
        await changed(lambda: client.add_member("n5"))
        await changed(lambda: client.remove_member(gone))
        await world.wipe(gone)
        await changed(lambda: client.add_member(member_id(gone, 1)))
        world.isolate(stale, gone)
        await world.start(gone)

        async def turned_away() -> bool | None:
            return any("no peer was turned away" in line for line in world.logs[gone]) or None

        await eventually(turned_away)
        await asyncio.sleep(5 * FAST.election_max_ms / 1000)
        assert world.nodes[stale].status().role == "pre_candidate"
        assert world.nodes[gone].status().term == 0
        await client.put("/a", 2)
        await client.close()

    in_world(story, founders=("n1", "n2", "n3"))


def test_a_restarted_node_has_the_members_of_its_log_and_not_those_that_it_is_started_with() -> None:
    async def story(world: World) -> None:
        leader = await world.leader()
        gone, stays = (name for name in world.names if name != leader)
        client = await world.client(leader)
        members = await changed(lambda: client.remove_member(gone))
        await agreed(world, members, [stays])
        await world.kill(stays)
        await world.start(stays)
        assert world.nodes[stays].members().members == members
        assert f"members {', '.join(members)}" in world.logs[stays][-2] + world.logs[stays][-1]
        await client.close()

    in_world(story, ["n1", "n2", "n3"])


def test_telemetry_tells_the_nodes_of_a_configuration_as_soon_as_it_is_in_force() -> None:
    async def story(world: World) -> None:
        leader = await world.leader()
        client = await world.client(leader)
        await changed(lambda: client.add_member("n4"))
        await agreed(world, ("n1", "n2", "n3", "n4"), world.names)
        for name in world.names:
            told = [line["voters"] for line in world.telemetry[name] if line["event"] == "members"]
            assert told == [["n1", "n2", "n3", "n4"]]
            assert world.telemetry[name][0]["voters"] == ["n1", "n2", "n3"]
        await client.close()

    in_world(story, ["n1", "n2", "n3", "n4"], founders=("n1", "n2", "n3"))


@pytest.mark.parametrize("member", ["", "#1", "n4#", "n4#0", "n4#x", "n4#01", "n4#1#2", "n9"])
def test_a_change_to_what_cannot_be_a_member_is_refused(member: str) -> None:
    async def story(world: World) -> None:
        await world.leader()
        client = await world.client("n1")
        with pytest.raises(InvalidRequestError, match=r"is no id of a member|has no address of n9"):
            await client.add_member(member)
        await client.close()

    in_world(story, ["n1", "n2", "n3"])


def test_ids_of_members_tell_their_node_and_incarnation() -> None:
    for node, incarnation, member in (("n1", 0, "n1"), ("n1", 1, "n1#1"), ("a-b", 12, "a-b#12")):
        assert member_id(node, incarnation) == member
        assert (node_of(member), incarnation_of(member), is_member_id(member)) == (node, incarnation, True)
    assert names(["n2#1", "n1"]) == ("n1", "n2")


def test_the_data_of_another_incarnation_are_refused() -> None:
    async def check() -> None:
        world = World(["n1"])
        await world.start()
        await world.kill("n1")
        world.incarnations["n1"] = 1
        with pytest.raises(WrongNodeError, match="belongs to node 'n1', not to 'n1#1'"):
            await world.start("n1")

    in_virtual_time(check())


def test_founders_and_incarnation_are_arguments() -> None:
    start = ["--node", "n4", "--listen", "h:1", "--data", "d", *(f"--peer=n{i}=h:{i}" for i in (1, 2, 3))]
    config, _ = parse([*start, "--founders", "n3,n1,n2", "--incarnation", "2"])
    assert (config.member, config.voters) == ("n4#2", ("n1", "n2", "n3"))
    config, _ = parse(start)
    assert (config.member, config.voters) == ("n4", ("n1", "n2", "n3", "n4"))
    with pytest.raises(ArgumentError, match="--incarnation takes a whole number, not '-1'"):
        parse([*start, "--incarnation", "-1"])
    with pytest.raises(ArgumentError, match="each founder is named once, and is this node or a --peer"):
        parse([*start, "--founders", "n1,n9"])
    with pytest.raises(ArgumentError, match="'n#1' cannot be the name of a node"):
        NodeConfig("n#1", ("h", 1), {})


@pytest.mark.parametrize("learners_first", [False, True])
def test_ra29_who_joins_votes_at_once_or_once_it_has_caught_up(learners_first: bool) -> None:
    async def check(world: World) -> None:
        client = await world.client(await world.leader(["n1", "n2", "n3"]))
        await client.put("/a", 1)
        world.cut = {(name, "n4") for name in FIVE}
        voters = await client.add_member("n4")
        assert voters == (("n1", "n2", "n3") if learners_first else ("n1", "n2", "n3", "n4"))
        assert await client.members(learners=True) == ("n1", "n2", "n3", "n4")
        world.cut = set()

        async def votes() -> bool | None:
            return "n4" in await client.members() or None

        await eventually(votes)
        assert await client.learners() == ()

    async def run() -> None:
        world = World(FIVE)
        world.founders, world.learners_first = ("n1", "n2", "n3"), learners_first
        try:
            await world.start()
            await check(world)
        finally:
            await world.close()

    in_virtual_time(run())


def test_a_role_that_is_asked_for_comes_before_what_nodes_are_configured_for() -> None:
    async def check(world: World) -> None:
        client = await world.client(await world.leader(["n1", "n2", "n3"]))
        await client.add_member("n4", role="learner")
        await asyncio.sleep(1)
        assert await client.learners() == ("n4",)
        assert await client.add_member("n4", role="voter") == ("n1", "n2", "n3", "n4")

    in_world(check, founders=("n1", "n2", "n3"))
