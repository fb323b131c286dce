"""Quorum queues: pure state machines, each to be replicated by a Raft group of its own (QQ-1 to QQ-7).

`splitbrain.cluster.queuegroups` has the groups. See docs/queues.md.
"""

from splitbrain.cluster.queues.commands import QueueCommand, decode_command, encode_command
from splitbrain.cluster.queues.config import QueueConfig
from splitbrain.cluster.queues.effects import Effect
from splitbrain.cluster.queues.identities import ConsumerId, ConsumerKey, Process
from splitbrain.cluster.queues.machine import Applied, QuorumQueue
from splitbrain.cluster.queues.replies import Reply

__all__ = [
    "Applied",
    "ConsumerId",
    "ConsumerKey",
    "Effect",
    "Process",
    "QueueCommand",
    "QueueConfig",
    "QuorumQueue",
    "Reply",
    "decode_command",
    "encode_command",
]
