"""What clients of a queue are sent, and answered."""

from __future__ import annotations

from typing import Final, TypeAlias

import msgspec

from splitbrain.cluster.queues.commands import Annotations
from splitbrain.cluster.queues.effects import (
    Confirm,
    ConsumerActivity,
    ConsumerCancelled,
    CreditReply,
    Deliver,
    EndOfLife,
    LeaderChange,
    QueueStatus,
)
from splitbrain.cluster.queues.replies import Reply

FIRST_REASON: Final = "x-first-death-reason"
LAST_REASON: Final = "x-last-death-reason"
"""Annotations of dead letters: why the message was one the first time, and the last time."""

Event: TypeAlias = (
    Confirm | Deliver | CreditReply | QueueStatus | LeaderChange | EndOfLife | ConsumerCancelled | ConsumerActivity
)
"""What a process hears of a queue. In a `Deliver` all messages have their bodies."""


class Note(msgspec.Struct, frozen=True, array_like=True):
    """A message of a queue to a client's connection.

    Attributes:
        group: of the queue.
        event: what it says.
    """

    group: str
    event: Event


class Taken(msgspec.Struct, frozen=True, array_like=True, tag="taken"):
    """The answer to a `Dequeue` that took a message.

    Attributes:
        id: to settle it by.
        acquired: how often it was given back before.
        failed: how many of its deliveries failed.
        annotations: what was added to it.
        ready: how many messages are left.
        body: of the message.
    """

    id: int
    acquired: int
    failed: int
    annotations: Annotations
    ready: int
    body: bytes


class Unready(msgspec.Struct, frozen=True, array_like=True, tag="unready"):
    """The queue carried out nothing.

    Attributes:
        is_deleted: whether it is being deleted; else it has just been declared, and has no configuration yet.
    """

    is_deleted: bool


Answered: TypeAlias = Reply | Taken | Unready


class QueueReport(msgspec.Struct, frozen=True):
    """How a queue is, as its leader knows it.

    Attributes:
        is_configured: whether it takes commands: not yet in the first moments.
        is_deleted: whether it takes none any more.
        ready: messages that may be handed out.
        ready_bytes: of their bodies.
        checked_out: messages that consumers have.
        consumers: how many there are, without those that are suspected.
        publishers: how many are known.
        dead_letters: that wait.
    """

    is_configured: bool = False
    is_deleted: bool = False
    ready: int = 0
    ready_bytes: int = 0
    checked_out: int = 0
    consumers: int = 0
    publishers: int = 0
    dead_letters: int = 0


STATUS = "status"
"""The question that is answered with a `QueueReport`."""

_encoder = msgspec.msgpack.Encoder(order="deterministic")
_note: msgspec.msgpack.Decoder[Note] = msgspec.msgpack.Decoder(Note)
_answered: msgspec.msgpack.Decoder[Answered] = msgspec.msgpack.Decoder(Answered)
_report: msgspec.msgpack.Decoder[QueueReport] = msgspec.msgpack.Decoder(QueueReport)


def encode(message: Note | Answered | QueueReport) -> bytes:
    """As bytes."""
    return _encoder.encode(message)


def decode_note(data: bytes) -> Note:
    """A message to a client.

    Raises:
        msgspec.DecodeError: it is none.
    """
    return _note.decode(data)


def decode_answered(data: bytes) -> Answered:
    """The answer to a command.

    Raises:
        msgspec.DecodeError: it is none.
    """
    return _answered.decode(data)


def decode_report(data: bytes) -> QueueReport:
    """How a queue is.

    Raises:
        msgspec.DecodeError: it is none.
    """
    return _report.decode(data)
