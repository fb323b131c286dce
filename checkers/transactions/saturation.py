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
from typing import Final, Protocol, TypeAlias

import numpy as np

from splitbrain.checkers.kernels import budget
from splitbrain.checkers.transactions import looking, reach
from splitbrain.checkers.transactions.derived_edges import DerivedEdges, Label, Premise
from splitbrain.checkers.transactions.graph import (
    DERIVED,
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
    derived,
    graph_of,
    parts,
)
from splitbrain.checkers.transactions.open_keys import Keys
from splitbrain.checkers.transactions.reach import room_for, with_more
from splitbrain.checkers.transactions.ways import Order, Ways

Edge: TypeAlias = tuple[int, int, int]
"""Sources, targets and kinds."""

WORK: Final = 2_000_000
"""How many steps may be taken: a few seconds, and some hundred MiB. A step is an edge that may follow."""

PAUSE: Final = 1 << 40
"""After how many nodes, edges and entries of clocks a compiled kernel returns."""


@dataclass
class Saturated:
    """What was derived.

    Attributes:
        derived: edges in the order in which they were found, each with its premise.
        work: nodes and edges that were looked at.
        closed: numbers of the keys of whose versions the whole order is known now.
        spent: whether the allowance ended it before nothing new followed.
    """

    derived: DerivedEdges = field(default_factory=DerivedEdges)
    work: int = 0
    closed: list[int] = field(default_factory=list[int])
    spent: bool = False

    @property
    def edges(self) -> Edges:
        """The edges."""
        return self.derived.until(self.derived.count)


def saturate(nodes: int, edges: Sequence[Edges], keys: Keys, tag: int) -> Saturated:
    """Derive edges until nothing new follows.

    Args:
        nodes: transactions and joints.
        edges: of all kinds.
        keys: those whose order is open.
        tag: 0, 1 or 2: what order is among the edges.
    """
    found = Saturated()
    if not len(keys.number):
        return found
    search = _Search(nodes, edges, keys, found)
    for level, each in [(level, each) for level in (NO_G_SINGLE, NO_G2) for each in sorted({0, tag})]:
        # What is found at a level and tag is of no use to those before it. If the whole order of a key is known by
        # then, its edges are there, and a way that contradicts them closes a cycle with them.
        if search.is_open.any() and found.work < WORK:
            search.fix(level, each)
    found.closed = keys.number[~search.is_open].tolist()
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


def _label_of(level: int, tag: int) -> Label:
    """The kinds of the edges of a level and tag, and those that say as much by no more."""
    rests = [(each, tagged) for each in range(NO_G_SINGLE, level + 1) for tagged in sorted({0, tag})]
    same = np.zeros((2, KINDS), np.bool_)
    for row, base in enumerate((WW, RW)):
        same[row, [derived(base, *each) for each in rests]] = True
    return Label(derived(WW, level, tag), derived(RW, level, tag), same[0], same[1])


class _Search:
    """Derives edges, level by level.

    Attributes:
        is_open: of each key whether its whole order is unknown.
    """

    def __init__(self, nodes: int, edges: Sequence[Edges], keys: Keys, found: Saturated) -> None:
        self.is_open = np.ones(len(keys.number), np.bool_)
        self._edges = tuple(edges)
        self._keys = keys
        self._found = found
        self._order = Order(nodes)
        self._room = room_for(keys, 0)

    def fix(self, level: int, tag: int) -> None:
        """Derive edges of one level and tag until nothing new follows."""
        found, order, used, label = self._found, self._order, usable(level, tag), _label_of(level, tag)
        known = (*self._edges, found.edges)
        ways = order.ways(known, used)
        found.work += (sum(map(len, known)) + len(order.order)) // looking.ENTRIES
        which = np.flatnonzero(self.is_open)
        while ways is not None and len(which) and found.work < WORK:
            before, moved = found.derived.count, order.moved
            self._look(which, ways, label)
            new = found.derived.since(before).of(used)
            if not len(new):
                break
            ways = order.with_edges(ways, new)
            found.work += (order.moved - moved) // looking.ENTRIES
            if ways is not None:
                which = np.flatnonzero(self.is_open & self._touched(ways, new))

    def _look(self, which: I64, ways: Ways, label: Label) -> None:
        """Look at some keys once, and add what follows."""
        found, keys = self._found, self._keys
        first, last = _spans(keys, ways)
        widest = int((last - first)[which].max()) + 1
        if widest > len(self._room.wrote):
            self._room = room_for(keys, widest)
        known, said = found.derived.count, np.zeros(4, np.int64)
        progress = np.array([0, known, found.work, 0], np.int64)
        while True:
            ended = looking.look(
                keys, which, first, last, ways, self._room, found.derived.columns, label, known, self.is_open,
                reach.ROOM, WORK, budget(PAUSE), progress, said,
            )  # fmt: skip
            found.derived.count = int(progress[looking.EDGES])
            if ended == looking.LOOKED:
                break
            if ended == looking.LACKS_EDGES:
                found.derived.make_room(int(said[reach.NEED]))
            elif ended != looking.PAUSED:
                self._room = with_more(self._room, ended, int(said[reach.NEED]))
        found.work = int(progress[looking.WORK])
        found.spent |= bool(progress[looking.SPENT])

    def _touched(self, ways: Ways, new: Edges) -> Bools:
        """Which keys have accesses before the source and behind the target of one of some edges, or at them.

        Between accesses of others none of these edges can be on a way, as no edge leads back.
        """
        first, last = _spans(self._keys, ways)
        sources, targets = ways.place[new.source], ways.place[new.target]
        by_source = np.argsort(sources)
        nearest = np.minimum.accumulate(targets[by_source][::-1])[::-1]
        which = np.searchsorted(sources[by_source], first)
        return np.append(nearest, len(ways.place))[which] <= last


def _spans(keys: Keys, ways: Ways) -> tuple[I64, I64]:
    """Between which places each key is accessed."""
    first, last = np.empty(len(keys.number), np.int64), np.empty(len(keys.number), np.int64)
    looking.find_spans(keys, ways, first, last)
    return first, last


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
        return self.saturated.derived.premise(*edge)

    def way(self, transactions: int, premise: Premise, ends: tuple[int, int], rests: tuple[int, int]) -> list[Edge]:
        """A shortest way between two transactions along edges that were known then, without joints."""
        known, used = (*self.observed, self.saturated.derived.until(premise.known)), usable(*rests)
        graph = graph_of(transactions, self.nodes, [each.of(used) for each in known])
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
