"""What can happen to a member: everything that `Raft.handle` takes.

The shell around the machine makes these from its network, its disk, its timers and its clients.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import msgspec

from splitbrain.cluster.raft.messages import Message, NodeId

Ref: TypeAlias = Any
"""What the shell gets back with the outcome of a request; opaque to the machine, never compared."""


class Start(msgspec.Struct, frozen=True):
    """The node is up. Handed in once, before anything else."""


class ElectionTimeout(msgspec.Struct, frozen=True):
    """The timer of the latest StartElectionTimer ran out (never one that was stopped or replaced since)."""


class HeartbeatTick(msgspec.Struct, frozen=True):
    """`heartbeat_ms` have passed, once more, since StartHeartbeat. A late tick is delivered once only.

    Attributes:
        now_ns: the monotonic clock; only leases need it.
    """

    now_ns: int = 0


class Received(msgspec.Struct, frozen=True):
    """A message arrived. Loss, duplication, delay and reordering are all allowed."""

    sender: NodeId
    message: Message


class Written(msgspec.Struct, frozen=True, gc=False):
    """The log is durable up to `index`. Made by the machine, as `done` of an AppendLog; the shell only hands it back.

    Attributes:
        index: the last entry of that AppendLog.
        term: its term.
        generation: how many truncations came before it: a report about what was truncated since is recognised as stale.
    """

    index: int
    term: int
    generation: int


class Compacted(msgspec.Struct, frozen=True, gc=False):
    """A snapshot of an entry that was applied here is durable: the log up to there is not needed any more (RA-37).

    Attributes:
        index: of that entry.
    """

    index: int


class Propose(msgspec.Struct, frozen=True):
    """A client's command for the log. Exactly one of Apply (with this ref), Rejected or Dropped answers it, in time.

    Attributes:
        ref: of the request.
        data: the command.
        on_append: Appended answers it instead of Apply, at once; it is never Dropped (RA-18).
    """

    ref: Ref
    data: bytes
    on_append: bool = False


class ProposeAll(msgspec.Struct, frozen=True):
    """Commands that came at one time: they are sent on together, each is answered by itself."""

    commands: Sequence[Propose]


ReadMode: TypeAlias = Literal["quorum", "lease", "leader"]


class Read(msgspec.Struct, frozen=True):
    """A client's read at the leader. Exactly one of ReadReady or Rejected answers it, in time.

    Attributes:
        ref: of the request.
        mode: what confirms that this node still leads: "quorum", a majority, asked after the read came (RA-27);
            "lease", a majority that was asked not long ago, or else now; "leader", its own belief (RA-26), so that the
            answer may be stale. The first two are linearizable.
        now_ns: the monotonic clock; only leases need it.
    """

    ref: Ref
    mode: ReadMode = "quorum"
    now_ns: int = 0


MemberRole: TypeAlias = Literal["voter", "promotable", "learner"]
"""How a member joins: as a voter at once, as a learner that becomes a voter once it has caught up, or as a learner."""


class Change(msgspec.Struct, frozen=True):
    """A client's wish that a member joins or leaves. Apply (with this ref), Rejected or Dropped answers it, in time.

    Attributes:
        ref: of the request; None of a change that no client waits for.
        member: who.
        joins: whether it becomes a member; else it is one no longer.
        role: of one that joins; a learner that joins as a voter is promoted.
    """

    ref: Ref
    member: NodeId
    joins: bool
    role: MemberRole = "voter"


class Transfer(msgspec.Struct, frozen=True):
    """A client's wish that another member leads (RA-31). TransferBegun or Rejected answers it, at once.

    Attributes:
        ref: of the request.
        member: who is to lead.
    """

    ref: Ref
    member: NodeId


class ForceShrink(msgspec.Struct, frozen=True):
    """Make this node the only member, and its log the truth (RA-32). ShrunkByForce or Rejected answers it, at once.

    What the others have committed and this node lacks is lost; and they must never run again with what they stored, or
    there are two clusters. It is for a majority that is lost for ever.

    Attributes:
        ref: of the request.
    """

    ref: Ref


Event: TypeAlias = (
    Start
    | ElectionTimeout
    | HeartbeatTick
    | Received
    | Written
    | Compacted
    | Propose
    | ProposeAll
    | Read
    | Change
    | Transfer
    | ForceShrink
)
