"""How many replicas a queue is to have, and what is to be done about it (S001; CMR-1 to CMR-3, D7).

Everything here is pure: facts go in, and the next step comes out. `splitbrain.cluster.queuereplicas` gathers the facts
on the node that leads a queue, and takes the step.
"""

from splitbrain.cluster.replicas.evaluation import next_step
from splitbrain.cluster.replicas.placement import PLACEMENTS, Placement, placement_named, spread
from splitbrain.cluster.replicas.schedule import Schedule
from splitbrain.cluster.replicas.settings import ReplicaSettings
from splitbrain.cluster.replicas.situation import Situation
from splitbrain.cluster.replicas.steps import Begin, End, HandOver, Join, Leave, Rewrite, Step
from splitbrain.cluster.replicas.target import SETTING, target_of

__all__ = [
    "PLACEMENTS",
    "SETTING",
    "Begin",
    "End",
    "HandOver",
    "Join",
    "Leave",
    "Placement",
    "ReplicaSettings",
    "Rewrite",
    "Schedule",
    "Situation",
    "Step",
    "next_step",
    "placement_named",
    "spread",
    "target_of",
]
