"""Which other nodes a node reaches now, and when it last did."""

from __future__ import annotations

from splitbrain.cluster.detector import FailureDetector
from splitbrain.cluster.links import Links


class Reach:
    """What one node's links and its failure detector say of the others.

    A node is reached if there is a connection to it and it is not taken for down. That is judged with delay: a node
    that is back for a moment may never count as reached. `contact_ns` shows it.
    """

    def __init__(self, node: str, links: Links, detector: FailureDetector) -> None:
        self._node = node
        self._links = links
        self._detector = detector

    def is_up(self, node: str) -> bool:
        """Whether a node is reached now, as this node itself is."""
        return node == self._node or (self._links.is_up(node) and not self._detector.is_down(node))

    def contact_ns(self, node: str) -> int | None:
        """Until when there were both a connection to another node and signs of life from it; None if never.

        One that is heard and cannot be reached, or the reverse, is as good as gone.
        """
        up_until_ns, heard_ns = self._links.up_until_ns(node), self._detector.heard_ns(node)
        return None if up_until_ns is None or heard_ns is None else min(up_until_ns, heard_ns)
