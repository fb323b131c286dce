"""Quorum queues as groups of the cluster: declared, served and deleted (QQ-8), on whole nodes."""

from __future__ import annotations

import asyncio

import pytest

from splitbrain.cluster.channel import Channel
from splitbrain.cluster.client import (
    InvalidRequestError,
    OutcomeUnknownError,
    QueueNotFoundError,
    QueueOptions,
)
from splitbrain.cluster.queuegroups.log import Retire, encode
from splitbrain.cluster.wire import Answer, Failure, QueueOp, Request
from tests.cluster.queuegroups.support import FIVE, THREE, drained, in_cluster, leader_of, queue_groups, queues_on
from tests.cluster.support import World, eventually

# --- to declare -------------------------------------------------------------------------------------------------------


def test_a_declared_queue_takes_messages_and_gives_them_in_order_through_every_node() -> None:
    async def check(world: World) -> None:
        here, there = await queues_on(world, "n1"), await queues_on(world, "n3")
        declared = await here.declare("orders")
        assert (declared.is_new, declared.record.group) == (True, "queue.1")
        publisher = here.publisher("orders")
        for number in range(5):
            assert (await publisher.publish(b"%d" % number)).number == number + 1
        message = await there.take("orders")
        assert message is not None
        assert (message.body, message.is_redelivered) == (b"0", False)
        await there.acked(message)
        assert await drained(there, "orders") == [b"1", b"2", b"3", b"4"]
        assert await there.take("orders") is None

    in_cluster(check)


def test_a_queue_that_is_there_stays_as_it_is() -> None:
    async def check(world: World) -> None:
        here, there = await queues_on(world, "n1"), await queues_on(world, "n2")
        first = await here.declare("orders", QueueOptions(max_length=5))
        again = await there.declare("orders", QueueOptions(max_length=9))
        assert (again.is_new, again.record) == (False, first.record)
        assert first.record.config.delivery_limit == 20  # D18: it is set where queues are declared

    in_cluster(check)


def test_two_clients_that_declare_one_name_at_once_get_one_queue() -> None:
    async def check(world: World) -> None:
        clients = [await queues_on(world, name) for name in THREE]
        declared = await asyncio.gather(*(client.declare("orders") for client in clients))
        assert sorted(each.is_new for each in declared) == [False, False, True]
        assert len({each.record.group for each in declared}) == 1

    in_cluster(check)


def test_members_are_the_node_that_was_asked_and_others_in_turn() -> None:
    async def check(world: World) -> None:
        client = await queues_on(world, "n5")
        members = [(await client.declare(f"q{number}")).record.members for number in range(3)]
        assert members == [("n5", "n2", "n3"), ("n5", "n3", "n4"), ("n5", "n4", "n1")]
        assert (await client.declare("all", QueueOptions(initial_group_size=9))).record.members[0] == "n5"
        await eventually(lambda: groups_are(world, "n1", ["queue.3", "queue.4"]))

    in_cluster(check, FIVE)


async def groups_are(world: World, name: str, groups: list[str]) -> bool | None:
    return queue_groups(world, name) == groups or None


@pytest.mark.parametrize(
    ("name", "options", "problem"),
    [
        ("a/b", QueueOptions(), "a queue has a name"),
        ("a", QueueOptions(dead_letter_to="*"), "a queue has a name"),
        ("a", QueueOptions(initial_group_size=0), "at least one member"),
        ("a", QueueOptions(max_length=-1), "cannot be declared so: .* at max_length"),
        ("a", QueueOptions(message_ttl=-1), "cannot be declared so: .* at message_ttl"),
    ],
)
def test_a_declaration_that_makes_no_sense_is_refused(name: str, options: QueueOptions, problem: str) -> None:
    async def check(world: World) -> None:
        with pytest.raises(InvalidRequestError, match=problem):
            await (await queues_on(world, "n1")).declare(name, options)
        assert queue_groups(world, "n1") == []

    in_cluster(check)


def test_a_declaration_without_enough_members_is_unknown_and_the_queue_serves_once_they_are_there() -> None:
    """QQ-8: an error, but the record may remain."""

    async def check(world: World) -> None:
        await world.kill("n4")
        await world.kill("n3")
        client = await queues_on(world, "n1")
        with pytest.raises(OutcomeUnknownError, match="is declared, and does not serve yet"):
            await client.declare("orders", timeout_ms=1000)
        await world.start("n3")
        assert not (await client.declare("orders")).is_new

    in_cluster(check, FIVE)


def test_a_node_that_was_down_takes_part_once_it_is_back() -> None:
    async def check(world: World) -> None:
        await world.kill("n3")
        client = await queues_on(world, "n1")
        await client.declare("orders")
        await client.publisher("orders").publish(b"x")
        await world.start("n3")
        await leader_of(world, "queue.1")
        await world.kill("n2")
        assert await drained(await queues_on(world, "n3"), "orders") == [b"x"]

    in_cluster(check)


