"""What the rules for replicas see of a stream: the same that they see of a quorum queue.

Members with a vote are voters, one that copies what it lacks is a learner, and that is the change under way: the
coordinator has one at a time.
"""

from __future__ import annotations

from splitbrain.cluster.queuegroups.records import Change, QueueRecord
from splitbrain.cluster.queues import QueueConfig
from splitbrain.cluster.raft.membership import Configuration
from splitbrain.cluster.raft.messages import NodeId
from splitbrain.cluster.replicas import Begin, Leave, Step
from splitbrain.cluster.streams.commands import AddReplica, DeleteReplica, Gone
from splitbrain.cluster.streams.state import State, Stream


def record_of_stream(stream: Stream) -> QueueRecord:
    """The stream, in the words of a quorum queue."""
    change = next((Change(0, "grow", member, "automation") for member in stream.learners), None)
    members = tuple(sorted({*stream.voters, *stream.learners}))
    group = f"stream.{stream.id}"
    return QueueRecord(group, (), members, stream.size, QueueConfig(), target=stream.target, change=change)


def configuration_of(stream: Stream) -> Configuration:
    """Who copies it with a vote, and without."""
    return Configuration(tuple(sorted(stream.voters)), dict.fromkeys(stream.learners))


def command_of(stream: Stream, step: Step, failed: frozenset[NodeId]) -> AddReplica | DeleteReplica | None:
    """The command by which the coordinator makes a change; None for a step that is not one.

    It holds in the epoch in which it was decided only, and each change ends that: so of two that were decided at one
    moment, by two leaders or twice, the coordinator makes one.
    """
    match step:
        case Begin("grow", member):
            return AddReplica(stream.name, member, stream.epoch, tuple(sorted(failed & stream.members.keys())))
        case Begin("shrink", member) | Leave(member):
            return DeleteReplica(stream.name, member, stream.epoch)
        case _:
            return None


def left_behind(state: State, cluster: Configuration) -> list[Gone]:
    """That members which left the cluster have given up their copies, as they were asked to: they cannot say so."""
    return [
        Gone(stream.id, name, member.action.index)
        for stream in state.streams.values()
        for name, member in stream.members.items()
        if name not in cluster and member.action is not None and member.action.kind == "delete"
    ]
