"""What a quorum queue asks to be done outside of it, as values.

The leader carries them out. They get lost when it fails after it has applied an entry, and its successor may carry them
out again: consumers know deliveries by their ids, publishers confirms by their numbers. `WriteCheckpoint` and `Release`
are for every member.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from splitbrain.cluster.queues.commands import Annotations
from splitbrain.cluster.queues.config import Strategy
from splitbrain.cluster.queues.identities import ConsumerId, Process

Reason: TypeAlias = Literal["expired", "rejected", "maxlen", "delivery_limit"]

# --- messages ---------------------------------------------------------------------------------------------------------


class Confirm(msgspec.Struct, frozen=True, array_like=True, tag="confirm"):
    """The message of this number is in the queue, or was (QQ-2)."""

    to: Process
    seq: int


class Delivered(msgspec.Struct, frozen=True, array_like=True):
    """A message for a consumer.

    Attributes:
        id: the consumer settles it by this.
        index: of the entry that has the body.
        acquired: how often it was given back before.
        failed: how many of its deliveries failed.
        annotations: what `Modify` added.
        body: if the command that brought the message delivers it; else it is read from the log.
    """

    id: int
    index: int
    acquired: int
    failed: int
    annotations: Annotations
    body: bytes | None


class Deliver(msgspec.Struct, frozen=True, array_like=True, tag="deliver"):
    """Send messages to a consumer, in this order."""

    consumer: ConsumerId
    messages: tuple[Delivered, ...]


class DeadLettered(msgspec.Struct, frozen=True, array_like=True):
    """A message that is published elsewhere: the entry with its body, and what is added to it."""

    index: int
    failed: int
    annotations: Annotations


class DeadLetter(msgspec.Struct, frozen=True, array_like=True, tag="dead_letter"):
    """Messages left the queue unsettled (QQ-5).

    Attributes:
        reason: why.
        strategy: what happens to them: nothing more, or they are published now, at most once, or they wait for the
            worker.
        count: how many.
        messages: those to publish now, in order.
    """

    reason: Reason
    strategy: Strategy
    count: int
    messages: tuple[DeadLettered, ...]


class DeadLetterDelivery(msgspec.Struct, frozen=True, array_like=True):
    """A dead letter for the worker, which settles it by its id once all targets have confirmed it."""

    id: int
    reason: Reason
    index: int
    failed: int
    annotations: Annotations


class DeliverDeadLetters(msgspec.Struct, frozen=True, array_like=True, tag="deliver_dead_letters"):
    """Send dead letters to the worker, in this order."""

    to: Process
    messages: tuple[DeadLetterDelivery, ...]


class DeadLettersConfirmed(msgspec.Struct, frozen=True, array_like=True, tag="dead_letters_confirmed"):
    """The worker has settled so many."""

    count: int


class DeadLettersDropped(msgspec.Struct, frozen=True, array_like=True, tag="dead_letters_dropped"):
    """So many waited for the worker when the configuration did away with it."""

    count: int


# --- notifications ----------------------------------------------------------------------------------------------------


class QueueStatus(msgspec.Struct, frozen=True, array_like=True, tag="queue_status"):
    """A publisher is asked to stop, or to go on (QQ-7)."""

    to: Process
    status: Literal["reject_publish", "go"]


class CreditReply(msgspec.Struct, frozen=True, array_like=True, tag="credit_reply"):
    """What became of credit (version 2): after the deliveries of the same command."""

    consumer: ConsumerId
    delivery_count: int
    credit: int
    available: int
    drain: bool


class LeaderChange(msgspec.Struct, frozen=True, array_like=True, tag="leader_change"):
    """This replica leads now."""

    to: Process


class EndOfLife(msgspec.Struct, frozen=True, array_like=True, tag="end_of_life"):
    """The queue is deleted."""

    to: Process


class ConsumerCancelled(msgspec.Struct, frozen=True, array_like=True, tag="consumer_cancelled"):
    """The consumer gets no more messages."""

    consumer: ConsumerId


ActivityStatus: TypeAlias = Literal["up", "single_active", "suspected_down"]


class ConsumerActivity(msgspec.Struct, frozen=True, array_like=True, tag="consumer_activity"):
    """Whether a consumer gets messages has changed (QQ-4)."""

    consumer: ConsumerId
    active: bool
    status: ActivityStatus


# --- the world --------------------------------------------------------------------------------------------------------


class MonitorProcess(msgspec.Struct, frozen=True, array_like=True, tag="monitor_process"):
    """Put a `ProcessDown` into the log when it is gone, or its node cannot be reached."""

    process: Process


class MonitorNode(msgspec.Struct, frozen=True, array_like=True, tag="monitor_node"):
    """Put a `NodeUp` into the log when it can be reached again."""

    node: str


class SetExpiryTimer(msgspec.Struct, frozen=True, array_like=True, tag="set_expiry_timer"):
    """Put an `Expire` into the log at this time (ms since the Unix epoch), and not when it was due before; None: not
    at all.
    """

    at_ms: int | None


class DeleteQueue(msgspec.Struct, frozen=True, array_like=True, tag="delete_queue"):
    """The queue was not used for too long (QQ-7)."""


class KnownNodes(msgspec.Struct, frozen=True, array_like=True, tag="known_nodes"):
    """The nodes of all processes that the queue knows, sorted: those that are gone for good are to be purged."""

    nodes: tuple[str, ...]


class WriteCheckpoint(msgspec.Struct, frozen=True, array_like=True, tag="write_checkpoint"):
    """Write down the state after this entry (QQ-6)."""


class Release(msgspec.Struct, frozen=True, array_like=True, tag="release"):
    """No message needs an entry up to this index: the log may begin at a checkpoint of one of them (QQ-6)."""

    index: int


Effect: TypeAlias = (
    Confirm
    | Deliver
    | DeadLetter
    | DeliverDeadLetters
    | DeadLettersConfirmed
    | DeadLettersDropped
    | QueueStatus
    | CreditReply
    | LeaderChange
    | EndOfLife
    | ConsumerCancelled
    | ConsumerActivity
    | MonitorProcess
    | MonitorNode
    | SetExpiryTimer
    | DeleteQueue
    | KnownNodes
    | WriteCheckpoint
    | Release
)
