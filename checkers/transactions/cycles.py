"""The cycles of a history: one witness of each type that can be named, and the models that components rule out.

The order is that of the cost: sources are peeled off; a history without anomalies ends there. What is left is reduced
to its strong components. The ladder says exactly which models they rule out; then types are looked for that the models
that are left do not exclude, by searches that are polynomial. Nothing here has a time limit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from splitbrain.checkers.transactions import models
from splitbrain.checkers.transactions.anomalies import TYPES, Type
from splitbrain.checkers.transactions.components import components, core_of, cyclic_nodes
from splitbrain.checkers.transactions.graph import KINDS, Edges, Graph, graph_of
from splitbrain.checkers.transactions.ladder import is_ruled_out
from splitbrain.checkers.transactions.search import Cycle, shortest_cycle


@dataclass(frozen=True)
class Cycles:
    """What is known of a graph's cycles.

    Attributes:
        named: by type a shortest cycle that was found.
        ruled_out: the weakest models of the ladder that components rule out.
        core: how many transactions are on cycles.
        edges: how many edges the whole graph has.
    """

    named: dict[str, Cycle]
    ruled_out: tuple[str, ...]
    core: int
    edges: int


def cycles_of(transactions: int, nodes: int, edges: Sequence[Edges], tag: int) -> Cycles:
    """Look for cycles.

    Args:
        transactions: how many there are.
        nodes: transactions and joints.
        edges: of all kinds.
        tag: 0 for cycles by data alone, 1 with the order of processes, 2 with real time.
    """
    graph = graph_of(transactions, nodes, edges)
    left = cyclic_nodes(graph)
    total = len(graph.target)
    if not left.any():
        return Cycles({}, (), 0, total)
    core, names = core_of(graph, components(graph, np.ones(KINDS, np.bool_), left))
    if not core.nodes:
        return Cycles({}, (), 0, total)
    ruled_out = _ladder(core, tag)
    excluded = models.proscribed_by(_kept(ruled_out, tag))
    named: dict[str, Cycle] = {}
    for type_ in TYPES:
        if type_.tag in (0, tag) and type_.name not in excluded:
            found = _named(core, type_, names)
            if found is not None:
                named[type_.name] = found
    return Cycles(named, ruled_out, core.transactions, total)


def _named(core: Graph, type_: Type, names: np.ndarray[tuple[int], np.dtype[np.int32]]) -> Cycle | None:
    found = shortest_cycle(core, type_)
    if found is None:
        return None
    return Cycle(tuple(int(names[each]) for each in found.transactions), found.kinds)


def _of_tag(tag: int) -> list[str]:
    """The models of the ladder about which a graph with edges of that tag says something."""
    untagged, session, strong = models.LADDER[:5], models.LADDER[5:9], models.LADDER[9:]
    return [*untagged, *((), session, strong)[tag]]


def _ladder(core: Graph, tag: int) -> tuple[str, ...]:
    found: list[str] = []
    implied: list[str] = []
    for model in _of_tag(tag):
        if model not in implied and is_ruled_out(core, model):
            found.append(model)
            implied = models.impossible([f"{each}{models.EXISTS}" for each in found])
    return tuple(found)


def _kept(ruled_out: Sequence[str], tag: int) -> list[str]:
    """The models of the ladder that the graph satisfies."""
    impossible = models.impossible([f"{each}{models.EXISTS}" for each in ruled_out])
    return [model for model in _of_tag(tag) if model not in impossible]
