"""How commands are answered, against whole nodes (RA-18 to RA-20)."""

from __future__ import annotations

import asyncio

import pytest

from splitbrain.cluster import wire
from splitbrain.cluster.client import (
    AppliedCommand,
    Client,
    FromMember,
    NodeNotFoundError,
    OutcomeUnknownError,
    Pipeline,
    PossiblyMatchingManyNodesDeniedError,
    TreeNode,
    UnappliedCommand,
    UnavailableError,
)
from splitbrain.cluster.commands import Command, create, delete, increment, put, update
from splitbrain.cluster.raft import Config
from splitbrain.cluster.raft.messages import Vote
from splitbrain.cluster.tree import Done, Get, Put
from tests.cluster.support import MemoryConnection, World, eventually, in_cluster

THREE = ["n1", "n2", "n3"]
SLOW = Config(heartbeat_ms=100, election_min_ms=5000, election_max_ms=5001)


async def leader_and_others(world: World) -> tuple[str, list[str]]:
    leader = await world.leader()
    return leader, [name for name in world.names if name != leader]


async def settled(pipeline: Pipeline) -> list[AppliedCommand | UnappliedCommand]:
    found: list[AppliedCommand | UnappliedCommand] = []
    while pipeline.waits:
        found += await pipeline.settled()
    return found


def value_of(command: AppliedCommand | UnappliedCommand) -> object:
    assert isinstance(command, AppliedCommand)
    assert isinstance(command.result, TreeNode)
    return command.result.value


async def shows(client: Client, path: str, value: object) -> bool | None:
    try:
        return (await client.get(path, mode="local")).value == value or None
    except NodeNotFoundError:
        return None


# --- after_log_append ---------------------------------------------------------------------------------------------


def test_ra18_an_appended_command_is_answered_before_any_majority_has_it_and_may_be_lost() -> None:
    async def check(world: World) -> None:
        leader, others = await leader_and_others(world)
        old = await world.client(leader)
        await old.put("/a", 0)
        world.isolate(leader)
        appended = await old.append(put("/a", 1), timeout_ms=100)
        assert appended.index > world.nodes[leader].status().commit_index
        assert appended.term == world.nodes[leader].status().term
        await world.leader(others)
        new = await world.client(others[0])
        written = await new.put("/a", 2)
        world.cut = set()
        await eventually(lambda: shows(old, "/a", 2))
        assert written.term > appended.term
        with pytest.raises(UnavailableError, match="did not apply the entry in time"):
            await old.get("/a", mode="local", after=(appended.index, appended.term), timeout_ms=300)

    in_cluster(World(THREE), check)


@pytest.mark.parametrize("through_leader", [True, False])
def test_ra18_a_local_read_behind_an_appended_command_shows_that_it_was_applied(through_leader: bool) -> None:
    async def check(world: World) -> None:
        leader, others = await leader_and_others(world)
        client = await world.client(leader if through_leader else others[0])
        for value in range(5):
            appended = await client.append(put("/a", value))
            after = (appended.index, appended.term)
            assert (await client.get("/a", mode="local", after=after)).value == value

    in_cluster(World(THREE), check)


# --- reply_from ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("asked", ["leader", "member", "other"])
def test_ra18_a_reply_from_a_member_comes_once_that_member_has_applied_the_command(asked: str) -> None:
    async def check(world: World) -> None:
        leader, (member, other) = await leader_and_others(world)
        client = await world.client({"leader": leader, "member": member, "other": other}[asked])
        for value in range(20):
            written = await client.put("/a", value, reply_from=FromMember(member))
            assert world.nodes[member].status().applied_index >= written.index
            assert written.value == value

    in_cluster(World(THREE), check)


def test_ra18_a_member_that_is_cut_off_never_replies_although_the_command_is_committed() -> None:
    async def check(world: World) -> None:
        leader, (member, other) = await leader_and_others(world)
        client = await world.client(other)
        world.cut = {(leader, member), (other, member)}
        with pytest.raises(OutcomeUnknownError, match="did not apply the entry in time"):
            await client.put("/a", 1, reply_from=FromMember(member), timeout_ms=300)
        assert (await client.get("/a")).value == 1
        assert (await client.put("/a", 2, reply_from=FromMember(leader), timeout_ms=300)).value == 2
        assert (await client.put("/a", 3, reply_from=FromMember("n9"), timeout_ms=300)).value == 3

    in_cluster(World(THREE, SLOW), check)


# --- notify -------------------------------------------------------------------------------------------------------


def test_ra18_a_pipeline_names_what_was_applied_in_the_order_of_the_log_many_at_once() -> None:
    async def check(world: World) -> None:
        leader, _ = await leader_and_others(world)
        client = await world.client(leader)
        pipeline = client.pipeline()
        batches: list[tuple[AppliedCommand | UnappliedCommand, ...]] = []
        for number in range(200):
            pipeline.send(increment("/n"), ("command", number))
        while pipeline.waits:
            batches.append(await pipeline.settled())
        together = [command for batch in batches for command in batch]
        assert [command.correlation for command in together] == [("command", number) for number in range(200)]
        assert [value_of(command) for command in together] == list(range(1, 201))
        assert len(batches) <= 20
        assert (await client.get("/n")).value == 200

    in_cluster(World(THREE), check)


