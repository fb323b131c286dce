"""Where a graph falls apart: cuts in time that no edge leads back over, and what of a piece is on cycles.

Nodes have places in time. A cycle has an edge that leads back in time, and lies between the ends of such edges that
overlap. So where no edge leads back over a moment, no cycle does: the graph can be cut there, and each piece be
searched by itself. With many clients on few keys there may be no such moment.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from splitbrain.checkers.transactions.by_key.edges import EDGES
from splitbrain.checkers.transactions.columns import Ints
from splitbrain.checkers.transactions.components import TRIVIAL, components, cyclic_nodes
from splitbrain.checkers.transactions.graph import KINDS, Edges, graph_of
from splitbrain.results.columns import array, numbers


def first_cut(begin: int, end: int, low: Ints, high: Ints, carry: int) -> int | None:
    """The first moment of a piece of time that no edge leads back over; None if there is none.

    Args:
        begin, end: of the piece.
        low, high: edges lead back from `high` to `low`; all whose `low` is in the piece.
        carry: the largest `high` of edges whose `low` is before the piece.

    Returns:
        A moment m: no edge leads from m or later to before m.
    """
    order = np.argsort(low, kind="stable")
    low, high = low[order], np.maximum.accumulate(np.maximum(high[order], carry))
    cut = max(begin, carry + 1)
    while cut < end:
        place = int(np.searchsorted(low, cut, side="left"))
        reached = int(high[place - 1]) if place else carry
        if reached < cut:
            return cut
        cut = reached + 1
    return None


def dense(source: Ints, target: Ints, further: Ints | None = None) -> tuple[Ints, Ints, Ints, int]:
    """Edges between numbers from 0: transactions in their order, then barriers and joints.

    Args:
        source, target: nodes.
        further: transactions that may have no edge.

    Returns:
        Sources, targets, the node of each number, and how many are transactions.
    """
    nodes = np.unique(np.concatenate([source, target, np.zeros(0, np.int64) if further is None else further]))
    joints = int(np.searchsorted(nodes, 0))
    count = len(nodes) - joints

    def number(each: Ints) -> Ints:
        found = np.searchsorted(nodes, each)
        return np.where(found >= joints, found - joints, found + count)

    return number(source), number(target), np.concatenate([nodes[joints:], nodes[:joints]]), count


def cyclic_edges(table: pa.Table) -> pa.Table:
    """Of rows of `EDGES` those that are on cycles of all kinds of edges."""
    source, target, nodes, count = dense(_ints(table, "source"), _ints(table, "target"))
    kind = _ints(table, "kind").astype(np.uint8)
    edges = Edges(source.astype(np.int32), target.astype(np.int32), kind)
    graph = graph_of(count, len(nodes), [edges])
    left = cyclic_nodes(graph)
    if not left.any():
        return EDGES.empty_table()
    component = components(graph, np.ones(KINDS, np.bool_), left)
    kept = (component[edges.source] != TRIVIAL) & (component[edges.source] == component[edges.target])
    return table.take(array(np.flatnonzero(kept)))


def _ints(table: Any, name: str) -> Ints:
    return numbers(table.column(name)).astype(np.int64)
