"""The quorum queue machine by its items: what RabbitMQ's cases do not show, and where ours differs (docs/queues.md)."""

from __future__ import annotations

import msgspec
import pytest

from splitbrain.cluster.errors import InvalidRequestError
from splitbrain.cluster.queues import Process, QueueConfig, QuorumQueue, commands, decode_command, encode_command, state
from splitbrain.cluster.queues.checkpoints import MAX_INDEXES, MIN_INDEXES, Checkpoints
from splitbrain.cluster.queues.commands import (
    Attach,
    AttachDeadLetterWorker,
    Cancel,
    Credit,
    Credited,
    Dequeue,
    Discard,
    Enqueue,
    Expire,
    Modify,
    NodeUp,
    Prefetch,
    ProcessDown,
    Purge,
    PurgeNodes,
    Requeue,
    Return,
    Settle,
    SettleDeadLetters,
    UpdateConfig,
)
from splitbrain.cluster.queues.effects import (
    Confirm,
    ConsumerActivity,
    DeadLetter,
    DeadLettersDropped,
    Deliver,
    DeliverDeadLetters,
    Release,
    SetExpiryTimer,
    WriteCheckpoint,
)
from splitbrain.cluster.queues.messages import Message
from splitbrain.cluster.queues.replies import Attached, Cancelled, Dequeued, NothingToDequeue, QueueRefused
from tests.cluster.queues.machine import PUBLISHER, Log, consumer

EVERY_COMMAND: list[commands.QueueCommand] = [
    Enqueue(PUBLISHER, 1, b"body", 10, 9, 2),
    Enqueue(None, None, b"", annotations={"x": "y"}),
    commands.RegisterEnqueuer(PUBLISHER),
    Attach(consumer("a"), "once", Prefetch(3), -2, True),
    Attach(consumer("a"), "auto", Credited(2**32 - 1)),
    Attach(consumer("a"), "auto", commands.CreditedV1()),
    Dequeue(consumer("a"), True),
    Cancel(consumer("a")),
    commands.Remove(consumer("a")),
    Settle(7, (0, 1)),
    Return(consumer("a"), (2,)),
    Discard(7, ()),
    Modify(7, (1,), True, False, {"x": [1, "y", None]}),
    Requeue(7, 1, b"body"),
    Credit(7, 5, 2**32 - 1, True),
    Purge(),
    PurgeNodes(("n1", "n2")),
    UpdateConfig(QueueConfig("reject_publish", 1, 2, 3, 4, 5, -1, True, "at_least_once")),
    commands.CollectGarbage(),
    Expire(),
    AttachDeadLetterWorker(PUBLISHER, 32),
    SettleDeadLetters((0,)),
    ProcessDown(PUBLISHER, True),
    commands.NodeUp("n1"),
    commands.NodeDown("n1"),
]

# --- commands in the log ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", EVERY_COMMAND, ids=lambda command: type(command).__name__)
def test_qq_1_a_command_is_read_from_the_log_as_it_was_written(command: commands.QueueCommand) -> None:
    assert decode_command(encode_command(command)) == command


def test_qq_1_each_kind_of_command_is_among_those_and_is_carried_out() -> None:
    assert {type(command) for command in EVERY_COMMAND} == set(commands.QueueCommand.__args__)
    log = Log()
    for command in EVERY_COMMAND:
        log.apply(command)


