"""What the leader of a queue does for it (QQ-2 to QQ-7), on whole nodes: deliveries, monitors, timers, dead letters."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from splitbrain.cluster.asking import error_of
from splitbrain.cluster.callers import Caller
from splitbrain.cluster.channel import Channel
from splitbrain.cluster.client import (
    Client,
    InvalidRequestError,
    QueueNotFoundError,
    QueueOptions,
    Queues,
    UnavailableError,
)
from splitbrain.cluster.log.snapshot import parse_name
from splitbrain.cluster.marks import counted
from splitbrain.cluster.queueclient import Consumer, Message
from splitbrain.cluster.queues import Process, encode_command
from splitbrain.cluster.queues.commands import Enqueue, Expire
from splitbrain.cluster.wire import QueueOp, Request
from tests.cluster.queuegroups.support import THREE, drained, in_cluster, leader_of, queues_on
from tests.cluster.support import World, eventually


async def declared(world: World, name: str = "orders", **options: object) -> Queues:
    queues = await queues_on(world, "n1")
    await queues.declare(name, QueueOptions(**options))  # pyright: ignore[reportArgumentType]
    return queues


async def publish(queues: Queues, *bodies: bytes, name: str = "orders") -> None:
    publisher = queues.publisher(name)
    for body in bodies:
        await publisher.publish(body)


async def received(consumer: Consumer, count: int) -> list[bytes]:
    return [(await asyncio.wait_for(consumer.next(), 10)).body for _ in range(count)]


async def followers(world: World, group: str = "queue.1") -> tuple[str, list[str]]:
    leads = await leader_of(world, group)
    return leads, [name for name in THREE if name != leads]


# --- consumers --------------------------------------------------------------------------------------------------------


def test_a_consumer_gets_what_its_prefetch_allows_and_more_as_it_settles() -> None:
    async def check(world: World) -> None:
        queues = await declared(world)
        await publish(queues, b"a", b"b")
        _, others = await followers(world)
        there = await queues_on(world, others[0])
        consumer = await there.consume("orders", prefetch=2)
        first = await consumer.next()
        assert (first.body, await received(consumer, 1)) == (b"a", [b"b"])
        await publish(queues, b"c")
        assert (await queues.status("orders")).ready == 1
        there.ack(first)
        assert await received(consumer, 1) == [b"c"]
        assert (await queues.status("orders")).checked_out == 2

    in_cluster(check)


def test_a_consumer_with_credit_gets_so_many() -> None:
    async def check(world: World) -> None:
        queues = await declared(world)
        await publish(queues, b"a", b"b", b"c")
        consumer = await queues.consume("orders")
        await consumer.credit(2)
        assert await received(consumer, 2) == [b"a", b"b"]
        assert (await queues.status("orders")).ready == 1
        await consumer.credit(1)
        assert await received(consumer, 1) == [b"c"]

    in_cluster(check)


def test_what_is_given_back_is_served_next_and_says_so() -> None:
    async def check(world: World) -> None:
        queues = await declared(world)
        await publish(queues, b"a", b"b")
        message = await queues.take("orders")
        assert message is not None
        await queues.given_back(message)
        again = await queues.take("orders")
        assert again is not None
        assert (again.body, again.is_redelivered, again.acquired) == (b"a", True, 1)

    in_cluster(check)


def test_a_consumer_that_is_cancelled_gives_back_what_it_has() -> None:
    async def check(world: World) -> None:
        queues = await declared(world)
        await publish(queues, b"a")
        consumer = await queues.consume("orders", prefetch=5)
        await received(consumer, 1)
        await consumer.cancel()
        with pytest.raises(QueueNotFoundError, match="nothing more comes"):
            await consumer.next()
        assert await drained(queues, "orders") == [b"a"]

    in_cluster(check)


def test_a_consumer_hears_that_its_queue_is_deleted() -> None:
    async def check(world: World) -> None:
        queues = await declared(world)
        consumer = await (await queues_on(world, "n2")).consume("orders", prefetch=5)
        await queues.delete("orders")
        with pytest.raises(QueueNotFoundError):
            await asyncio.wait_for(consumer.next(), 5)

    in_cluster(check)


def test_the_next_consumer_becomes_active_when_the_single_active_one_is_gone() -> None:
    async def check(world: World) -> None:
        queues = await declared(world, single_active_consumer=True)
        client = await world.client("n2")
        first = await (await client.queues()).consume("orders", prefetch=1)
        second = await queues.consume("orders", prefetch=1)
        await publish(queues, b"a", b"b")
        assert await received(first, 1) == [b"a"]
        assert (await queues.status("orders")).ready == 1
        await client.close()
        assert await received(second, 1) == [b"a"]
        with pytest.raises(UnavailableError, match="connection is broken"):
            await first.next()

    in_cluster(check)


# --- connections and nodes that are gone, or cannot be reached --------------------------------------------------------


async def taken(client: Client) -> Message:
    message = await (await client.queues()).take("orders")
    assert message is not None
    return message


def test_the_end_of_a_connection_takes_nothing_from_others_of_its_node() -> None:
    async def check(world: World) -> None:
        queues = await declared(world)
        await publish(queues, b"a", b"b")
        ending, staying = await world.client("n2"), await world.client("n2")
        assert ((await taken(ending)).body, (await taken(staying)).body) == (b"a", b"b")
        await ending.close()
        await eventually(lambda: is_ready(queues, 1))
        assert await drained(queues, "orders") == [b"a"]
        assert (await queues.status("orders")).checked_out == 1

    in_cluster(check)


def test_what_a_connection_had_goes_back_when_it_ends() -> None:
    async def check(world: World) -> None:
        queues = await declared(world)
        await publish(queues, b"a")
        leads, others = await followers(world)
        for name in (leads, others[0]):
            client = await world.client(name)
            await taken(client)
            assert await queues.take("orders") is None
            await client.close()
            await eventually(lambda: is_ready(queues, 1))
        message = await queues.take("orders")
        assert message is not None
        assert (message.acquired, message.failed) == (2, 2)  # QQ-3: a lost consumer counts as a failed delivery

    in_cluster(check)


@pytest.mark.parametrize("settle", [Queues.ack, Queues.reject, Queues.give_back])
def test_what_a_client_does_with_a_message_is_carried_out_though_the_leader_dies(
    settle: Callable[[Queues, Message], None],
) -> None:
    """Hunt, seed 232: a message that was given back was out of reach of all others until its connection ended."""

    async def check(world: World) -> None:
        queues = await declared(world, dead_letter_to="dead")
        await declared(world, "dead")
        await publish(queues, b"a")
        leads, others = await followers(world)
        with_message = await queues_on(world, others[0])
        message = await with_message.take("orders")
        assert message is not None
        await world.kill(leads)
        settle(with_message, message)
        await leader_of(world, "queue.1")
        queue, count = ("orders", 0) if settle is Queues.ack else ("orders", 1)
        if settle is Queues.reject:
            queue, count = "dead", 1

        async def is_settled() -> bool | None:
            try:
                report = await (await queues_on(world, others[1])).status(queue)
            except UnavailableError:
                return None
            return (report.ready == count and not report.checked_out) or None

        await eventually(is_settled)

    in_cluster(check)


async def is_ready(queues: Queues, count: int) -> bool | None:
    return (await queues.status("orders")).ready == count or None


def test_what_a_node_has_that_cannot_be_reached_goes_back_and_its_consumers_go_on_when_it_can() -> None:
    """QQ-4, D18: all that is on the node is suspected at once, and its messages are given back."""

    async def check(world: World) -> None:
        await declared(world)
        leads, others = await followers(world)
        queues = await queues_on(world, leads)
        there = await queues_on(world, others[0])
        consumer = await there.consume("orders", prefetch=1)
        await publish(queues, b"a")
        lost = await consumer.next()
        world.isolate(others[0])
        await eventually(lambda: is_ready(queues, 1))
        assert (await queues.status("orders")).consumers == 0
        world.cut.clear()
        again = await asyncio.wait_for(consumer.next(), 30)
        assert (again.body, again.acquired, again.id > lost.id) == (b"a", 1, True)
        await there.acked(again)
        await eventually(lambda: is_empty(queues))

    in_cluster(check)


async def is_empty(queues: Queues) -> bool | None:
    report = await queues.status("orders")
    return (report.ready, report.checked_out) == (0, 0) or None


# --- leaders that change ----------------------------------------------------------------------------------------------


def test_a_new_leader_delivers_again_what_consumers_have_and_they_see_it_once() -> None:
    async def check(world: World) -> None:
        await declared(world)
        leads, others = await followers(world)
        there = await queues_on(world, others[0])
        consumer = await there.consume("orders", prefetch=10)
        await publish(there, b"a", b"b")
        assert await received(consumer, 2) == [b"a", b"b"]
        await world.kill(leads)
        await publish(there, b"c")
        assert await received(consumer, 1) == [b"c"]

    in_cluster(check)


def drop(_caller: Caller, _message: bytes) -> None:
    """A message to a client gets lost."""


def test_a_delivery_that_was_lost_with_its_leader_comes_from_the_next_one() -> None:
    async def check(world: World) -> None:
        await declared(world)
        leads, others = await followers(world)
        there = await queues_on(world, others[0])
        consumer = await there.consume("orders", prefetch=10)
        client = await world.client(leads)
        queues = await client.queues()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Caller, "deliver", drop)
            await publish(queues, b"a")
            await asyncio.sleep(0.5)
        await world.kill(leads)
        assert await received(consumer, 1) == [b"a"]

    in_cluster(check)


def test_after_a_publish_that_was_cancelled_its_number_is_not_that_of_another_message() -> None:
    """QQ-2: the queue would take the next message for the one that it has, and confirm it."""

    async def check(world: World) -> None:
        queues = await declared(world)
        publisher = queues.publisher("orders")
        await publisher.publish(b"a")
        publishing = asyncio.ensure_future(publisher.publish(b"b"))
        for _ in range(5):  # it is on its way, and no answer has come
            await asyncio.sleep(0)
        publishing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await publishing
        await publisher.publish(b"c")
        assert await drained(queues, "orders") == [b"a", b"b", b"c"]

    in_cluster(check)


def test_a_consumer_that_was_cancelled_is_over_though_the_queue_is_not_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    def unheard(_consumer: Consumer, _event: object) -> None: ...

    async def check(world: World) -> None:
        queues = await declared(world)
        consumer = await queues.consume("orders", prefetch=1)
        monkeypatch.setattr(Consumer, "heard", unheard)  # what the queue says of the end may be lost with a leader
        waiting = asyncio.ensure_future(consumer.next())
        await consumer.cancel()
        with pytest.raises(QueueNotFoundError, match="nothing more comes"):
            await asyncio.wait_for(waiting, 10)

    in_cluster(check)


def test_a_message_that_is_sent_again_is_taken_once() -> None:
    """QQ-2: the queue knows the number, also after its leader changed."""

    async def check(world: World) -> None:
        await declared(world)
        leads, others = await followers(world)
        there = await queues_on(world, others[0])
        publisher = there.publisher("orders")
        await publisher.publish(b"a")
        # The answer is lost: the leader is cut off once the entry is in its log and on its way.
        world.isolate(leads)
        publishing = asyncio.ensure_future(publisher.publish(b"b", timeout_ms=20_000))
        await asyncio.sleep(2)
        world.cut.clear()
        await publishing
        await publisher.publish(b"c")
        assert await drained(there, "orders") == [b"a", b"b", b"c"]

    in_cluster(check)


# --- timers, limits, dead letters -------------------------------------------------------------------------------------


def test_messages_that_are_too_old_become_dead_letters_by_themselves() -> None:
    async def check(world: World) -> None:
        queues = await queues_on(world, "n1")
        await queues.declare("dead")
        await declared(world, message_ttl=500, dead_letter_to="dead")
        await publish(queues, b"a", b"b")
        assert (await queues.status("orders")).ready == 2
        await eventually(lambda: is_ready(queues, 0))
        assert await drained(queues, "dead") == [b"a", b"b"]

    in_cluster(check)


def test_a_timer_is_set_again_by_a_new_leader() -> None:
    async def check(world: World) -> None:
        await declared(world, message_ttl=3000)
        leads, others = await followers(world)
        queues = await queues_on(world, others[0])
        await publish(queues, b"a")
        await world.kill(leads)
        await leader_of(world, "queue.1")
        assert (await queues.status("orders")).ready == 1
        await eventually(lambda: is_ready(queues, 0))

    in_cluster(check)


def test_rejected_messages_and_those_that_were_given_back_too_often_become_dead_letters_once() -> None:
    async def check(world: World) -> None:
        queues = await queues_on(world, "n1")
        await queues.declare("dead")
        await declared(world, delivery_limit=2, dead_letter_to="dead")
        await publish(queues, b"refused", b"poison")
        message = await queues.take("orders")
        assert message is not None
        await queues.rejected(message)
        for acquired in range(3):
            message = await queues.take("orders")
            assert message is not None
            assert message.acquired == acquired
            await queues.given_back(message)
        assert await queues.take("orders") is None
        assert await drained(queues, "dead") == [b"refused", b"poison"]

    in_cluster(check)


@pytest.mark.parametrize("pause_ms", [0, 3, 6, 30])
def test_a_dead_letter_is_published_at_most_once_though_the_next_leader_applies_its_entry_too(pause_ms: int) -> None:
    """Followers hear last that an entry is committed: one that leads applies what the leader before had applied."""

    async def check(world: World) -> None:
        await (await queues_on(world, "n1")).declare("dead")
        await declared(world, dead_letter_to="dead")
        leads = await leader_of(world, "queue.2")
        queues = await queues_on(world, leads)
        await publish(queues, b"refused")
        message = await queues.take("orders")
        assert message is not None
        await queues.rejected(message)
        await asyncio.sleep(pause_ms / 1000)
        await world.kill(leads)
        there = await queues_on(world, await leader_of(world, "queue.2"))
        await leader_of(world, "queue.1")
        await asyncio.sleep(3)
        assert (await there.status("dead")).ready <= 1

    in_cluster(check)


def test_a_dead_letter_for_a_queue_that_is_not_there_is_dropped() -> None:
    async def check(world: World) -> None:
        queues = await declared(world, max_length=1, dead_letter_to="nowhere")
        with counted() as marks:
            await publish(queues, b"a", b"b")
            assert await drained(queues, "orders") == [b"b"]
        assert marks["dead letter without a queue"] == 1

    in_cluster(check)


def test_a_queue_that_is_not_used_is_deleted() -> None:
    async def check(world: World) -> None:
        queues = await declared(world, expires=8000)
        await asyncio.sleep(6)
        assert await queues.take("orders") is None  # which is a use
        await asyncio.sleep(6)
        assert (await queues.status("orders")).is_configured
        await asyncio.sleep(12)
        with pytest.raises(QueueNotFoundError):
            await queues.take("orders")
        assert world.nodes["n3"].queue_groups == ()

    in_cluster(check)


def test_a_purge_says_how_much_it_removed() -> None:
    async def check(world: World) -> None:
        queues = await declared(world)
        await publish(queues, b"a", b"b")
        assert (await queues.purge("orders"), await queues.purge("orders")) == (2, 0)

    in_cluster(check)


# --- the log ----------------------------------------------------------------------------------------------------------


def base_of(world: World, name: str) -> int:
    """The entry up to which a node has let the log of the queue go: no other group has a snapshot."""
    files = [file for file in world.disks[name].names() if file.startswith("snapshot-")]
    return max((parse_name(file).index for file in files), default=0)


def test_the_log_is_let_go_up_to_the_oldest_message_that_is_there() -> None:
    """QQ-6: bodies stay in the log as long as their messages are in the queue."""

    async def check(world: World) -> None:
        queues = await declared(world)
        await publish(queues, *(b"%d" % number for number in range(10)))
        await asyncio.sleep(6)  # a checkpoint, which is not let go to: all messages are before it
        assert [base_of(world, name) for name in THREE] == [0, 0, 0]
        await publish(queues, *(b"%d" % number for number in range(10, 31)))
        for _ in range(20):
            await queues.take("orders", settle=True)
        await asyncio.sleep(6)
        await eventually(lambda: compacted(world))
        for name in THREE:
            assert 10 < base_of(world, name) < 30, name
        await publish(queues, b"31")
        await asyncio.sleep(6)
        for name in THREE:
            said: list[Any] = [line["counted"] for line in world.telemetry[name] if line["event"] == "released"]
            counts = [(each["let_go"] + 1 - each["needed"], each["base"]) for each in said]
            assert counts == [(0, 0), (0, 0), (0, base_of(world, name))], "it says what it lets go, and what it needs"
        for name in THREE:
            await world.kill(name)
        await world.start()
        await world.leader()
        queues = await queues_on(world, "n3")
        await queues.declare("orders")
        assert await drained(queues, "orders") == [b"%d" % number for number in range(20, 32)]

    in_cluster(check, checkpoint_interval=5)


async def compacted(world: World) -> bool | None:
    return all(base_of(world, name) > 5 for name in THREE) or None


def test_a_member_that_takes_over_a_snapshot_can_lead_with_all_bodies() -> None:
    async def check(world: World) -> None:
        await declared(world)
        leads, others = await followers(world)
        queues = await queues_on(world, leads)
        await publish(queues, b"old")
        await world.kill(others[0])
        for number in range(40):
            await publish(queues, b"%d" % number)
        await asyncio.sleep(6)
        await publish(queues, b"more")
        for _ in range(41):
            await queues.take("orders", settle=True)
        await asyncio.sleep(6)
        assert base_of(world, leads) > 20
        with counted() as marks:
            await world.start(others[0])
            await eventually(lambda: same(world, leads, others[0]))
        assert marks["snapshot installed"] >= 1
        await world.kill(leads)
        there = await queues_on(world, others[0])
        assert await drained(there, "orders") == [b"more"]

    in_cluster(check, checkpoint_interval=5)


async def same(world: World, first: str, second: str) -> bool | None:
    views = [world.nodes[name].status("queue.1") for name in (first, second)]
    return (views[0].state_hash == views[1].state_hash and views[0].applied_index == views[1].applied_index) or None


def test_all_members_of_a_queue_come_to_the_same_state() -> None:
    async def check(world: World) -> None:
        queues = await declared(world)
        await publish(queues, b"a", b"b", b"c")
        await queues.take("orders")
        await eventually(lambda: same(world, "n1", "n2"))
        await eventually(lambda: same(world, "n1", "n3"))

    in_cluster(check)


def test_a_client_cannot_have_a_snapshot_of_a_queue_taken_nor_speak_for_its_leader() -> None:
    async def check(world: World) -> None:
        await declared(world)
        client, channel = await world.client("n1"), Channel(world.dial("client", "n1"))
        with pytest.raises(InvalidRequestError, match="lets its log go by itself"):
            await client.of_group("queue.1").snapshot()
        assert (await client.of_group("queue.1").checkpoint()).index > 0
        for command, problem in (
            (Expire(), "no command that a client may give"),
            (Enqueue(Process("me", "n1"), 1, b""), "has a name like"),
        ):
            asked = Request(0, 3000, QueueOp(encode_command(command)), group="queue.1")
            answer = await channel.ask(asked)
            assert problem in str(error_of(answer.outcome, answer.term))
        with pytest.raises(InvalidRequestError, match="invalid_command"):
            await client.of_group("queue.1").put("/x", 1)

    in_cluster(check)


# --- dead letters that go round ---------------------------------------------------------------------------------------


AT_REST = 3
"""Entries that timers of the leader may add in 5 s; a letter that goes round adds one with each turn."""


async def grown(world: World, group: str, moment_s: float = 5) -> int:
    """By how many entries the log of a group grows without any client."""
    node = world.nodes[await leader_of(world, group)]
    before = node.status(group).commit_index
    await asyncio.sleep(moment_s)
    return node.status(group).commit_index - before


def test_a_dead_letter_that_nobody_rejected_does_not_go_round_for_ever() -> None:
    async def check(world: World) -> None:
        queues = await queues_on(world, "n1")
        await queues.declare("itself", QueueOptions(max_length=1, dead_letter_to="itself"))
        await queues.declare("one", QueueOptions(max_length=1, dead_letter_to="other"))
        await queues.declare("other", QueueOptions(max_length=1, dead_letter_to="one"))
        with counted() as marks:
            await publish(queues, b"1", b"2", name="itself")
            await publish(queues, b"1", b"2", b"3", name="one")
            await asyncio.sleep(5)
        assert marks["dead letter went round"] >= 2
        assert max([await grown(world, f"queue.{number}") for number in (1, 2, 3)]) <= AT_REST
        assert await drained(queues, "itself") == [b"2"]

    in_cluster(check)


def test_what_a_consumer_rejects_may_come_back_as_often_as_it_is_rejected() -> None:
    async def check(world: World) -> None:
        queues = await queues_on(world, "n1")
        await queues.declare("work", QueueOptions(dead_letter_to="later"))
        await queues.declare("later", QueueOptions(message_ttl=200, dead_letter_to="work"))
        await publish(queues, b"1", name="work")

        async def back() -> Message | None:
            return await queues.take("work")

        for _ in range(3):
            await queues.rejected(await eventually(back))
        assert (await eventually(back)).body == b"1"

    in_cluster(check)


def test_one_that_is_published_at_least_once_waits_rather_than_going_round() -> None:
    async def check(world: World) -> None:
        queues = await queues_on(world, "n1")
        options = QueueOptions(
            message_ttl=200, overflow="reject_publish", dead_letter_strategy="at_least_once", dead_letter_to="a"
        )
        await queues.declare("a", options)
        await publish(queues, b"1", name="a")
        await asyncio.sleep(3)
        assert await grown(world, "queue.1") <= AT_REST
        report = await queues.status("a")
        assert (report.ready, report.dead_letters) == (0, 1)

    in_cluster(check)


@pytest.mark.parametrize(("most", "says_needed"), [(10_000, True), (0, False)])
def test_qq6_what_a_queue_lets_go_is_said_also_where_it_has_too_many_messages_to_count(
    monkeypatch: pytest.MonkeyPatch, most: int, says_needed: bool
) -> None:
    """Else the log of a queue that was long seems to be gone without a word (rule `let-go`)."""
    monkeypatch.setattr("splitbrain.cluster.queues.state.COUNTED_ANEW", most)

    def said(world: World) -> list[dict[str, int]] | None:
        lines = [line for node in THREE for line in world.telemetry[node] if line["event"] == "released"]
        what: list[dict[str, int]] = [msgspec.convert(line["counted"], dict[str, int]) for line in lines]
        return [each for each in what if each["let_go"]] or None

    async def check(world: World) -> None:
        queues = await declared(world)
        await publish(queues, b"a", b"b")
        assert await queues.take("orders", settle=True) is not None

        async def is_said() -> list[dict[str, int]] | None:
            return said(world)

        for each in await eventually(is_said, 30):
            assert ("needed" in each) == says_needed
            assert each.get("needed", each["let_go"] + 1) > each["let_go"] >= each["base"]

    in_cluster(check)
