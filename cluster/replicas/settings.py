"""How a node maintains the replicas of the queues that it leads; the same on all nodes (CMR-1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from splitbrain.cluster.errors import ArgumentError

INTERVAL_MS: Final = 3_600_000
TRIGGER_MS: Final = 10_000
RECOVERY_MS: Final = 60_000


class ReplicaSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a node.

    Attributes:
        target: how many live replicas a queue is to have where neither its argument nor a policy says it; 0: such a
            queue follows the members of the cluster only, whether these run or not.
        auto_remove: whether members that left the cluster, or were down for long and were replaced, leave their queues
            by themselves.
        interval_ms: between two checks of a queue.
        trigger_ms: from an event, or a change, to the check that it brings about.
        recovery_ms: how long a node must have been down before its replicas count as failed.
        zones: availability zones by node; a node without one is a zone of its own.
        placement: the name of the function that chooses where replicas go (`splitbrain.cluster.replicas.placement`).

    Raises:
        ArgumentError: a figure makes no sense.
    """

    target: int = 0
    auto_remove: bool = True
    interval_ms: int = INTERVAL_MS
    trigger_ms: int = TRIGGER_MS
    recovery_ms: int = RECOVERY_MS
    zones: Mapping[str, str] = {}
    placement: str = "spread"

    def __post_init__(self) -> None:
        """Refuse figures that make no sense."""
        if self.target < 0:
            raise ArgumentError(f"a queue has a target of 1 or more replicas, or 0 for none, not {self.target}.")
        if min(self.interval_ms, self.trigger_ms) < 1 or self.recovery_ms < 0:
            raise ArgumentError("checks of replicas are 1 ms or more apart, and nodes recover within 0 ms or more.")


DEFAULT: Final = ReplicaSettings()