def test_qq_5_what_is_said_of_a_message_when_it_is_published_is_said_when_it_is_delivered() -> None:
    """Also behind a snapshot: why it is a dead letter, for one."""
    queue = QuorumQueue(QueueConfig())
    queue.apply(1, 0, Enqueue(None, None, b"body", annotations={"x": "y"}))
    reply = QuorumQueue.load(queue.dump()).apply(2, 0, Dequeue(consumer("a"), False)).reply
    assert isinstance(reply, Dequeued)
    assert reply.annotations == {"x": "y"}


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff",
        msgspec.msgpack.encode(["colour"]),
        msgspec.msgpack.encode(["enqueue", ["p", "n"], -1, b"x"]),
        msgspec.msgpack.encode(["attach", ["c", ["p", "n"]], "short", ["prefetch", 1]]),
        msgspec.msgpack.encode(["attach", ["c", ["p", "n"]], "auto", ["prefetch", -1]]),
        msgspec.msgpack.encode(["dlx_attach", ["p", "n"], 0]),
        msgspec.msgpack.encode(["credit", 1, -1, 0, False]),
    ],
)
def test_qq_1_what_is_no_command_is_one_clear_error(data: bytes) -> None:
    with pytest.raises(InvalidRequestError, match="no command of a queue"):
        decode_command(data)


def test_qq_1_an_annotation_that_msgpack_cannot_carry_is_one_clear_error() -> None:
    with pytest.raises(InvalidRequestError, match="cannot carry"):
        encode_command(Modify(1, (0,), False, False, {"x": object()}))


# --- publishing -------------------------------------------------------------------------------------------------------


def test_qq_2_a_message_and_its_duplicate_are_confirmed_and_one_out_of_order_is_not() -> None:
    log = Log()
    log.apply(Enqueue(PUBLISHER, 1, b"a"))
    assert log.of(Confirm) == [Confirm(PUBLISHER, 1)]
    log.apply(Enqueue(PUBLISHER, 1, b"a"))
    assert log.of(Confirm) == [Confirm(PUBLISHER, 1)]
    log.apply(Enqueue(PUBLISHER, 3, b"c"))
    assert log.of(Confirm) == []
    assert len(log.queue.state.ready) == 1


@pytest.mark.parametrize(("publisher", "seq"), [(PUBLISHER, None), (None, 1)])
def test_qq_2_a_message_with_half_of_what_tracks_it_is_refused(publisher: Process | None, seq: int | None) -> None:
    log = Log()
    reply = log.apply(Enqueue(publisher, seq, b"a")).reply
    assert isinstance(reply, QueueRefused)
    assert reply.reason == "invalid_command"
    assert log.queue.state.total == 0


def test_qq_6_a_delivery_has_the_body_only_if_its_command_brought_it() -> None:
    log = Log()
    log.enqueue(b"first")
    log.attach("a", 2)
    assert isinstance(delivery := log.of(Deliver)[0], Deliver)
    assert delivery.messages[0].body is None
    log.enqueue(b"second")
    assert isinstance(delivery := log.of(Deliver)[0], Deliver)
    assert delivery.messages[0].body == b"second"


# --- consuming --------------------------------------------------------------------------------------------------------


def test_qq_3_a_message_that_is_named_twice_is_given_back_once() -> None:
    """RabbitMQ 4.0.5 puts it into the queue twice."""
    log = Log()
    log.enqueue()
    key = log.attach("a", 1)
    log.apply(Return(key, (0, 0)))
    assert log.queue.state.total == 1
    assert log.delivered() == [("a", 1, 1)]


def test_qq_5_a_message_that_is_named_twice_is_dead_lettered_once() -> None:
    """RabbitMQ 4.0.5 publishes it twice."""
    log = Log(QueueConfig(dead_letter="at_most_once"))
    log.enqueue()
    key = log.attach("a", 1)
    log.apply(Discard(key, (0, 0)))
    assert [letter.count for letter in log.of(DeadLetter) if isinstance(letter, DeadLetter)] == [1]


def test_qq_3_a_dequeue_takes_the_message_itself_though_a_consumer_has_credit() -> None:
    """After `PurgeNodes` messages are ready beside a consumer with credit; RabbitMQ 4.0.5 may give it the message."""
    log = Log()
    log.enqueue()
    log.attach("gone", 1, node="n3")
    log.attach("other", 1)
    log.apply(PurgeNodes(("n3",)))
    assert log.delivered() == []
    assert log.queue.state.ready.returned == 1
    reply = log.apply(Dequeue(consumer("third"), False)).reply
    assert isinstance(reply, Dequeued)
    assert (reply.id, reply.index, reply.acquired, reply.failed) == (0, 1, 1, 1)


