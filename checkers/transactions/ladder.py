"""Which consistency models a graph rules out, without a cycle being named: a strong component is enough.

Exact, and linear in the edges: every closed walk of the kinds of edges that a model proscribes is in a component of the
graph of these edges. For snapshot isolation, which allows cycles with two antidependencies in a row, the nodes have two
layers; an antidependency leads to the second one, from where only other edges lead on (Cerone and Gotsman 2018).
"""

from __future__ import annotations

from typing import Final

import numpy as np

from splitbrain.checkers.transactions.components import TRIVIAL, components
from splitbrain.checkers.transactions.graph import (
    DERIVED,
    NO_G2,
    NO_G_SINGLE,
    PROCESS,
    REALTIME,
    RW,
    RWP,
    WR,
    WRP,
    WW,
    WWP,
    Bools,
    Edges,
    Graph,
    allowed,
    graph_of,
    parts,
)

_KINDS: Final = {
    "read-uncommitted": ((WW, WWP), 0),
    "read-committed": ((WW, WWP, WR, WRP), 0),
    "snapshot-isolation": ((WW, WWP, WR, WRP, RW, RWP), NO_G_SINGLE),
    "repeatable-read": ((WW, WWP, WR, WRP, RW), NO_G2),
    "serializable": ((WW, WWP, WR, WRP, RW, RWP), NO_G2),
}
_TAGGED: Final = {
    "strong-session-read-uncommitted": ("read-uncommitted", 1),
    "strong-session-read-committed": ("read-committed", 1),
    "strong-session-snapshot-isolation": ("snapshot-isolation", 1),
    "strong-session-serializable": ("serializable", 1),
    "strong-read-uncommitted": ("read-uncommitted", 2),
    "strong-read-committed": ("read-committed", 2),
    "strong-snapshot-isolation": ("snapshot-isolation", 2),
    "strong-serializable": ("serializable", 2),
}


def is_ruled_out(graph: Graph, model: str) -> bool:
    """Whether the graph has a closed walk that a model of `models.LADDER` proscribes."""
    base, tag = _TAGGED.get(model, (model, 0))
    kinds, level = _KINDS[base]
    table = allowed([*kinds, *(PROCESS, REALTIME)[tag - 1 : tag]] if tag else kinds)
    for kind in range(DERIVED, DERIVED + 18):
        needs, rests_on, tagged = parts(kind)
        table[kind] = needs in kinds and rests_on <= level and tagged in (0, tag)
    searched = layered(graph, table) if base == "snapshot-isolation" else graph
    return bool((components(searched, table) != TRIVIAL).any())


def layered(graph: Graph, table: Bools) -> Graph:
    """The graph in two layers: a node as such, and right after an antidependency."""
    source = np.repeat(np.arange(graph.nodes, dtype=np.int32), np.diff(graph.start))
    used = table[graph.kind]
    source, target, kind = source[used], graph.target[used], graph.kind[used]
    is_rw = np.array([parts(each)[0] in (RW, RWP) for each in range(len(table))], np.bool_)[kind]
    joint = source >= graph.transactions
    above = graph.nodes
    base = ~is_rw
    # A joint behind an antidependency belongs to it: what it leads to has had one.
    behind = Edges(source[joint] + above, target[joint] + above, kind[joint])
    onward = ~joint & base
    edges = [
        Edges(source[base], target[base], kind[base]),
        Edges(source[onward] + above, target[onward], kind[onward]),
        Edges(source[is_rw], target[is_rw] + above, kind[is_rw]),
        behind,
    ]
    return graph_of(2 * above, 2 * above, [each for each in edges if len(each)] or edges[:1])
