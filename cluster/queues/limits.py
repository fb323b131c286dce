"""Length limits, and when a queue that is not used is to go (QQ-7)."""

from __future__ import annotations

from splitbrain.cluster.queues.effects import QueueStatus
from splitbrain.cluster.queues.messages import Message
from splitbrain.cluster.queues.state import QueueState
from splitbrain.cluster.queues.step import Step


def is_over_limit(state: QueueState) -> bool:
    """Whether there is more than may be; dead letters that are not confirmed count, what consumers have does not."""
    config = state.config
    if config.max_length is not None and _length(state) > config.max_length:
        return True
    return config.max_bytes is not None and _bytes(state) > config.max_bytes


def is_below_soft_limit(state: QueueState) -> bool:
    """Whether there is so little that publishers may go on: at most 80 % of each limit; without a limit it is not."""
    config = state.config
    if not config.has_length_limit:
        return False
    if config.max_length is not None and _length(state) > _soft(config.max_length):
        return False
    return config.max_bytes is None or _bytes(state) <= _soft(config.max_bytes)


def _length(state: QueueState) -> int:
    return len(state.ready) + len(state.dead_letters)


def _bytes(state: QueueState) -> int:
    return state.ready.bytes + state.dead_letters.bytes


def _soft(limit: int) -> int:
    return limit * 8 // 10


def enforce(state: QueueState, step: Step) -> None:
    """Drop the oldest messages, or ask publishers to stop, or let them go on."""
    config = state.config
    if not config.has_length_limit:
        if step.had_limit:
            _unblock(state, step)
        return
    if config.overflow == "drop_head":
        dropped = list[Message]()
        while state.ready and is_over_limit(state):
            dropped.append(state.ready.take()[0])
        if dropped:
            state.dead_letter(step, dropped, "maxlen")
    elif is_over_limit(state):
        step.effects.extend(QueueStatus(process, "reject_publish") for process in state.enqueuers.block())
    elif not step.was_below and is_below_soft_limit(state):
        _unblock(state, step)


def _unblock(state: QueueState, step: Step) -> None:
    step.effects.extend(QueueStatus(process, "go") for process in state.enqueuers.unblock())


def is_unused(state: QueueState, now: int) -> bool:
    """Whether the queue is to be deleted: nothing consumed from it for longer than it may be so.

    A suspected consumer does not keep it, nor does one that waits, nor do messages.
    """
    expires = state.config.expires
    if expires is None or state.last_active is None or now <= state.last_active + expires:
        return False
    return all(consumer.status == "suspected_down" for consumer in state.consumers.values())