def test_qq_3_a_dequeue_of_nothing_but_expired_messages_gives_none() -> None:
    log = Log(QueueConfig(dead_letter="at_most_once"))
    log.enqueue(ttl=5)
    log.now = 5
    assert log.apply(Dequeue(consumer("a"), True)).reply == NothingToDequeue()
    assert len(log.of(DeadLetter)) == 1
    assert log.queue.state.consumers == {}


def test_qq_3_credit_for_a_cancelled_consumer_does_not_keep_it() -> None:
    """RabbitMQ 4.0.5 never forgets such a consumer, which keeps the queue from expiring."""
    log = Log()
    log.enqueue()
    key = log.attach("a", Credited(0))
    log.apply(Credit(key, 1, 0, False))
    log.apply(Cancel(consumer("a")))
    log.apply(Credit(key, 5, 1, False))
    log.apply(Settle(key, (0,)))
    assert log.queue.state.consumers == {}


def test_qq_3_a_delivery_limit_of_less_than_zero_is_none() -> None:
    log = Log(QueueConfig(delivery_limit=-1))
    log.enqueue()
    key = log.attach("a", 1)
    for number in range(50):
        log.apply(Return(key, (number,)))
    assert log.delivered() == [("a", 50, 1)]


def test_qq_3_a_consumer_that_waits_keeps_its_place_until_it_is_served_also_with_another_priority() -> None:
    """As in RabbitMQ 4.0.5, whose queue of consumers has each key once."""
    log = Log(QueueConfig())
    log.attach("b", 1)
    log.attach("a", 2, priority=1)
    log.attach("a", 2, priority=-1)
    log.enqueue()
    assert [tag for tag, _, _ in log.delivered()] == ["a"]
    log.enqueue()
    assert [tag for tag, _, _ in log.delivered()] == ["b"]


def test_qq_4_a_quiescing_consumer_that_gives_its_last_message_back_is_succeeded_at_once() -> None:
    """RabbitMQ 4.0.5 leaves the queue without an active consumer until the next one comes or goes."""
    log = Log(QueueConfig(single_active_consumer=True))
    log.enqueue()
    first = log.attach("a", 1)
    log.attach("b", 1, priority=1)
    log.apply(Return(first, (0,)))
    assert log.delivered() == [("b", 0, 1)]
    assert ConsumerActivity(consumer("b"), True, "single_active") in log.effects


@pytest.mark.parametrize("single", [False, True])
def test_qq_4_only_consumers_on_a_node_that_is_down_are_suspected(single: bool) -> None:
    """And only they are up again once it is."""
    log = Log(QueueConfig(single_active_consumer=single))
    log.attach("a", 1)
    log.attach("b", 1, node="n3")
    log.apply(ProcessDown(consumer("b", "n3").process, True))
    every = [*log.queue.state.consumers.values(), *log.queue.state.waiting]
    assert {each.id.tag: each.status for each in every} == {"a": "up", "b": "suspected_down"}
    log.enqueue()
    assert log.delivered() == [("a", 0, log.index)]
    log.apply(NodeUp("n2"))
    assert [each.status for each in every if each.id.tag == "b"] == ["suspected_down"]
    log.apply(NodeUp("n3"))
    assert {each.status for each in every} == {"up"}


def test_qq_4_no_consumer_is_lost_when_the_node_of_an_active_and_a_cancelled_one_is_suspected() -> None:
    """RabbitMQ 4.0.5 forgets the active one."""
    log = Log(QueueConfig(single_active_consumer=True))
    log.enqueue()
    log.attach("a", 1)
    log.apply(Cancel(consumer("a")))
    log.attach("b", 1)
    log.attach("c", 1, node="n3")
    log.apply(ProcessDown(consumer("b").process, True))
    assert [each.id.tag for each in log.queue.state.consumers.values()] == ["c"]
    assert [(each.id.tag, each.status) for each in log.queue.state.waiting] == [("b", "suspected_down")]
    assert log.delivered() == [("c", 0, 1)], "what the cancelled one had is given back as well"


