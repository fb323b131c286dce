"""Which nodes can make progress while links and nodes do not change, and which certainly cannot.

A directed link is open (always passes), cut (never passes) or uncertain; a node is up, down or uncertain. Uncertain
links and nodes count as open and up in rules about what must not happen, and as cut and down in rules about what must.

Capability is about direct links, not paths: a leader needs direct links with its voters. A capable node need not make
progress: a node whose log is behind cannot be elected. So an answer is demanded only of a core, whose members are all
linked with each other. (Connectivity is not transitive: partial partitions, Alfatafta et al., OSDI 2020.)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import permutations
from typing import TypeAlias

import msgspec

NodeId: TypeAlias = str
Link: TypeAlias = tuple[NodeId, NodeId]
Voters: TypeAlias = frozenset[NodeId]


class Topology(msgspec.Struct, frozen=True, dict=True):
    """Nodes and directed links as they are for a while, and the voter sets in force.

    What follows from it is found once: several rules ask for it.

    Attributes:
        nodes: all nodes of the test, in its order.
        up: nodes that run all the time.
        possibly_up: these, and those whose state is unknown.
        open: directed links that pass all the time.
        possibly_open: these, and those whose state is unknown.
        configurations: each voter set that some node holds; at least one.
    """

    nodes: tuple[NodeId, ...]
    up: frozenset[NodeId]
    possibly_up: frozenset[NodeId]
    open: frozenset[Link]
    possibly_open: frozenset[Link]
    configurations: tuple[Voters, ...]

    @cached_property
    def possibly_capable(self) -> frozenset[NodeId]:
        """As the function of this name."""
        return frozenset(
            node
            for node in self.nodes
            if any(_has_majority(node, voters, self.possibly_up, self.possibly_open) for voters in self.configurations)
        )

    @cached_property
    def possibly_served(self) -> frozenset[NodeId]:
        """As the function of this name."""
        return frozenset(
            node
            for node in self.nodes
            if node in self.possibly_up
            and any(_linked(node, leader, self.possibly_open) for leader in self.possibly_capable)
        )

    @cached_property
    def cores(self) -> tuple[tuple[NodeId, ...], ...]:
        """As the function of this name."""
        # Up and open for certain only: a core is what an answer is demanded of.
        voters = [node for node in self.nodes if node in self.up and any(node in held for held in self.configurations)]
        friends = {
            node: [other for other in voters if other != node and _linked(node, other, self.open)] for node in voters
        }
        place = {node: number for number, node in enumerate(self.nodes)}
        groups = [tuple(sorted(group, key=place.__getitem__)) for group in _cliques((), voters, [], friends)]
        enough = [
            group
            for group in groups
            if all(len(held.intersection(group)) >= majority(held) for held in self.configurations)
        ]
        return tuple(sorted(enough, key=lambda group: [place[node] for node in group]))


def topology(
    nodes: Iterable[NodeId],
    *,
    down: Iterable[NodeId] = (),
    uncertain_nodes: Iterable[NodeId] = (),
    cut: Iterable[Link] = (),
    uncertain_links: Iterable[Link] = (),
    configurations: Iterable[Iterable[NodeId]] = (),
) -> Topology:
    """The topology in which all nodes are up and all links open but these.

    `configurations` defaults to one of all nodes.
    """
    named = tuple(nodes)
    possibly_up = frozenset(named) - frozenset(down)
    possibly_open = frozenset(permutations(named, 2)) - frozenset(cut)
    held = tuple(dict.fromkeys(frozenset(voters) for voters in configurations))
    return Topology(
        nodes=named,
        up=possibly_up - frozenset(uncertain_nodes),
        possibly_up=possibly_up,
        open=possibly_open - frozenset(uncertain_links),
        possibly_open=possibly_open,
        configurations=held or (frozenset(named),),
    )


def majority(voters: Voters) -> int:
    """The size of a majority of these voters."""
    return len(voters) // 2 + 1


def capable(at: Topology) -> frozenset[NodeId]:
    """Voters that are up and linked both ways with a majority of up voters of every configuration in force."""
    return frozenset(
        node for node in at.nodes if all(_has_majority(node, voters, at.up, at.open) for voters in at.configurations)
    )


def possibly_capable(at: Topology) -> frozenset[NodeId]:
    """Voters that may be capable for some configuration in force."""
    return at.possibly_capable


def possibly_served(at: Topology) -> frozenset[NodeId]:
    """Nodes that may have links both ways with a node that may be capable: they may give quorum answers."""
    return at.possibly_served


def halted(at: Topology) -> bool:
    """Whether certainly no node can make progress."""
    return not possibly_capable(at)


def cores(at: Topology) -> tuple[tuple[NodeId, ...], ...]:
    """Largest groups of up voters, all linked with each other, that are a majority of every configuration in force.

    Each in the order of the nodes; the groups in the order of their members. (They are the maximal cliques of the graph
    of open links.)
    """
    return at.cores


def _cliques(
    group: tuple[NodeId, ...],
    candidates: list[NodeId],
    excluded: list[NodeId],
    friends: Mapping[NodeId, Sequence[NodeId]],
) -> Iterator[tuple[NodeId, ...]]:
    """The maximal cliques that hold this one and otherwise only candidates (Bron and Kerbosch, CACM 1973)."""
    if not candidates and not excluded:
        yield group
    # A clique that an excluded node enlarges was found together with that node. No pivot: clusters are small.
    while candidates:
        node = candidates[0]
        near = friends[node]
        yield from _cliques(
            (*group, node),
            [one for one in candidates if one in near],
            [one for one in excluded if one in near],
            friends,
        )
        candidates = candidates[1:]
        excluded = [*excluded, node]


def _has_majority(node: NodeId, voters: Voters, up: frozenset[NodeId], links: frozenset[Link]) -> bool:
    if node not in voters or node not in up:
        return False
    return sum(voter in up and _linked(node, voter, links) for voter in voters) >= majority(voters)


def _linked(one: NodeId, other: NodeId, links: frozenset[Link]) -> bool:
    return one == other or ((one, other) in links and (other, one) in links)
