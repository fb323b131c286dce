"""Where a graph has cycles: what is left when sources are peeled off (Kahn 1962), and its strong components (Tarjan
1972, with an explicit stack). Linear in the number of edges.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from splitbrain.checkers.kernels import inlined, kernel
from splitbrain.checkers.transactions.graph import I32, I64, U8, Bools, Edges, Graph, Int, graph_of

TRIVIAL: Final = -1
"""The component of a node that is on no cycle."""


def cyclic_nodes(graph: Graph) -> Bools:
    """Nodes that are on a cycle, or behind one: what Kahn's algorithm cannot take away."""
    into = np.zeros(graph.nodes, np.int32)
    count_into(graph.target, into)
    queue = np.empty(graph.nodes, np.int32)
    taken = peel(graph.start, graph.target, into, queue)
    left = np.ones(graph.nodes, np.bool_)
    left[queue[:taken]] = False
    return left


@kernel
def count_into(target: I32, into: I32) -> None:
    """Count the edges that lead to each node."""
    for edge in range(len(target)):
        into[target[edge]] += 1


@kernel
def peel(start: I64, target: I32, into: I32, queue: I32) -> int:
    """Take away nodes without edges to them until there are none; how many, in the queue."""
    end = 0
    for node in range(len(into)):
        if into[node] == 0:
            queue[end] = node
            end += 1
    at = 0
    while at < end:
        node = queue[at]
        at += 1
        for edge in range(start[node], start[node + 1]):
            into[target[edge]] -= 1
            if into[target[edge]] == 0:
                queue[end] = target[edge]
                end += 1
    return end


def components(graph: Graph, kinds: Bools, within: Bools | None = None) -> I32:
    """The strong component of each node by number, TRIVIAL for a node on no cycle.

    Args:
        graph: without edges from a node to itself.
        kinds: the kinds of edges that count.
        within: the nodes that count; all if left out.
    """
    nodes = graph.nodes
    component = np.full(nodes, TRIVIAL, np.int32)
    rank, low = np.zeros(nodes, np.int32), np.zeros(nodes, np.int32)
    stack, path = np.empty(nodes, np.int32), np.empty(nodes, np.int32)
    if within is None:
        within = np.ones(nodes, np.bool_)
    tarjan(graph.start, graph.target, graph.kind, kinds, within, graph.start[:-1].copy(), rank, low, stack, path,
           component)  # fmt: skip
    return component


@kernel
def tarjan(
    start: I64, target: I32, kind: U8, kinds: Bools, within: Bools, edge: I64, rank: I32, low: I32, stack: I32,
    path: I32, component: I32,
) -> int:  # fmt: skip
    """Number the components of more than one node; how many there are.

    `rank` is the order of discovery, from 1, 0 for nodes not seen yet, and -1 for those of finished components. `edge`
    is the next edge of each node that is to be looked at.
    """
    found, seen, height, depth = 0, 0, 0, 0
    for root in range(len(rank)):
        if rank[root] != 0 or not within[root]:
            continue
        seen += 1
        rank[root] = seen
        low[root] = seen
        stack[height] = root
        path[depth] = root
        height += 1
        depth += 1
        while depth > 0:
            node = path[depth - 1]
            if edge[node] < start[node + 1]:
                place = edge[node]
                edge[node] = place + 1
                if not kinds[kind[place]]:
                    continue
                other = target[place]
                if not within[other]:
                    continue
                if rank[other] == 0:
                    seen += 1
                    rank[other] = seen
                    low[other] = seen
                    stack[height] = other
                    path[depth] = other
                    height += 1
                    depth += 1
                elif rank[other] > 0:
                    low[node] = min(low[node], rank[other])
                continue
            depth -= 1
            if depth > 0:
                low[path[depth - 1]] = min(low[path[depth - 1]], low[node])
            if low[node] == rank[node]:
                below = close(node, found, height, rank, stack, component)
                found += below < height - 1
                height = below
    return found


@inlined
def close(node: Int, number: Int, height: Int, rank: I32, stack: I32, component: I32) -> Int:
    """Take a component off the stack, and number it if it has more than one node; the height that is left."""
    first = height
    while True:
        height -= 1
        other = stack[height]
        rank[other] = -1
        if height < first - 1 or other != node:
            component[other] = number
        if other == node:
            return height


def core_of(graph: Graph, component: I32) -> tuple[Graph, I32]:
    """The graph of the nodes in components, with the edges inside them; and which node each of its nodes is."""
    nodes = np.flatnonzero(component != TRIVIAL).astype(np.int32)
    number = np.full(graph.nodes, -1, np.int32)
    number[nodes] = np.arange(len(nodes), dtype=np.int32)
    degree = graph.start[nodes + 1] - graph.start[nodes]
    source = np.repeat(nodes, degree)
    first = np.concatenate([np.zeros(1, np.int64), np.cumsum(degree)])[:-1]
    edge = np.repeat(graph.start[nodes] - first, degree) + np.arange(int(degree.sum()))
    inside = component[source] == component[graph.target[edge]]
    source, edge = source[inside], edge[inside]
    edges = Edges(number[source], number[graph.target[edge]], graph.kind[edge])
    transactions = int(np.searchsorted(nodes, graph.transactions))
    return graph_of(transactions, len(nodes), [edges]), nodes
