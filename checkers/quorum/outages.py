"""How long members of a core had not been linked when a window began.

Some systems keep a connection across a cut. TCP doubles the time between retransmissions (RFC 6298), so after a cut
nothing may pass for as long again as the cut lasted.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from splitbrain.checkers.quorum.topology import NodeId, Topology, cores
from splitbrain.checkers.quorum.windows import Window


def outages(windows: Sequence[Window]) -> list[int]:
    """For each window the longest time in nanoseconds for which two members of a core had not been linked before it.

    That time ends when the window begins. Two nodes are linked while both are up and their links are open both ways;
    between windows that is unknown.

    Args:
        windows: of one run, in the order of time.
    """
    linked_until: dict[tuple[NodeId, NodeId], int] = {}
    found: list[int] = []
    for window in windows:
        pairs = {pair for core in cores(window.at) for pair in combinations(core, 2)}
        found.append(max((window.begin_ns - linked_until.get(pair, 0) for pair in pairs), default=0))
        # After the measurement: the links of this window say nothing of the time before it.
        for pair in combinations(window.at.nodes, 2):
            if _linked(window.at, *pair):
                linked_until[pair] = window.end_ns
    return found


def _linked(at: Topology, one: NodeId, other: NodeId) -> bool:
    return {one, other} <= at.up and {(one, other), (other, one)} <= at.open