def test_ra18_two_pipelines_on_a_connection_and_other_requests_get_their_own_results() -> None:
    async def check(world: World) -> None:
        leader, _ = await leader_and_others(world)
        client = await world.client(leader)
        one, two = client.pipeline(), client.pipeline()
        one.send(put("/a", 1), "x")
        two.send(put("/b", 2), "x")
        one.send(update("/missing", 1), "y")
        two.send(delete("/a"), "y")
        write = asyncio.ensure_future(client.put("/c", 3))
        first, second = await settled(one)
        assert (value_of(first), first.correlation) == (1, "x")
        assert isinstance(second, AppliedCommand)
        assert isinstance(second.result, NodeNotFoundError)
        assert [value_of(command) for command in await settled(two)] == [2, None]
        assert (await write).value == 3

    in_cluster(World(THREE), check)


def test_ra18_a_node_that_does_not_lead_rejects_a_pipelined_command_and_names_the_leader() -> None:
    async def check(world: World) -> None:
        leader, others = await leader_and_others(world)
        pipeline = (await world.client(others[0])).pipeline()
        pipeline.send(put("/a", 1), 17)
        (rejected,) = await settled(pipeline)
        assert isinstance(rejected, UnappliedCommand)
        assert (rejected.correlation, rejected.leader, rejected.error.definite) == (17, leader, True)
        assert "not_leader" in str(rejected.error)
        with pytest.raises(NodeNotFoundError):
            await (await world.client(leader)).get("/a")

    in_cluster(World(THREE), check)


def test_ra18_a_pipelined_command_that_is_refused_was_not_applied() -> None:
    async def check(world: World) -> None:
        leader, _ = await leader_and_others(world)
        pipeline = (await world.client(leader)).pipeline()
        pipeline.send(put("/a*", 1), 1)
        (refused,) = await settled(pipeline)
        assert isinstance(refused, UnappliedCommand)
        assert isinstance(refused.error, PossiblyMatchingManyNodesDeniedError)

    in_cluster(World(THREE), check)


def test_ra18_what_becomes_of_pipelined_commands_is_unknown_when_their_leader_steps_down() -> None:
    async def check(world: World) -> None:
        leader, others = await leader_and_others(world)
        pipeline = (await world.client(leader)).pipeline()
        world.isolate(leader)
        for number in range(3):
            pipeline.send(create(f"/a/{number}", None), number)
        await world.leader(others)
        world.cut = set()
        lost = await settled(pipeline)
        assert [command.correlation for command in lost] == [0, 1, 2]
        for command in lost:
            assert isinstance(command, UnappliedCommand)
            assert not command.error.definite

    in_cluster(World(THREE), check)


def test_ra18_pipelined_commands_fail_with_their_connection() -> None:
    async def check(world: World) -> None:
        leader, _ = await leader_and_others(world)
        client = await world.client(leader)
        pipeline = client.pipeline()
        world.isolate(leader)
        pipeline.send(put("/a", 1), 1)
        await client.close()
        (failed,) = await settled(pipeline)
        assert isinstance(failed, UnappliedCommand)
        assert isinstance(failed.error, OutcomeUnknownError)
        with pytest.raises(UnavailableError, match="the connection is broken"):
            pipeline.send(put("/a", 1), 2)
        assert not pipeline.waits

    in_cluster(World(THREE), check)


# --- noreply ------------------------------------------------------------------------------------------------------


async def raw(world: World, name: str) -> MemoryConnection:
    connection = world.dial("client", name)
    connection.send(wire.encode(wire.ClientHello(wire.PROTOCOL_VERSION)))
    return connection


async def answer_of(connection: MemoryConnection, request: wire.Request) -> wire.Answer:
    connection.send(wire.encode(request))
    return wire.decode_answer(await connection.receive())


@pytest.mark.parametrize("through_leader", [True, False])
def test_ra18_a_command_without_a_reply_is_carried_out_and_never_answered(through_leader: bool) -> None:
    async def check(world: World) -> None:
        leader, others = await leader_and_others(world)
        connection = await raw(world, leader if through_leader else others[0])
        for number, path in enumerate((("a",), ("*",), ("b",)), 1):
            connection.send(wire.encode(wire.Request(number, 500, Put(path, b"\x07"), "noreply")))
        await eventually(lambda: shows_seven(world, leader))
        # Longer than the timeout of the requests: the first answer is that to the next request.
        await asyncio.sleep(1)
        assert (await answer_of(connection, wire.Request(4, 500, Get(("a",))))).id == 4

    async def shows_seven(world: World, leader: str) -> bool | None:
        return await shows(await world.client(leader), "/b", 7)

    in_cluster(World(THREE), check)


