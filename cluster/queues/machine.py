"""The state machine of a quorum queue: applies commands, and says what is to be done (QQ-1 to QQ-7).

It is pure: every replica that applies the same commands under the same indexes and times comes to the same state, and
gives the same effects. What it does follows RabbitMQ 4.0.5 (rabbit_fifo, D18); docs/queues.md says where it does not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from splitbrain.cluster.bugs import M72, NO_BUGS, Bugs
from splitbrain.cluster.queues import attaching, downs
from splitbrain.cluster.queues.commands import (
    Attach,
    AttachDeadLetterWorker,
    Cancel,
    CollectGarbage,
    Credit,
    Credited,
    Dequeue,
    Discard,
    Enqueue,
    Expire,
    Modify,
    NodeDown,
    NodeUp,
    ProcessDown,
    Purge,
    PurgeNodes,
    QueueCommand,
    RegisterEnqueuer,
    Remove,
    Requeue,
    Return,
    Settle,
    SettleDeadLetters,
    UpdateConfig,
)
from splitbrain.cluster.queues.config import QueueConfig
from splitbrain.cluster.queues.consumers import Consumer
from splitbrain.cluster.queues.effects import (
    Confirm,
    CreditReply,
    DeadLettersConfirmed,
    DeadLettersDropped,
    DeleteQueue,
    Effect,
    EndOfLife,
    KnownNodes,
    LeaderChange,
    MonitorNode,
    MonitorProcess,
    Release,
    SetExpiryTimer,
    WriteCheckpoint,
)
from splitbrain.cluster.queues.finishing import finish
from splitbrain.cluster.queues.limits import enforce, is_below_soft_limit, is_over_limit, is_unused
from splitbrain.cluster.queues.messages import NO_ANNOTATIONS, Message
from splitbrain.cluster.queues.replies import (
    ACCEPTED,
    CreditGranted,
    NotEnqueued,
    Purged,
    QueueRefused,
    RejectsPublish,
    Reply,
)
from splitbrain.cluster.queues.serving import discard, give_back, settle
from splitbrain.cluster.queues.state import QueueState
from splitbrain.cluster.queues.step import Step
from splitbrain.cluster.queues.succession import change_strategy


class Applied(msgspec.Struct, frozen=True):
    """What an entry comes to: the answer to its command, and what is to be done, in this order."""

    reply: Reply
    effects: tuple[Effect, ...]


class QuorumQueue:
    """A queue after the commands that were applied so far.

    Args:
        config: as it was declared.
        bugs: those that are switched on.

    Attributes:
        state: all that it knows.
    """

    def __init__(self, config: QueueConfig, bugs: Bugs = NO_BUGS) -> None:
        self.state = QueueState(config, bugs)

    def apply(self, index: int, now: int, command: QueueCommand) -> Applied:
        """Carry out the next command.

        Args:
            index: of its entry in the log; higher than all before it.
            now: when the leader took it, in ms since the Unix epoch.
            command: what to do.
        """
        state = self.state
        step = Step(index, now, state.config.has_length_limit, is_below_soft_limit(state))
        reply = _HANDLERS[type(command)](state, step, command)
        self._follow_up(step)
        return Applied(reply, tuple(step.effects))

    def _follow_up(self, step: Step) -> None:
        state = self.state
        expiry = state.ready.next_expiry
        if expiry != state.timer_ms:
            state.timer_ms = expiry
            step.effects.append(SetExpiryTimer(expiry))
        kept = state.total + len(state.dead_letters)
        if state.checkpoints.is_due(step.index, step.now, kept, step.checkpoint):
            step.effects += (WriteCheckpoint(), self.release(step.index))

    def release(self, applied: int) -> Release:
        """What the log may let go, when entries up to `applied` are applied: all before the first live message."""
        lowest = self.state.lowest_live_index
        return Release(applied if lowest is None else lowest - 1)

    # --- what the leader asks, without an entry of the log ------------------------------------------------------------

    def tick(self, applied: int, now: int) -> Sequence[Effect]:
        """What is to be done from time to time (every 5 s)."""
        state = self.state
        if is_unused(state, now):
            return (DeleteQueue(),)
        nodes = sorted({process.node for process in state.processes()})
        return KnownNodes(tuple(nodes)), self.release(applied)

    def begin_leading(self) -> Sequence[Effect]:
        """What a new leader is to do: timer and monitors end with the leader before it."""
        processes = self.state.processes()
        nodes = sorted({process.node for process in processes})
        return (
            SetExpiryTimer(self.state.ready.next_expiry),
            *map(MonitorProcess, processes),
            *map(LeaderChange, processes),
            *map(MonitorNode, nodes),
        )

    def deleted(self) -> Sequence[Effect]:
        """What is to be done when the queue is deleted."""
        return tuple(map(EndOfLife, self.state.processes()))

    def peek(self, position: int) -> Message | None:
        """The message that is served after `position` - 1 others, None if there is none."""
        return next((message for at, message in enumerate(self.state.ready, start=1) if at == position), None)

    # --- as bytes -----------------------------------------------------------------------------------------------------

    def dump(self) -> bytes:
        """The state; equal bytes for equal states."""
        return self.state.dump()

    @classmethod
    def load(cls, data: bytes, bugs: Bugs = NO_BUGS) -> QuorumQueue:
        """The queue whose dump this is.

        Raises:
            msgspec.DecodeError: these bytes are no dump (msgspec.ValidationError is one).
        """
        queue = cls.__new__(cls)
        queue.state = QueueState.load(data, bugs)
        return queue

    @property
    def state_hash(self) -> str:
        """Equal for equal states; takes time in the number of messages."""
        return self.state.hash


# --- publishing -------------------------------------------------------------------------------------------------------


def _enqueue(state: QueueState, step: Step, command: Enqueue) -> Reply:
    publisher, seq = command.publisher, command.seq
    if publisher is not None and seq is not None:
        if state.enqueuers.register(publisher, seq if M72 in state.bugs else 1):
            step.effects.append(MonitorProcess(publisher))
        sequenced = state.enqueuers.sequence(publisher, seq)
        if sequenced == "out_of_order":
            return NotEnqueued()
        step.effects.append(Confirm(publisher, seq))
        if sequenced == "duplicate":
            return ACCEPTED
    elif publisher is not None or seq is not None:
        return QueueRefused("invalid_command", "a message has both a publisher and a number, or neither")
    lives = [ttl for ttl in (command.ttl, state.config.message_ttl) if ttl is not None]
    expiry = step.now + max(1, min(lives)) if lives else None
    message = Message(step.index, len(command.body), expiry, 0, command.failed, command.annotations)
    state.ready.push(message, command.priority)
    step.body = command.body
    finish(state, step)
    return ACCEPTED


def _register_enqueuer(state: QueueState, step: Step, command: RegisterEnqueuer) -> Reply:
    state.enqueuers.register(command.publisher)
    step.effects.append(MonitorProcess(command.publisher))
    rejects = state.config.overflow == "reject_publish" and is_over_limit(state)
    return RejectsPublish() if rejects else ACCEPTED


# --- messages that consumers have -------------------------------------------------------------------------------------


def _settle(state: QueueState, step: Step, command: Settle) -> Reply:
    consumer = state.find(command.consumer)
    if consumer is not None:
        settle(state, step, consumer, command.ids)
        finish(state, step)
    return ACCEPTED


def _return(state: QueueState, step: Step, command: Return) -> Reply:
    return _given_back(state, step, state.find(command.consumer), command.ids, False, NO_ANNOTATIONS)


def _discard(state: QueueState, step: Step, command: Discard) -> Reply:
    consumer = state.find(command.consumer)
    if consumer is not None:
        discard(state, step, consumer, command.ids, True, NO_ANNOTATIONS)
        finish(state, step)
    return ACCEPTED


def _modify(state: QueueState, step: Step, command: Modify) -> Reply:
    consumer, failed = state.find(command.consumer), command.delivery_failed
    if not command.undeliverable_here:
        return _given_back(state, step, consumer, command.ids, failed, command.annotations)
    if consumer is not None:
        discard(state, step, consumer, command.ids, failed, command.annotations)
        finish(state, step)
    return ACCEPTED


def _given_back(
    state: QueueState,
    step: Step,
    consumer: Consumer | None,
    ids: Sequence[int],
    failed: bool,
    annotations: dict[str, Any],
) -> Reply:
    if consumer is not None:
        give_back(state, step, consumer, ids, failed, annotations)
        state.keep(consumer, step.now)
        finish(state, step)
    return ACCEPTED


def _requeue(state: QueueState, step: Step, command: Requeue) -> Reply:
    consumer = state.find(command.consumer)
    if consumer is None or command.id not in consumer.checked_out:
        return ACCEPTED
    taken = state.take_back(consumer, (command.id,))[0]
    state.live.discard(taken.index)
    message = taken.given_back(False, NO_ANNOTATIONS)
    message.index = step.index
    state.ready.push(message)
    step.body = command.body
    state.keep(consumer, step.now)
    finish(state, step)
    return ACCEPTED


def _credit(state: QueueState, step: Step, command: Credit) -> Reply:
    consumer = state.consumers.get(command.consumer)
    if consumer is not None:
        consumer.grant(command)
        state.offer(consumer)
        finish(state, step)
        available = len(state.ready)
    else:
        consumer = next((each for each in state.waiting if each.key == command.consumer), None)
        if consumer is None:
            return ACCEPTED
        consumer.grant(command)
        available = 0
    return _credit_reply(state, step, command, consumer, available)


def _credit_reply(state: QueueState, step: Step, command: Credit, consumer: Consumer, available: int) -> Reply:
    waits = consumer.key not in state.consumers
    first_version = not isinstance(consumer.mode, Credited)
    drained = consumer.drain() if command.drain and not (first_version and waits) else None
    if waits:
        state.wait(consumer)  # its place may have changed
    if first_version:
        return CreditGranted(available, drained)
    step.effects.append(CreditReply(consumer.id, consumer.delivery_count, consumer.credit, available, command.drain))
    return ACCEPTED


# --- the queue --------------------------------------------------------------------------------------------------------


def _purge(state: QueueState, step: Step, _: Purge) -> Reply:
    count = len(state.ready)
    for index in state.ready.clear():
        state.live.discard(index)
    step.checkpoint = True
    enforce(state, step)
    return Purged(count)


def _update_config(state: QueueState, step: Step, command: UpdateConfig) -> Reply:
    before, state.config = state.config, command.config
    state.last_active = command.config.created
    if before.dead_letter != command.config.dead_letter:
        dropped = state.dead_letters.clear()
        for index in dropped:
            state.live.discard(index)
        if dropped:
            step.effects.append(DeadLettersDropped(len(dropped)))
    if before.single_active_consumer != command.config.single_active_consumer:
        change_strategy(state, step.now)
    finish(state, step)
    return ACCEPTED


def _expire(state: QueueState, step: Step, _: Expire) -> Reply:
    state.timer_ms = None  # it has run out
    finish(state, step)
    return ACCEPTED


def _attach_worker(state: QueueState, step: Step, command: AttachDeadLetterWorker) -> Reply:
    if state.config.dead_letter == "at_least_once":
        state.dead_letters.attach(command.worker, command.prefetch)
    finish(state, step)
    return ACCEPTED


def _settle_dead_letters(state: QueueState, step: Step, command: SettleDeadLetters) -> Reply:
    indexes = state.dead_letters.settle(command.ids)
    if indexes is not None:
        for index in indexes:
            state.live.discard(index)
        step.effects.append(DeadLettersConfirmed(len(indexes)))
    finish(state, step)
    return ACCEPTED


def _nothing(_state: QueueState, _step: Step, _: CollectGarbage | NodeDown) -> Reply:
    return ACCEPTED


_HANDLERS: Final[dict[type, Callable[[QueueState, Step, Any], Reply]]] = {
    Enqueue: _enqueue,
    RegisterEnqueuer: _register_enqueuer,
    Attach: attaching.attach,
    Dequeue: attaching.dequeue,
    Cancel: attaching.cancel,
    Remove: attaching.cancel,
    Settle: _settle,
    Return: _return,
    Discard: _discard,
    Modify: _modify,
    Requeue: _requeue,
    Credit: _credit,
    Purge: _purge,
    PurgeNodes: downs.purge_nodes,
    UpdateConfig: _update_config,
    CollectGarbage: _nothing,
    Expire: _expire,
    AttachDeadLetterWorker: _attach_worker,
    SettleDeadLetters: _settle_dead_letters,
    ProcessDown: downs.process_down,
    NodeUp: downs.node_up,
    NodeDown: _nothing,
}