def test_qq_4_a_cancelled_consumer_that_is_attached_again_is_active_when_its_turn_comes() -> None:
    """RabbitMQ 4.0.5 says that it is active, and keeps it cancelled."""
    log = Log(QueueConfig(single_active_consumer=True))
    log.enqueue()
    log.attach("a", 1)
    log.apply(Cancel(consumer("a")))
    log.attach("b", 1)
    log.attach("a", 2)
    log.apply(Cancel(consumer("b")))
    log.enqueue()
    assert log.delivered() == [("a", 1, log.index)]
    assert log.queue.state.checked_out == 2


def test_qq_4_a_cancel_also_finds_a_consumer_that_waits_while_it_still_has_messages() -> None:
    log = Log(QueueConfig(single_active_consumer=True))
    log.enqueue()
    key = log.attach("a", 1)
    log.apply(Cancel(consumer("a")))
    log.attach("b", 1)
    log.attach("a", 2)
    assert log.apply(Cancel(consumer("a"))).reply == Cancelled(key, 1)
    assert log.queue.state.waiting == []


def test_qq_4_an_active_consumer_that_is_removed_is_succeeded_by_the_same_command() -> None:
    log = Log(QueueConfig(single_active_consumer=True))
    log.enqueue()
    log.attach("a", 1)
    log.attach("b", 1)
    log.apply(commands.Remove(consumer("a")))
    assert log.delivered() == [("b", 0, 1)]
    assert ConsumerActivity(consumer("b"), True, "single_active") in log.effects


def test_qq_4_after_purge_nodes_the_next_command_finds_an_active_consumer() -> None:
    log = Log(QueueConfig(single_active_consumer=True))
    log.attach("a", 1, node="n3")
    log.attach("b", 1)
    log.apply(PurgeNodes(("n3",)))
    log.enqueue()
    assert log.delivered() == [("b", 0, log.index)]


def test_qq_4_with_a_single_active_consumer_from_now_on_only_one_gets_messages() -> None:
    log = Log()
    first = log.attach("a", 2)
    second = log.attach("b", 2)
    for _ in range(2):
        log.enqueue()
    assert len(log.queue.state.consumers) == 2
    log.apply(UpdateConfig(QueueConfig(single_active_consumer=True)))
    log.enqueue()
    log.enqueue()
    assert {tag for tag, _, _ in log.delivered()} <= {"a"}
    log.apply(Settle(second, (0,)))
    assert [each.id.tag for each in log.queue.state.waiting] == ["b"]
    log.apply(Settle(first, (0,)))
    assert log.delivered() == [("a", 2, log.index - 2)]


def test_qq_4_without_a_single_active_consumer_from_now_on_all_get_messages() -> None:
    log = Log(QueueConfig(single_active_consumer=True))
    log.attach("a", 1)
    log.attach("b", 1)
    for _ in range(2):
        log.enqueue()
    log.apply(UpdateConfig(QueueConfig()))
    assert [tag for tag, _, _ in log.delivered()] == ["b"]
    assert log.queue.state.waiting == []


# --- dead letters and limits ------------------------------------------------------------------------------------------


def at_least_once() -> Log:
    return Log(QueueConfig(overflow="reject_publish", dead_letter="at_least_once"))


def test_qq_5_what_an_old_worker_did_not_settle_comes_to_the_new_one_in_the_same_order() -> None:
    log = at_least_once()
    key = log.attach("a", 4)
    indexes = [log.enqueue() for _ in range(4)]
    log.apply(Discard(key, (0, 1, 2, 3)))
    log.apply(AttachDeadLetterWorker(Process("w1", "n1"), 3))
    log.apply(SettleDeadLetters((1,)))
    log.apply(AttachDeadLetterWorker(Process("w2", "n2"), 32))
    delivered = [
        (letter.id, letter.index)
        for effect in log.effects
        if isinstance(effect, DeliverDeadLetters)
        for letter in effect.messages
    ]
    assert delivered == [(0, indexes[0]), (1, indexes[2]), (2, indexes[3])]
    log.apply(SettleDeadLetters((0, 1, 2)))
    assert (len(log.queue.state.dead_letters), log.queue.state.dead_letters.bytes) == (0, 0)
    assert log.queue.state.lowest_live_index is None


