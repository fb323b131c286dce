"""More of the order of registers' versions, from the order of transactions; to a fixed point.

A version a of a key comes before a version b of it if the transaction that wrote a comes before one that wrote b or
read b.
Else b comes before a, and there is a cycle:

    the writer of b was reached    b's writer overwrites before a's, and comes after it    G1c
    a reader of b was reached      it read b, which a overwrites, and comes after a        G-single

If the way there has antidependencies itself, the cycle is a G2. So each pair of versions rests on the absence of one of
these, and edges that follow from it may be used for anomalies that are no stronger (see `graph.derived`); where the way
has an edge of processes or of real time, the edge inherits that. (Biswas and Enea, OOPSLA 2019; AWDIT, PLDI 2025, for
causal consistency.)

Work is linear in the edges between the first write of a key and its last access, for each key whose order is open,
times the number of chains of its versions (`reach`). If the allowance is spent, the remaining keys stay open; so does
a key whose clocks would take too much memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from splitbrain.checkers.kernels import kernel
from splitbrain.checkers.transactions.components import cyclic_nodes
from splitbrain.checkers.transactions.graph import (
    DERIVED,
    I32,
    I64,
    KINDS,
    LINK,
    NO_G2,
    NO_G_SINGLE,
    PROCESS,
    REALTIME,
    RW,
    WR,
    WW,
    Bools,
    Edges,
    Graph,
    derived,
    graph_of,
    joined,
    parts,
)
from splitbrain.checkers.transactions.reach import Accesses, Pairs, Range, pairs_of

I8: TypeAlias = npt.NDArray[np.int8]

Edge: TypeAlias = tuple[int, int, int]
"""Sources, targets and kinds."""

WORK: Final = 2_000_000
"""How many steps may be taken: a few seconds, and some hundred MiB. A step is an edge that may follow."""

NEW: Final = 3
"""Further steps of an edge that is new."""

ENTRIES: Final = 1_000
"""How many nodes, edges and entries of clocks are one step."""


@dataclass
class Key:
    """The versions of one key.

    Attributes:
        number: of the key.
        writes: of each version the micro-operation and its transaction.
        reads: of each version the first reads that found it, and their transactions.
    """

    number: int
    writes: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    reads: list[list[tuple[int, int]]] = field(default_factory=list[list[tuple[int, int]]])


class Premise(NamedTuple):
    """Why one version comes before another.

    Attributes:
        earlier: micro-operation that wrote the earlier version.
        later: micro-operation that read or wrote the later one.
        before: micro-operation of the edge's first transaction, which wrote or read the earlier version.
        after: micro-operation that wrote the later version.
        known: how many derived edges were known then.
    """

    earlier: int
    later: int
    before: int
    after: int
    known: int


@dataclass
class Saturated:
    """What was derived.

    Attributes:
        premises: edges in the order in which they were found, each with its premise.
        work: nodes and edges that were looked at.
        closed: numbers of the keys of whose versions the whole order is known now.
        spent: whether the allowance ended it before nothing new followed.
    """

    premises: dict[Edge, Premise] = field(default_factory=dict[Edge, Premise])
    work: int = 0
    closed: list[int] = field(default_factory=list[int])
    spent: bool = False

    @property
    def edges(self) -> Edges:
        """The edges."""
        return _columns(list(self.premises))


def _columns(rows: Sequence[Edge]) -> Edges:
    columns = np.array(rows, np.int64).reshape(-1, 3)
    return Edges(columns[:, 0].astype(np.int32), columns[:, 1].astype(np.int32), columns[:, 2].astype(np.uint8))


def saturate(transactions: int, nodes: int, edges: Sequence[Edges], keys: Sequence[Key], tag: int) -> Saturated:
    """Derive edges until nothing new follows.

    Args:
        transactions: how many there are.
        nodes: transactions and joints.
        edges: of all kinds.
        keys: those whose order is open.
        tag: 0, 1 or 2: what order is among the edges.
    """
    found = Saturated()
    passes = [(level, each) for level in (NO_G_SINGLE, NO_G2) for each in sorted({0, tag})]
    again = bool(keys)
    while again and found.work < WORK:
        again = False
        for level, each in passes:
            again |= _pass(transactions, nodes, edges, keys, level, each, found)
    found.spent |= again
    return found


def usable(level: int, tag: int) -> Bools:
    """The kinds of edges that a way may have, of which pairs of versions of that level and tag follow."""
    table = np.zeros(KINDS, np.bool_)
    table[[WW, WR, LINK]] = True
    table[RW] = level == NO_G2
    table[PROCESS], table[REALTIME] = tag == 1, tag == 2
    for kind in range(DERIVED, DERIVED + 18):
        base, rests_on, tagged = parts(kind)
        table[kind] = rests_on <= level and tagged in (0, tag) and (base == WW or level == NO_G2)
    return table


def _pass(
    transactions: int, nodes: int, edges: Sequence[Edges], keys: Sequence[Key], level: int, tag: int, found: Saturated
) -> bool:
    """Look at all keys once; whether anything new was found."""
    known = joined([*edges, found.edges])
    used = usable(level, tag)[known.kind]
    part = Edges(known.source[used], known.target[used], known.kind[used])
    forward = graph_of(transactions, nodes, [part])
    if cyclic_nodes(forward).any():
        return False  # There is a cycle that is no weaker than what would follow.
    backward = graph_of(transactions, nodes, [Edges(part.target, part.source, part.kind)])
    order = _in_order(forward)
    place = np.empty(nodes, np.int64)
    place[order] = np.arange(nodes)
    before = len(found.premises)
    weaker = list(_weaker(level, tag))
    found.work += (len(known) + nodes) // ENTRIES
    found.closed = []
    for key in keys:
        if found.work >= WORK:
            break
        pairs = _pairs(key, order, place, backward)
        found.work += 1 + pairs.steps // ENTRIES
        found.spent |= not pairs.complete
        if pairs.distinct:
            found.closed.append(key.number)
        for edge, premise in _derived(key, pairs, level, tag):
            found.work += 1
            if not any(_same(edge, each) in found.premises for each in weaker):
                found.work += NEW
                found.premises[edge] = premise._replace(known=before)
            if found.work >= WORK:
                break
    found.spent |= found.work >= WORK
    return len(found.premises) > before


def _weaker(level: int, tag: int) -> Iterator[tuple[int, int]]:
    for each in range(NO_G_SINGLE, level + 1):
        for tagged in sorted({0, tag}):
            yield each, tagged


def _same(edge: Edge, rests: tuple[int, int]) -> Edge:
    return edge[0], edge[1], derived(parts(edge[2])[0], *rests)


def _pairs(key: Key, order: I32, place: I64, backward: Graph) -> Pairs:
    """Pairs of versions of a key that follow from the order of transactions."""
    reads = [len(each) for each in key.reads]
    accesses = Accesses(
        np.array([transaction for _, transaction in key.writes], np.int32),
        np.array([transaction for each in key.reads for _, transaction in each], np.int32),
        np.concatenate([np.zeros(1, np.int64), np.cumsum(reads)]).astype(np.int64),
    )
    first = int(place[accesses.writer].min())
    last = max(int(place[each].max()) for each in (accesses.writer, accesses.reader) if len(each))
    part = order[first : last + 1]
    return pairs_of(accesses, Range(part, place, backward.start, backward.target, first))


def _derived(key: Key, pairs: Pairs, level: int, tag: int) -> Iterator[tuple[Edge, Premise]]:
    """Edges that follow for one key; those between versions of which nothing new is known are left out."""
    reads = [read for each in key.reads for read, _ in each]
    rows: list[list[int]] = np.stack([pairs.earlier, pairs.later, pairs.read], axis=1).tolist()
    for earlier, later, number in rows:
        reached = reads[number] if number >= 0 else key.writes[later][0]
        yield from _pair(key, earlier, later, reached, level, tag, overwritten=number >= 0)


def _pair(
    key: Key, earlier: int, later: int, reached: int, level: int, tag: int, *, overwritten: bool
) -> Iterator[tuple[Edge, Premise]]:
    """The edges of one pair of versions: from the writer of the earlier one, and from its readers."""
    write, writer = key.writes[earlier]
    after, target = key.writes[later]
    if overwritten and writer != target:
        yield (writer, target, derived(WW, level, tag)), Premise(write, reached, write, after, 0)
    for read, reader in key.reads[earlier]:
        if reader != target:
            yield (reader, target, derived(RW, level, tag)), Premise(write, reached, read, after, 0)


def _in_order(graph: Graph) -> I32:
    """The nodes of a graph without cycles, each before those behind it, and otherwise about in their own order."""
    nodes = graph.nodes
    order, path, state = np.empty(nodes, np.int32), np.empty(nodes, np.int32), np.zeros(nodes, np.int8)
    sort(graph.start, graph.target, graph.start[:-1].copy(), path, state, order)
    return order


@kernel
def sort(start: I64, target: I32, edge: I64, path: I32, state: I8, order: I32) -> None:
    """Put nodes in reverse order of completion of a depth-first search that begins at the last ones."""
    end = len(order)
    for root in range(len(order) - 1, -1, -1):
        if state[root] != 0:
            continue
        state[root] = 1
        path[0] = root
        depth = 1
        while depth > 0:
            node = path[depth - 1]
            if edge[node] < start[node + 1]:
                other = target[edge[node]]
                edge[node] += 1
                if state[other] == 0:
                    state[other] = 1
                    path[depth] = other
                    depth += 1
                continue
            depth -= 1
            end -= 1
            order[end] = node


class Derived(Protocol):
    """Says what derived edges follow from; as `Derivation`."""

    @property
    def saturated(self) -> Saturated:
        """The derived edges, or at least what became of the work."""
        ...

    def premise(self, edge: Edge) -> Premise | None:
        """Why there is an edge; None if it is not one of these."""
        ...

    def way(self, transactions: int, premise: Premise, ends: tuple[int, int], rests: tuple[int, int]) -> list[Edge]:
        """A shortest way between two transactions along edges that were known then, without joints."""
        ...


@dataclass(frozen=True)
class Derivation:
    """What derived edges follow from.

    Attributes:
        observed: all other edges.
        nodes: transactions and joints.
        saturated: the derived edges.
    """

    observed: tuple[Edges, ...]
    nodes: int
    saturated: Saturated

    def premise(self, edge: Edge) -> Premise | None:
        """Why there is an edge; None if it is not one of these."""
        return self.saturated.premises.get(edge)

    def way(self, transactions: int, premise: Premise, ends: tuple[int, int], rests: tuple[int, int]) -> list[Edge]:
        """A shortest way between two transactions along edges that were known then, without joints."""
        known = joined([*self.observed, _columns(list(self.saturated.premises)[: premise.known])])
        used = usable(*rests)[known.kind]
        part = Edges(known.source[used], known.target[used], known.kind[used])
        graph = graph_of(transactions, self.nodes, [part])
        begin, end = ends
        came: dict[int, tuple[int, int]] = {begin: (-1, -1)}
        waiting = [begin]
        for node in waiting:
            if node == end:
                break
            for edge in range(int(graph.start[node]), int(graph.start[node + 1])):
                other = int(graph.target[edge])
                if other not in came:
                    came[other] = (node, int(graph.kind[edge]))
                    waiting.append(other)
        steps: list[Edge] = []
        node, target = end, end
        while node != begin:
            node, kind = came[node]
            if kind != LINK:
                steps.append((node, target, kind))
            if node < transactions:
                target = node
        return steps[::-1]
