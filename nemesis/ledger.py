"""State that the nemeses of one test share: which fault keeps which node down, and what else is in force.

A node can be down for several reasons: it was killed, and its disk is full as well. A nemesis that heals one of them
leaves the node down for the other, so that no fault ends before the op that ends it. Only faults whose healing starts
nodes keep a node down. A pause does not: a paused node that is killed is no longer paused.
"""

from __future__ import annotations

from splitbrain.harness.contract.faults import ClientFault, ClockFault, DiskFault
from splitbrain.harness.contract.nodes import Link, NodeId


class Ledger:
    """Shared by all nemeses of a package; empty when a run begins, and again, but for `damaged`, when all is healed.

    Attributes:
        clogged: links that hold everything back.
        spoiled: nodes whose disks have a fault, with that fault.
        rotted: nodes whose disks had rotten sectors, or lost the ends of files, at any time of this run.
        damaged: nodes whose disks lost data for good during this run: they may refuse to start.
        skewed: nodes whose clocks have a fault, with that fault.
        clients: nodes whose links to clients have a fault, with that fault.
        throttled: nodes that get a share of a CPU only, with that share.
    """

    def __init__(self) -> None:
        self.clogged: frozenset[Link] = frozenset()
        self.spoiled: dict[NodeId, DiskFault] = {}
        self.rotted: dict[NodeId, None] = {}
        self.damaged: dict[NodeId, None] = {}
        self.skewed: dict[NodeId, ClockFault] = {}
        self.clients: dict[NodeId, ClientFault] = {}
        self.throttled: dict[NodeId, float] = {}
        self._holds: dict[str, dict[NodeId, None]] = {}

    def hold(self, node: NodeId, fault: str) -> None:
        """From now on the fault keeps the node down, or may do so; its release starts the node."""
        self._holds.setdefault(fault, {})[node] = None

    def release(self, fault: str) -> None:
        """The fault keeps no node down any more."""
        self._holds.pop(fault, None)

    def may_stay_down(self, node: NodeId) -> bool:
        """Whether the node may refuse to start, because its disk lost data for good."""
        return node in self.damaged

    def held_by_others(self, node: NodeId, fault: str) -> list[str]:
        """Faults other than this one that keep the node down."""
        return [name for name, nodes in self._holds.items() if name != fault and node in nodes]