def test_qq_5_another_strategy_gives_up_what_waits_for_the_worker_and_says_how_much() -> None:
    log = at_least_once()
    key = log.attach("a", 2)
    log.enqueue()
    log.apply(Discard(key, (0,)))
    log.apply(UpdateConfig(QueueConfig()))
    assert log.of(DeadLettersDropped) == [DeadLettersDropped(1)]
    assert log.queue.state.lowest_live_index is None


def test_qq_5_what_is_dropped_above_a_limit_does_not_wait_for_the_worker() -> None:
    """It would count towards the limit for which it was dropped; RabbitMQ 4.0.5 never comes to an end of dropping."""
    log = Log(QueueConfig(max_length=1, dead_letter="at_least_once"))
    key = log.attach("a", 1)
    log.enqueue()
    log.apply(Discard(key, (0,)))
    log.apply(Cancel(consumer("a")))
    log.enqueue()
    letter = log.of(DeadLetter)[0]
    assert isinstance(letter, DeadLetter)
    assert (letter.reason, letter.strategy, letter.count) == ("maxlen", "at_most_once", 1)
    assert log.queue.state.total == 0


def test_qq_7_the_timer_is_set_for_the_oldest_message_and_stopped_when_there_is_none() -> None:
    log = Log()
    log.now = 100
    log.enqueue(ttl=10)
    assert log.of(SetExpiryTimer) == [SetExpiryTimer(110)]
    log.enqueue(ttl=1)
    assert log.of(SetExpiryTimer) == [], "only the head can expire"
    log.now = 110
    log.apply(Expire())
    assert log.queue.state.total == 0
    assert log.of(SetExpiryTimer) == []
    log.enqueue(ttl=10)
    assert log.of(SetExpiryTimer) == [SetExpiryTimer(120)]
    log.apply(Purge())
    assert log.of(SetExpiryTimer) == [SetExpiryTimer(None)]


def test_qq_7_a_timer_that_runs_out_too_early_is_set_again() -> None:
    """The clock of a new leader may be behind that of the one which took the message."""
    log = Log()
    log.now = 100
    log.enqueue(ttl=10)
    log.now = 105
    log.apply(Expire())
    assert log.of(SetExpiryTimer) == [SetExpiryTimer(110)]
    assert log.queue.begin_leading()[0] == SetExpiryTimer(110)


# --- snapshots --------------------------------------------------------------------------------------------------------


def released(log: Log) -> int:
    """Up to where the queue lets its log go; that is as far as it may, when its messages are counted one by one."""
    release = log.queue.release(log.index)
    assert log.queue.state.first_needed(log.index) == release.index + 1
    return release.index


def test_qq_6_the_log_may_be_released_up_to_the_first_message_that_is_needed() -> None:
    log = at_least_once()
    key = log.attach("a", 1)
    first, second = log.enqueue(), log.enqueue()
    assert released(log) == first - 1
    log.apply(Return(key, (0,)))
    assert released(log) == first - 1
    log.apply(Discard(key, (1,)))
    assert released(log) == first - 1, "a dead letter needs its entry"
    log.apply(AttachDeadLetterWorker(PUBLISHER, 1))
    log.apply(SettleDeadLetters((0,)))
    assert released(log) == second - 1
    log.apply(Requeue(key, 2, b"x"))
    assert released(log) == log.index - 1, "the body is in the newer entry"
    log.apply(Settle(key, (3,)))
    assert released(log) == log.index


