"""What can happen to a member: everything that `Raft.handle` takes.

The shell around the machine makes these from its network, its disk, its timers and its clients.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec

from splitbrain.cluster.raft.messages import Message, NodeId

Ref: TypeAlias = Any
"""What the shell gets back with the outcome of a request; opaque to the machine, never compared."""


class Start(msgspec.Struct, frozen=True):
    """The node is up. Handed in once, before anything else."""


class ElectionTimeout(msgspec.Struct, frozen=True):
    """The timer of the latest StartElectionTimer ran out (never one that was stopped or replaced since)."""


class HeartbeatTick(msgspec.Struct, frozen=True):
    """`heartbeat_ms` have passed, once more, since StartHeartbeat. A late tick is delivered once only."""


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
    """A client's command for the log. Exactly one of Apply (with this ref), Rejected or Dropped answers it, in time."""

    ref: Ref
    data: bytes


class Read(msgspec.Struct, frozen=True):
    """A client's linearizable read. Exactly one of ReadReady or Rejected answers it, in time."""

    ref: Ref


class Change(msgspec.Struct, frozen=True):
    """A client's wish that a member joins or leaves. Apply (with this ref), Rejected or Dropped answers it, in time.

    Attributes:
        ref: of the request.
        member: who.
        joins: whether it becomes a member; else it is one no longer.
    """

    ref: Ref
    member: NodeId
    joins: bool


Event: TypeAlias = Start | ElectionTimeout | HeartbeatTick | Received | Written | Compacted | Propose | Read | Change
