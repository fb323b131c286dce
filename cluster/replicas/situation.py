"""What the leader of a queue knows when it decides about the members."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

import msgspec

from splitbrain.cluster.bugs import NO_BUGS, Bugs
from splitbrain.cluster.queuegroups.records import QueueRecord
from splitbrain.cluster.raft.membership import Configuration
from splitbrain.cluster.raft.messages import NodeId


class Situation(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """The facts about one queue on the node that leads it.

    Attributes:
        me: the id of this member.
        record: of the queue.
        group: its committed configuration; none is uncommitted.
        cluster: the committed configuration of the metadata store, at the entry at which the record is as it is.
        running: members of the cluster whose nodes can be reached now, this one included.
        failed: members whose nodes have been down for the failure recovery interval.
        draining: members whose nodes are being drained.
        target: how many live replicas there are to be; None: as many members as the queue was declared with, whether
            they run or not.
        is_due: whether a check is due, so that a change may begin.
        auto_remove: whether members may leave without an operator.
        zones: availability zones by node.
        load: how many queues each member of the cluster takes part in.
        bugs: those that are switched on.
    """

    me: NodeId
    record: QueueRecord
    group: Configuration
    cluster: Configuration
    running: frozenset[NodeId]
    failed: frozenset[NodeId] = frozenset()
    draining: frozenset[NodeId] = frozenset()
    target: int | None = None
    is_due: bool = True
    auto_remove: bool = True
    zones: Mapping[str, str] = {}
    load: Mapping[NodeId, int] = {}
    bugs: Bugs = NO_BUGS

    @cached_property
    def wanted(self) -> int:
        """How many replicas there are to be."""
        return self.record.size if self.target is None else self.target

    @cached_property
    def counted(self) -> tuple[NodeId, ...]:
        """The members that count: with a target those that are live (D7), else all of the cluster."""
        of_cluster = (member for member in self.group.members if member in self.cluster)
        if self.target is None:
            return tuple(of_cluster)
        return tuple(member for member in of_cluster if member not in self.failed)

    @property
    def has_majority(self) -> bool:
        """Whether a majority of the voters runs."""
        return self.holds_without(None)

    def holds_without(self, member: NodeId | None) -> bool:
        """Whether a majority of the voters runs, and is of the cluster, once a member has left.

        A removal is committed by a majority of those that are left. One that is not there to agree would leave the
        queue without a majority for ever: so live members of the cluster are counted, and not those on paper.
        """
        left = [voter for voter in self.group.voters if voter != member]
        there = [voter for voter in left if voter in self.running and voter in self.cluster]
        return 2 * len(there) > len(left)
