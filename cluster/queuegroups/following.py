"""The members of a queue follow those of the cluster, one step at a time, taken by the leader of the queue.

Who left the cluster leaves the queue, and while the queue has fewer members than it was declared with, another member
of the cluster joins it. A member is in the record before it is in the group, so that its node has begun to take part;
and it is out of the group before it is out of the record. Its node keeps its data until the queue is deleted: an old
record, which did not name it yet, would look the same.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from splitbrain.cluster.queuegroups.records import QueueRecord
from splitbrain.cluster.raft.membership import Configuration
from splitbrain.cluster.raft.messages import NodeId


class Join(msgspec.Struct, frozen=True):
    """Take a member into the group."""

    member: NodeId


class Leave(msgspec.Struct, frozen=True):
    """Have a member leave the group."""

    member: NodeId


class Rewrite(msgspec.Struct, frozen=True):
    """Let the record name these members."""

    members: tuple[NodeId, ...]


Step: TypeAlias = Join | Leave | Rewrite


def next_step(record: QueueRecord, group: Configuration, cluster: Configuration) -> Step | None:
    """What is to be done next, None if nothing is.

    Args:
        record: of the queue.
        group: its committed configuration; none is uncommitted.
        cluster: the committed configuration of the metadata store, at the entry at which the record is as it is.
    """
    for member in record.members:  # of others this node's metadata may not know yet that they came
        if member in group and member not in cluster and len(group.members) > 1:
            return Leave(member)
    wanted = [member for member in cluster.voters if member not in group]
    if wanted and len(group.members) < record.size:
        announced = [member for member in wanted if member in record.members]
        if announced:
            return Join(announced[0])
        return Rewrite((*record.members, wanted[0]))
    left = tuple(member for member in record.members if member in group)
    return Rewrite(left) if left != record.members else None
