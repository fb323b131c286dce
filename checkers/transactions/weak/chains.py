"""Chains of transactions, of which clocks have one element each.

A client whose transaction has an unknown outcome goes on as a new process, so that a long history has many sessions, of
which few are open at the same time. A session that begins goes on the chain of one that has ended, if its first
transaction comes after all of that one by what it read. So a clock has about as many elements as there are clients.

After the last transaction of a session from which another one reads there may be more, which come before nothing else.
They have a place only until the session ends.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from splitbrain.checkers.kernels import inlined, kernel
from splitbrain.checkers.transactions.graph import I32, I64, Int
from splitbrain.checkers.transactions.weak.nodes import Nodes

NO_CHAIN: Final = -1

_NOWHERE: Final = (1 << 31) - 1
"""The place of a node that comes before no other one."""

_LOOKED_AT: Final = 256
"""How many chains a new session may be compared with."""


class Chains(NamedTuple):
    """Which chain each node is on.

    Attributes:
        of_node: chain of each visited node.
        place: its place there.
        of_session: chain of each session, NO_CHAIN before its first visit.
        offset: how many nodes are before the session's on its chain.
        size: how many nodes of each session have a place, or will have.
        useful: how many there are up to the last one that is read from.
        length: how many nodes each chain has, of sessions that have ended.
        ended: chains whose sessions have ended.
        counts: how many chains there are, and how many have ended.
    """

    of_node: I32
    place: I32
    of_session: I32
    offset: I64
    size: I64
    useful: I64
    length: I64
    ended: I32
    counts: I64


def no_chains(nodes: Nodes, readers: I32, width: int) -> Chains:
    """Before the first visit; there can be `width` chains. `readers` has of each node how many reads are from it."""
    sessions, count = len(nodes.start) - 1, len(nodes.transaction)
    useful, read = np.zeros(sessions, np.int64), np.flatnonzero(readers)
    useful[nodes.session[read]] = read - nodes.start[nodes.session[read]] + 1
    return Chains(
        of_node=np.full(count, NO_CHAIN, np.int32),
        place=np.zeros(count, np.int32),
        of_session=np.full(sessions, NO_CHAIN, np.int32),
        offset=np.zeros(sessions, np.int64),
        size=np.diff(nodes.start),
        useful=useful,
        length=np.zeros(width, np.int64),
        ended=np.zeros(width, np.int32),
        counts=np.zeros(2, np.int64),
    )


@kernel
def open_at_once(nodes: Nodes, order: I32) -> int:
    """How many sessions are open at the same time, at most, if nodes are visited in that order."""
    now, most = 0, 0
    for node in order:
        session = nodes.session[node]
        if node == nodes.start[session]:
            now += 1
            most = max(most, now)
        if node + 1 == nodes.start[session + 1]:
            now -= 1
    return most


@inlined
def knows(chains: Chains, clock: I32, node: Int) -> Int:
    """Whether a visited node is among those of a clock: 1 or 0."""
    return 1 if clock[chains.of_node[node]] > chains.place[node] else 0


@inlined
def chain_for(chains: Chains, clock: I32) -> Int:
    """A chain for a session whose first transaction has that clock: one that has ended, or a new one."""
    for at in range(min(chains.counts[1], _LOOKED_AT)):
        chain = chains.ended[at]
        if clock[chain] == chains.length[chain]:
            chains.counts[1] -= 1
            chains.ended[at] = chains.ended[chains.counts[1]]
            return chain
    chains.counts[0] += 1
    return chains.counts[0] - 1


@inlined
def put_on_chain(nodes: Nodes, chains: Chains, node: Int) -> Int:
    """Give a node its place on the chain of its session; how many of the chain have been visited then."""
    session = nodes.session[node]
    chain = chains.of_session[session]
    place = chains.offset[session] + node - nodes.start[session]
    chains.of_node[node] = chain
    chains.place[node] = place
    if node + 1 == nodes.start[session + 1]:
        useful = chains.useful[session]
        chains.size[session] = useful
        for each in range(nodes.start[session] + useful, node + 1):
            chains.place[each] = _NOWHERE
        chains.length[chain] = chains.offset[session] + useful
        chains.ended[chains.counts[1]] = chain
        chains.counts[1] += 1
    return place + 1
