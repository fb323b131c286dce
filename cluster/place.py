"""What all groups of a node share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from splitbrain.cluster.detector import FailureDetector
from splitbrain.cluster.links import Links
from splitbrain.cluster.nodeconfig import NodeConfig
from splitbrain.cluster.runtime import Runtime
from splitbrain.cluster.wire import ClientAddress, Deliver


@dataclass(frozen=True)
class Place:
    """What all groups of a node share.

    Attributes:
        config: of the node.
        runtime: of the node.
        links: to the other nodes.
        life: distinguishes this process from the node's earlier ones.
        deliver: sends a message to a client of any node; it may get lost.
        is_connected: whether a client of this node is connected still.
        detector: which other nodes it takes for down.
    """

    config: NodeConfig
    runtime: Runtime
    links: Links
    life: int
    deliver: Callable[[Deliver], None]
    is_connected: Callable[[ClientAddress], bool]
    detector: FailureDetector
