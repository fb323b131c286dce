"""Handing messages out, and taking them back (QQ-3)."""

from __future__ import annotations

from collections.abc import Sequence

from splitbrain.cluster.bugs import M71
from splitbrain.cluster.queues.commands import Annotations
from splitbrain.cluster.queues.consumers import Consumer
from splitbrain.cluster.queues.effects import Delivered
from splitbrain.cluster.queues.messages import Message
from splitbrain.cluster.queues.state import QueueState
from splitbrain.cluster.queues.step import Step


def hand_out(state: QueueState, step: Step) -> None:
    """Give consumers all that is ready, as far as they take it; what is too old at the head goes before."""
    ready = state.ready
    while True:
        drop_expired(state, step)
        if not ready:
            break
        consumer = _next_consumer(state)
        if consumer is None:
            break
        number, message = hand_to(state, consumer)
        state.keep(consumer, step.now)
        body = step.body if message.index == step.index else None
        step.deliver(
            consumer.id,
            Delivered(number, message.index, message.acquired, message.failed, message.annotations, body),
        )
    step.end_deliveries()


def hand_to(state: QueueState, consumer: Consumer) -> tuple[int, Message]:
    """Give a consumer the next message, and its id. There is a message."""
    message, was_returned = state.ready.take()
    if not was_returned:
        state.live.add(message.index)
    state.checked_out += 1
    state.bytes_checked_out += message.size
    state.service.discard(consumer.key)
    return consumer.hand_out(message), message


def _next_consumer(state: QueueState) -> Consumer | None:
    while (key := state.service.head) is not None:
        consumer = state.consumers[key]
        if consumer.takes_messages:
            return consumer
        state.service.discard(key)  # drained, or suspected, or superseded meanwhile
    return None


def drop_expired(state: QueueState, step: Step) -> None:
    """Dead-letter what is too old at the head; what is behind a message that is not stays, however old."""
    ready = state.ready
    if not ready.expiring:
        return
    expired = list[Message]()
    while (expiry := ready.next_expiry) is not None and step.now >= expiry:
        expired.append(ready.take()[0])
    state.dead_letter(step, expired, "expired")


def settle(state: QueueState, step: Step, consumer: Consumer, ids: Sequence[int]) -> None:
    """A consumer is done with messages."""
    settled = state.take_back(consumer, ids)
    for message in settled:
        state.live.discard(message.index)
    if settled:
        state.keep(consumer, step.now)


def discard(
    state: QueueState, step: Step, consumer: Consumer, ids: Sequence[int], failed: bool, annotations: Annotations
) -> None:
    """A consumer refuses messages: dead letters, in its order."""
    refused = [message.given_back(failed, annotations) for message in state.take_back(consumer, ids)]
    state.dead_letter(step, refused, "rejected")
    if refused:
        state.keep(consumer, step.now)


def give_back(
    state: QueueState, step: Step, consumer: Consumer, ids: Sequence[int], failed: bool, annotations: Annotations
) -> None:
    """A consumer gives messages back, in this order; those that were given back too often are dead letters."""
    limit = state.config.limit_of_deliveries
    over = list[Message]()
    for taken in state.take_back(consumer, ids):
        message = taken if failed and M71 in state.bugs else taken.given_back(failed, annotations)
        if limit is not None and message.acquired > limit:
            over.append(message)
        else:
            state.ready.give_back(message)
    state.dead_letter(step, over, "delivery_limit")


def give_back_all(state: QueueState, step: Step, consumer: Consumer, failed: bool) -> None:
    """All that a consumer has, by message id."""
    give_back(state, step, consumer, sorted(consumer.checked_out), failed, {})
