"""Dead letters at least once (QQ-5): the worker alone, and on whole nodes with leaders that change."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from msgspec import structs

from splitbrain.cluster.bugs import M75, NO_BUGS, Bugs
from splitbrain.cluster.client import InvalidRequestError, QueueOptions, Queues
from splitbrain.cluster.marks import counted
from splitbrain.cluster.queueclient import Message
from splitbrain.cluster.queuegroups.worker import RETRY_MS, DeadLetterWorker
from tests.cluster.queuegroups.support import THREE, in_cluster, leader_of, queues_on
from tests.cluster.support import World, eventually

AT_LEAST_ONCE = QueueOptions(
    delivery_limit=0, overflow="reject_publish", dead_letter_to="dead", dead_letter_strategy="at_least_once"
)


class Shell:
    """What a worker does, as lists."""

    def __init__(self, bugs: Bugs = NO_BUGS) -> None:
        self.sent: list[tuple[str, bytes, Callable[[bool], None]]] = []
        self.settled: list[int] = []
        self.later: list[tuple[int, Callable[[], None]]] = []
        self.worker = DeadLetterWorker(
            "7",
            lambda queue, command, answered: self.sent.append((queue, command, answered)),
            self.settled.append,
            lambda ms, call: self.later.append((ms, call)),
            bugs,
        )


def test_a_dead_letter_is_settled_once_its_queue_confirms_it_and_not_before() -> None:
    shell = Shell()
    shell.worker.take("dead", [(0, b"a"), (1, b"b")])
    assert [each[:2] for each in shell.sent] == [("dead", b"a"), ("dead", b"b")]
    assert shell.settled == []
    shell.sent[1][2](True)
    assert shell.settled == [1]


def test_a_dead_letter_that_is_not_confirmed_is_published_again_until_it_is() -> None:
    shell = Shell()
    shell.worker.take("dead", [(0, b"a")])
    for _ in range(2):
        shell.sent[-1][2](False)
        delay_ms, again = shell.later.pop()
        assert delay_ms == RETRY_MS
        again()
    assert [each[:2] for each in shell.sent] == [("dead", b"a")] * 3
    shell.sent[-1][2](True)
    assert (shell.settled, shell.later) == ([0], [])


def test_a_worker_whose_leadership_is_over_settles_and_publishes_nothing() -> None:
    """The next worker gets the same letters under other ids: to settle by the old ones would lose others."""
    shell = Shell()
    shell.worker.take("dead", [(0, b"a"), (1, b"b")])
    shell.sent[1][2](False)
    shell.worker.end()
    shell.sent[0][2](True)
    shell.later[0][1]()
    assert (shell.settled, len(shell.sent)) == ([], 2)


def test_m75_settles_before_the_queue_confirms_and_does_not_try_again() -> None:
    shell = Shell(Bugs([M75.id]))
    shell.worker.take("dead", [(0, b"a")])
    assert shell.settled == [0]
    shell.sent[0][2](False)
    assert (shell.settled, shell.later) == ([0], [])


# --- on whole nodes ---------------------------------------------------------------------------------------------------


async def taken(queues: Queues, count: int) -> list[Message]:
    """So many messages of the queue for dead letters, as they come."""
    found: list[Message] = []

    async def more() -> bool | None:
        while (message := await queues.take("dead", settle=True)) is not None:
            found.append(message)
        return True if len(found) >= count else None

    await eventually(more)
    return found


async def refused(queues: Queues, *bodies: bytes) -> None:
    """Publish messages, and refuse them."""
    publisher = queues.publisher("orders")
    for body in bodies:
        await publisher.publish(body)
        message = await queues.take("orders")
        assert message is not None
        await queues.rejected(message)


def test_dead_letters_arrive_with_their_reason_and_are_settled() -> None:
    async def check(world: World) -> None:
        queues = await queues_on(world, "n1")
        await queues.declare("dead")
        await queues.declare("orders", AT_LEAST_ONCE)
        await refused(queues, b"refused")
        await queues.publisher("orders").publish(b"poison")
        message = await queues.take("orders")
        assert message is not None
        assert message.dead_because is None
        await queues.given_back(message)
        letters = await taken(queues, 2)
        assert {(each.body, each.dead_because) for each in letters} == {
            (b"refused", "rejected"),
            (b"poison", "delivery_limit"),
        }

        async def settled() -> bool | None:
            return True if (await queues.status("orders")).dead_letters == 0 else None

        await eventually(settled)

    in_cluster(check)


def test_a_dead_letter_that_becomes_one_again_says_why_the_last_time() -> None:
    async def check(world: World) -> None:
        queues = await queues_on(world, "n1")
        await queues.declare("dead")
        between = QueueOptions(delivery_limit=0, dead_letter_to="dead")
        await queues.declare("between", between)
        await queues.declare("orders", structs.replace(AT_LEAST_ONCE, dead_letter_to="between"))
        await refused(queues, b"a")
        message = await eventually(lambda: queues.take("between"))
        assert message.dead_because == "rejected"
        await queues.given_back(message)
        assert [each.dead_because for each in await taken(queues, 1)] == ["delivery_limit"]

    in_cluster(check)


def test_dead_letters_wait_for_a_queue_that_is_not_there_yet() -> None:
    async def check(world: World) -> None:
        queues = await queues_on(world, "n1")
        await queues.declare("orders", AT_LEAST_ONCE)
        with counted() as marks:
            await refused(queues, b"a")
            await asyncio.sleep(2)
            assert marks["dead letter not confirmed"] > 1
        assert (await queues.status("orders")).dead_letters == 1
        await queues.declare("dead")
        assert [each.body for each in await taken(queues, 1)] == [b"a"]

    in_cluster(check)


def test_what_a_leader_did_not_settle_is_published_by_the_next_one() -> None:
    async def check(world: World) -> None:
        queues = await queues_on(world, "n1")
        await queues.declare("orders", AT_LEAST_ONCE)
        await refused(queues, b"a", b"b")
        leads = await leader_of(world, "queue.1")
        await world.kill(leads)
        new = await leader_of(world, "queue.1")
        there = await queues_on(world, new)
        await there.declare("dead")
        bodies = [each.body for each in await taken(there, 2)]
        assert sorted(set(bodies)) == [b"a", b"b"]

    in_cluster(check)


def test_a_member_that_does_not_lead_any_more_publishes_nothing() -> None:
    async def check(world: World) -> None:
        queues = await queues_on(world, "n1")
        await queues.declare("orders", AT_LEAST_ONCE)
        await refused(queues, b"a")  # and there is no queue that takes it: the worker goes on trying
        world.cut = {(a, b) for a in THREE for b in THREE if a != b}

        async def none_leads() -> bool | None:
            return all(node.status("queue.1").role != "leader" for node in world.nodes.values()) or None

        await eventually(none_leads)
        with counted() as marks:
            await asyncio.sleep(3)
            assert marks["dead letter not confirmed"] == 0

    in_cluster(check)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (QueueOptions(dead_letter_to="dead", dead_letter_strategy="at_least_once"), "overflow reject_publish"),
        (QueueOptions(overflow="reject_publish", dead_letter_strategy="at_least_once"), "say dead_letter_to"),
    ],
)
def test_options_that_do_not_go_together_are_refused(options: QueueOptions, words: str) -> None:
    async def check(world: World) -> None:
        with pytest.raises(InvalidRequestError, match=words):
            await (await queues_on(world, "n1")).declare("orders", options)

    in_cluster(check)
