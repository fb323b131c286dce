"""Network topologies as pure functions: from an order of nodes to the directed links that must drop everything.

The word is Jepsen's, and so are most shapes; the one-way ones are from VOPR, FoundationDB and Antithesis. Randomness is
the caller's: every function takes the nodes in an order that was drawn elsewhere, so that one order is one topology.
What passes is what is not cut, in each direction for itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from splitbrain.harness.contract.nodes import Link, NodeId


class Grudge(NamedTuple):
    """Which directed links drop everything, and the same in words for a person ("n4 | n1 n2 n3 n5")."""

    cut: frozenset[Link]
    target: str


def majority(count: int) -> int:
    """The smallest number of nodes that is more than half of `count`."""
    return count // 2 + 1


def all_links(nodes: Sequence[NodeId]) -> tuple[Link, ...]:
    """Every directed link between two different nodes, sorted."""
    return tuple(sorted((source, destination) for source in nodes for destination in nodes if source != destination))


def company(cut: frozenset[Link], nodes: Sequence[NodeId]) -> dict[NodeId, int]:
    """For each node the number of nodes that it has direct links with both ways, itself included."""
    return {node: sum(node == other or not {(node, other), (other, node)} & cut for other in nodes) for node in nodes}


def sides(*components: Sequence[NodeId]) -> Grudge:
    """Nodes in different components cannot reach each other; empty components are left out."""
    parts = [part for part in components if part]
    cut = frozenset((a, b) for part in parts for other in parts if part is not other for a in part for b in other)
    return Grudge(cut, " | ".join(" ".join(sorted(part)) for part in parts))


def halves(order: Sequence[NodeId]) -> Grudge:
    """A minority and a majority (two equal halves of an even number), the first nodes of `order` in the smaller one."""
    middle = len(order) // 2
    return sides(order[:middle], order[middle:])


def isolate(order: Sequence[NodeId], node: NodeId) -> Grudge:
    """One node alone."""
    return sides([node], [other for other in order if other != node])


def isolate_one(order: Sequence[NodeId]) -> Grudge:
    """The first node of `order` alone."""
    return isolate(order, order[0])


def in_minority(order: Sequence[NodeId], node: NodeId) -> Grudge:
    """The largest minority, `node` in it, against the rest."""
    others = [other for other in order if other != node]
    company = max(len(order) - majority(len(order)) - 1, 0)
    return sides([node, *others[:company]], others[company:])


def thirds(order: Sequence[NodeId]) -> Grudge:
    """Three parts of nearly equal size, none of which is a majority: 2/2/1 of five."""
    parts = [order[start::3] for start in range(3)]
    return sides(*parts)


def bridge(order: Sequence[NodeId]) -> Grudge:
    """Two sides that see each other only through one node, which sees all nodes (Jepsen's bridge).

    Being connected is not transitive here: with five nodes both sides reach a majority, through the same node.
    """
    hub, left, right = order[0], order[1 : 1 + len(order) // 2], order[1 + len(order) // 2 :]
    cut, _ = sides(left, right)
    return Grudge(cut, f"{' '.join(sorted(left))} | {hub} (linked with all) | {' '.join(sorted(right))}")


def majorities_ring(order: Sequence[NodeId]) -> Grudge:
    """Every node sees a majority, itself included, and no two nodes see the same one.

    Links go both ways. With five nodes it is Jepsen's ring: each node sees exactly two others. Beyond five, where
    Jepsen draws links until it fits, this is a circulant graph: each node is linked with its nearest ones on the ring,
    and with the opposite one where a majority needs an odd number of others. If the number of nodes is odd too, no
    graph gives every node an odd number of neighbours: then the first node sees one more than it must.
    """
    count = len(order)
    needed = majority(count) - 1
    linked: set[Link] = set()

    def link(i: int, j: int) -> None:
        a, b = order[i % count], order[j % count]
        linked.update(((a, b), (b, a)))

    for i in range(count):
        for distance in range(1, needed // 2 + 1):
            link(i, i + distance)
    if needed % 2:
        far = count // 2
        # The links of that length form pairs of opposite nodes if the number is even, else one ring through all nodes,
        # of which every second link is taken, starting and ending at the first node.
        for i in range(far) if count % 2 == 0 else range(0, count * far, 2 * far):
            link(i, i + far)
    return Grudge(frozenset(all_links(order)) - linked, f"ring of majorities {' - '.join(order)}")


def mute(order: Sequence[NodeId], node: NodeId) -> Grudge:
    """No node hears `node`; it hears all."""
    return Grudge(frozenset((node, other) for other in order if other != node), f"{node} mute: nobody hears it")


def deaf(order: Sequence[NodeId], node: NodeId) -> Grudge:
    """`node` hears no other node; all others hear it."""
    return Grudge(frozenset((other, node) for other in order if other != node), f"{node} deaf: it hears nobody")


def one_way_halves(order: Sequence[NodeId]) -> Grudge:
    """The smaller half hears nothing of the larger one, which hears everything."""
    middle = len(order) // 2
    small, large = order[:middle], order[middle:]
    cut = frozenset((source, destination) for source in large for destination in small)
    return Grudge(cut, f"{' '.join(sorted(small))} deaf towards {' '.join(sorted(large))}")
