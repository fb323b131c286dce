"""What clients want of classic queues, and what nodes pass on to the one that holds a queue."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

import msgspec

from splitbrain.cluster.permits import AlarmName
from splitbrain.cluster.queuegroups.notes import LAST_REASON
from splitbrain.cluster.queues.commands import Annotations
from splitbrain.cluster.streams.frames import NotDone

Settlement: TypeAlias = Literal["ack", "requeue", "discard"]


class Put(msgspec.Struct, frozen=True, array_like=True, tag="put"):
    """Put a message into a queue; answered by `Stored` once it is durable.

    Attributes:
        queue: its name.
        body: of the message.
        annotations: what is said of it besides its body: of a dead letter, why it is one.
    """

    queue: str
    body: bytes
    annotations: Annotations = {}


class Take(msgspec.Struct, frozen=True, array_like=True, tag="take"):
    """Take the next message; answered by `Taken`, or `Nothing`."""

    queue: str


class Settle(msgspec.Struct, frozen=True, array_like=True, tag="settle"):
    """Be done with a message, give it back, or discard it, which makes it a dead letter; answered by `Settled`."""

    queue: str
    tag: str
    how: Settlement


class Purge(msgspec.Struct, frozen=True, array_like=True, tag="purge"):
    """Remove all messages that are not taken; answered by `Purged` once that is durable."""

    queue: str


class Look(msgspec.Struct, frozen=True, array_like=True, tag="look"):
    """Say how a queue is; answered by `Seen`."""

    queue: str


class MayConvert(msgspec.Struct, frozen=True, array_like=True, tag="may_convert"):
    """Ask whether the files of a queue may be converted now; answered by `Permitted`, or `Refused`."""

    queue: str


OfQueue: TypeAlias = Put | Take | Settle | Purge | Look | MayConvert


class SetAlarm(msgspec.Struct, frozen=True, array_like=True, tag="set_alarm"):
    """Set or clear an alarm of the node; answered by `NodeSeen`."""

    alarm: AlarmName
    is_active: bool


class LookAtNode(msgspec.Struct, frozen=True, array_like=True, tag="look_at_node"):
    """Say what the node may convert; answered by `NodeSeen`."""


class Enable(msgspec.Struct, frozen=True, array_like=True, tag="enable"):
    """Begin a transformation on the node, or only ask whether it may; answered by `NodeSeen` or `Refused`."""

    transformation: str
    only_asks: bool


OfNode: TypeAlias = SetAlarm | LookAtNode | Enable


class AtNode(msgspec.Struct, frozen=True, array_like=True, tag="at_node"):
    """What a client wants of a node, which is passed on to it.

    Attributes:
        member: its id.
        wanted: by the client.
    """

    member: str
    wanted: OfNode


OfClient: TypeAlias = OfQueue | AtNode


class Stored(msgspec.Struct, frozen=True, array_like=True, tag="stored"):
    """A message is durable."""


class Nothing(msgspec.Struct, frozen=True, array_like=True, tag="nothing"):
    """No message is ready."""


class Taken(msgspec.Struct, frozen=True, array_like=True, tag="taken"):
    """A message, for who settles it in time; else it goes back.

    Attributes:
        tag: what it is settled by; another life of the node, or another delivery, has other tags.
        body: of the message.
        redelivered: whether the queue knows that it was delivered before.
        redeliveries: how often it was delivered again, as the queue knows.
        annotations: what was said of it besides its body.
    """

    tag: str
    body: bytes
    redelivered: bool
    redeliveries: int
    annotations: Annotations = {}

    @property
    def dead_because(self) -> str | None:
        """Why it is a dead letter, None if it is none: "expired" or "rejected", or a reason of a quorum queue."""
        return self.annotations.get(LAST_REASON)


class Settled(msgspec.Struct, frozen=True, array_like=True, tag="settled"):
    """Whether the tag was one of a message that is taken; if not, nothing happened."""

    known: bool


class Purged(msgspec.Struct, frozen=True, array_like=True, tag="purged"):
    """How many messages were removed."""

    count: int


class Seen(msgspec.Struct, frozen=True, array_like=True, tag="seen"):
    """How a queue is.

    Attributes:
        ready: how many messages wait.
        taken: how many are taken and not settled.
        dropped: how many were found above the delivery limit since the node began.
        versions: of its files, by name.
        dead: how many dead letters wait for the queue that is to get them.
        limit: how often a message may be delivered again, by declaration and policies; None for any number of times.
        dead_letter_to: the queue that gets dead letters, by declaration or policy; None: they are dropped.
    """

    ready: int
    taken: int
    dropped: int
    versions: dict[str, int]
    dead: int = 0
    limit: int | None = None
    dead_letter_to: str | None = None


class Permitted(msgspec.Struct, frozen=True, array_like=True, tag="permitted"):
    """The files of the queue may be converted now, and its node has begun that transformation."""


class Refused(msgspec.Struct, frozen=True, array_like=True, tag="refused"):
    """Nothing may be converted now, and nothing was.

    Attributes:
        reason: as of `splitbrain.cluster.errors.ConversionRefusedError`.
        detail: in words.
    """

    reason: str
    detail: str


class NodeSeen(msgspec.Struct, frozen=True, array_like=True, tag="node_seen"):
    """What a node may convert.

    Attributes:
        alarms: that are active, in the order in which they were set.
        transformations: that were begun, with their versions; None where the node has no numpy.
    """

    alarms: tuple[str, ...]
    transformations: dict[str, int] | None


Reply: TypeAlias = Stored | Nothing | Taken | Settled | Purged | Seen | Permitted | Refused | NodeSeen | NotDone


class Ask(msgspec.Struct, frozen=True, array_like=True, tag="ask"):
    """A client's request, passed on to the node that holds the queue.

    Attributes:
        id: of the queue.
        life: of the asking node.
        ref: repeated in the answer.
        wanted: by the client.
    """

    id: str
    life: int
    ref: int
    wanted: OfQueue


class AskNode(msgspec.Struct, frozen=True, array_like=True, tag="ask_node"):
    """The same for a request that is about the node itself."""

    life: int
    ref: int
    wanted: OfNode


class Answered(msgspec.Struct, frozen=True, array_like=True, tag="answered"):
    """The answer to `Ask` and `AskNode`."""

    life: int
    ref: int
    reply: Reply


_encoder: Final = msgspec.msgpack.Encoder()
_frame: msgspec.msgpack.Decoder[Ask | AskNode | Answered] = msgspec.msgpack.Decoder(Ask | AskNode | Answered)
_wanted: msgspec.msgpack.Decoder[OfClient] = msgspec.msgpack.Decoder(OfClient)
_reply: msgspec.msgpack.Decoder[Reply] = msgspec.msgpack.Decoder(Reply)


def encode(message: Ask | AskNode | Answered | OfClient) -> bytes:
    """As bytes."""
    return _encoder.encode(message)


def decode_frame(data: bytes) -> Ask | AskNode | Answered:
    """What another node sent.

    Raises:
        msgspec.DecodeError: it makes no sense.
    """
    return _frame.decode(data)


def decode_wanted(data: bytes) -> OfClient:
    """What a client wants.

    Raises:
        msgspec.DecodeError: it makes no sense.
    """
    return _wanted.decode(data)


def decode_reply(data: bytes) -> Reply:
    """What a client is answered.

    Raises:
        msgspec.DecodeError: it makes no sense.
    """
    return _reply.decode(data)
