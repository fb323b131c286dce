"""What a group applies its log to, and what that may ask for (RA-23, RA-24).

A machine is deterministic: every member applies the same entries and comes to the same state. With the result of an
entry it may give back effects, which say what is to be done outside of it. The leader does it, and answers through the
log, where there is an answer: a timer that ran out is a `Timeout`, a node that went down a `NodeDown`, which every
member applies as any command. What all members do is said below.

Effects get lost when a leader fails after it has applied an entry, and are carried out twice when its successor applies
it, too. A machine must stand both. Timers and monitors end with their leader: a new one is given what it is to begin
with by `begin_leading`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeAlias

import msgspec

from splitbrain.cluster.raft import Entry
from splitbrain.cluster.tree import Result
from splitbrain.cluster.wire import ClientAddress

# --- effects ------------------------------------------------------------------------------------------------------


class SetTimer(msgspec.Struct, frozen=True):
    """Put a `Timeout` of this name into the log after so many ms, and not when it was due before; None: not at all."""

    name: str
    delay_ms: int | None


class MonitorNode(msgspec.Struct, frozen=True):
    """Put a `NodeDown` into the log when the leader loses its link to a node, at once if it has none, and a `NodeUp`
    when it has it again; until `DemonitorNode`.
    """

    node: str


class DemonitorNode(msgspec.Struct, frozen=True):
    """Say no more about a node."""

    node: str


class AppendCommand(msgspec.Struct, frozen=True):
    """Put a command into the log."""

    data: bytes


class SendToClient(msgspec.Struct, frozen=True):
    """Send a message to a client's connection, which gets it once or not at all.

    Attributes:
        client: as `wire.AddressQuery` gave it.
        data: the message.
        local: whether the member on the client's node sends it, if that votes: it is there when a local read sees the
            entry. Else the leader does.
    """

    client: ClientAddress
    data: bytes
    local: bool = False


class ReleaseCursor(msgspec.Struct, frozen=True):
    """The machine needs no entry up to this index any more: where a checkpoint of one of them is, the newest of these
    takes the place of the log up to there (RA-38). On every member.
    """

    index: int


class WriteCheckpoint(msgspec.Struct, frozen=True):
    """Write down the state after this entry, unless that was done not long ago (RA-38). On every member."""


MachineEffect: TypeAlias = (
    SetTimer | MonitorNode | DemonitorNode | AppendCommand | SendToClient | ReleaseCursor | WriteCheckpoint
)


class WithEffects(msgspec.Struct, frozen=True):
    """The result of an entry, and what is to be done about it, in this order."""

    result: Result
    effects: tuple[MachineEffect, ...]


# --- commands that answer effects ---------------------------------------------------------------------------------


class Timeout(msgspec.Struct, frozen=True, array_like=True, tag="timeout"):
    """The timer of this name ran out."""

    name: str


class NodeDown(msgspec.Struct, frozen=True, array_like=True, tag="node_down"):
    """The leader has no link to this node."""

    node: str


class NodeUp(msgspec.Struct, frozen=True, array_like=True, tag="node_up"):
    """The leader has a link to this node again."""

    node: str


EffectCommand: TypeAlias = Timeout | NodeDown | NodeUp


class Machine(Protocol):
    """A state machine.

    Attributes:
        releases_itself: whether only its effects write down its state and let the log go; else its node decides.
    """

    @property
    def releases_itself(self) -> bool: ...  # noqa: D102 - see above

    def apply(self, entry: Entry) -> Result | WithEffects | None:
        """Apply the next entry; what gives no result has no effects."""
        ...

    def begin_leading(self) -> Sequence[MachineEffect]:
        """What a new leader is to do once it has applied all of earlier terms: timers and monitors above all."""
        ...
