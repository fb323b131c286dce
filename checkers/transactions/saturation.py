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

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
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
    left = [_Open.of(key) for key in keys]
    for level, each in [(level, each) for level in (NO_G_SINGLE, NO_G2) for each in sorted({0, tag})]:
        # What is found at a level and tag is of no use to those before it. If the whole order of a key is known by
        # then, its edges are there, and a way that contradicts them closes a cycle with them.
        if left and found.work < WORK:
            left = _fixed(transactions, nodes, edges, left, level, each, found)
    closed = {key.number for key in keys} - {each.key.number for each in left}
    found.closed = sorted(closed)
    found.spent |= found.work >= WORK
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


def _chosen(edges: Edges, level: int, tag: int) -> Edges:
    """Those edges that a way may have, of which pairs of versions of that level and tag follow."""
    used = usable(level, tag)[edges.kind]
    return Edges(edges.source[used], edges.target[used], edges.kind[used])


def _fixed(
    transactions: int, nodes: int, edges: Sequence[Edges], keys: Sequence[_Open], level: int, tag: int, found: Saturated
) -> list[_Open]:
    """Derive edges of one level and tag until nothing new follows; the keys of which the whole order is not known."""
    ways = _ways_of(transactions, nodes, joined([*edges, found.edges]), level, tag, found)
    spans, label = _Spans(keys), _Label.of(level, tag)
    again, is_open = np.arange(len(keys)), np.ones(len(keys), np.bool_)
    while ways is not None and len(again) and found.work < WORK:
        before = len(found.premises)
        for number in again.tolist():
            if found.work >= WORK:
                break
            pairs = _pairs(keys[number], ways)
            found.spent |= not pairs.complete
            found.work += 1 + pairs.steps // ENTRIES
            is_open[number] = not pairs.distinct
            _add(keys[number], pairs, label, before, found)
        new = _chosen(_columns(list(islice(reversed(found.premises), len(found.premises) - before))), level, tag)
        if not len(new):
            break
        more = ways.with_edges(new)
        ways = more or _ways_of(transactions, nodes, joined([*edges, found.edges]), level, tag, found)
        again = np.zeros(0, np.int64) if ways is None else np.flatnonzero(is_open & spans.touched(ways.place, new))
    return [keys[number] for number in np.flatnonzero(is_open).tolist()]


def _add(each: _Open, pairs: Pairs, label: _Label, known: int, found: Saturated) -> None:
    """Add the edges that follow from pairs of versions of a key, but those that are there, or as much by less."""
    key, premises = each.key, found.premises
    rows: list[list[int]] = np.stack([pairs.earlier, pairs.later, pairs.read], axis=1).tolist()
    for earlier, later, number in rows:
        write, writer = key.writes[earlier]
        after, target = key.writes[later]
        reached = each.reads[number] if number >= 0 else after
        before = len(premises)
        if number >= 0 and writer != target and not any((writer, target, kind) in premises for kind in label.ww):
            premises[writer, target, label.ww[-1]] = Premise(write, reached, write, after, known)
        for read, reader in key.reads[earlier]:
            if reader != target and not any((reader, target, kind) in premises for kind in label.rw):
                premises[reader, target, label.rw[-1]] = Premise(write, reached, read, after, known)
        found.work += (number >= 0) + len(key.reads[earlier]) + NEW * (len(premises) - before)
        if found.work >= WORK:
            return


class _Label(NamedTuple):
    """The kinds of the edges of a level and tag, the own last, behind those that say as much by less."""

    ww: tuple[int, ...]
    rw: tuple[int, ...]

    @classmethod
    def of(cls, level: int, tag: int) -> _Label:
        """Those of a level and tag."""
        rests = [(each, tagged) for each in range(NO_G_SINGLE, level + 1) for tagged in sorted({0, tag})]
        return cls(*(tuple(derived(base, *each) for each in rests) for base in (WW, RW)))


class _Open(NamedTuple):
    """A key whose order is open, its accesses, and the micro-operations of its reads."""

    key: Key
    accesses: Accesses
    reads: list[int]

    @classmethod
    def of(cls, key: Key) -> _Open:
        """That of a key."""
        counts = [len(each) for each in key.reads]
        accesses = Accesses(
            np.array([transaction for _, transaction in key.writes], np.int32),
            np.array([transaction for each in key.reads for _, transaction in each], np.int32),
            np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)]).astype(np.int64),
        )
        return cls(key, accesses, [read for each in key.reads for read, _ in each])


@dataclass(frozen=True)
class _Ways:
    """A graph without cycles.

    Attributes:
        order: its nodes, in an order in which no edge leads back.
        place: of each node in that order.
        start, source: where the edges to each node begin, and their sources.
    """

    order: I32
    place: I64
    start: I64
    source: I32

    def with_edges(self, new: Edges) -> _Ways | None:
        """The same with some edges more; None if one leads back in this order."""
        if (self.place[new.source] >= self.place[new.target]).any():
            return None
        source = np.insert(self.source, self.start[new.target], new.source)
        counts = np.bincount(new.target, minlength=len(self.order))
        start = self.start + np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
        return _Ways(self.order, self.place, start, source)


def _ways_of(transactions: int, nodes: int, known: Edges, level: int, tag: int, found: Saturated) -> _Ways | None:
    """The ways of which pairs of a level and tag follow; None if there is a cycle: it is no weaker than these."""
    part = _chosen(known, level, tag)
    found.work += (len(known) + nodes) // ENTRIES
    forward = graph_of(transactions, nodes, [part])
    if cyclic_nodes(forward).any():
        return None
    backward = graph_of(transactions, nodes, [Edges(part.target, part.source, part.kind)])
    order = _in_order(forward)
    place = np.empty(nodes, np.int64)
    place[order] = np.arange(nodes)
    return _Ways(order, place, backward.start, backward.target)


class _Spans:
    """From where to where keys are accessed."""

    def __init__(self, keys: Sequence[_Open]) -> None:
        accesses = [each for key in keys for each in (key.accesses.writer, key.accesses.reader)]
        size = [len(key.accesses.writer) + len(key.accesses.reader) for key in keys]
        self._start = np.cumsum([0, *size])[:-1].astype(np.int64)
        self._access = np.concatenate([np.zeros(0, np.int32), *accesses])

    def touched(self, place: I64, new: Edges) -> Bools:
        """Which keys have accesses before the source and behind the target of one of some edges, or at them.

        Between accesses of others none of these edges can be on a way, as no edge leads back.
        """
        at = place[self._access]
        first, last = np.minimum.reduceat(at, self._start), np.maximum.reduceat(at, self._start)
        sources, targets = place[new.source], place[new.target]
        by_source = np.argsort(sources)
        nearest = np.minimum.accumulate(targets[by_source][::-1])[::-1]
        which = np.searchsorted(sources[by_source], first)
        return np.append(nearest, len(place))[which] <= last


def _pairs(each: _Open, ways: _Ways) -> Pairs:
    """Pairs of versions of a key that follow from the order of transactions."""
    accesses, place = each.accesses, ways.place
    writers, readers = place[accesses.writer], place[accesses.reader]
    first, last = int(writers.min()), max(int(writers.max()), int(readers.max(initial=-1)))
    return pairs_of(accesses, Range(ways.order[first : last + 1], place, ways.start, ways.source, first))


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
        graph = graph_of(transactions, self.nodes, [_chosen(known, *rests)])
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
