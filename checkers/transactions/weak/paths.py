"""Shortest ways between transactions, on which steps of one session that follow each other are one step.

That is what a witness shows: T1 comes before T5 of its session, however many are between them. A step of a session
costs nothing after another one, every other step costs one; so nodes are met by their costs (0-1 breadth-first search).
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from splitbrain.checkers.kernels import budget, inlined, kernel
from splitbrain.checkers.transactions.components import TRIVIAL, components
from splitbrain.checkers.transactions.graph import I32, I64, PROCESS, U8, WR, WW, Graph, Int, allowed

LOOKS: Final = 20_000_000
"""How many nodes and edges are looked at for a shortest cycle: enough for each edge of a few thousand."""

_GOLDEN: Final = 0.6180339887498949
"""Multiples of it, without their whole parts, are spread evenly."""

NEXT: Final = 0
BEST: Final = 1
LEAST: Final = 2
SPENT: Final = 3
"""Places in the progress: which of the edges is next, the one with the shortest way back and what that costs, and how
many edges were looked at."""

FAR: Final = 1 << 30
"""More than any path costs."""

Way = tuple[tuple[int, ...], tuple[int, ...]]
"""Nodes, and the kind of the edge from each to the next."""


class Room(NamedTuple):
    """What is known of each node twice: as it is met by a step of a session (2 * node + 1), and otherwise (2 * node).

    Attributes:
        cost: the least that is known; FAR before and after a search.
        edge, before: by which edge, and from where.
        queue: what was met, by cost; it grows from the middle to both ends.
        touched: whose cost is known.
    """

    cost: I32
    edge: I64
    before: I64
    queue: I64
    touched: I64


def shortest_cycle(graph: Graph) -> Way:
    """A shortest cycle; if LOOKS do not suffice, the shortest that was found with them. There must be one."""
    component = components(graph, allowed((PROCESS, WR, WW)))
    source = np.repeat(np.arange(graph.nodes), np.diff(graph.start))
    inside = (component[source] != TRIVIAL) & (component[source] == component[graph.target])
    edges = np.flatnonzero(inside & (graph.kind != PROCESS))  # sessions alone have no cycle
    if len(edges) * (graph.nodes + int(np.count_nonzero(inside))) > LOOKS:
        edges = edges[np.argsort(np.arange(len(edges)) * _GOLDEN % 1.0, kind="stable")]  # from all over the graph
    room, progress = _room(graph.nodes), np.array([0, -1, FAR, 0], np.int64)
    while progress[NEXT] < len(edges) and (progress[SPENT] <= LOOKS or progress[BEST] < 0):
        try_edges(graph.start, graph.target, graph.kind, component, source[edges], edges, room, budget(LOOKS), progress)
    best = int(progress[BEST])
    begin, end = int(source[best]), int(graph.target[best])
    nodes, kinds = _path(graph, component, end, begin, room)
    return (begin, *nodes[:-1]), (int(graph.kind[best]), *kinds)


def shortest_path(graph: Graph, begin: int, end: int) -> Way:
    """A shortest path, with both ends among its nodes; there must be one."""
    return _path(graph, np.zeros(graph.nodes, np.int32), begin, end, _room(graph.nodes))


def _room(nodes: int) -> Room:
    states = 2 * nodes
    return Room(
        np.full(states, FAR, np.int32),
        np.empty(states, np.int64),
        np.empty(states, np.int64),
        np.empty(4 * states + 2, np.int64),
        np.empty(states, np.int64),
    )


def _path(graph: Graph, component: I32, begin: int, end: int, room: Room) -> Way:
    """A shortest path within a component; of steps of one session that follow each other only the ends."""
    state = path_to(graph.start, graph.target, graph.kind, component, begin, end, room)
    nodes, kinds = [end], list[int]()
    while state != 2 * begin:
        kind = int(graph.kind[room.edge[state]])
        state = int(room.before[state])
        if kind == PROCESS and kinds[-1:] == [PROCESS]:
            nodes[-1] = state // 2
        else:
            kinds.append(kind)
            nodes.append(state // 2)
    return tuple(reversed(nodes)), tuple(reversed(kinds))


@kernel
def try_edges(
    start: I64, target: I32, kind: U8, component: I32, source: I64, edges: I64, room: Room, looks: int, progress: I64
) -> None:
    """Look for shorter ways back from the edges that are next, until `looks` are spent; fill in the progress."""
    until = progress[SPENT] + looks
    for place in range(progress[NEXT], len(edges)):
        edge = edges[place]
        begin, end, most = target[edge], source[place], progress[LEAST] - 1
        state, looked, cost = search(start, target, kind, component, begin, end, most, room)
        if state >= 0 and cost < progress[LEAST]:
            progress[BEST], progress[LEAST] = edge, cost
        progress[SPENT] += looked + 1
        progress[NEXT] = place + 1
        if progress[SPENT] > until:
            break


@kernel
def path_to(start: I64, target: I32, kind: U8, component: I32, begin: int, end: int, room: Room) -> int:
    """The state in which a node is met from another, -1 if it is not; `edge` and `before` lead back from there."""
    return search(start, target, kind, component, begin, end, FAR - 2, room)[0]


@inlined
def search(
    start: I64, target: I32, kind: U8, component: I32, begin: Int, end: Int, most: Int, room: Room
) -> tuple[Int, Int, Int]:
    """Look for a node from another, within its component and for a cost of `most` at most.

    Returns:
        The state in which it was met, -1 if it was not; how many edges were looked at; and the cost.
    """
    cost, queue, middle = room.cost, room.queue, len(room.queue) // 2
    first, last, met, looked, known = middle, middle + 1, -1, 0, 1
    queue[first] = room.touched[0] = 2 * begin
    cost[2 * begin] = 0
    while first < last:
        state = queue[first]
        first += 1
        node = state // 2
        if node == end:
            met = state
            break
        for edge in range(start[node], start[node + 1]):
            other = target[edge]
            looked += 1
            if component[other] != component[begin]:
                continue
            by_session = kind[edge] == PROCESS
            free = by_session and state % 2 == 1
            reached = 2 * other + (1 if by_session else 0)
            price = cost[state] + (0 if free else 1)
            if price > most or price >= cost[reached]:
                continue
            if cost[reached] == FAR:
                room.touched[known] = reached
                known += 1
            cost[reached] = price
            room.edge[reached] = edge
            room.before[reached] = state
            if free:
                first -= 1
                queue[first] = reached
            else:
                queue[last] = reached
                last += 1
    price = cost[met] if met >= 0 else FAR
    for place in range(known):
        cost[room.touched[place]] = FAR
    return met, looked, price
