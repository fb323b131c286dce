"""What the coordinator knows of streams and of their members.

Everything that it decides by is in here, the order of members included: a member that goes on from a snapshot decides
as one that applied the whole log.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

import msgspec

from splitbrain.cluster.members import node_of
from splitbrain.cluster.streams.position import Position
from splitbrain.cluster.streams.retention import Retention

Phase: TypeAlias = Literal["down", "stopped", "ready", "running", "disconnected"]
"""Of a member. "down": not known to do anything; "stopped" in its epoch, with a tail; "ready" to begin the epoch that
was chosen; "running" in its epoch; "disconnected": it ran when its node went out of reach."""

Kind: TypeAlias = Literal["stop", "write", "follow", "delete"]


class Action(msgspec.Struct, frozen=True, array_like=True):
    """What a member is to do. Its node sees it in the state that it applied, does it, and says so by a command.

    Attributes:
        kind: what.
        index: of the entry that asked for it, by which it is named.
        epoch: in which; of "stop" the last one that ends with it.
        since_ms: when it was asked for.
    """

    kind: Kind
    index: int
    epoch: int
    since_ms: int


class Member(msgspec.Struct, array_like=True):
    """A copy of a stream.

    Attributes:
        phase: see `Phase`.
        epoch: to which the phase belongs.
        since_ms: of the phase.
        tail: where its log ended when it was stopped.
        action: what it is to do, None for nothing.
        leaves: whether it is being removed.
        learns: whether it copies what it lacks, and has no vote yet.
    """

    phase: Phase = "down"
    epoch: int = 0
    since_ms: int = 0
    tail: Position | None = None
    action: Action | None = None
    leaves: bool = False
    learns: bool = False


class Stream(msgspec.Struct, array_like=True):
    """A stream.

    Attributes:
        id: its number, the index of the entry that made it.
        name: of the stream.
        members: by id, sorted.
        voters: the members of which a majority confirms in the epoch that was chosen last.
        preferred: see `commands.NewStream`.
        epoch: that was chosen last, 0 before the first one.
        writer: of that epoch.
        established: whether its beginning is committed.
        is_deleted: whether it is being removed.
        size: how many copies there are to be.
        target: how many live ones, as it was declared; None: that is left to policies (CMR-1).
        part_of: the superstream of which it is a partition, None: of none.
        max_length_bytes: see `commands.NewStream`; so with `max_age_ms`.
    """

    id: int
    name: str
    members: dict[str, Member]
    voters: tuple[str, ...]
    preferred: str | None = None
    epoch: int = 0
    writer: str | None = None
    established: bool = False
    is_deleted: bool = False
    size: int = 0
    target: int | None = None
    part_of: str | None = None
    max_length_bytes: int | None = None
    max_age_ms: int | None = None

    @property
    def retention(self) -> Retention:
        """What is to be kept of it, as it was declared."""
        return Retention(self.max_length_bytes, self.max_age_ms)

    @property
    def is_running(self) -> bool:
        """Whether its writer runs."""
        return self.writer is not None and self.members[self.writer].phase == "running"

    @property
    def learners(self) -> tuple[str, ...]:
        """The members that are to have a vote, and have none yet."""
        return tuple(name for name, member in self.members.items() if member.learns and not member.leaves)

    @property
    def is_settled(self) -> bool:
        """Whether its epoch has begun, and is of all members that stay and have a vote."""
        stay = {name for name, member in self.members.items() if not member.leaves and not member.learns}
        return self.established and self.is_running and stay == set(self.voters)

    @property
    def nodes(self) -> list[str]:
        """The nodes of its members, sorted."""
        return sorted({node_of(member) for member in self.members})


class State(msgspec.Struct):
    """All streams.

    Attributes:
        streams: by number, in their order.
        down: nodes that are down in the eyes of the leader.
    """

    streams: dict[int, Stream] = {}
    down: set[str] = set()

    def named(self, name: str) -> Stream | None:
        """The stream of a name, None if there is none, or if it is being removed."""
        found = (stream for stream in self.streams.values() if stream.name == name and not stream.is_deleted)
        return next(found, None)


class _Stored(msgspec.Struct, frozen=True, array_like=True):
    streams: tuple[Stream, ...]
    down: tuple[str, ...]


_encoder: Final = msgspec.msgpack.Encoder(order="deterministic")
_decoder: msgspec.msgpack.Decoder[_Stored] = msgspec.msgpack.Decoder(_Stored)


def encode_state(state: State) -> bytes:
    """The same bytes for the same state."""
    return _encoder.encode(_Stored(tuple(state.streams.values()), tuple(sorted(state.down))))


def decode_state(data: bytes) -> State:
    """The state of which these are the bytes.

    Raises:
        msgspec.DecodeError: they are none.
    """
    stored = _decoder.decode(data)
    return State({stream.id: stream for stream in stored.streams}, set(stored.down))
