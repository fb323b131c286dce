"""Edges that were derived, each with what it follows from, in columns; a hash table finds them by their ends."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from splitbrain.checkers.kernels import inlined, kernel, plainly
from splitbrain.checkers.transactions.graph import I32, U8, Bools, Edges, Int

_LEAST: Final = 64
"""Edges for which there is room at least."""

# From SplitMix64 (Steele, Lea and Flood 2014).
_MIX: Final = np.uint64(0x9E3779B97F4A7C15)
_SHIFT: Final = np.uint64(29)
_HALF: Final = np.uint64(32)


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


class Columns(NamedTuple):
    """Edges in the order in which they were found; behind them room for more.

    Attributes:
        source, target, kind: of each edge.
        earlier, later, before, after, known: its premise.
        slot: a hash table with open addressing, by source and target: an edge, -1 where the slot is free.
    """

    source: I32
    target: I32
    kind: U8
    earlier: I32
    later: I32
    before: I32
    after: I32
    known: I32
    slot: I32


class Label(NamedTuple):
    """What the edges of a level and tag are.

    Attributes:
        ww, rw: their kinds.
        same_ww, same_rw: the kinds of edges that say as much by no more.
    """

    ww: int
    rw: int
    same_ww: Bools
    same_rw: Bools


class DerivedEdges:
    """Edges that were derived.

    Attributes:
        columns: have them, and room for more.
        count: how many there are.
    """

    def __init__(self) -> None:
        self.columns = _room(_LEAST)
        self.count = 0

    def make_room(self, edges: int) -> None:
        """Make room for that many edges more."""
        size = len(self.columns.source)
        if self.count + edges <= size:
            return
        while size < self.count + edges:
            size *= 2
        larger = _room(size)
        for old, new in zip(self.columns[:-1], larger[:-1], strict=True):
            new[: self.count] = old[: self.count]
        enter_all(larger, self.count)
        self.columns = larger

    def since(self, first: int) -> Edges:
        """The edges from one on."""
        return self._part(slice(first, self.count))

    def until(self, end: int) -> Edges:
        """The edges before one."""
        return self._part(slice(0, end))

    def _part(self, part: slice) -> Edges:
        columns = self.columns
        return Edges(columns.source[part], columns.target[part], columns.kind[part])

    def premise(self, source: int, target: int, kind: int) -> Premise | None:
        """Why there is an edge; None if it is not one of these."""
        columns = self.columns
        at = int(plainly(slot_of, source, target, len(columns.slot)))
        while (edge := int(columns.slot[at])) >= 0:
            if (columns.source[edge], columns.target[edge], columns.kind[edge]) == (source, target, kind):
                reasons = (columns.earlier, columns.later, columns.before, columns.after, columns.known)
                return Premise(*(int(each[edge]) for each in reasons))
            at = (at + 1) % len(columns.slot)
        return None


def _room(edges: int) -> Columns:
    def numbers() -> I32:
        return np.empty(edges, np.int32)

    return Columns(
        source=numbers(),
        target=numbers(),
        kind=np.empty(edges, np.uint8),
        earlier=numbers(),
        later=numbers(),
        before=numbers(),
        after=numbers(),
        known=numbers(),
        slot=np.full(2 * edges, -1, np.int32),
    )


@inlined
def slot_of(source: Int, target: Int, size: Int) -> Int:
    """Where in a table of that size an edge is looked for first."""
    mixed = ((np.uint64(source) << _HALF) | np.uint64(target)) * _MIX
    mixed = (mixed ^ (mixed >> _SHIFT)) * _MIX
    return np.int64((mixed >> np.uint64(33)) & np.uint64(size - 1))


@kernel
def enter_all(columns: Columns, count: int) -> None:
    """Enter the edges into an empty table."""
    size = len(columns.slot)
    for edge in range(count):
        at = slot_of(columns.source[edge], columns.target[edge], size)
        while columns.slot[at] >= 0:
            at = (at + 1) & (size - 1)
        columns.slot[at] = edge


@inlined
def put_edge(
    columns: Columns, edge: Int, source: Int, target: Int, kind: Int, same: Bools, earlier: Int, later: Int,
    before: Int, after: Int, known: Int,
) -> Int:  # fmt: skip
    """Add an edge with its premise, unless there is one of the same kind or of one that counts as that; the next."""
    size = len(columns.slot)
    at = slot_of(source, target, size)
    while True:
        held = columns.slot[at]
        if held < 0:
            break
        if columns.source[held] == source and columns.target[held] == target and same[columns.kind[held]]:
            return edge
        at = (at + 1) & (size - 1)
    columns.slot[at] = edge
    columns.source[edge] = source
    columns.target[edge] = target
    columns.kind[edge] = kind
    columns.earlier[edge] = earlier
    columns.later[edge] = later
    columns.before[edge] = before
    columns.after[edge] = after
    columns.known[edge] = known
    return edge + 1
