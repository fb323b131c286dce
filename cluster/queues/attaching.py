"""Consumers come and go: attach, dequeue, cancel, remove (QQ-1, QQ-3, QQ-4)."""

from __future__ import annotations

from splitbrain.cluster.queues.commands import Attach, Cancel, Dequeue, Prefetch, Remove
from splitbrain.cluster.queues.consumers import Consumer
from splitbrain.cluster.queues.effects import ConsumerCancelled, MonitorProcess
from splitbrain.cluster.queues.finishing import finish
from splitbrain.cluster.queues.limits import enforce
from splitbrain.cluster.queues.replies import Attached, Cancelled, Dequeued, NothingToDequeue, QueueRefused, Reply
from splitbrain.cluster.queues.serving import drop_expired, give_back_all, hand_to, settle
from splitbrain.cluster.queues.state import QueueState
from splitbrain.cluster.queues.step import Step


def attach(state: QueueState, step: Step, command: Attach) -> Reply:
    """A consumer begins, or changes how it consumes."""
    key = state.key_of(command.consumer)
    if key is None:
        key = command.consumer if command.keyed_by_id else step.index
    known = state.consumers.get(key)
    if known is not None and _is_continued(state, known):
        consumer = known
        consumer.merge(command.life, command.mode, command.priority)
        state.keep(consumer, step.now)
    else:
        consumer = Consumer.new(key, command.consumer, command.life, command.mode, command.priority)
        if state.config.single_active_consumer:
            state.wait(consumer)
        else:
            state.keep(consumer, step.now)
    reply = Attached(key, consumer.next_msg_id, consumer.credit, consumer.delivery_count, len(consumer.checked_out))
    step.effects.append(MonitorProcess(command.consumer.process))
    finish(state, step)
    return reply


def _is_continued(state: QueueState, known: Consumer) -> bool:
    """Whether a consumer that is attached again goes on as it is; else it waits for its turn as a new one."""
    if not state.config.single_active_consumer:
        return True
    active = state.active
    return active is None or (active is known and known.status == "up")


def dequeue(state: QueueState, step: Step, command: Dequeue) -> Reply:
    """Hand out one message, to a consumer that is there for it alone."""
    if state.config.single_active_consumer:
        return QueueRefused("unsupported_single_active_consumer")
    state.last_active = step.now
    if not state.ready or state.find(command.consumer) is not None:
        return NothingToDequeue()
    drop_expired(state, step)
    if not state.ready:
        enforce(state, step)
        return NothingToDequeue()
    consumer = Consumer.new(command.consumer, command.consumer, "once", Prefetch(1), 0)
    number, message = hand_to(state, consumer)
    state.keep(consumer, step.now)
    if command.settles:
        settle(state, step, consumer, (number,))
        finish(state, step)
        left = len(state.ready)
    else:
        step.effects.append(MonitorProcess(command.consumer.process))
        left = len(state.ready)
        enforce(state, step)
    return Dequeued(number, message.index, message.acquired, message.failed, message.annotations, left)


def cancel(state: QueueState, step: Step, command: Cancel | Remove) -> Reply:
    """A consumer wants no more messages. It settles what it has, or with `Remove` gives that back."""
    key = state.key_of(command.consumer)
    if key is None:
        return QueueRefused("consumer_not_found")
    waited = len(state.waiting)
    state.waiting = [each for each in state.waiting if each.key != key]
    consumer = state.consumers.get(key)
    if consumer is not None:
        if isinstance(command, Cancel):
            consumer.life, consumer.credit, consumer.status = "once", 0, "cancelled"
            state.service.discard(key)
            state.keep(consumer, step.now)
        else:
            end(state, step, consumer, failed=False)
    if consumer is not None or len(state.waiting) < waited:
        step.effects.append(ConsumerCancelled(command.consumer))
    finish(state, step)
    kept = state.consumers.get(key)
    return Cancelled(None, None) if kept is None else Cancelled(key, len(kept.checked_out))


def end(state: QueueState, step: Step, consumer: Consumer, failed: bool) -> None:
    """A consumer is gone; what it has is given back."""
    give_back_all(state, step, consumer, failed)
    state.drop(consumer)
    state.last_active = step.now
