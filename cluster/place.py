"""What all groups of a node share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from splitbrain.cluster.detector import FailureDetector
from splitbrain.cluster.links import Links
from splitbrain.cluster.nodeconfig import NodeConfig
from splitbrain.cluster.runtime import Runtime
from splitbrain.cluster.wire import ClientAddress, Deliver


class Queues(Protocol):
    """What machines of queues ask of their node (`splitbrain.cluster.queuegroups.keeper`)."""

    def configuration(self, group: str) -> bytes | None:
        """The command that configures the queue of a group; None if this node does not know its record (yet)."""
        ...

    def forget(self, group: str) -> None:
        """Have the record of a group removed, if there is one."""
        ...

    def publish(self, queue: str, command: bytes) -> None:
        """Have another queue carry out a command, at most once."""
        ...

    def publish_confirmed(self, queue: str, command: bytes, answered: Callable[[bool], None]) -> None:
        """The same, and say once, now or later, whether the queue confirmed it; else it may have happened."""
        ...


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
        queues: of the node.
    """

    config: NodeConfig
    runtime: Runtime
    links: Links
    life: int
    deliver: Callable[[Deliver], None]
    is_connected: Callable[[ClientAddress], bool]
    detector: FailureDetector
    queues: Queues
