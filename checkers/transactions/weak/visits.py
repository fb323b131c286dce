"""In which order transactions are visited for causal consistency, and the writers of each key in that order.

Most reads find one of the last versions of their key. So of the writers of the key only those can count that were
visited after the one that was read from, and the few before it that it does not know: there is no need to look at every
session. Where a read finds an old version, or writers know little of each other, that is no less work, and
`causal.compare` looks at each session once.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from splitbrain.checkers.kernels import inlined, kernel
from splitbrain.checkers.transactions.columns import OPEN, Transactions
from splitbrain.checkers.transactions.graph import I32, I64, U8, Int
from splitbrain.checkers.transactions.weak.chains import Chains, knows
from splitbrain.checkers.transactions.weak.direct import put
from splitbrain.checkers.transactions.weak.nodes import Nodes, Pairs

GAVE_UP: Final = -1
"""There are fewer sessions to look at than writers."""

_LOOKED_AT: Final = 64
"""How many writers are looked at when it is worked out what a new one knows."""


class Visited(NamedTuple):
    """The writers of each key that have been visited; those of a key begin where `Nodes.writer_start` says.

    Attributes:
        met: how many each key has so far.
        node: of each.
        known: of each how many of the key's writers, from the first one on, certainly come before it.
        after: of each the node that it was last put before; -2 for none.
    """

    met: I64
    node: I32
    known: I64
    after: I32


def none_visited(nodes: Nodes) -> Visited:
    """Before the first visit."""
    writers = len(nodes.writer)
    return Visited(
        met=np.zeros(len(nodes.writer_start) - 1, np.int64),
        node=np.empty(writers, np.int32),
        known=np.empty(writers, np.int64),
        after=np.empty(writers, np.int32),
    )


def by_completion(nodes: Nodes, transactions: Transactions) -> I32:
    """The nodes in the order in which they completed, but each behind its session's and those that it reads from."""
    chosen = nodes.transaction
    completed = np.where(transactions.completed == OPEN, transactions.invoked, transactions.completed)[chosen]
    wanted = np.argsort(completed, kind="stable").astype(np.int32)
    order, stack = np.empty(len(chosen), np.int32), np.empty(len(chosen), np.int32)
    visit(nodes, wanted, order, stack, np.zeros(len(chosen), np.uint8))
    return order


@inlined
def unvisited(nodes: Nodes, node: Int, state: U8) -> Int:
    """A node that has to be visited before another one and has not been; -1 if there is none."""
    if node > nodes.start[nodes.session[node]] and state[node - 1] == 0:
        return node - 1
    if nodes.follows[node] >= 0 and state[nodes.follows[node]] == 0:
        return nodes.follows[node]
    txn = nodes.transaction[node]
    for mop in range(nodes.mop_start[txn], nodes.mop_start[txn + 1]):
        source = nodes.source[mop]
        if source >= 0 and state[source] == 0:
            return source
    return -1


@kernel
def visit(nodes: Nodes, wanted: I32, order: I32, stack: I32, state: U8) -> None:
    """Fill in an order that is as near to the wanted one as sessions and reads allow; they have no cycle."""
    count = 0
    for first in wanted:
        if state[first] != 0:
            continue
        stack[0] = first
        depth = 1
        while depth > 0:
            node = stack[depth - 1]
            before = unvisited(nodes, node, state)
            if before >= 0:
                stack[depth] = before
                depth += 1
            else:
                depth -= 1
                if state[node] == 0:
                    state[node] = 1
                    order[count] = node
                    count += 1


@inlined
def enter(nodes: Nodes, visited: Visited, chains: Chains, key: Int, node: Int, clock: I32) -> None:
    """Add a writer of a key."""
    base, size = nodes.writer_start[key], visited.met[key]
    at, looked_at, known = size - 1, 0, np.int64(0)
    while at >= 0 and looked_at < _LOOKED_AT and not knows(chains, clock, visited.node[base + at]):
        at -= 1
        looked_at += 1
    if at >= 0 and looked_at < _LOOKED_AT:
        known = visited.known[base + at]
        while known < size and looked_at < _LOOKED_AT and knows(chains, clock, visited.node[base + known]):
            known += 1
            looked_at += 1
    visited.node[base + size] = node
    visited.known[base + size] = known
    visited.after[base + size] = -2
    visited.met[key] = size + 1


@inlined
def compare_visited(
    nodes: Nodes, visited: Visited, chains: Chains, mop: Int, clock: I32, known: I32, most: Int, pairs: Pairs,
    count: Int,
) -> Int:  # fmt: skip
    """Add the pairs that a read needs, by the visited writers; how many there are then, GAVE_UP if that is too much.

    Args:
        nodes: the transactions.
        visited: the writers.
        chains: the place of each node.
        mop: the read.
        clock: of the reader.
        known: of the node that it reads from, if it reads from one.
        most: the largest number of writers to look at.
        pairs: what is found.
        count: how many there are.
    """
    source, key = nodes.source[mop], nodes.key[mop]
    base = nodes.writer_start[key]
    end = base + visited.met[key]
    at, low = end - 1, base
    while at >= base and visited.node[at] != source:
        at -= 1
        if end - at > most:
            return GAVE_UP
    if at >= base:
        low += visited.known[at]
    if end - low > most:
        return GAVE_UP
    for place in range(low, end):
        node = visited.node[place]
        if place == at or visited.after[place] == source or not knows(chains, clock, node):
            continue
        if place > at or not knows(chains, known, node):
            visited.after[place] = source
            count = put(pairs, count, node, source, mop)
    return count