@pytest.mark.parametrize("single", [False, True])
def test_qq_4_consumers_that_are_suspected_have_nothing(single: bool) -> None:
    log = Log(QueueConfig(single_active_consumer=single))
    log.attach("a", 2)
    log.enqueue()
    held = next(iter(log.queue.state.consumers.values()))
    assert (len(held.checked_out), log.queue.state.withheld) == (1, 0)
    log.apply(ProcessDown(held.id.process, True))
    assert log.queue.state.withheld == 0
    others = [*log.queue.state.consumers.values(), *log.queue.state.waiting]
    assert [each.status for each in others] == ["suspected_down"]
    others[0].checked_out[0] = Message(1, 1)
    assert log.queue.state.withheld == 1


def test_qq_6_of_very_many_messages_none_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state, "COUNTED_ANEW", 1)
    log = at_least_once()
    first = log.enqueue()
    assert log.queue.state.first_needed(log.index) == first
    log.enqueue()
    assert log.queue.state.first_needed(log.index) is None


def test_qq_6_checkpoints_come_after_enough_entries_and_enough_time_and_fewer_with_more_messages() -> None:
    checkpoints = Checkpoints()
    assert not checkpoints.is_due(MIN_INDEXES, 5000, 0, False)
    assert not checkpoints.is_due(MIN_INDEXES + 1, 1000, 0, False)
    assert checkpoints.is_due(MIN_INDEXES + 1, 1001, 10**6, False)
    assert not checkpoints.is_due(MAX_INDEXES, 10**6, 10**6, False)
    assert checkpoints.is_due(MIN_INDEXES + 1 + MAX_INDEXES + 1, 10**6, 10**6, False)
    assert checkpoints.is_due(2 * MAX_INDEXES, 2 * 10**6, 0, False), "an empty queue is a small one"
    assert checkpoints.is_due(2 * MAX_INDEXES + 1, 2 * 10**6, 10**6, True)


def test_qq_6_a_purge_writes_a_checkpoint() -> None:
    log = Log()
    log.enqueue()
    log.apply(Purge())
    assert log.effects == (WriteCheckpoint(), Release(log.index))


def test_qq_6_what_is_no_snapshot_is_refused() -> None:
    dumped = msgspec.msgpack.decode(Log().queue.dump())
    for broken in (b"", b"x", msgspec.msgpack.encode([2, *dumped[1:]])):
        with pytest.raises(msgspec.DecodeError):
            QuorumQueue.load(broken)
    dumped[2][0] = b"12345678"
    with pytest.raises(msgspec.DecodeError, match="no whole number of messages"):
        QuorumQueue.load(msgspec.msgpack.encode(dumped))


def test_qq_6_a_queue_with_many_messages_is_as_before_when_it_is_read_again() -> None:
    """More than one chunk of a lane, the first in part used up."""
    log = Log()
    for number in range(3000):
        log.enqueue(b"x" * (number % 7), ttl=number if number % 5 == 0 else None, priority=number % 9)
    key = log.attach("a", 700)
    log.apply(Return(key, tuple(range(0, 700, 3))))
    loaded = QuorumQueue.load(log.queue.dump())
    assert loaded.state_hash == log.queue.state_hash
    assert list(loaded.state.ready) == list(log.queue.state.ready)
    ours, theirs = log.queue.state, loaded.state
    assert (ours.ready.bytes, ours.ready.expiring, ours.total) == (
        theirs.ready.bytes,
        theirs.ready.expiring,
        theirs.total,
    )
    command = Settle(key, tuple(range(1, 700, 3)))
    assert loaded.apply(log.index + 1, 0, command) == log.queue.apply(log.index + 1, 0, command)
    assert loaded.state_hash == log.queue.state_hash


def test_qq_3_an_attach_gives_the_consumer_as_it_was_before_messages_were_handed_out() -> None:
    log = Log()
    log.enqueue()
    reply = log.apply(Attach(consumer("a"), "auto", Prefetch(3))).reply
    assert reply == Attached(log.index, 0, 3, 0, 0)
