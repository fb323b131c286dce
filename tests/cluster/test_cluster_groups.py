"""Several groups in one process: each with its own leader, log and state, over one set of links and one log on disk."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from splitbrain.cluster import node as node_module
from splitbrain.cluster import storage
from splitbrain.cluster.arguments import parse
from splitbrain.cluster.bugs import M36, M45, Bugs
from splitbrain.cluster.client import (
    Client,
    ClientError,
    InvalidRequestError,
    NodeNotFoundError,
    TreeNode,
    UnavailableError,
)
from splitbrain.cluster.errors import ArgumentError
from splitbrain.cluster.marks import counted
from splitbrain.cluster.raft import Config
from tests.cluster.support import FAST, World, both, eventually, in_cluster

THREE = ["n1", "n2", "n3"]


def world(*groups: str, config: Config = FAST, bugs: Bugs | None = None) -> World:
    made = World(THREE, config, bugs or Bugs())
    made.groups = groups
    return made


async def leader_of(world: World, group: str) -> str:
    """Who leads a group, once all nodes agree."""

    async def agreed() -> str | None:
        leaders = {node.status(group).leader for node in world.nodes.values()}
        found = leaders.pop()
        return None if leaders or found is None or world.nodes[found].status(group).role != "leader" else found

    return await eventually(agreed)


async def start_everywhere(world: World, group: str) -> dict[str, Client]:
    clients = {name: await world.client(name) for name in THREE}
    for client in clients.values():
        assert group in await client.start_group(group, THREE)
    await leader_of(world, group)
    return clients


async def number(client: Client, group: str) -> int | None:
    try:
        return (await client.of_group(group).get("/x", timeout_ms=3000)).value
    except NodeNotFoundError:
        return None


# --- names ---------------------------------------------------------------------------------------------------------


def test_each_group_has_a_state_of_its_own_and_one_connection_reaches_all() -> None:
    async def check(world: World) -> None:
        await leader_of(world, "q1")
        await leader_of(world, "q2")
        clients = {name: await world.client(name) for name in THREE}
        for value, group in enumerate(("metadata", "q1", "q2")):
            await clients["n1"].of_group(group).put("/x", value)
        for client in clients.values():
            assert [await number(client, group) for group in ("metadata", "q1", "q2")] == [0, 1, 2]
            assert await client.groups() == ("metadata", "q1", "q2")

    in_cluster(world("q1", "q2"), check)


def test_groups_elect_leaders_of_their_own() -> None:
    async def check(world: World) -> None:
        client = await world.client("n1")
        for group, leads in zip(("metadata", "q1", "q2"), THREE, strict=True):
            await leader_of(world, group)
            await eventually(lambda group=group, leads=leads: handed_over(world, client.of_group(group), group, leads))
        assert [await leader_of(world, group) for group in ("metadata", "q1", "q2")] == THREE
        for value, group in enumerate(("metadata", "q1", "q2")):
            await client.of_group(group).put("/x", value, timeout_ms=3000)
            assert await number(client, group) == value

    in_cluster(world("q1", "q2"), check)


async def handed_over(world: World, client: Client, group: str, to: str) -> bool | None:
    if world.nodes[to].status(group).role == "leader":
        return True
    try:
        await client.transfer_leadership(to, timeout_ms=200)
    except ClientError:
        return None  # not up to date yet
    return None


def test_requests_of_two_groups_that_have_the_same_number_are_not_taken_for_one() -> None:
    async def check(world: World) -> None:
        leaders = {group: await leader_of(world, group) for group in ("metadata", "q1")}
        asked = next(name for name in THREE if name not in leaders.values())
        client = await world.client(asked)
        for value in range(5):  # both groups pass on request after request, each with its own numbers
            await client.put("/x", value)
            await client.of_group("q1").put("/x", 100 + value)
        assert (await number(client, "metadata"), await number(client, "q1")) == (4, 104)

    in_cluster(world("q1"), check)


def test_a_group_that_is_not_there_is_a_definite_failure() -> None:
    async def check(world: World) -> None:
        client = await world.client("n1")
        with pytest.raises(UnavailableError, match="n1 has no group 'q9'") as refused:
            await client.of_group("q9").put("/x", 1)
        assert refused.value.definite

    in_cluster(world(), check)


@pytest.mark.parametrize("name", ["", "Q1", "a b", "metadata", "x" * 65, "-a"])
def test_names_that_cannot_be_are_refused(name: str) -> None:
    async def check(world: World) -> None:
        with pytest.raises(InvalidRequestError):
            await (await world.client("n1")).start_group(name, THREE)

    in_cluster(world(), check)


@pytest.mark.parametrize("founders", [[], ["n1", "n1"], ["n1", "n9"]])
def test_founders_are_known_nodes_each_once(founders: list[str]) -> None:
    async def check(world: World) -> None:
        with pytest.raises(InvalidRequestError, match="founders"):
            await (await world.client("n1")).start_group("q1", founders)

    in_cluster(world(), check)


@pytest.mark.parametrize("groups", ["metadata", "a,a", "A"])
def test_the_command_line_refuses_them_too(groups: str) -> None:
    with pytest.raises(ArgumentError, match="group"):
        parse(["--node", "n1", "--listen", "n1:1", "--data", "-", "--groups", groups])


# --- life ----------------------------------------------------------------------------------------------------------


def test_a_group_that_is_started_while_the_nodes_run_is_there_after_a_restart_of_all() -> None:
    async def check(world: World) -> None:
        clients = await start_everywhere(world, "q1")
        await clients["n1"].of_group("q1").put("/x", 7)
        for name in THREE:
            await world.kill(name)
        await world.start()
        await leader_of(world, "q1")
        client = await world.client("n2")
        assert await client.groups() == ("metadata", "q1")
        assert await number(client, "q1") == 7

    in_cluster(world(), check)


def test_a_member_of_fewer_nodes_than_there_are() -> None:
    async def check(world: World) -> None:
        client = await world.client("n2")
        await client.start_group("alone", ["n2"])
        await eventually(lambda: leads(world, "n2", "alone"))
        await client.of_group("alone").put("/x", 1)
        assert await number(client, "alone") == 1
        assert await (await world.client("n1")).groups() == ("metadata",)

    in_cluster(world(), check)


def test_of_two_requests_to_start_a_group_at_the_same_moment_one_is_refused() -> None:
    """Both come before the first has begun anything."""

    async def check(world: World) -> None:
        client = await world.client("n2")
        asked = [client.start_group("alone", ["n2"]) for _ in range(2)]
        answers = await asyncio.gather(*asked, return_exceptions=True)
        (refusal,) = (each for each in answers if isinstance(each, BaseException))
        assert isinstance(refusal, InvalidRequestError)
        assert "is being changed already" in str(refusal)
        assert await client.start_group("alone", ["n2"]) == ("metadata", "alone")
        assert world.failures == []

    in_cluster(world(), check)


def test_groups_that_are_being_made_count_towards_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_module, "MAX_GROUPS", 3)

    async def check(world: World) -> None:
        client = await world.client("n2")
        asked = [client.start_group(f"q{number}", ["n2"]) for number in range(5)]
        answers = await asyncio.gather(*asked, return_exceptions=True)
        assert sum(isinstance(each, InvalidRequestError) for each in answers) == 3
        assert len(await client.groups()) == 3
        name = (await client.groups())[1]
        assert await client.start_group(name, ["n2"]) == await client.groups(), "one that is there is no new one"
        await client.delete_group(name)
        assert name not in await client.groups()
        assert "q9" in await client.start_group("q9", ["n2"])

    in_cluster(world(), check)


async def leads(world: World, node: str, group: str) -> bool | None:
    return world.nodes[node].status(group).role == "leader" or None


@both(M45)
def test_ra33_m45_a_group_that_is_made_again_has_none_of_the_former_ones_entries(bugs: Bugs, broken: bool) -> None:
    async def check(world: World) -> None:
        client = await world.client("n1")
        await client.start_group("q1", ["n1"])
        await eventually(lambda: leads(world, "n1", "q1"))
        for value in range(20):
            await client.of_group("q1").put("/x", value)
        assert await client.delete_group("q1") == ("metadata",)
        await client.start_group("q1", THREE)  # the others have not heard of it: nothing is appended
        await world.kill("n1")
        await world.start("n1")
        for name in ("n2", "n3"):
            await (await world.client(name)).start_group("q1", THREE)
        await leader_of(world, "q1")
        assert await number(await world.client("n2"), "q1") == (19 if broken else None)

    in_cluster(world(bugs=bugs), check)


def test_ra33_a_group_and_a_former_one_of_its_name_do_not_hear_each_other() -> None:
    async def check(world: World) -> None:
        clients = await start_everywhere(world, "q1")
        await clients["n1"].of_group("q1").put("/x", 1)
        await eventually(lambda: applied(world, "n3", "q1"))
        for name in ("n1", "n2"):  # n3 does not hear of it
            await clients[name].delete_group("q1")
            await clients[name].start_group("q1", THREE, 1)
        with counted() as marks:
            await eventually(lambda: elected(world, ("n1", "n2"), "q1"))
        assert marks["message for another group of the name"] > 0
        assert await number(clients["n1"], "q1") is None
        await clients["n1"].of_group("q1").put("/x", 2)
        await eventually(lambda: leaderless(world, "n3", "q1"))
        assert await clients["n1"].incarnations() == {"metadata": 0, "q1": 1}
        assert await clients["n3"].incarnations() == {"metadata": 0, "q1": 0}
        with pytest.raises(InvalidRequestError, match="here as incarnation 0, not 1: delete it first"):
            await clients["n3"].start_group("q1", THREE, 1)
        with pytest.raises(InvalidRequestError, match="0 or more"):
            await clients["n3"].start_group("q2", THREE, -1)
        await clients["n3"].delete_group("q1")
        await clients["n3"].start_group("q1", THREE, 1)
        await leader_of(world, "q1")
        assert await number(clients["n3"], "q1") == 2
        await world.kill("n3")
        await world.start("n3")
        assert await (await world.client("n3")).incarnations() == {"metadata": 0, "q1": 1}
        await leader_of(world, "q1")

    in_cluster(world(), check)


async def applied(world: World, node: str, group: str) -> bool | None:
    return world.nodes[node].status(group).applied_index > 1 or None


async def leaderless(world: World, node: str, group: str) -> bool | None:
    return world.nodes[node].status(group).leader is None or None


async def elected(world: World, nodes: Sequence[str], group: str) -> bool | None:
    return any(world.nodes[node].status(group).role == "leader" for node in nodes) or None


def test_deleting_a_group_answers_what_waited_for_it() -> None:
    async def check(world: World) -> None:
        client = await world.client("n1")
        await client.start_group("q1", ["n2", "n3"])  # n1 is no member of it, and hears no leader
        waiting = asyncio.ensure_future(client.of_group("q1").get("/x", timeout_ms=60_000))
        await asyncio.sleep(0.5)
        await client.delete_group("q1")
        with pytest.raises(UnavailableError, match="no more on n1"):
            await waiting

    in_cluster(world(), check)


# --- supervision, backpressure ---------------------------------------------------------------------------------------


def test_a_group_that_breaks_a_rule_stops_alone_and_says_what_happened() -> None:
    async def check(world: World) -> None:
        client = await world.client(await leader_of(world, "q1"))
        with pytest.raises(ClientError), counted() as marks:
            await client.of_group("q1").update("/missing", 1, timeout_ms=500)
        assert marks["group stopped alone"] >= 1
        assert "there is no node to change" in (await client.stopped_groups())["q1"]
        with pytest.raises(UnavailableError, match="group q1 stopped"):
            await client.of_group("q1").get("/x")
        with pytest.raises(InvalidRequestError, match="stopped here"):
            await client.start_group("q1", THREE)
        await client.put("/x", 1)
        assert await number(client, "metadata") == 1
        assert world.failures == []

    in_cluster(world("q1", bugs=Bugs([M36.id])), check)


def test_while_too_much_waits_for_the_disk_commands_of_all_groups_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage, "MAX_WAITING_BYTES", 2_000)

    async def check(world: World) -> None:
        leader = await leader_of(world, "q1")
        client = await world.client(leader)
        gate = world.disks[leader].gate = asyncio.Event()
        pending: list[asyncio.Future[TreeNode]] = []
        for _ in range(10):
            pending.append(asyncio.ensure_future(client.of_group("q1").put("/x", "y" * 500, timeout_ms=60_000)))
            await asyncio.sleep(0.01)
        refused = [each for each in pending if each.done() and isinstance(each.exception(), UnavailableError)]
        assert len(refused) >= 2
        gate.set()
        world.disks[leader].gate = None
        done = await asyncio.gather(*pending, return_exceptions=True)
        assert sum(not isinstance(each, BaseException) for each in done) == len(pending) - len(refused)

    in_cluster(world("q1", config=Config(heartbeat_ms=100, election_min_ms=5000, election_max_ms=5001)), check)


def test_groups_share_one_write_ahead_log_and_its_syncs() -> None:
    async def check(world: World) -> None:
        groups = ("metadata", "q1", "q2", "q3")
        for group in groups:
            await leader_of(world, group)
        client = await world.client("n1")
        assert len([name for name in world.disks["n1"].names() if name.startswith("wal-")]) == 1
        before = world.disks["n1"].calls.count("sync")
        await asyncio.gather(*(client.of_group(group).put("/x", i) for group in groups for i in range(25)))
        assert world.disks["n1"].calls.count("sync") - before < 60, "100 commands of four groups"

    in_cluster(world("q1", "q2", "q3"), check)
