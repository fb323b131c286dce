"""The single active consumer, and who succeeds it (QQ-4)."""

from __future__ import annotations

from splitbrain.cluster.queues.consumers import Consumer, in_succession
from splitbrain.cluster.queues.effects import ConsumerActivity
from splitbrain.cluster.queues.state import QueueState
from splitbrain.cluster.queues.step import Step


def activate_next(state: QueueState, step: Step) -> None:
    """Let the first of those that wait become active if there is no active one, or it has a higher priority.

    One that is superseded settles what it has before: it quiesces, and the other waits until then.
    """
    if not state.config.single_active_consumer or not state.waiting or state.waiting[0].status != "up":
        return
    active, successor = state.active, state.waiting[0]
    if active is None:
        _activate(state, step, successor)
    elif successor.priority > active.priority:
        if active.checked_out:
            active.status = "quiescing"
        else:
            state.drop(active)
            _activate(state, step, successor)
            if successor.key != active.key:  # else it was attached again, and succeeds itself
                state.wait(active)


def _activate(state: QueueState, step: Step, successor: Consumer) -> None:
    state.waiting = state.waiting[1:]
    _admit(state, successor)
    step.effects.append(ConsumerActivity(successor.id, True, "single_active"))


def _admit(state: QueueState, consumer: Consumer) -> None:
    """One that waited begins to consume; it may have been attached again, and have messages from before."""
    before = state.consumers.get(consumer.key)
    if before is not None:
        before.merge(consumer.life, consumer.mode, consumer.priority)
        consumer = before
    state.consumers[consumer.key] = consumer
    state.offer(consumer)


def set_status_of_waiting(state: QueueState, node: str, suspected: bool) -> None:
    """A node can, or cannot, be reached."""
    for consumer in state.waiting:
        if consumer.id.process.node == node:
            consumer.status = "suspected_down" if suspected else "up"
    state.waiting = in_succession(state.waiting)


def activate_all(state: QueueState, node: str) -> None:
    """Let all that wait on a node become active (M73)."""
    coming = [consumer for consumer in state.waiting if consumer.id.process.node == node]
    state.waiting = [consumer for consumer in state.waiting if consumer.id.process.node != node]
    for consumer in coming:
        _admit(state, consumer)


def change_strategy(state: QueueState, now: int) -> None:
    """Whether there is a single active consumer has changed.

    With one, the others begin to wait once they have settled what they have; without, all that wait begin to consume.
    """
    if not state.config.single_active_consumer:
        waiting, state.waiting = state.waiting, []
        for consumer in waiting:
            _admit(state, consumer)
        for consumer in state.in_order():
            if consumer.status == "quiescing":
                consumer.status = "up"
                state.offer(consumer)
        return
    up = in_succession([consumer for consumer in state.in_order() if consumer.status == "up"])
    for consumer in up[1:]:
        consumer.status = "quiescing"
        state.keep(consumer, now)
    for consumer in state.in_order():
        if consumer.status == "suspected_down":
            state.drop(consumer)
            state.wait(consumer)
