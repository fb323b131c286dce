"""Queues of which a node has no member (QQ-9): their records name the leader, and requests are passed on to it."""

from __future__ import annotations

import asyncio

import pytest

from splitbrain.cluster.client import OutcomeUnknownError, QueueOptions, Queues, UnavailableError
from splitbrain.cluster.marks import counted
from splitbrain.cluster.queuegroups.records import NAME_LEADER, record_of
from splitbrain.cluster.queues import encode_command
from splitbrain.cluster.queues.commands import Enqueue
from splitbrain.cluster.raft.messages import NodeId
from splitbrain.cluster.tree import Value
from splitbrain.cluster.wire import Outcome, QueueOp
from tests.cluster.queuegroups.support import FIVE, THREE, drained, in_cluster, leader_of, queue_groups, queues_on
from tests.cluster.support import World, eventually


async def declared(world: World, size: int = 3) -> tuple[list[NodeId], list[str]]:
    """Declares `orders`; its members, and the nodes without one."""
    found = await (await queues_on(world, "n1")).declare("orders", QueueOptions(initial_group_size=size))
    members = [*found.record.members]
    return members, [name for name in FIVE if name not in members]


async def noted(world: World, name: str) -> str | None:
    """The leader that the record names, as one node knows it."""
    return record_of((await (await world.client(name)).get("/quorum_queues/orders")).value).leader


async def is_passed_on(world: World, queues: Queues) -> bool | None:
    try:
        await queues.publisher("orders").publish(b"x")
    except (UnavailableError, OutcomeUnknownError):
        return None
    return True


def test_a_client_of_a_node_without_a_member_publishes_consumes_takes_and_settles() -> None:
    async def check(world: World) -> None:
        _, others = await declared(world)
        queues = await queues_on(world, others[0])
        assert queue_groups(world, others[0]) == []
        with counted() as marks:
            publisher = queues.publisher("orders")
            for body in (b"a", b"b", b"c"):
                await publisher.publish(body)
            taken = await queues.take("orders")
            assert taken is not None
            await queues.acked(taken)
            assert (await queues.status("orders")).ready == 2
            consumer = await queues.consume("orders", prefetch=1)
            first = await asyncio.wait_for(consumer.next(), 5)
            queues.ack(first)
            second = await asyncio.wait_for(consumer.next(), 5)
            assert (taken.body, first.body, second.body) == (b"a", b"b", b"c")
            assert marks["request passed on to another node's queue"] > 0
        assert (await queues.status("orders")).checked_out == 1

    in_cluster(check, FIVE)


def test_what_a_client_of_such_a_node_has_goes_back_when_it_is_gone() -> None:
    async def check(world: World) -> None:
        _, others = await declared(world)
        client = await world.client(others[0])
        queues = await client.queues()
        await queues.publisher("orders").publish(b"a")
        assert await queues.take("orders") is not None
        await client.close()

        async def again() -> bool | None:
            return (await (await queues_on(world, "n1")).status("orders")).ready == 1 or None

        await eventually(again)
        assert await drained(await queues_on(world, others[1]), "orders") == [b"a"]

    in_cluster(check, FIVE)


def test_the_record_names_the_leader_and_another_one_once_that_has_changed() -> None:
    async def check(world: World) -> None:
        members, others = await declared(world)

        async def names_its_leader() -> bool | None:
            return await noted(world, others[0]) == await leader_of(world, "queue.1") or None

        await eventually(names_its_leader)
        gone = await leader_of(world, "queue.1")
        await world.kill(gone)
        await eventually(names_its_leader)
        assert await noted(world, others[0]) in {*members} - {gone}

    in_cluster(check, FIVE)


def test_a_leader_of_an_earlier_queue_of_the_name_is_not_noted() -> None:
    async def check(world: World) -> None:
        _, others = await declared(world)
        await eventually(lambda: noted(world, others[0]))
        leader = await noted(world, others[0])
        client = await world.client("n1")
        noting = await client.transaction(*NAME_LEADER, ["orders", "queue.9", others[0]])
        assert noting.value is False
        assert await noted(world, others[0]) == leader

    in_cluster(check, FIVE)


def test_a_client_of_such_a_node_is_served_by_the_next_leader() -> None:
    """Also before its record names it: members that do not lead say who does."""

    async def check(world: World) -> None:
        _, others = await declared(world)
        queues = await queues_on(world, others[0])
        await queues.publisher("orders").publish(b"a")
        await world.kill(await leader_of(world, "queue.1"))
        await eventually(lambda: is_passed_on(world, queues))
        assert (await drained(queues, "orders"))[0] == b"a"

    in_cluster(check, FIVE)


def test_a_node_without_a_member_that_reaches_no_leader_says_so_for_certain() -> None:
    async def check(world: World) -> None:
        members, others = await declared(world)
        queues = await queues_on(world, others[0])
        await queues.status("orders")
        for member in members:
            await world.kill(member)
        with pytest.raises(UnavailableError):
            await queues.purge("orders", timeout_ms=1500)

    in_cluster(check, FIVE)


def test_a_node_that_gets_a_member_numbers_its_requests_after_those_that_it_had_passed_on() -> None:
    """Else the leader would take them for repetitions, and not answer."""

    async def check(world: World) -> None:
        _, others = await declared(world)
        queues = await queues_on(world, others[0])
        await queues.publisher("orders").publish(b"a")
        client = await world.client("n1")
        members = (await queues.declare("orders")).record.members
        leaves = next(member for member in members if member != "n1")
        await world.wipe(leaves)
        await client.remove_member(leaves)
        await eventually(lambda: has_member(world, others))
        joined = next(name for name in others if queue_groups(world, name))
        await leader_of(world, "queue.1")
        there = await queues_on(world, joined)
        await there.publisher("orders").publish(b"b", timeout_ms=3000)
        assert await drained(there, "orders") == [b"a", b"b"]

    in_cluster(check, FIVE)


def test_a_node_whose_member_has_stopped_numbers_its_requests_after_those_of_the_member() -> None:
    """Its dead letters go to the queue still; the leader would take them for repetitions, and not answer."""

    async def check(world: World) -> None:
        await (await queues_on(world, "n1")).declare("orders")
        leader = await leader_of(world, "queue.1")
        name = next(each for each in THREE if each != leader)
        publisher = (await queues_on(world, name)).publisher("orders")
        for _ in range(5):
            await publisher.publish(b"a")

        def fail(_: object) -> None:
            raise ArithmeticError("the disk lied")

        node = world.nodes[name]
        store = node._groups["queue.1"]._store  # pyright: ignore[reportPrivateUsage]
        store.apply = fail  # pyright: ignore[reportAttributeAccessIssue]
        await (await queues_on(world, leader)).publisher("orders").publish(b"b")

        async def has_stopped() -> bool | None:
            return "queue.1" not in node._groups or None  # pyright: ignore[reportPrivateUsage]

        await eventually(has_stopped)
        outcomes: list[Outcome] = []
        letter = QueueOp(encode_command(Enqueue(None, None, b"letter")))
        node.ask("queue.1", letter, 1000, lambda _term, outcome, _index: outcomes.append(outcome))
        await asyncio.sleep(2)
        assert [type(each) for each in outcomes] == [Value], outcomes

    in_cluster(check)


async def has_member(world: World, names: list[str]) -> bool | None:
    return any(queue_groups(world, name) for name in names) or None
