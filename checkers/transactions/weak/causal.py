"""Which pairs causal consistency needs, by vector clocks.

A node's clock says of each chain of sessions how many of its transactions come before. If t3 read x from t1, only those
writers of x count that t3's clock has and t1's has not: the others come before t1 anyway. They are looked for among the
last writers of x (`visits`). Where that would be more work, of each session only the last writer before t3 is looked
for, and only if the clocks differ; a cursor for each key and session finds it, since readers of a key move on together.
A clock is kept only until the last transaction that reads from its node has been visited.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from splitbrain.checkers.kernels import inlined, kernel
from splitbrain.checkers.transactions.graph import I32, I64, Int
from splitbrain.checkers.transactions.weak.chains import Chains, chain_for, knows, put_on_chain
from splitbrain.checkers.transactions.weak.direct import put
from splitbrain.checkers.transactions.weak.nodes import Nodes, Pairs
from splitbrain.checkers.transactions.weak.visits import Visited, compare_visited, enter

TOO_NARROW: Final = -1
"""There are more chains than clocks have elements."""


class Groups(NamedTuple):
    """The writers of each key by session.

    Attributes:
        start: of each key, where its groups begin; one element more.
        session: of each group.
        low, high: where the group's writers are in `Nodes.writer`.
        cursor: of each group the writer that was found last, relative to `low`.
        before, after: of each group the pair that was found last.
    """

    start: I64
    session: I32
    low: I64
    high: I64
    cursor: I64
    before: I32
    after: I32


class Clocks(NamedTuple):
    """Vector clocks, with one element for each chain.

    Attributes:
        of_chain: of each chain that of its last transaction so far; behind them one that is being made.
        kept: those of nodes that are still read from.
        slot: of each node its row in `kept`, -1 for none.
        readers: of each node how many reads from it are still to come; `Nodes.follows` counts as one.
        free: rows that are free, a stack.
    """

    of_chain: I32
    kept: I32
    slot: I32
    readers: I32
    free: I32


def groups_of(nodes: Nodes) -> Groups:
    """Group the writers."""
    keys = np.repeat(np.arange(len(nodes.writer_start) - 1), np.diff(nodes.writer_start))
    session = nodes.session[nodes.writer]
    begins = np.ones(len(keys), np.bool_)
    begins[1:] = (keys[1:] != keys[:-1]) | (session[1:] != session[:-1])
    low = np.flatnonzero(begins).astype(np.int64)
    count = len(low)
    return Groups(
        start=np.searchsorted(keys[low], np.arange(len(nodes.writer_start))).astype(np.int64),
        session=session[low],
        low=low,
        high=np.append(low[1:], len(keys)).astype(np.int64),
        cursor=np.zeros(count, np.int64),
        before=np.full(count, -1, np.int32),
        after=np.full(count, -2, np.int32),
    )


@kernel
def kept_at_most(nodes: Nodes, order: I32, readers: I32, left: I32) -> int:
    """How many clocks are kept at the same time if nodes are visited in that order. `left` is a copy of `readers`."""
    now, most = 0, 0
    for place in range(len(order)):
        node = order[place]
        if readers[node] > 0:
            now += 1
            most = max(most, now)
        txn = nodes.transaction[node]
        for mop in range(nodes.mop_start[txn], nodes.mop_start[txn + 1]):
            now -= taken(left, nodes.source[mop])
        now -= taken(left, nodes.follows[node])
    return most


@inlined
def taken(readers: I32, source: Int) -> Int:
    """Take one off the reads from a node; 1 if that was the last, else 0. It may be -1 for none."""
    if source < 0:
        return 0
    readers[source] -= 1
    return 1 if readers[source] == 0 else 0


@kernel
def count_readers(nodes: Nodes, readers: I32) -> None:
    """Count the reads from each node, and what follows it."""
    for node in range(len(nodes.transaction)):
        if nodes.follows[node] >= 0:
            readers[nodes.follows[node]] += 1
        txn = nodes.transaction[node]
        for mop in range(nodes.mop_start[txn], nodes.mop_start[txn + 1]):
            if nodes.source[mop] >= 0:
                readers[nodes.source[mop]] += 1


@inlined
def learn(chains: Chains, clocks: Clocks, source: Int, clock: I32) -> None:
    """Join into a clock what a node knows, if there is one, and it is not yet among it."""
    if source >= 0 and not knows(chains, clock, source):
        known = clocks.kept[clocks.slot[source]]
        for each in range(len(clock)):
            clock[each] = max(clock[each], known[each])


@inlined
def last_before(nodes: Nodes, groups: Groups, group: Int, limit: Int) -> Int:
    """The last of a group's writers that is among the first `limit` transactions of its session; else its first."""
    first, low = nodes.start[groups.session[group]], groups.low[group]
    size, at = groups.high[group] - low, groups.cursor[group]
    while at + 1 < size and nodes.writer[low + at + 1] - first < limit:
        at += 1
    while at > 0 and nodes.writer[low + at] - first >= limit:
        at -= 1
    groups.cursor[group] = at
    return nodes.writer[low + at]