def test_queues_are_there_after_all_nodes_were_killed() -> None:
    async def check(world: World) -> None:
        client = await queues_on(world, "n1")
        await client.declare("orders")
        publisher = client.publisher("orders")
        for number in range(20):
            await publisher.publish(b"%d" % number)
        for name in THREE:
            await world.kill(name)
        await world.start()
        await world.leader()
        client = await queues_on(world, "n2")
        await client.declare("orders")
        assert await drained(client, "orders") == [b"%d" % number for number in range(20)]

    in_cluster(check)


# --- to delete --------------------------------------------------------------------------------------------------------


def test_a_deleted_queue_is_gone_on_all_nodes_and_its_name_is_free() -> None:
    async def check(world: World) -> None:
        here, there = await queues_on(world, "n1"), await queues_on(world, "n2")
        await here.declare("orders")
        await here.publisher("orders").publish(b"x")
        assert await there.take("orders") is not None
        await here.delete("orders")
        for name in THREE:
            await eventually(lambda name=name: groups_are(world, name, []))
        with pytest.raises(QueueNotFoundError, match="there is no queue orders"):
            await there.take("orders")
        with pytest.raises(QueueNotFoundError):
            await here.delete("orders")
        assert (await there.declare("orders")).record.group == "queue.2"
        assert await here.take("orders") is None

    in_cluster(check)


def test_a_client_that_knows_a_former_queue_finds_the_one_that_has_its_name_now() -> None:
    async def check(world: World) -> None:
        here, there = await queues_on(world, "n1"), await queues_on(world, "n2")
        await here.declare("orders")
        publisher = there.publisher("orders")
        await publisher.publish(b"before")
        await here.delete("orders")
        await here.declare("orders")
        await there.publisher("orders").publish(b"after")
        assert await drained(here, "orders") == [b"after"]

    in_cluster(check)


def test_a_queue_that_takes_nothing_any_more_has_its_record_removed_though_its_client_is_gone() -> None:
    """QQ-8: the steps after the first one are taken by the member that leads the queue."""

    async def check(world: World) -> None:
        client = await queues_on(world, "n1")
        await client.declare("orders")
        leads = await leader_of(world, "queue.1")
        await retire(world, "n1", "queue.1")
        await world.kill(leads)
        others = [name for name in THREE if name != leads]
        for name in others:
            await eventually(lambda name=name: groups_are(world, name, []))
        await world.start(leads)
        await eventually(lambda: groups_are(world, leads, []))

    in_cluster(check)


async def retire(world: World, name: str, group: str) -> Answer:
    """The first step of a deletion alone."""
    return await Channel(world.dial("client", name)).ask(Request(0, 3000, QueueOp(encode(Retire())), group=group))


def test_a_node_that_was_down_while_a_queue_was_deleted_forgets_it() -> None:
    async def check(world: World) -> None:
        client = await queues_on(world, "n1")
        await client.declare("orders")
        await eventually(lambda: groups_are(world, "n3", ["queue.1"]))
        await world.kill("n3")
        await client.delete("orders")
        await client.declare("others")
        await world.start("n3")
        assert queue_groups(world, "n3") == ["queue.1"]  # as it was stored
        await eventually(lambda: groups_are(world, "n3", ["queue.2"]))

    in_cluster(check)


def test_a_node_that_lags_behind_in_the_metadata_keeps_what_it_has() -> None:
    """A record that is not there yet is none that is gone: the node would delete a queue that is in use."""

    async def check(world: World) -> None:
        client = await queues_on(world, "n1")
        await client.declare("orders")
        publisher = client.publisher("orders")
        await publisher.publish(b"x")
        await eventually(lambda: groups_are(world, "n3", ["queue.1"]))
        for name in THREE:
            await world.kill(name)
        await world.start("n3")  # alone: nothing of its log is known to be committed
        await asyncio.sleep(1)
        assert queue_groups(world, "n3") == ["queue.1"]
        await world.start("n1")
        await eventually(lambda: status_of(world, "n1"))
        assert await drained(await queues_on(world, "n3"), "orders") == [b"x"]

    in_cluster(check)


async def status_of(world: World, name: str) -> bool | None:
    return world.nodes[name].status("queue.1").leader is not None or None


def test_groups_of_queues_are_not_begun_or_deleted_by_name() -> None:
    async def check(world: World) -> None:
        client = await world.client("n1")
        await (await queues_on(world, "n1")).declare("orders")
        with pytest.raises(InvalidRequestError, match="are those of queues"):
            await client.start_group("queue.7", THREE)
        with pytest.raises(InvalidRequestError, match="are those of queues"):
            await client.delete_group("queue.1")
        refused = (await retire(world, "n1", "metadata")).outcome
        assert isinstance(refused, Failure)
        assert (refused.definite, refused.detail) == (True, "this group is no queue")

    in_cluster(check)
