"""What a group applies its log to, and what that may ask for (RA-23, RA-24).

A machine is deterministic: every member applies the same entries and comes to the same state. With the result of an
entry it may give back effects, which say what is to be done outside of it. The leader does it, and answers through the
log, where there is an answer: a timer that ran out is a `Timeout`, a node that went down a `NodeDown`, a client that
went away a `ClientDown`, which every member applies as any command. What all members do is said below.

Effects get lost when a leader fails after it has applied an entry, and are carried out twice when its successor applies
it, too. A machine must stand both. Timers and monitors end with their leader: a new one is given what it is to begin
with by `begin_leading`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, Protocol, TypeAlias

import msgspec

from splitbrain.cluster.raft import Entry
from splitbrain.cluster.tree import Result
from splitbrain.cluster.wire import ClientAddress

# --- effects ------------------------------------------------------------------------------------------------------


class SetTimer(msgspec.Struct, frozen=True):
    """Put a `Timeout` of this name into the log after so many ms, and not when it was due before; None: not at all."""

    name: str
    delay_ms: int | None


class SetTimerAt(msgspec.Struct, frozen=True):
    """The same at a time, at once if it is past: a new leader that is asked for it does not wait the whole time again.

    Attributes:
        name: of the timer; `SetTimer` sets and stops the same ones.
        at_ms: since the Unix epoch, by the wall clock of the leader as it is when the timer is set.
    """

    name: str
    at_ms: int


class MonitorNode(msgspec.Struct, frozen=True):
    """Put a `NodeDown` into the log when a node is down, at once if it is so already, and a `NodeUp` when it is up
    again; until `DemonitorNode`.

    A node is down when the leader has no link to it, or when the leader's failure detector takes it for down (RA-4):
    then it is silent, or has no connection to the leader, and may run all the same.

    Attributes:
        node: its name.
        is_down: whether the machine takes it for down already: then a `NodeUp` comes at once if it is up.
    """

    node: str
    is_down: bool = False


class DemonitorNode(msgspec.Struct, frozen=True):
    """Say no more about a node."""

    node: str


class MonitorClient(msgspec.Struct, frozen=True):
    """Put one `ClientDown` into the log when a client's connection is gone, or when the client's node is down (see
    `MonitorNode`), at once if it is so already. Then, or with `DemonitorClient`, the monitor ends.
    """

    client: ClientAddress


class DemonitorClient(msgspec.Struct, frozen=True):
    """Say no more about a client."""

    client: ClientAddress


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


class ReadLog(msgspec.Struct, frozen=True):
    """Read committed entries, and do what comes of them: a machine need not hold what stands in the log (Ra's `log`).

    Attributes:
        indexes: of the entries.
        then: gets the entries in this order, without those that the log let go (RA-38), and gives what is to be done;
            what all members do is not among that, as only the leader reads.
    """

    indexes: tuple[int, ...]
    then: Callable[[tuple[Entry, ...]], Sequence[MachineEffect]]


class ReleaseCursor(msgspec.Struct, frozen=True):
    """The machine needs no entry up to this index any more: where a checkpoint of one of them is, the newest of these
    takes the place of the log up to there (RA-38). On every member.
    """

    index: int


class PutIntoQueue(msgspec.Struct, frozen=True):
    """Have another queue carry out a command (QQ-5): once, or not at all if it cannot be reached or refuses it.

    Attributes:
        queue: its name.
        command: as the log of a queue has it (`splitbrain.cluster.queues.encode_command`).
    """

    queue: str
    command: bytes


class AttachWorker(msgspec.Struct, frozen=True):
    """Begin to publish the dead letters of this group's queue at least once (QQ-5), in place of an earlier worker.

    Attributes:
        name: of the worker; of this leadership alone.
        command: attaches it; put into the log.
    """

    name: str
    command: bytes


class PublishDeadLetters(msgspec.Struct, frozen=True):
    """Have the worker of this name publish dead letters; nothing if there is none, or another one.

    Attributes:
        worker: its name.
        queue: the name of the queue that gets them.
        letters: ids, each with the command that publishes it.
    """

    worker: str
    queue: str
    letters: tuple[tuple[int, bytes], ...]


class WantConfiguration(msgspec.Struct, frozen=True):
    """Put the configuration of this group's queue into the log, as it stands in the metadata."""


class ForgetQueue(msgspec.Struct, frozen=True):
    """Remove the record of this group's queue from the metadata; no error if it is gone already."""


class WriteCheckpoint(msgspec.Struct, frozen=True):
    """Write down the state after this entry, unless that was done not long ago (RA-38). On every member."""


MachineEffect: TypeAlias = (
    SetTimer
    | SetTimerAt
    | MonitorNode
    | DemonitorNode
    | MonitorClient
    | DemonitorClient
    | AppendCommand
    | SendToClient
    | ReadLog
    | PutIntoQueue
    | AttachWorker
    | PublishDeadLetters
    | WantConfiguration
    | ForgetQueue
    | ReleaseCursor
    | WriteCheckpoint
)


class FromLog(msgspec.Struct, frozen=True):
    """A result that is made of entries, where a request waits for it: a machine need not hold what stands in the log.

    Attributes:
        indexes: of the entries, which the log still has.
        then: gives the result.
    """

    indexes: tuple[int, ...]
    then: Callable[[tuple[Entry, ...]], Result]


class WithEffects(msgspec.Struct, frozen=True):
    """The result of an entry, and what is to be done about it, in this order."""

    result: Result | FromLog
    effects: tuple[MachineEffect, ...]


# --- commands that answer effects ---------------------------------------------------------------------------------


class Timeout(msgspec.Struct, frozen=True, array_like=True, tag="timeout"):
    """The timer of this name ran out."""

    name: str


class NodeDown(msgspec.Struct, frozen=True, array_like=True, tag="node_down"):
    """This node is down, in the eyes of the leader: see `MonitorNode`."""

    node: str


class NodeUp(msgspec.Struct, frozen=True, array_like=True, tag="node_up"):
    """This node is up again, in the eyes of the leader: see `MonitorNode`."""

    node: str


DownReason: TypeAlias = Literal["gone", "no_connection"]


class ClientDown(msgspec.Struct, frozen=True, array_like=True, tag="client_down"):
    """A client that was monitored is away, or may be.

    Attributes:
        client: as it was named.
        reason: "gone": its connection ended, or its node did, and its address never comes back; "no_connection": its
            node is down in the eyes of the leader (see `MonitorNode`), and the client may be there all the same.
    """

    client: ClientAddress
    reason: DownReason


EffectCommand: TypeAlias = Timeout | NodeDown | NodeUp | ClientDown


class Machine(Protocol):
    """A state machine.

    Attributes:
        releases_itself: whether only its effects write down its state and let the log go; else its node decides. A
            node that stops in good order writes a checkpoint in any case (RA-41), and so does one whose client asks.
    """

    @property
    def releases_itself(self) -> bool: ...  # noqa: D102 - see above

    def apply(self, entry: Entry) -> Result | WithEffects | None:
        """Apply the next entry; what gives no result has no effects."""
        ...

    def begin_leading(self) -> Sequence[MachineEffect]:
        """What a new leader is to do once it has applied all of earlier terms: timers and monitors above all."""
        ...
