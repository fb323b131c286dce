"""What nodes of the table store say to each other. Everything but `Frame` travels in sessions: once, and in order."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple, TypeAlias

import msgspec

from splitbrain.cluster.tables.locks import Mode, Tid
from splitbrain.cluster.tables.records import Change, Contents, Item

# --- transactions -------------------------------------------------------------------------------------------------


class AskLock(msgspec.Struct, frozen=True, array_like=True, tag="lock"):
    """A coordinator asks a replica for a lock.

    Attributes:
        tid: the transaction.
        attempt: how often it has begun; an answer to an earlier attempt counts for nothing.
        item: what is to be locked.
        mode: how.
    """

    tid: Tid
    attempt: int
    item: Item
    mode: Mode


class LockAnswer(msgspec.Struct, frozen=True, array_like=True, tag="locked"):
    """A replica grants a lock, or refuses it for ever: then the transaction begins again."""

    tid: Tid
    attempt: int
    item: Item
    granted: bool


class Prepare(msgspec.Struct, frozen=True, array_like=True, tag="prepare"):
    """The coordinator has all locks and asks whether it may commit.

    Attributes:
        tid: the transaction.
        attempt: as of `AskLock`.
        changes: what it changes.
        participants: every replica that takes part, the coordinator included.
        joins: the node that becomes a replica with it, and its run; None for an ordinary transaction.
    """

    tid: Tid
    attempt: int
    changes: tuple[Change, ...]
    participants: tuple[str, ...]
    joins: tuple[str, int] | None = None


class Vote(msgspec.Struct, frozen=True, array_like=True, tag="vote"):
    """The answer to `Prepare`. After a yes the replica waits for the decision, and keeps the locks."""

    tid: Tid
    attempt: int
    yes: bool


class Commit(msgspec.Struct, frozen=True, array_like=True, tag="commit"):
    """The decision: all said yes."""

    tid: Tid


class Release(msgspec.Struct, frozen=True, array_like=True, tag="release"):
    """The coordinator gives up: nothing was committed in this attempt. Its locks go."""

    tid: Tid


class AskOutcome(msgspec.Struct, frozen=True, array_like=True, tag="what"):
    """A replica that said yes lost the coordinator, and asks another one what became of the transaction."""

    tid: Tid


class Outcome(msgspec.Struct, frozen=True, array_like=True, tag="happened"):
    """The answer: it was committed here; or it was not, and will not be."""

    tid: Tid
    committed: bool


# --- replicas -----------------------------------------------------------------------------------------------------

Phase: TypeAlias = Literal["stopped", "waiting", "running"]
"""Of a node's database: it does nothing; it looks for tables that it may serve; it serves them."""


class Announce(msgspec.Struct, frozen=True, array_like=True, tag="announce"):
    """What the database of the sender is now; the first message of each session.

    Attributes:
        run: which of its runs this is; a number for each start of the database.
        phase: what it does.
        last_active: the replicas that were up, as it knew, when it last served.
        settled: whether it has looked for all other nodes long enough.
    """

    run: int
    phase: Phase
    last_active: tuple[str, ...]
    settled: bool = False


class AskToJoin(msgspec.Struct, frozen=True, array_like=True, tag="join"):
    """A waiting node asks a running one for its tables, and to be a replica."""

    run: int


class JoinRefused(msgspec.Struct, frozen=True, array_like=True, tag="join_refused"):
    """Not now: ask again."""

    run: int


class Copy(msgspec.Struct, frozen=True, array_like=True, tag="copy"):
    """The tables, for a node that is a replica from now on, and who the replicas are; `tid` made it one."""

    tid: Tid
    run: int
    contents: Contents
    active: dict[str, int]
    """The run of each."""


# --- partitions ---------------------------------------------------------------------------------------------------


class CheckPartial(msgspec.Struct, frozen=True, array_like=True, tag="check_partial"):
    """The sender lost a process of `node`, and asks a node that it still sees whether that one sees it (MN-8)."""

    node: str
    life: int


