"""What the leader of a queue may have to do about its members, one thing at a time."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from splitbrain.cluster.queuegroups.records import ChangeKind
from splitbrain.cluster.raft.messages import NodeId


class Begin(msgspec.Struct, frozen=True):
    """Note in the record that a member is to join, or to leave: no other change begins before that one has ended."""

    kind: ChangeKind
    member: NodeId


class Join(msgspec.Struct, frozen=True):
    """Take a member into the group."""

    member: NodeId


class Leave(msgspec.Struct, frozen=True):
    """Have a member leave the group."""

    member: NodeId


class End(msgspec.Struct, frozen=True):
    """Note in the record how the change ended, and who the members are."""

    number: int
    outcome: str
    members: tuple[NodeId, ...]


class Rewrite(msgspec.Struct, frozen=True):
    """Let the record name these members."""

    members: tuple[NodeId, ...]


class HandOver(msgspec.Struct, frozen=True):
    """Have another member lead, as this node is being drained."""

    member: NodeId


Step: TypeAlias = Begin | Join | Leave | End | Rewrite | HandOver
