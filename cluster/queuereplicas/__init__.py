"""Replicas of queues on a node: facts for `splitbrain.cluster.replicas`, and the steps that come of them."""

from splitbrain.cluster.queuereplicas.keeper import ReplicaKeeper

__all__ = ["ReplicaKeeper"]