class AskAlive(msgspec.Struct, frozen=True, array_like=True, tag="ask_alive"):
    """The question of a process of `asker`, passed on to the node that it lost: whether that one really is there."""

    asker: str
    life: int


class IsAlive(msgspec.Struct, frozen=True, array_like=True, tag="is_alive"):
    """That node's answer."""

    asker: str
    life: int


class PartialPartition(msgspec.Struct, frozen=True, array_like=True, tag="partial"):
    """The answer to the process that asked: `node` is there."""

    node: str


class PartialDisconnect(msgspec.Struct, frozen=True, array_like=True, tag="disconnect"):
    """The sender disconnects from the receiver on purpose, and it shall do the same."""


class RequestStart(msgspec.Struct, frozen=True, array_like=True, tag="request_start"):
    """Autoheal: the sender is partitioned, and asks the leader to decide."""


class AskStatus(msgspec.Struct, frozen=True, array_like=True, tag="ask_status"):
    """Autoheal: the leader asks a node what it sees."""


class Status(msgspec.Struct, frozen=True, array_like=True, tag="partition_status"):
    """The answer.

    Attributes:
        partitions: nodes from which it is partitioned.
        alive: nodes that it sees.
        clients: connections of clients to it.
    """

    partitions: tuple[str, ...]
    alive: tuple[str, ...]
    clients: int


class BecomeWinner(msgspec.Struct, frozen=True, array_like=True, tag="become_winner"):
    """Autoheal: the leader says that the receiver's partition wins, and who must restart."""

    losers: tuple[str, ...]


class WinnerIs(msgspec.Struct, frozen=True, array_like=True, tag="winner_is"):
    """Autoheal: the winner, which is the sender, says that the receiver must restart."""


class SafeToStart(msgspec.Struct, frozen=True, array_like=True, tag="safe_to_start"):
    """Autoheal: the winner says that all losers have stopped."""


class ReportStatus(msgspec.Struct, frozen=True, array_like=True, tag="report_status"):
    """Autoheal: a leader that was a loser asks the winner whether it has finished."""


class HealFinished(msgspec.Struct, frozen=True, array_like=True, tag="finished"):
    """Autoheal: the winner says to the leader that it has finished, or gave up."""


Healing: TypeAlias = (
    RequestStart | AskStatus | Status | BecomeWinner | WinnerIs | SafeToStart | ReportStatus | HealFinished
)
OfTransactions: TypeAlias = AskLock | LockAnswer | Prepare | Vote | Commit | Release | AskOutcome | Outcome
OfReplicas: TypeAlias = Announce | AskToJoin | JoinRefused | Copy
OfPartitions: TypeAlias = CheckPartial | AskAlive | IsAlive | PartialPartition | PartialDisconnect | Healing
Message: TypeAlias = OfTransactions | OfReplicas | OfPartitions


# --- sessions -----------------------------------------------------------------------------------------------------


class SessionId(NamedTuple):
    """One end of a session: a process, and how many sessions with the other node it has ended."""

    life: int
    epoch: int


class Frame(msgspec.Struct, frozen=True, array_like=True):
    """What goes over a link; it may be lost, repeated or late.

    Attributes:
        sender: the sender's end.
        receiver: the receiver's end as the sender knows it; None if it knows none.
        number: of the first message, counted from 1 in this session.
        received: the number of the last message that came to the sender in order.
        messages: none for a sign of life.
    """

    sender: SessionId
    receiver: SessionId | None
    number: int = 0
    received: int = 0
    messages: tuple[Message, ...] = ()


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Frame)

MAX_FRAME_MESSAGES: Final = 64
"""Messages that are sent again in one frame."""


def encode_frame(frame: Frame) -> bytes:
    """A frame as it goes over a link."""
    return _encoder.encode(frame)


def decode_frame(data: bytes) -> Frame:
    """The frame.

    Raises:
        msgspec.DecodeError: it is none.
    """
    return _decoder.decode(data)
