"""What a queue asks for, as effects of its group's machine.

Bodies of messages are read from the log by the leader. A body that is not there any more belongs to a message that was
settled by a later entry (QQ-6): such a message is left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Final

from msgspec import structs

from splitbrain.cluster import machine
from splitbrain.cluster.machine import (
    AppendCommand,
    MachineEffect,
    MonitorClient,
    PublishDeadLetters,
    PutIntoQueue,
    ReadLog,
    ReleaseCursor,
    SendToClient,
    SetTimer,
    SetTimerAt,
)
from splitbrain.cluster.queuegroups import circles, log, notes
from splitbrain.cluster.queuegroups.log import Retire, address_of
from splitbrain.cluster.queuegroups.notes import Event, Note
from splitbrain.cluster.queues import Process, encode_command
from splitbrain.cluster.queues.commands import Enqueue
from splitbrain.cluster.queues.effects import (
    Confirm,
    ConsumerActivity,
    ConsumerCancelled,
    CreditReply,
    DeadLetter,
    DeadLetterDelivery,
    DeadLettered,
    DeadLettersConfirmed,
    DeadLettersDropped,
    DeleteQueue,
    Deliver,
    DeliverDeadLetters,
    Effect,
    EndOfLife,
    KnownNodes,
    LeaderChange,
    MonitorNode,
    MonitorProcess,
    QueueStatus,
    Reason,
    Release,
    SetExpiryTimer,
    WriteCheckpoint,
)
from splitbrain.cluster.raft import Entry

EXPIRY: Final = "expiry"
"""The timer of the oldest message."""

_IN_ONE_NOTE: Final = 32
"""Messages at most: each has at most as many bytes as a request."""


def carried_out(effects: Sequence[Effect], group: str, dead_letter_to: str | None) -> Iterator[MachineEffect]:
    """What the machine of a group asks for, in this order.

    Args:
        effects: of its queue.
        group: its name.
        dead_letter_to: the queue that gets dead letters, None if they go nowhere.
    """
    for effect in effects:
        match effect:
            case Deliver():
                yield from _delivered(effect, group)
            case Confirm() | QueueStatus() | LeaderChange() | EndOfLife():
                yield _sent(effect.to, effect, group)
            case CreditReply() | ConsumerCancelled() | ConsumerActivity():
                yield _sent(effect.consumer.process, effect, group)
            case DeadLetter():
                if effect.messages and dead_letter_to is not None:
                    yield _dead_lettered(effect, group, dead_letter_to)
            case DeliverDeadLetters():
                if dead_letter_to is not None:
                    yield _for_worker(effect, group, dead_letter_to)
            case KnownNodes() | DeadLettersConfirmed() | DeadLettersDropped():
                pass  # figures for operators, which are in the state as well
            case _:
                yield _in_the_world(effect)


def _in_the_world(
    effect: MonitorProcess | MonitorNode | SetExpiryTimer | DeleteQueue | WriteCheckpoint | Release,
) -> MachineEffect:
    match effect:
        case MonitorProcess(process):
            return MonitorClient(address_of(process))
        case MonitorNode(node):
            # What a queue suspects may be up again by now, and would not be mentioned otherwise.
            return machine.MonitorNode(node, is_down=True)
        case SetExpiryTimer(at_ms):
            return SetTimer(EXPIRY, None) if at_ms is None else SetTimerAt(EXPIRY, at_ms)
        case DeleteQueue():
            return AppendCommand(log.encode(Retire()))
        case WriteCheckpoint():
            return machine.WriteCheckpoint()
        case Release(index):
            return ReleaseCursor(index)


def _sent(to: Process, event: Event, group: str) -> SendToClient:
    return SendToClient(address_of(to), notes.encode(Note(group, event)))


def _delivered(effect: Deliver, group: str) -> Iterator[MachineEffect]:
    for first in range(0, len(effect.messages), _IN_ONE_NOTE):
        part = structs.replace(effect, messages=effect.messages[first : first + _IN_ONE_NOTE])
        missing = tuple(message.index for message in part.messages if message.body is None)
        if missing:
            yield ReadLog(missing, partial(_with_bodies, part, group))
        else:
            yield _sent(part.consumer.process, part, group)


def _with_bodies(effect: Deliver, group: str, entries: tuple[Entry, ...]) -> Sequence[MachineEffect]:
    bodies = _bodies(entries)
    messages = tuple(
        message if message.body is not None else structs.replace(message, body=bodies[message.index])
        for message in effect.messages
        if message.body is not None or message.index in bodies
    )
    return (_sent(effect.consumer.process, structs.replace(effect, messages=messages), group),) if messages else ()


def _dead_lettered(effect: DeadLetter, group: str, to: str) -> ReadLog:
    return ReadLog(tuple(message.index for message in effect.messages), partial(_published, effect, group, to))


def _published(effect: DeadLetter, group: str, to: str, entries: tuple[Entry, ...]) -> Sequence[MachineEffect]:
    bodies = _bodies(entries)
    return tuple(
        PutIntoQueue(to, _letter(bodies[message.index], message, group, effect.reason))
        for message in effect.messages
        if message.index in bodies
    )


def _for_worker(effect: DeliverDeadLetters, group: str, to: str) -> ReadLog:
    return ReadLog(tuple(message.index for message in effect.messages), partial(_letters, effect, group, to))


def _letters(effect: DeliverDeadLetters, group: str, to: str, entries: tuple[Entry, ...]) -> Sequence[MachineEffect]:
    bodies = _bodies(entries)  # all of them: a dead letter that was not settled keeps its entry
    letters = tuple((each.id, _letter(bodies[each.index], each, group, each.reason)) for each in effect.messages)
    return (PublishDeadLetters(effect.to.name, to, letters),)


def _letter(body: bytes, message: DeadLettered | DeadLetterDelivery, group: str, reason: Reason) -> bytes:
    """The command that publishes a dead letter, and says why it is one, as RabbitMQ's annotations do."""
    before = circles.noted(message.annotations, group, reason)
    annotations = {notes.FIRST_REASON: reason, **before, notes.LAST_REASON: reason}
    return encode_command(Enqueue(None, None, body, annotations=annotations))


def _bodies(entries: tuple[Entry, ...]) -> Mapping[int, bytes]:
    return {entry.index: log.body_of(entry.data) for entry in entries}
