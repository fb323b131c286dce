"""Who joins, leaves or leads the coordinator's group next: it follows the members of the cluster."""

from __future__ import annotations

from collections.abc import Collection
from typing import TypeAlias

import msgspec

from splitbrain.cluster.raft.membership import Configuration
from splitbrain.cluster.raft.messages import NodeId
from splitbrain.cluster.replicas import HandOver, Join, Leave

MemberStep: TypeAlias = HandOver | Join | Leave


class GroupFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What its leader knows of the group.

    Attributes:
        me: the id of the leader.
        group: the committed configuration of the group; none is uncommitted.
        cluster: that of the metadata store, as of this leadership or later: what it does not name has left.
        running: members of either whose nodes can be reached now, the leader included.
        draining: members whose nodes are being drained.
    """

    me: NodeId
    group: Configuration
    cluster: Configuration
    running: Collection[NodeId]
    draining: Collection[NodeId] = ()


def next_member_step(facts: GroupFacts) -> MemberStep | None:
    """What is to be done next, None if nothing is.

    First a leader whose node is being drained hands the group over. Then who left the cluster leaves the group, if a
    majority of those that are left runs: else the removal could not be committed. Then one voter of the cluster that
    runs joins, if a majority runs; it has a vote once it has caught up. Copies are another matter: a node without one
    is a member as well, since its clients ask it where streams are.
    """
    if facts.me in facts.draining:
        able = [each for each in facts.group.voters if each in facts.running and each not in facts.draining]
        if able:
            return HandOver(able[0])
    for member in facts.group.members:
        if member not in facts.cluster and len(facts.group.voters) > 1 and _holds_without(facts, member):
            return Leave(member)
    new = [each for each in sorted(facts.cluster.voters) if each not in facts.group and each in facts.running]
    return Join(new[0]) if new and _holds_without(facts, None) else None


def _holds_without(facts: GroupFacts, member: NodeId | None) -> bool:
    left = [voter for voter in facts.group.voters if voter != member]
    there = [voter for voter in left if voter in facts.running and voter in facts.cluster]
    return 2 * len(there) > len(left)
