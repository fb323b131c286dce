"""What must be done about an event: everything that `Raft.handle` returns.

Contract of the shell:

- Effects are carried out in order: those of one event in the order of the list, those of an earlier event before those
  of a later one. An asynchronous effect (AppendLog, TruncateLog, Send) is carried out when it has been *begun*.
- Persist and InstallSnapshot are synchronous: no later effect, of this event or of any other, is begun before what they
  say is durable. (The shell may queue effects meanwhile, or not hand in events.) If one fails, the node must stop.
- AppendLog and TruncateLog reach the disk in the order in which they were begun. When an AppendLog is durable, and with
  it everything begun before it, the shell hands its `done` to the machine as an event; of several that became durable
  together the last one's `done` is enough. If a write fails, the node must stop.
- Send is best effort and must not block.
- Apply, ReadReady and Rebuild concern the state machine alone: they keep their order among themselves, and may be
  carried out later than what comes after them.
- Nothing here says how long anything takes: the machine is right under any delay.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

import msgspec

from splitbrain.cluster.raft.events import Ref, Written
from splitbrain.cluster.raft.membership import ChangeRefusal, Configuration
from splitbrain.cluster.raft.messages import OLDEST, Entry, Message, NodeId

Role = Literal["follower", "pre_candidate", "candidate", "leader"]


class Persist(msgspec.Struct, frozen=True, gc=False):
    """Make term and vote durable before anything else is done (RA-6)."""

    term: int
    voted_for: NodeId | None


class AppendLog(msgspec.Struct, frozen=True):
    """Write entries behind the end of the stored log; when they are durable, hand `done` back.

    Attributes:
        entries: contiguous, not empty; the first follows the last stored entry (after the TruncateLogs before it).
        done: the event to hand in when they are durable.
    """

    entries: tuple[Entry, ...]
    done: Written


class TruncateLog(msgspec.Struct, frozen=True, gc=False):
    """Remove the stored entries from this index on, itself included. An AppendLog of the same event follows."""

    from_index: int


class InstallSnapshot(msgspec.Struct, frozen=True):
    """Make a snapshot of the leader durable, and put the state machine there, before anything else is done.

    The stored log goes on behind it: what is stored behind `index` stays if the entry there has `last_term`.

    Attributes:
        index: of the last entry that it covers.
        last_term: its term.
        configurations: those in the log up to there.
        state: the state machine there.
        version: of the state machine, in force there.
    """

    index: int
    last_term: int
    configurations: bytes
    state: bytes
    version: int = OLDEST


class SendChunk(msgspec.Struct, frozen=True, gc=False):
    """Send a peer a part of the newest snapshot, as a SnapshotChunk; of at least one byte, if there is any left.

    Attributes:
        to: the peer.
        term: for the message.
        round: for the message.
        index: of the snapshot of which the peer has the beginning; a newer one is sent from its start.
        offset: it has that much of it.
    """

    to: NodeId
    term: int
    round: int
    index: int
    offset: int


class Send(msgspec.Struct, frozen=True, gc=False):
    """Send a message to a peer. It may get lost."""

    to: NodeId
    message: Message


class Apply(msgspec.Struct, frozen=True):
    """Apply committed entries to the state machine.

    Attributes:
        entries: contiguous from the entry after the last applied one; noops included, which change nothing but the
            version of the state machine.
        refs: by index, the refs of those that were proposed here and are to be answered now. Empty on a follower.
    """

    entries: tuple[Entry, ...]
    refs: Mapping[int, Ref]


class Appended(msgspec.Struct, frozen=True):
    """A Propose that asked for it was put into the log of this leader; it may be durable nowhere.

    Attributes:
        ref: of the Propose.
        index: of its entry, which has the current term.
    """

    ref: Ref
    index: int


class ReadReady(msgspec.Struct, frozen=True):
    """Evaluate a read now: leadership was confirmed, and everything up to `index` was applied by earlier effects.

    Attributes:
        ref: of the Read.
        index: the read index; the state machine has applied at least this much.
    """

    ref: Ref
    index: int


class Rejected(msgspec.Struct, frozen=True):
    """A Propose, a Read or a Change certainly had no effect and never will (definite).

    Attributes:
        ref: of the request.
        leader: who is leader, as far as this node knows.
        reason: "not_leader": this node does not lead (any more); "busy": more is pending here than the limits allow;
            and of a Change: "change_not_permitted": the change before it, or the no-op of the term, is not committed;
            "already_member"; "was_member": a member that left never comes back; "not_member"; "last_member";
            and of a Transfer: "not_member"; "non_voter"; "not_up_to_date": it was not sent all entries yet;
            "transfer_under_way": another one was asked, and may still be elected; "version_not_supported": it does not
            understand the version of the state machine that is in force, which is also the reason for which a
            ForceShrink is refused.
    """

    ref: Ref
    leader: NodeId | None
    reason: Literal["not_leader", "busy"] | ChangeRefusal | TransferRefusal


TransferRefusal: TypeAlias = Literal[
    "not_member", "non_voter", "not_up_to_date", "transfer_under_way", "version_not_supported"
]


class TransferBegun(msgspec.Struct, frozen=True):
    """The member of a Transfer was asked to stand for election at once; it may still not be elected.

    Attributes:
        ref: of the Transfer.
    """

    ref: Ref


class ShrunkByForce(msgspec.Struct, frozen=True):
    """This node is the only member now, and leads.

    Attributes:
        ref: of the ForceShrink.
    """

    ref: Ref


class Dropped(msgspec.Struct, frozen=True):
    """A Propose or a Change was appended, then leadership was lost: its outcome is unknown (indefinite)."""

    ref: Ref


class StartElectionTimer(msgspec.Struct, frozen=True):
    """Restart the election timer: pass in ElectionTimeout after a random time in the configured range.

    Every message of a leader does that on a follower. It is enough to note the time and to check it when the timer
    fires, which then runs on for the rest: no timer needs to be cancelled and created again per message.
    """


class StopElectionTimer(msgspec.Struct, frozen=True):
    """Stop the election timer."""


class StartHeartbeat(msgspec.Struct, frozen=True):
    """Hand in a HeartbeatTick every `heartbeat_ms` from now on.

    For a leader, for a candidate that asks again, and for a follower that waits for the next part of a snapshot.
    """


class StopHeartbeat(msgspec.Struct, frozen=True):
    """No more HeartbeatTicks."""


class Voted(msgspec.Struct, frozen=True, gc=False):
    """This node gave its vote in a term, which it does once; for telemetry. The vote has not left the node yet."""

    term: int
    candidate: NodeId


class RoleChanged(msgspec.Struct, frozen=True):
    """Role, term or known leader changed; for telemetry, and for requests that wait for a leader."""

    role: Role
    term: int
    leader: NodeId | None


class MembersChanged(msgspec.Struct, frozen=True):
    """Another configuration is in force here: it was appended, or what had replaced it was cut off.

    Attributes:
        configuration: this node may not be in it.
    """

    configuration: Configuration


class CommitAdvanced(msgspec.Struct, frozen=True, gc=False):
    """The commit index rose; comes before the Apply of what was committed.

    Attributes:
        index: of the last entry that is committed.
        counted: of a leader, for telemetry: each voter, and the last entry that it had acknowledged as durable.
    """

    index: int
    counted: tuple[tuple[NodeId, int], ...] = ()


class Rebuild(msgspec.Struct, frozen=True):
    """Put the state machine back to the snapshot, or to the beginning: the Applies that follow go on from there.

    Only a node with a bug switched on (M17) has applied what it must take back; a correct one never emits this.
    """


Effect: TypeAlias = (
    Persist
    | AppendLog
    | TruncateLog
    | InstallSnapshot
    | Send
    | SendChunk
    | Apply
    | Appended
    | ReadReady
    | Rejected
    | TransferBegun
    | ShrunkByForce
    | Dropped
    | StartElectionTimer
    | StopElectionTimer
    | StartHeartbeat
    | StopHeartbeat
    | Voted
    | RoleChanged
    | MembersChanged
    | CommitAdvanced
    | Rebuild
)
