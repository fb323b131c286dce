"""Since when this node has not reached each of the others: what it knows of failed replicas."""

from __future__ import annotations

from collections.abc import Callable, Iterable


class Watch:
    """What one node sees of the others.

    Args:
        is_up: whether a node can be reached now.
        recovery_ns: how long a node must have been down to count as failed.
    """

    def __init__(self, is_up: Callable[[str], bool], recovery_ns: int) -> None:
        self._is_up = is_up
        self._recovery_ns = recovery_ns
        self._down_since: dict[str, int] = {}
        self._seen: frozenset[str] = frozenset()
        self._failed: frozenset[str] = frozenset()
        self.running: frozenset[str] = frozenset()

    def look(self, nodes: Iterable[str], now_ns: int) -> tuple[bool, bool]:
        """Look at these nodes; whether one came or went since the last look, and whether one has failed since."""
        there = [*nodes]
        self.running = frozenset(node for node in there if self._is_up(node))
        self._down_since = {node: self._down_since.get(node, now_ns) for node in there if node not in self.running}
        came_or_went = self.running != self._seen
        self._seen = self.running
        failed = frozenset(node for node, since in self._down_since.items() if now_ns - since >= self._recovery_ns)
        has_failed = not failed <= self._failed
        self._failed = failed
        return came_or_went, has_failed

    @property
    def failed(self) -> frozenset[str]:
        """The nodes that have been down for so long."""
        return self._failed
