"""How long this node has not reached each of the others: what it knows of failed replicas."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Protocol

MOST_NS: Final = 2_000_000_000
"""More than this does not count between two looks, which come once a second: then this node itself stood still."""


class Reaching(Protocol):
    """What a node knows of the others (`splitbrain.cluster.reach`)."""

    def is_up(self, node: str) -> bool:
        """Whether a node is reached now."""
        ...

    def contact_ns(self, node: str) -> int | None:
        """When it was reached last; None if never."""
        ...


class Watch:
    """What one node sees of the others.

    Args:
        reach: of this node.
        recovery_ns: how long a node must have been down to count as failed.
    """

    def __init__(self, reach: Reaching, recovery_ns: int) -> None:
        self._reach = reach
        self._recovery_ns = recovery_ns
        self._looked_ns: int | None = None
        self._down_ns: dict[str, int] = {}
        self._seen: frozenset[str] = frozenset()
        self._failed: frozenset[str] = frozenset()
        self.running: frozenset[str] = frozenset()

    def look(self, nodes: Iterable[str], now_ns: int) -> tuple[bool, bool]:
        """Look at these nodes; whether one came or went since the last look, and whether one has failed since."""
        there = [*nodes]
        self.running = frozenset(node for node in there if self._reach.is_up(node))
        passed_ns = 0 if self._looked_ns is None else min(now_ns - self._looked_ns, MOST_NS)
        self._looked_ns = now_ns
        self._down_ns = {node: self._down_for_ns(node, passed_ns, now_ns) for node in there if node not in self.running}
        came_or_went = self.running != self._seen
        self._seen = self.running
        failed = frozenset(node for node, down_ns in self._down_ns.items() if down_ns >= self._recovery_ns)
        has_failed = not failed <= self._failed
        self._failed = failed
        return came_or_went, has_failed

    def _down_for_ns(self, node: str, passed_ns: int, now_ns: int) -> int:
        """For how long a node that is not reached has been down; looks alone miss one that was back between them."""
        before_ns = self._down_ns.get(node)
        down_ns = 0 if before_ns is None else before_ns + passed_ns
        contact_ns = self._reach.contact_ns(node)
        return down_ns if contact_ns is None else min(down_ns, now_ns - contact_ns)

    @property
    def failed(self) -> frozenset[str]:
        """The nodes that have been down for so long."""
        return self._failed