@inlined
def compare(
    nodes: Nodes, groups: Groups, chains: Chains, mop: Int, clock: I32, known: I32, pairs: Pairs, count: Int
) -> Int:
    """Add the pairs that a read needs, session by session; how many there are then."""
    source = nodes.source[mop]
    for group in range(groups.start[nodes.key[mop]], groups.start[nodes.key[mop] + 1]):
        session = groups.session[group]
        chain, offset = chains.of_session[session], chains.offset[session]
        if chain < 0:
            continue
        limit = min(clock[chain] - offset, chains.size[session])
        behind = max(known[chain] - offset, 0) if source >= 0 else 0
        if limit <= behind:
            continue
        writer = last_before(nodes, groups, group, limit)
        put_before = groups.before[group] == writer and groups.after[group] == source
        if behind <= writer - nodes.start[session] < limit and not put_before:
            groups.before[group], groups.after[group] = writer, source
            count = put(pairs, count, writer, source, mop)
    return count


@inlined
def forget(clocks: Clocks, source: Int, free: Int) -> Int:
    """Free the clock of a node, if there is one, and this is the last read from it; how many are free."""
    if taken(clocks.readers, source):
        clocks.free[free] = clocks.slot[source]
        return free + 1
    return free


@inlined
def compare_either(
    nodes: Nodes, groups: Groups, visited: Visited, chains: Chains, clocks: Clocks, mop: Int, clock: I32, pairs: Pairs,
    count: Int,
) -> Int:  # fmt: skip
    """Add the pairs that a read needs, in the way that is less work; how many there are then."""
    source, key = nodes.source[mop], nodes.key[mop]
    if source < -1:
        return count
    known = clocks.kept[clocks.slot[source]] if source >= 0 else clock
    most = groups.start[key + 1] - groups.start[key]
    found = compare_visited(nodes, visited, chains, mop, clock, known, most, pairs, count)
    return found if found >= 0 else compare(nodes, groups, chains, mop, clock, known, pairs, count)


@inlined
def on_chain(nodes: Nodes, chains: Chains, clocks: Clocks, node: Int) -> Int:
    """Give a node, whose clock is made, its place on a chain: the chain, -1 if there would be too many."""
    own = nodes.session[node]
    if chains.of_session[own] < 0:
        made = clocks.of_chain[len(clocks.of_chain) - 1]
        chain = chain_for(chains, made)
        if chain >= len(chains.length):
            return -1
        chains.of_session[own], chains.offset[own] = chain, chains.length[chain]
        for each in range(len(made)):
            clocks.of_chain[chain, each] = made[each]
            made[each] = 0
    clocks.of_chain[chains.of_session[own], chains.of_session[own]] = put_on_chain(nodes, chains, node)
    return chains.of_session[own]


@kernel
def causal_pairs(
    nodes: Nodes, order: I32, groups: Groups, visited: Visited, chains: Chains, clocks: Clocks, pairs: Pairs
) -> int:
    """The pairs; how many, or TOO_NARROW if clocks have too few elements for the chains.

    Args:
        nodes: the transactions.
        order: one in which each node is behind its session's and those that it reads from.
        groups: writers by session.
        visited: none yet.
        chains: none yet.
        clocks: all zero.
        pairs: what is found, as far as there is room.
    """
    count, free = 0, len(clocks.free)
    for node in order:
        chain = chains.of_session[nodes.session[node]]
        clock = clocks.of_chain[chain if chain >= 0 else len(clocks.of_chain) - 1]
        begin, end = nodes.mop_start[nodes.transaction[node]], nodes.mop_start[nodes.transaction[node] + 1]
        learn(chains, clocks, nodes.follows[node], clock)
        for mop in range(begin, end):
            learn(chains, clocks, nodes.source[mop], clock)
        for mop in range(begin, end):
            count = compare_either(nodes, groups, visited, chains, clocks, mop, clock, pairs, count)
        for mop in range(begin, end):
            free = forget(clocks, nodes.source[mop], free)
            if nodes.written[mop]:
                enter(nodes, visited, chains, nodes.key[mop], node, clock)
        free = forget(clocks, nodes.follows[node], free)
        chain = on_chain(nodes, chains, clocks, node)
        if chain < 0:
            return TOO_NARROW
        if clocks.readers[node] > 0:
            free -= 1
            clocks.slot[node] = clocks.free[free]
            kept = clocks.kept[clocks.slot[node]]
            for each in range(len(kept)):
                kept[each] = clocks.of_chain[chain, each]
    return count
