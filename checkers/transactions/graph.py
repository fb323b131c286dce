"""Dependencies between transactions: edges in columns, and the graph of them in compressed rows.

Nodes from 0 are transactions. Nodes from `transactions` on are joints: they are no transactions, and save edges. From
a joint all edges are of the kind LINK, so that the edge that leads to it says what depends on what. So a barrier of
real time has an edge from every transaction that completed before it and to every one that began after it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from splitbrain.checkers.kernels import kernel

I32: TypeAlias = npt.NDArray[np.int32]
I64: TypeAlias = npt.NDArray[np.int64]
U8: TypeAlias = npt.NDArray[np.uint8]
Bools: TypeAlias = npt.NDArray[np.bool_]
Int: TypeAlias = Any
"""A number in a kernel: Python's or NumPy's."""

WW: Final = 0
WR: Final = 1
RW: Final = 2
WWP: Final = 3
WRP: Final = 4
RWP: Final = 5
PROCESS: Final = 6
REALTIME: Final = 7
LINK: Final = 8
"""What an edge is: who overwrites, who reads from, whose read is overwritten; the same of predicates; order."""

DERIVED: Final = 16
"""From here on edges follow from others: see `derived`."""

KINDS: Final = 64
"""More than any kind."""

NAMES: Final = ("ww", "wr", "rw", "wwp", "wrp", "rwp", "process", "realtime", "link")

NO_G1C: Final = 1
NO_G_SINGLE: Final = 2
NO_G2: Final = 3
"""On what a derived edge rests: the history has no G1c, no G-single, or no G2 (each includes the ones before)."""


def derived(kind: int, level: int, tag: int) -> int:
    """The kind of an edge that follows from others.

    Args:
        kind: WW or RW.
        level: NO_G1C, NO_G_SINGLE or NO_G2.
        tag: 0, 1 if the order of a process was used, 2 if real time was.
    """
    return DERIVED + ((level - 1) * 2 + (kind == RW)) * 3 + tag


def parts(kind: int) -> tuple[int, int, int]:
    """Of an edge's kind: WW, WR, ... as if it were observed, the level of its derivation (0: observed), and its tag."""
    if kind < DERIVED:
        return kind, 0, {PROCESS: 1, REALTIME: 2}.get(kind, 0)
    rest, tag = divmod(kind - DERIVED, 3)
    return RW if rest % 2 else WW, rest // 2 + 1, tag


@dataclass(frozen=True)
class Edges:
    """Edges in columns: sources, targets and kinds."""

    source: I32
    target: I32
    kind: U8

    def __len__(self) -> int:
        return len(self.source)

    def of(self, kinds: Bools) -> Edges:
        """Those of some kinds; `kinds` is a table (`allowed`)."""
        chosen = kinds[self.kind]
        return Edges(self.source[chosen], self.target[chosen], self.kind[chosen])


def no_edges() -> Edges:
    """No edges at all."""
    return Edges(np.zeros(0, np.int32), np.zeros(0, np.int32), np.zeros(0, np.uint8))


@dataclass(frozen=True)
class Graph:
    """A graph in compressed rows.

    Attributes:
        transactions: how many of the nodes are transactions; the others are joints.
        start: where the edges of each node begin; one element more than there are nodes.
        target: of each edge.
        kind: of each edge.
    """

    transactions: int
    start: I64
    target: I32
    kind: U8

    @property
    def nodes(self) -> int:
        """How many nodes there are."""
        return len(self.start) - 1


def joined(edges: Sequence[Edges]) -> Edges:
    """All edges in one."""
    if len(edges) == 1:
        return edges[0]
    return Edges(
        np.concatenate([each.source for each in edges] or [np.zeros(0, np.int32)]),
        np.concatenate([each.target for each in edges] or [np.zeros(0, np.int32)]),
        np.concatenate([each.kind for each in edges] or [np.zeros(0, np.uint8)]),
    )


def graph_of(transactions: int, nodes: int, edges: Sequence[Edges]) -> Graph:
    """The graph of some edges; those of a node are in the order given."""
    start = np.zeros(nodes + 1, np.int64)
    for each in edges:
        count_edges(each.source, start)
    np.cumsum(start, out=start)
    total = int(start[-1])
    target, kind = np.empty(total, np.int32), np.empty(total, np.uint8)
    at = start[:-1].copy()
    for each in edges:
        place_edges(each.source, each.target, each.kind, at, target, kind)
    return Graph(transactions, start, target, kind)


@kernel
def count_edges(source: I32, start: I64) -> None:
    """Count the edges of each node, one place to the right."""
    for edge in range(len(source)):
        start[source[edge] + 1] += 1


@kernel
def place_edges(source: I32, target: I32, kind: U8, at: I64, into: I32, kinds: U8) -> None:
    """Put each edge where its node's edges go on."""
    for edge in range(len(source)):
        place = at[source[edge]]
        into[place] = target[edge]
        kinds[place] = kind[edge]
        at[source[edge]] = place + 1


def allowed(kinds: Sequence[int]) -> Bools:
    """A table of the kinds that may be used: those given, and LINK."""
    table = np.zeros(KINDS, np.bool_)
    table[[*kinds, LINK]] = True
    return table
