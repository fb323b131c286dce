"""Commands of a quorum queue (QQ-1), and how they stand in the log: msgpack, as those of the tree.

A command that names a consumer does so by its key: the index of the entry that attached it, or its id, which also finds
a consumer with an index (`Credit` alone wants the key). Message ids count up from 0 for each consumer.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import Meta

from splitbrain.cluster.errors import InvalidRequestError
from splitbrain.cluster.queues.config import QueueConfig
from splitbrain.cluster.queues.identities import ConsumerId, ConsumerKey, Process

Count: TypeAlias = Annotated[int, Meta(ge=0, lt=2**62)]
SerialNumber: TypeAlias = Annotated[int, Meta(ge=0, lt=2**32)]
MessageIds: TypeAlias = tuple[Count, ...]
Annotations: TypeAlias = dict[str, Any]

DEFAULT_PRIORITY = 4
"""Of a message that says none; what is above it goes ahead (QQ-2)."""

# --- publishing -------------------------------------------------------------------------------------------------------


class Enqueue(msgspec.Struct, frozen=True, array_like=True, tag="enqueue"):
    """Publish a message (QQ-2).

    Attributes:
        publisher: None, with no `seq`: the message is not tracked, and a copy of this command is another message.
        seq: of its publisher, from 1.
        body: stays in the log; the queue holds its size.
        ttl: the message is too old after so many ms; 0: in the next one.
        priority: above 4 it goes ahead of others, two of three times.
        failed: deliveries that failed before it came to this queue.
        annotations: what is said of it besides its body: of a dead letter, why it is one.
    """

    publisher: Process | None
    seq: Count | None
    body: bytes
    ttl: Count | None = None
    priority: int = DEFAULT_PRIORITY
    failed: Annotated[int, Meta(ge=0, lt=2**31)] = 0
    annotations: Annotations = {}


class RegisterEnqueuer(msgspec.Struct, frozen=True, array_like=True, tag="register_enqueuer"):
    """Ask whether the queue takes messages, and hear of it when that changes (QQ-7)."""

    publisher: Process


# --- consuming --------------------------------------------------------------------------------------------------------


class Prefetch(msgspec.Struct, frozen=True, array_like=True, tag="prefetch"):
    """So many messages at most are with the consumer; settling or giving back one makes room for another."""

    count: Count


class Credited(msgspec.Struct, frozen=True, array_like=True, tag="credited"):
    """The consumer grants credit, version 2: counts are serial numbers of 32 bits (RFC 1982)."""

    delivery_count: SerialNumber


class CreditedV1(msgspec.Struct, frozen=True, array_like=True, tag="credited_v1"):
    """The consumer grants credit, version 1."""


Mode: TypeAlias = Prefetch | Credited | CreditedV1
Life: TypeAlias = Literal["auto", "once"]


class Attach(msgspec.Struct, frozen=True, array_like=True, tag="attach"):
    """Begin to consume, or change how a consumer does.

    Attributes:
        consumer: its id.
        life: "once": the consumer gets as many messages as it has credit for at first, and then is gone.
        mode: how it gets credit.
        priority: of consumers with credit the highest is served first.
        keyed_by_id: whether its key is its id, and not the index of this entry.
    """

    consumer: ConsumerId
    life: Life
    mode: Mode
    priority: int = 0
    keyed_by_id: bool = False


class Dequeue(msgspec.Struct, frozen=True, array_like=True, tag="dequeue"):
    """Take one message; with `settles` it is settled at once."""

    consumer: ConsumerId
    settles: bool


class Cancel(msgspec.Struct, frozen=True, array_like=True, tag="cancel"):
    """The consumer wants no more messages, and keeps those that it has."""

    consumer: ConsumerId


class Remove(msgspec.Struct, frozen=True, array_like=True, tag="remove"):
    """The consumer wants no more messages, and gives back those that it has."""

    consumer: ConsumerId


class Settle(msgspec.Struct, frozen=True, array_like=True, tag="settle"):
    """The messages are done with."""

    consumer: ConsumerKey
    ids: MessageIds


class Return(msgspec.Struct, frozen=True, array_like=True, tag="return"):
    """Give back messages, which are served next, in this order (QQ-3)."""

    consumer: ConsumerKey
    ids: MessageIds


class Discard(msgspec.Struct, frozen=True, array_like=True, tag="discard"):
    """Refuse messages: they are dead-lettered (QQ-5)."""

    consumer: ConsumerKey
    ids: MessageIds


class Modify(msgspec.Struct, frozen=True, array_like=True, tag="modify"):
    """Give back messages, or refuse them if `undeliverable_here`; with annotations, and as failed or not."""

    consumer: ConsumerKey
    ids: MessageIds
    delivery_failed: bool
    undeliverable_here: bool
    annotations: Annotations = {}


class Requeue(msgspec.Struct, frozen=True, array_like=True, tag="requeue"):
    """Put a message that a consumer has at the end of the queue, as if it came with this entry, which has its body."""

    consumer: ConsumerKey
    id: Count
    body: bytes


class Credit(msgspec.Struct, frozen=True, array_like=True, tag="credit"):
    """Grant credit.

    Attributes:
        consumer: its key.
        credit: how many messages more than `delivery_count` the consumer takes.
        delivery_count: as the consumer knows it.
        drain: whether what is not used at once is taken back.
    """

    consumer: ConsumerKey
    credit: Annotated[int, Meta(ge=0, lt=2**31)]
    delivery_count: Count
    drain: bool


# --- the queue --------------------------------------------------------------------------------------------------------


class Purge(msgspec.Struct, frozen=True, array_like=True, tag="purge"):
    """Forget all messages that are ready."""


class PurgeNodes(msgspec.Struct, frozen=True, array_like=True, tag="purge_nodes"):
    """These nodes do not come back: their processes are down. Messages are not delivered before the next command."""

    nodes: tuple[str, ...]


class UpdateConfig(msgspec.Struct, frozen=True, array_like=True, tag="update_config"):
    """Replace the whole configuration."""

    config: QueueConfig


class CollectGarbage(msgspec.Struct, frozen=True, array_like=True, tag="garbage_collection"):
    """Changes nothing; it stands in logs of RabbitMQ."""


class Expire(msgspec.Struct, frozen=True, array_like=True, tag="expire"):
    """The timer of the oldest message ran out (QQ-7)."""


class AttachDeadLetterWorker(msgspec.Struct, frozen=True, array_like=True, tag="dlx_attach"):
    """A worker begins to publish dead letters, at least once each; one that did before does no more (QQ-5)."""

    worker: Process
    prefetch: Annotated[int, Meta(ge=1)]


class SettleDeadLetters(msgspec.Struct, frozen=True, array_like=True, tag="dlx_settle"):
    """All targets of these dead letters have confirmed them."""

    ids: MessageIds


# --- what monitors say ------------------------------------------------------------------------------------------------


class ProcessDown(msgspec.Struct, frozen=True, array_like=True, tag="down"):
    """A process is gone; with `suspected` its node cannot be reached, and it may be there all the same (QQ-4)."""

    process: Process
    suspected: bool


class NodeUp(msgspec.Struct, frozen=True, array_like=True, tag="node_up"):
    """A node can be reached again."""

    node: str


class NodeDown(msgspec.Struct, frozen=True, array_like=True, tag="node_down"):
    """Changes nothing: the processes of the node are reported one by one."""

    node: str


CommandOfClients: TypeAlias = (
    Enqueue
    | RegisterEnqueuer
    | Attach
    | Dequeue
    | Cancel
    | Remove
    | Settle
    | Return
    | Discard
    | Modify
    | Requeue
    | Credit
    | Purge
)
"""Commands that come from publishers, consumers and operators; the others are the leader's."""

QueueCommand: TypeAlias = (
    CommandOfClients
    | PurgeNodes
    | UpdateConfig
    | CollectGarbage
    | Expire
    | AttachDeadLetterWorker
    | SettleDeadLetters
    | ProcessDown
    | NodeUp
    | NodeDown
)

_encoder = msgspec.msgpack.Encoder(order="deterministic")
_decoder: msgspec.msgpack.Decoder[QueueCommand] = msgspec.msgpack.Decoder(QueueCommand)


def encode_command(command: QueueCommand) -> bytes:
    """A command as it stands in the log.

    Raises:
        InvalidRequestError: an annotation is of a kind that msgpack cannot carry.
    """
    try:
        return _encoder.encode(command)
    except (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError) as error:
        raise InvalidRequestError(f"A command of a queue that msgpack cannot carry: {error}.") from error


def decode_command(data: bytes) -> QueueCommand:
    """The command that these bytes stand for.

    Raises:
        InvalidRequestError: they are no command of a queue, or a value in it is out of bounds; the message says which.
    """
    try:
        return _decoder.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidRequestError(f"This is no command of a queue: {error}.") from error
