"""Ways between transactions: a graph without cycles in an order of its nodes that is repaired where an edge leads back.

A new edge that leads back in the order concerns only the nodes between its ends. So the places between the ends of all
such edges are joined to stretches, and the nodes of each stretch are put in order among themselves: by a depth-first
search along edges that do not leave it. All else stays where it is. Every cycle lies inside one stretch: wherever it
goes forward in the order, one of its edges leads back over that place. (Orders that are kept for new edges: Pearce and
Kelly, JEA 2006, who take the nodes that are reached within a stretch; here new edges come by the thousand.)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from splitbrain.checkers.kernels import kernel
from splitbrain.checkers.transactions.graph import I32, I64, U8, Bools, Edges


class Ways(NamedTuple):
    """Edges by the nodes to which they lead, and the order.

    Attributes:
        order: nodes, so that no edge leads back.
        place: of each node in that order.
        start: where the edges to each node begin; one element more than there are nodes.
        source: of these edges.
    """

    order: I32
    place: I32
    start: I64
    source: I32


class Order:
    """An order of nodes that is kept while edges come and go.

    Attributes:
        order, place: as in `Ways`.
        moved: how many nodes were in stretches that were put in order, and edges to them.
    """

    def __init__(self, nodes: int) -> None:
        self.order = np.arange(nodes, dtype=np.int32)
        self.place = np.arange(nodes, dtype=np.int32)
        self.moved = 0
        self._state = np.zeros(nodes, np.uint8)
        self._edge = np.zeros(nodes, np.int64)
        self._path = np.zeros(nodes, np.int32)
        self._sorted = np.zeros(nodes, np.int32)

    def ways(self, edges: Sequence[Edges], used: Bools) -> Ways | None:
        """Edges of the kinds that are used, none of which leads back then; None if they have a cycle."""
        nodes = len(self.order)
        start, furthest = np.zeros(nodes + 1, np.int64), np.full(nodes, -1, np.int32)
        for each in edges:
            count_used(each.target, each.kind, used, start)
        np.cumsum(start, out=start)
        source, at = np.empty(int(start[-1]), np.int32), start[:-1].copy()
        for each in edges:
            place_used(each.source, each.target, each.kind, used, self.place, at, source, furthest)
        back = np.flatnonzero(furthest >= np.arange(nodes, dtype=np.int32))
        ways = Ways(self.order, self.place, start, source)
        return ways if self._repaired(ways, back, furthest[back]) else None

    def with_edges(self, ways: Ways, new: Edges) -> Ways | None:
        """The same with some edges more; None if they have a cycle then."""
        by_target = np.argsort(new.target, kind="stable")
        target, added = new.target[by_target], new.source[by_target]
        source = np.empty(len(ways.source) + len(added), np.int32)
        start = ways.start.copy()
        insert(ways.start, ways.source, target, added, start, source)
        more = Ways(self.order, self.place, start, source)
        one, other = self.place[added], self.place[target]
        back = one >= other
        return more if self._repaired(more, other[back], one[back]) else None

    def _repaired(self, ways: Ways, first: npt.NDArray[np.integer], last: npt.NDArray[np.integer]) -> bool:
        """Whether the nodes between some places, joined to stretches, could be put in order."""
        begin, end = stretches(first, last)
        moved = resort(ways, begin, end, self._state, self._edge, self._path, self._sorted)
        self.moved += abs(moved)
        return moved >= 0


def stretches(first: npt.NDArray[np.integer], last: npt.NDArray[np.integer]) -> tuple[I64, I64]:
    """Some spans of places, those that overlap joined; by place. The ends belong to them."""
    by_first = np.argsort(first, kind="stable")
    begin, end = first[by_first].astype(np.int64), np.maximum.accumulate(last[by_first].astype(np.int64))
    if not len(begin):
        return begin, end
    apart = np.flatnonzero(begin[1:] > end[:-1])
    return begin[np.append(0, apart + 1)], end[np.append(apart, len(end) - 1)]


@kernel
def count_used(target: I32, kind: U8, used: Bools, start: I64) -> None:
    """Count the edges to each node that are of a kind that is used, one place to the right."""
    for edge in range(len(target)):
        if used[kind[edge]]:
            start[target[edge] + 1] += 1


@kernel
def place_used(source: I32, target: I32, kind: U8, used: Bools, place: I32, at: I64, into: I32, furthest: I32) -> None:
    """Put the source of each edge that is used where the edges to its target go on.

    `furthest` has for each place the last one from which an edge leads there.
    """
    for edge in range(len(target)):
        if not used[kind[edge]]:
            continue
        node, other = target[edge], source[edge]
        into[at[node]] = other
        at[node] += 1
        furthest[place[node]] = max(furthest[place[node]], place[other])


@kernel
def insert(before: I64, old: I32, target: I32, added: I32, start: I64, source: I32) -> None:
    """Put further edges, sorted by target, in front of those that lead to the same node.

    Args:
        before, old: where the edges to each node begin, and their sources.
        target, added: ends of the further ones.
        start, source: the same with them; `start` is a copy of `before`.
    """
    taken, edge = 0, 0
    for node in range(len(before) - 1):
        start[node] = edge
        while taken < len(target) and target[taken] == node:
            source[edge] = added[taken]
            taken += 1
            edge += 1
        for each in range(before[node], before[node + 1]):
            source[edge] = old[each]
            edge += 1
    start[len(before) - 1] = edge


@kernel
def resort(ways: Ways, begin: I64, end: I64, state: U8, edge: I64, path: I32, sorted_: I32) -> int:
    """Put the nodes of each stretch in an order in which no edge leads back, else about as they were.

    Args:
        ways: the edges, and the order that is repaired.
        begin, end: the first and last place of each stretch.
        state, edge, path, sorted_: room for each node; `state` is 0 before and after.

    Returns:
        How many nodes and edges were looked at; less than 0, and the order as it was, if a stretch has a cycle.
    """
    looked = 0
    for stretch in range(len(begin)):
        first, last, count = begin[stretch], end[stretch], 0
        for root in range(first, last + 1):
            depth = 0
            if state[ways.order[root]] == 0:
                path[0] = ways.order[root]
                depth = 1
            while depth > 0:
                node = path[depth - 1]
                if state[node] == 0:
                    state[node] = 1
                    edge[node] = ways.start[node]
                if edge[node] < ways.start[node + 1]:
                    other = ways.source[edge[node]]
                    edge[node] += 1
                    looked += 1
                    if ways.place[other] < first or ways.place[other] > last:
                        continue
                    if state[other] == 1:
                        for each in range(first, last + 1):
                            state[ways.order[each]] = 0
                        return -1 - looked
                    if state[other] == 0:
                        path[depth] = other
                        depth += 1
                    continue
                state[node] = 2
                sorted_[count] = node
                count += 1
                depth -= 1
        for each in range(count):
            node = sorted_[each]
            ways.order[first + each] = node
            ways.place[node] = first + each
            state[node] = 0
        looked += count
    return looked
