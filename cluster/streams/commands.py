"""What stands in the log of the coordinator of streams, each with the time at which its leader took it."""

from __future__ import annotations

from typing import Final, TypeAlias

import msgspec

from splitbrain.cluster.machine import ClientDown, NodeDown, NodeUp, Timeout
from splitbrain.cluster.machinestore import decode_stamped
from splitbrain.cluster.streams.position import Position

# --- of clients ---------------------------------------------------------------------------------------------------


class NewStream(msgspec.Struct, frozen=True, array_like=True, tag="new_stream"):
    """Make a stream, if there is none of that name.

    Attributes:
        name: of the stream.
        members: ids of the members that have a copy.
        preferred: the member that is to write where several copies are equally long.
        size: how many copies there are to be, 0: as many as members; there may be fewer nodes for now.
        target: how many of them are to be live at any time (S001); None: that is left to policies.
        part_of: the superstream of which it is a partition; None: of none.
        max_length_bytes: how long each copy may get, None: as long as it will; a policy may say less.
        max_age_ms: how old messages may get; likewise.
    """

    name: str
    members: tuple[str, ...]
    preferred: str | None = None
    size: int = 0
    target: int | None = None
    part_of: str | None = None
    max_length_bytes: int | None = None
    max_age_ms: int | None = None


class DeleteStream(msgspec.Struct, frozen=True, array_like=True, tag="delete_stream"):
    """Remove a stream with all copies."""

    name: str


class AddReplica(msgspec.Struct, frozen=True, array_like=True, tag="add_replica"):
    """Have a further member copy a stream. Refused where a replica is behind for long.

    Attributes:
        name: of the stream.
        member: which one.
        epoch: in which this was decided; it is refused in another one. None: it holds in any epoch.
        failed: members that are not waited for, as they were down for long.
    """

    name: str
    member: str
    epoch: int | None = None
    failed: tuple[str, ...] = ()


class DeleteReplica(msgspec.Struct, frozen=True, array_like=True, tag="delete_replica"):
    """Have a member give up its copy of a stream; `epoch` as above. Without one there are to be fewer from now on."""

    name: str
    member: str
    epoch: int | None = None


class SetPolicy(msgspec.Struct, frozen=True, array_like=True, tag="set_policy"):
    """Prefer another member as writer from the next choice on; None: prefer none."""

    name: str
    preferred: str | None


OfClients: TypeAlias = NewStream | DeleteStream | AddReplica | DeleteReplica | SetPolicy

# --- of the nodes that have copies --------------------------------------------------------------------------------


class Stopped(msgspec.Struct, frozen=True, array_like=True, tag="stopped"):
    """A member takes part in no epoch up to that of the action, and its log ends at `tail`.

    Attributes:
        stream: its number.
        member: which one.
        action: index of the entry that asked for it; the same below.
        tail: where its log ends.
    """

    stream: int
    member: str
    action: int
    tail: Position


class Started(msgspec.Struct, frozen=True, array_like=True, tag="started"):
    """A member writes, or follows the writer, in the epoch of the action."""

    stream: int
    member: str
    action: int


class Failed(msgspec.Struct, frozen=True, array_like=True, tag="failed"):
    """A member cannot do what the action says."""

    stream: int
    member: str
    action: int


class Gone(msgspec.Struct, frozen=True, array_like=True, tag="gone"):
    """A member has no copy any more, as the action says."""

    stream: int
    member: str
    action: int


class MemberDown(msgspec.Struct, frozen=True, array_like=True, tag="member_down"):
    """A member, which took part in an epoch, does not any more: its process is another one by now."""

    stream: int
    member: str
    epoch: int


class Established(msgspec.Struct, frozen=True, array_like=True, tag="established"):
    """The beginning of an epoch is committed: a majority of the members has all that was committed before."""

    stream: int
    epoch: int


class CaughtUp(msgspec.Struct, frozen=True, array_like=True, tag="caught_up"):
    """A member that has no vote yet had all that was committed in an epoch."""

    stream: int
    member: str
    epoch: int


OfMembers: TypeAlias = Stopped | Started | Failed | Gone | MemberDown | Established | CaughtUp

StreamCommand: TypeAlias = OfClients | OfMembers
Logged: TypeAlias = StreamCommand | Timeout | NodeDown | NodeUp | ClientDown

# --- answers ------------------------------------------------------------------------------------------------------


class Accepted(msgspec.Struct, frozen=True, array_like=True, tag="accepted"):
    """It is done, or under way.

    Attributes:
        stream: its number.
        is_new: whether it was made by this command.
    """

    stream: int
    is_new: bool = False


class Ignored(msgspec.Struct, frozen=True, array_like=True, tag="ignored"):
    """The command is about what is over."""


class StreamRefused(msgspec.Struct, frozen=True, array_like=True, tag="refused"):
    """It is not done.

    Attributes:
        reason: "not_found", "invalid", "not_now".
        detail: why, in words.
    """

    reason: str
    detail: str


Answered: TypeAlias = Accepted | Ignored | StreamRefused

# --- as bytes -----------------------------------------------------------------------------------------------------


_encoder: Final = msgspec.msgpack.Encoder(order="deterministic")
_logged: msgspec.msgpack.Decoder[Logged] = msgspec.msgpack.Decoder(Logged)
_command: msgspec.msgpack.Decoder[StreamCommand] = msgspec.msgpack.Decoder(StreamCommand)
_of_client: msgspec.msgpack.Decoder[OfClients] = msgspec.msgpack.Decoder(OfClients)
_answered: msgspec.msgpack.Decoder[Answered] = msgspec.msgpack.Decoder(Answered)


def encode(command: Logged | Answered) -> bytes:
    """A command without its time, or an answer."""
    return _encoder.encode(command)


def decode(data: bytes) -> tuple[int, Logged] | str:
    """Time, in ms since the Unix epoch, and command that stand in the log, or why they make no sense."""
    return decode_stamped(data, _logged)


def decode_answered(data: bytes) -> Answered:
    """The coordinator's answer.

    Raises:
        msgspec.DecodeError: it is none.
    """
    return _answered.decode(data)


def problem_of(data: bytes, by_client: bool = False) -> str | None:
    """Why nodes, or clients, may not give this command to the coordinator, None if they may."""
    try:
        (_of_client if by_client else _command).decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        whose = "of a client " if by_client else ""
        return f"this is no command {whose}for the coordinator of streams: {error}"
    return None
