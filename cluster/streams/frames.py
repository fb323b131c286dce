"""What members of a stream send each other, and what clients want of streams."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

import msgspec

from splitbrain.cluster.streams.chunks import Chunk, StreamMessage
from splitbrain.cluster.streams.position import Position

# --- clients ------------------------------------------------------------------------------------------------------


class Publish(msgspec.Struct, frozen=True, array_like=True, tag="publish"):
    """Put a message into a stream; answered by `Confirmed` once it is committed.

    Attributes:
        stream: its name.
        message: one with a name and a number of its publisher is taken once, however often it is sent.
    """

    stream: str
    message: StreamMessage

    @property
    def problem(self) -> str | None:
        """Why it makes no sense, None if it does."""
        if self.message.publisher and self.message.number < 1:
            return f"a publisher numbers its messages from 1 on, not {self.message.number}"
        return None


class ReadFrom(msgspec.Struct, frozen=True, array_like=True, tag="read"):
    """Read committed messages from an offset on; answered by `Messages`.

    Attributes:
        stream: its name.
        offset: of the first message that is wanted.
        most: the number of messages at most; there may be fewer, of about 1 MiB in all.
    """

    stream: str
    offset: int
    most: int

    @property
    def problem(self) -> str | None:
        """Why it makes no sense, None if it does."""
        if self.offset < 0 or self.most < 1:
            return f"from offset 0 on 1 or more messages can be read, not {self.most} from offset {self.offset} on"
        return None


OfStream: TypeAlias = Publish | ReadFrom


class Confirmed(msgspec.Struct, frozen=True, array_like=True, tag="confirmed"):
    """A message is committed.

    Attributes:
        offset: at which it is; None: its publisher has published others since.
        epoch: in which it was confirmed.
    """

    offset: int | None
    epoch: int


class Messages(msgspec.Struct, frozen=True, array_like=True, tag="messages"):
    """What was read.

    Attributes:
        first: offset of the first one.
        bodies: of the messages, without a gap.
        committed: the offset behind the last message that this copy knows to be committed.
    """

    first: int
    bodies: tuple[bytes, ...]
    committed: int


class NotDone(msgspec.Struct, frozen=True, array_like=True, tag="not_done"):
    """It has no answer.

    Attributes:
        reason: why, as in `splitbrain.cluster.wire.Failure`.
        definite: whether it certainly did not happen, and will not.
        detail: in words.
    """

    reason: Literal["unavailable", "leadership_lost", "busy"]
    definite: bool
    detail: str


Reply: TypeAlias = Confirmed | Messages | NotDone

# --- members ------------------------------------------------------------------------------------------------------


class Attach(msgspec.Struct, frozen=True, array_like=True, tag="attach"):
    """A replica asks the writer where their logs agree.

    Attributes:
        stream: its number; the same below.
        epoch: of the writer; the same below.
        ends: where each epoch ends in the replica's log.
    """

    stream: int
    epoch: int
    ends: tuple[Position, ...]


class Attached(msgspec.Struct, frozen=True, array_like=True, tag="attached"):
    """The writer's answer: what the replica has behind `agreed` is to go.

    Attributes:
        agreed: the end of what both logs have in common.
        end: of the replica's log when it asked; with another end the answer is not for it any more.
    """

    stream: int
    epoch: int
    agreed: Position
    end: Position


class Pull(msgspec.Struct, frozen=True, array_like=True, tag="pull"):
    """A replica has durably what is up to `end`, and wants what comes behind, once it is there.

    Attributes:
        end: of its log.
        committed: what it knows to be committed, as `Chunks` says it.
    """

    stream: int
    epoch: int
    end: Position
    committed: int


class Chunks(msgspec.Struct, frozen=True, array_like=True, tag="chunks"):
    """What comes behind `after`; without chunks only how far the writer has committed.

    Attributes:
        after: the end of the log that these chunks go behind.
        chunks: in order.
        committed: offset behind the last committed message.
    """

    stream: int
    epoch: int
    after: Position
    chunks: tuple[Chunk, ...]
    committed: int


class Ask(msgspec.Struct, frozen=True, array_like=True, tag="ask"):
    """A client's request, passed on to the writer.

    Attributes:
        stream: its number.
        life: of the asking node.
        ref: repeated in the answer.
        wanted: by the client.
    """

    stream: int
    life: int
    ref: int
    wanted: OfStream


class Answered(msgspec.Struct, frozen=True, array_like=True, tag="answered"):
    """The answer to `Ask`."""

    life: int
    ref: int
    reply: Reply


OfWriter: TypeAlias = Attached | Chunks
OfReplica: TypeAlias = Attach | Pull
Frame: TypeAlias = OfWriter | OfReplica | Ask | Answered

_encoder: Final = msgspec.msgpack.Encoder()
_frame: msgspec.msgpack.Decoder[Frame] = msgspec.msgpack.Decoder(Frame)
_wanted: msgspec.msgpack.Decoder[OfStream] = msgspec.msgpack.Decoder(OfStream)
_reply: msgspec.msgpack.Decoder[Reply] = msgspec.msgpack.Decoder(Reply)


def encode(message: Frame | OfStream | Reply) -> bytes:
    """As bytes."""
    return _encoder.encode(message)


def decode_frame(data: bytes) -> Frame:
    """What a member sent.

    Raises:
        msgspec.DecodeError: it makes no sense.
    """
    return _frame.decode(data)


def decode_wanted(data: bytes) -> OfStream:
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
