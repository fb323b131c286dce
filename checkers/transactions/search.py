"""Shortest cycles of a type: breadth-first search over pairs of a node and a state of the type's automaton.

Linear in the edges for each start. What is found is a closed walk; it is a witness only if no transaction occurs twice.
Edges from joints cost nothing, so that length is counted in transactions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from splitbrain.checkers.kernels import kernel
from splitbrain.checkers.transactions.anomalies import Automaton, Type, automaton
from splitbrain.checkers.transactions.components import TRIVIAL, components
from splitbrain.checkers.transactions.graph import I32, I64, LINK, U8, Bools, Graph

I8: TypeAlias = npt.NDArray[np.int8]

WORK: Final = 30_000_000
"""The largest number of edges that are looked at for one type: about a quarter of a second."""

NO_LIMIT: Final = 1 << 30


@dataclass(frozen=True)
class Cycle:
    """A cycle without joints: each transaction, and the kind of the edge from it to the next one."""

    transactions: tuple[int, ...]
    kinds: tuple[int, ...]


class Searched(NamedTuple):
    """The graph that is searched, and for each edge its source."""

    start: I64
    target: I32
    kind: U8
    component: I32
    source: I32
    transactions: int


class Room(NamedTuple):
    """What one search needs, by node and state.

    Attributes:
        mark: the last search that came here.
        distance: of that search.
        parent: the pair before, -1 for the first.
        edge: the edge from there.
        queue: two halves: pairs of this distance, and of the next one.
        seen: by node, the last walk that went through it.
        walk: edges of the walk that was found, from its end.
        best: edges of the best walk.
        state: best length, edges of the best walk, work done, number of the search.
    """

    mark: I32
    distance: I32
    parent: I32
    edge: I64
    queue: I32
    seen: I32
    walk: I64
    best: I64
    state: I64


def shortest_cycle(graph: Graph, type_: Type, work: int = WORK) -> Cycle | None:
    """A shortest simple cycle of a type, or None if none was found.

    Args:
        graph: best only the nodes that are on cycles.
        type_: of the cycle.
        work: edges that may be looked at. If they run out, the cycle is the shortest that was found until then.
    """
    rules = automaton(type_)
    component = components(graph, rules.kinds)
    source = np.repeat(np.arange(graph.nodes, dtype=np.int32), np.diff(graph.start))
    inside = (component[source] != TRIVIAL) & (component[source] == component[graph.target])
    begins = np.flatnonzero(inside & (rules.first[graph.kind] >= 0) & (source < graph.transactions))
    if not len(begins):
        return None
    size = np.bincount(component[component != TRIVIAL])
    begins = begins[np.argsort(size[component[source[begins]]], kind="stable")]
    return _search(graph, rules, component, source, begins, work)


def _search(graph: Graph, rules: Automaton, component: I32, source: I32, begins: I64, work: int) -> Cycle | None:
    pairs = graph.nodes * len(rules.final)
    room = Room(
        mark=np.zeros(pairs, np.int32),
        distance=np.empty(pairs, np.int32),
        parent=np.empty(pairs, np.int32),
        edge=np.empty(pairs, np.int64),
        queue=np.empty(4 * pairs + 4, np.int32),
        seen=np.zeros(graph.nodes, np.int32),
        walk=np.empty(pairs + 1, np.int64),
        best=np.empty(pairs + 1, np.int64),
        state=np.array([NO_LIMIT, 0, 0, 0], np.int64),
    )
    searched = Searched(graph.start, graph.target, graph.kind, component, source, graph.transactions)
    search(searched, rules.first, rules.step, rules.final, begins, room, work)
    count = int(room.state[1])
    if not count:
        return None
    edges = room.best[:count]
    shown = edges[graph.kind[edges] != LINK]
    return Cycle(tuple(source[shown].tolist()), tuple(graph.kind[shown].tolist()))


@kernel
def search(graph: Searched, first: I8, step: I8, final: Bools, begins: I64, room: Room, work: int) -> None:
    """Search from each edge for the way back to its source, shorter than the best so far."""
    states = len(final)
    for begin in begins:
        if room.state[2] > work or room.state[0] <= 2:
            return
        room.state[3] += 1
        pair = search_from(graph, first, step, final, begin, room, states)
        if pair >= 0:
            keep_simple(graph, pair, room)


@kernel
def search_from(graph: Searched, first: I8, step: I8, final: Bools, begin: int, room: Room, states: int) -> int:
    """The pair at which a shortest walk ends that closes the cycle, -1 if there is none shorter than the best."""
    goal, stamp = graph.source[begin], room.state[3]
    half = len(room.queue) // 2
    pair = graph.target[begin] * states + first[graph.kind[begin]]
    room.mark[pair] = stamp
    room.distance[pair] = 1
    room.parent[pair] = -1
    room.edge[pair] = begin
    side, end, following = 0, 1, 0
    room.queue[0] = pair
    distance = 1
    while end > 0 and distance < room.state[0]:
        at = 0
        while at < end:
            pair = room.queue[side * half + at]
            at += 1
            if room.distance[pair] != distance:
                continue
            node, state = pair // states, pair % states
            if node == goal:
                if final[state]:
                    return pair
                continue
            for edge in range(graph.start[node], graph.start[node + 1]):
                room.state[2] += 1
                after = step[state, graph.kind[edge]]
                if after < 0 or graph.component[graph.target[edge]] != graph.component[goal]:
                    continue
                free = graph.kind[edge] == 8
                other = graph.target[edge] * states + after
                reached = distance if free else distance + 1
                if room.mark[other] == stamp and room.distance[other] <= reached:
                    continue
                room.mark[other] = stamp
                room.distance[other] = reached
                room.parent[other] = pair
                room.edge[other] = edge
                if free:
                    room.queue[side * half + end] = other
                    end += 1
                else:
                    room.queue[(1 - side) * half + following] = other
                    following += 1
        side, end, following = 1 - side, following, 0
        distance += 1
    return -1


@kernel
def keep_simple(graph: Searched, pair: int, room: Room) -> None:
    """Keep the walk that ends at a pair as the best one, unless a transaction occurs twice in it."""
    stamp, count, length = room.state[3], 0, room.distance[pair]
    while pair >= 0:
        edge = room.edge[pair]
        source = graph.source[edge]
        if source < graph.transactions:
            if room.seen[source] == stamp:
                return
            room.seen[source] = stamp
        room.walk[count] = edge
        count += 1
        pair = room.parent[pair]
    for place in range(count):
        room.best[place] = room.walk[count - 1 - place]
    room.state[0] = length
    room.state[1] = count
