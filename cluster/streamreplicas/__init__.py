"""Copies of streams, and members of the coordinator's group, that come and go without an operator.

membership  who joins, leaves or leads the coordinator's group next
facts       what the rules for replicas (`splitbrain.cluster.replicas`) see of a stream
policies    what policies say of a stream
keeper      what the node that leads the coordinator's group does about both
"""

from splitbrain.cluster.streamreplicas.keeper import StreamKeeper
from splitbrain.cluster.streamreplicas.policies import StreamPolicies

__all__ = ["StreamKeeper", "StreamPolicies"]
