"""Edges from each of some transactions to all others of a group, without an edge for each pair.

Two or more targets of a group have two chains of joints: the first targets up to each of them, and the last ones from
each on. So a source that is a target itself takes two edges, and any other one takes one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from splitbrain.checkers.kernels import inlined, kernel
from splitbrain.checkers.transactions.graph import I32, I64, U8, Edges, Int


class Out(NamedTuple):
    """Edges as they are found; `found[0]` is how many."""

    source: I32
    target: I32
    kind: U8
    found: I64


def room_for(edges: int) -> Out:
    """Room for that many edges."""
    return Out(np.empty(edges, np.int32), np.empty(edges, np.int32), np.empty(edges, np.uint8), np.zeros(1, np.int64))


def edges_in(out: Out) -> Edges:
    """The edges that were found."""
    count = int(out.found[0])
    return Edges(out.source[:count], out.target[:count], out.kind[:count])


@inlined
def emit(out: Out, source: Int, target: Int, kind: Int) -> None:
    """Add an edge."""
    at = out.found[0]
    out.source[at] = source
    out.target[at] = target
    out.kind[at] = kind
    out.found[0] = at + 1


@kernel
def link_joints(targets: I32, start: I64, nodes: int, out: Out) -> int:
    """Edges of the joints of all groups; the number of nodes with them.

    Args:
        targets: transactions, sorted by group.
        start: where each group begins; one element more than there are groups.
        nodes: the number of the first joint.
        out: takes up to four edges a target.
    """
    joints = nodes
    for group in range(len(start) - 1):
        first, end = start[group], start[group + 1]
        if end - first < 2:
            continue
        for place in range(first, end):
            up = nodes + 2 * place
            emit(out, up, targets[place], 8)
            emit(out, up + 1, targets[place], 8)
            if place > first:
                emit(out, up, up - 2, 8)
            if place < end - 1:
                emit(out, up + 1, up + 3, 8)
        joints = nodes + 2 * end
    return joints


@inlined
def to_all(targets: I32, first: Int, end: Int, own: Int, source: Int, kind: Int, nodes: Int, out: Out) -> None:
    """Edges from a transaction to all targets from `first` to `end`, but to the one at `own` (-1: to all)."""
    if end == first:
        return
    if end - first == 1:
        if own < 0:
            emit(out, source, targets[first], kind)
    elif own < 0:
        emit(out, source, nodes + 2 * (end - 1), kind)
    else:
        if own > first:
            emit(out, source, nodes + 2 * (own - 1), kind)
        if own < end - 1:
            emit(out, source, nodes + 2 * (own + 1) + 1, kind)