def test_ra18_a_command_without_a_reply_is_dropped_by_a_node_without_a_leader() -> None:
    async def check(world: World) -> None:
        leader, others = await leader_and_others(world)
        world.isolate(others[0])

        async def alone() -> bool | None:
            return world.nodes[others[0]].status().leader is None or None

        await eventually(alone)
        client = await world.client(others[0])
        client.cast(put("/a", "cast"))
        waits = asyncio.ensure_future(client.put("/b", "put"))
        await asyncio.sleep(0.1)
        world.cut = set()
        await waits
        with pytest.raises(NodeNotFoundError):
            await (await world.client(leader)).get("/a")

    in_cluster(World(THREE), check)


# --- modes that are none ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "reply", "detail"),
    [
        (Put(("a",), None), "fold", "there is no reply mode 'fold'"),
        (Put(("a",), None), wire.FromMember("n1#x"), "'n1#x' is no id of a member"),
        (Get(("a",)), "notify", "reply modes are for commands"),
        (wire.RemoveMember("n1"), "local", "reply modes are for commands"),
        (wire.LocalQuery(Get(("a",))), wire.FromMember("n1"), "reply modes are for commands"),
    ],
)
def test_ra18_a_reply_mode_that_makes_no_sense_is_refused(
    body: wire.Body, reply: str | wire.FromMember, detail: str
) -> None:
    async def check(world: World) -> None:
        leader, _ = await leader_and_others(world)
        connection = await raw(world, leader)
        answer = await answer_of(connection, wire.Request(1, 500, body, reply))
        assert isinstance(answer.outcome, wire.Failure)
        assert (answer.outcome.reason, answer.outcome.definite) == ("invalid_reply_mode", True)
        assert detail in answer.outcome.detail
        assert isinstance((await answer_of(connection, wire.Request(2, 500, Put(("a",), None)))).outcome, Done)

    in_cluster(World(THREE), check)


# --- priorities ---------------------------------------------------------------------------------------------------


def send_all(pipeline: Pipeline, low: int, normal: int) -> None:
    def command(kind: str, number: int) -> Command:
        return put(f"/{kind}/{number}", number)

    for number in range(low):
        pipeline.send(command("low", number), ("low", number), priority="low")
    for number in range(normal):
        pipeline.send(command("normal", number), ("normal", number))


def test_ra21_normal_commands_overtake_low_ones_which_are_appended_sixteen_at_a_time() -> None:
    async def check(world: World) -> None:
        leader, _ = await leader_and_others(world)
        pipeline = (await world.client(leader)).pipeline()
        send_all(pipeline, low=40, normal=5)
        order = [command.correlation for command in await settled(pipeline)]
        low, normal = [("low", number) for number in range(40)], [("normal", number) for number in range(5)]
        assert order == [*low[:16], *normal, *low[16:]]

    in_cluster(World(THREE), check)


@pytest.mark.parametrize("reply", ["notify", "leader"])
def test_ra21_low_commands_that_wait_are_dropped_for_certain_when_the_leader_steps_down(reply: str) -> None:
    async def check(world: World) -> None:
        leader, others = await leader_and_others(world)
        client, peer = await raw(world, leader), world.dial(others[0], leader)
        peer.send(wire.encode(wire.PeerHello(wire.PROTOCOL_VERSION, others[0], leader)))
        await asyncio.sleep(0.01)
        for number in range(1, 41):
            client.send(wire.encode(wire.Request(number, 2000, Put(("a", str(number)), None), reply, priority="low")))
        # It arrives behind the commands, and before consensus has had a turn.
        peer.send(wire.encode_peer(Vote(world.nodes[leader].status().term + 1, 0, 0)))
        answers = [wire.decode_answer(await client.receive()) for _ in range(40)]
        failures = {answer.id: answer.outcome for answer in answers if isinstance(answer.outcome, wire.Failure)}
        reasons = {number: (failure.reason, failure.definite) for number, failure in failures.items()}
        appended = dict.fromkeys(range(1, 17), ("leadership_lost", False))
        assert reasons == {**appended, **dict.fromkeys(range(17, 41), ("not_leader", True))}
        new = await world.client(await world.leader())
        for number in range(17, 41):
            with pytest.raises(NodeNotFoundError):
                await new.get(f"/a/{number}")

    in_cluster(World(THREE), check)


@pytest.mark.parametrize("through_leader", [True, False])
def test_ra21_a_low_command_is_carried_out_through_any_node(through_leader: bool) -> None:
    async def check(world: World) -> None:
        leader, others = await leader_and_others(world)
        client = await world.client(leader if through_leader else others[0])
        done = await asyncio.gather(*(client.execute(increment("/n"), priority="low") for _ in range(100)))
        assert sorted(node.value for node in done) == list(range(1, 101))

    in_cluster(World(THREE), check)
