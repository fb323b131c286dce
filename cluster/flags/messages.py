"""What members say to each other about feature flags. Every message may be lost, repeated or late."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from splitbrain.cluster.flags.record import Ballot, OpId, Vote
from splitbrain.cluster.raft.messages import NodeId

Refusal: TypeAlias = Literal["busy", "taken_over", "unsupported", "not_synchronised", "members_changed", "failed"]


class AskInventory(msgspec.Struct, frozen=True, array_like=True, tag="ask_inventory"):
    """What do you know, and what is enabled? The answer bears the token."""

    token: int


class Inventory(msgspec.Struct, frozen=True, array_like=True, tag="inventory"):
    """The answer.

    Attributes:
        token: of the question.
        known: flags that the sender knows.
        enabled: those that are enabled there.
        changing: those that change there.
        synchronised: whether the sender is.
        sees_member: whether the member that asked is one in the configuration that the sender has in force.
    """

    token: int
    known: tuple[str, ...]
    enabled: tuple[str, ...]
    changing: tuple[str, ...]
    synchronised: bool
    sees_member: bool


class Mark(msgspec.Struct, frozen=True, array_like=True, tag="mark"):
    """The controller asks a member to let a flag change, and to do what that takes."""

    op: OpId
    flag: str
    members: tuple[NodeId, ...]


class Marked(msgspec.Struct, frozen=True, array_like=True, tag="marked"):
    """The flag changes here; `ready` once what that takes is done."""

    op: OpId
    ready: bool


class Refused(msgspec.Struct, frozen=True, array_like=True, tag="refused"):
    """The flag does not change here."""

    op: OpId
    reason: Refusal
    detail: str


class Prepare(msgspec.Struct, frozen=True, array_like=True, tag="prepare"):
    """A member that takes over begins an attempt, and asks what was accepted in earlier ones."""

    op: OpId
    flag: str
    members: tuple[NodeId, ...]
    ballot: Ballot


class Promise(msgspec.Struct, frozen=True, array_like=True, tag="promise"):
    """The answer: nothing more is accepted in earlier attempts."""

    op: OpId
    ballot: Ballot
    vote: Vote | None


class Accept(msgspec.Struct, frozen=True, array_like=True, tag="accept"):
    """An attempt's proposal: to enable the flag, or to undo the change."""

    op: OpId
    flag: str
    members: tuple[NodeId, ...]
    ballot: Ballot
    enable: bool


class Accepted(msgspec.Struct, frozen=True, array_like=True, tag="accepted"):
    """It is accepted here. With a majority of these it is decided."""

    op: OpId
    ballot: Ballot


class Outbid(msgspec.Struct, frozen=True, array_like=True, tag="outbid"):
    """It is not: there is a later attempt."""

    op: OpId
    promised: Ballot


class Decided(msgspec.Struct, frozen=True, array_like=True, tag="decided"):
    """How a change was decided."""

    op: OpId
    flag: str
    enable: bool


class Closed(msgspec.Struct, frozen=True, array_like=True, tag="closed"):
    """That is known here."""

    op: OpId


OfChange: TypeAlias = Mark | Marked | Refused | Prepare | Promise | Accept | Accepted | Outbid | Decided | Closed
Message: TypeAlias = AskInventory | Inventory | OfChange

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(Message)


def encode_flags(message: Message) -> bytes:
    """A message as it goes over a link."""
    return _encoder.encode(message)


def decode_flags(data: bytes) -> Message:
    """The message.

    Raises:
        msgspec.DecodeError: it is none.
    """
    return _decoder.decode(data)
