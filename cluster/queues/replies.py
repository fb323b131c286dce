"""What a command of a quorum queue is answered with."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from splitbrain.cluster.queues.commands import Annotations
from splitbrain.cluster.queues.identities import ConsumerKey

Refusal: TypeAlias = Literal["unsupported_single_active_consumer", "consumer_not_found", "invalid_command"]


class Accepted(msgspec.Struct, frozen=True, array_like=True, tag="ok"):
    """The command was carried out; for a message that came before: it is in the queue, or was."""


class NotEnqueued(msgspec.Struct, frozen=True, array_like=True, tag="not_enqueued"):
    """Messages of the publisher before this one are missing; it must send them, and this one, again (QQ-2)."""


class RejectsPublish(msgspec.Struct, frozen=True, array_like=True, tag="reject_publish"):
    """The queue is above its length limit: the publisher is asked to stop (QQ-7)."""


class Attached(msgspec.Struct, frozen=True, array_like=True, tag="attached"):
    """A consumer as it was before the command handed out messages."""

    key: ConsumerKey
    next_msg_id: int
    credit: int
    delivery_count: int
    checked_out: int


class Dequeued(msgspec.Struct, frozen=True, array_like=True, tag="dequeued"):
    """A message; its body stands in the log.

    Attributes:
        id: to settle it by.
        index: of the entry that has the body.
        acquired: how often it was given back before.
        failed: how many deliveries failed.
        annotations: what `Modify` added.
        ready: how many messages are left.
    """

    id: int
    index: int
    acquired: int
    failed: int
    annotations: Annotations
    ready: int


class NothingToDequeue(msgspec.Struct, frozen=True, array_like=True, tag="empty"):
    """No message could be given."""


class Cancelled(msgspec.Struct, frozen=True, array_like=True, tag="cancelled"):
    """The consumer gets no more; key and number of the messages that it keeps, None if it keeps none."""

    key: ConsumerKey | None
    checked_out: int | None


class CreditGranted(msgspec.Struct, frozen=True, array_like=True, tag="credit"):
    """Credit, version 1: how many messages are ready, and how much credit was taken back (None: no drain)."""

    available: int
    drained: int | None


class Purged(msgspec.Struct, frozen=True, array_like=True, tag="purged"):
    """So many messages were forgotten."""

    count: int


class QueueRefused(msgspec.Struct, frozen=True, array_like=True, tag="refused"):
    """The command changed nothing, for this reason."""

    reason: Refusal
    detail: str = ""


Reply: TypeAlias = (
    Accepted
    | NotEnqueued
    | RejectsPublish
    | Attached
    | Dequeued
    | NothingToDequeue
    | Cancelled
    | CreditGranted
    | Purged
    | QueueRefused
)

ACCEPTED = Accepted()
