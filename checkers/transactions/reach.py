"""Which versions of one key come before which, by an order of transactions: by clocks, without a bit for each pair.

Versions that precede each other form chains. Of every transaction its clock says, for each chain, how many of its
versions were written before. There are about as many chains as writers of the key run beside each other, so that a key
with a hundred thousand writes has a few, where sets of versions take the square (clocks: Fidge and Mattern, 1988;
chains: Jagadish, TODS 1990).

A version takes no part if all that is reached from it are reads of it: nothing comes after it.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from splitbrain.checkers.kernels import inlined, kernel
from splitbrain.checkers.transactions.graph import I32, I64, Bools, Int

ROOM: Final = 1 << 25
"""The largest number of entries of clocks of one key: 128 MiB."""

_FEW: Final = 4
"""How many chains there is room for at first."""


class Accesses(NamedTuple):
    """Who wrote and read the versions of a key.

    Attributes:
        writer: of each version its transaction.
        reader: of each read its transaction, sorted by version.
        start: where the reads of each version begin; one element more than there are versions.
    """

    writer: I32
    reader: I32
    start: I64


class Range(NamedTuple):
    """The nodes between the first write and the last access, in an order in which no edge leads back.

    Attributes:
        order: nodes.
        place: of each node of the graph in that order.
        before: where the edges to each node of the graph begin.
        source: of these edges.
        first: the place of the first node.
    """

    order: I32
    place: I64
    before: I64
    source: I32
    first: int


class Clocks(NamedTuple):
    """Clocks by place: each of `width` numbers, how many versions of each chain are before or at it.

    Attributes:
        entries: of all places.
        width: how many chains there is room for.
        wrote, read: by place the version that was written there, and that was read, -1 for none.
        chain, position: of each version, -1 and 0 if it takes no part; positions are from 1.
        length: of each chain.
    """

    entries: I32
    width: int
    wrote: I32
    read: I32
    chain: I32
    position: I32
    length: I32


class Pairs(NamedTuple):
    """Versions of which one comes before the other.

    Attributes:
        earlier, later: versions.
        read: the read of the later one that was reached, -1 if its writer was.
        distinct: whether the numbers of versions before each version are all different: then the whole order is known.
        steps: how many entries were looked at.
        complete: whether there was room; if not, there are no pairs.
    """

    earlier: I32
    later: I32
    read: I32
    distinct: bool
    steps: int
    complete: bool


def pairs_of(accesses: Accesses, nodes: Range) -> Pairs:
    """The pairs of versions of one key from which the others follow."""
    versions, size = len(accesses.writer), len(nodes.order)
    wrote, read = np.full(size, -1, np.int32), np.full(size, -1, np.int32)
    wrote[nodes.place[accesses.writer] - nodes.first] = np.arange(versions, dtype=np.int32)
    read_version = np.repeat(np.arange(versions, dtype=np.int32), np.diff(accesses.start))
    read[nodes.place[accesses.reader] - nodes.first] = read_version
    takes_part = np.zeros(versions, np.bool_)
    mark_followed(nodes, wrote, read, np.full(2 * size, -1, np.int32), takes_part)
    steps, width = _edges(nodes), _FEW
    while True:
        if size * width > ROOM:
            nothing = np.zeros(0, np.int32)
            return Pairs(nothing, nothing, nothing, False, steps, False)
        clocks = Clocks(
            np.zeros(size * width, np.int32),
            width,
            wrote,
            read,
            np.full(versions, -1, np.int32),
            np.zeros(versions, np.int32),
            np.zeros(width, np.int32),
        )
        steps += width * _edges(nodes)
        if fill_clocks(nodes, clocks, takes_part):
            return _paired(accesses, nodes, clocks, steps)
        width *= 2


def _edges(nodes: Range) -> int:
    """The number of nodes and edges."""
    order = nodes.order
    return len(order) + int((nodes.before[order + 1] - nodes.before[order]).sum())


def _paired(accesses: Accesses, nodes: Range, clocks: Clocks, steps: int) -> Pairs:
    start = np.concatenate([np.zeros(1, np.int64), np.cumsum(clocks.length, dtype=np.int64)])
    at = np.empty(int(start[-1]), np.int32)
    taking = np.flatnonzero(clocks.chain >= 0).astype(np.int32)
    at[start[clocks.chain[taking]] + clocks.position[taking] - 1] = taking
    before = np.zeros(len(accesses.writer), np.int64)
    room = 2 * (len(accesses.writer) + len(accesses.reader)) + 16
    while True:
        out = tuple(np.empty(room, np.int32) for _ in range(3))
        counts = np.zeros(2, np.int64)
        find_pairs(accesses, nodes, clocks, start, at, before, out[0], out[1], out[2], counts)
        steps += int(counts[1])
        if counts[0] <= room:
            break
        room = int(counts[0])
    count = int(counts[0])
    distinct = len(np.unique(before)) == len(before)
    return Pairs(out[0][:count], out[1][:count], out[2][:count], distinct, steps, True)


@kernel
def mark_followed(nodes: Range, wrote: I32, read: I32, labels: I32, takes_part: Bools) -> None:
    """Mark the versions from whose writer an access of another version is reached.

    `labels` has two versions for each place that are accessed at or behind it: two are enough to know of another one.
    """
    for place in range(len(nodes.order) - 1, -1, -1):
        mine = wrote[place]
        if mine >= 0:
            one, two = labels[2 * place], labels[2 * place + 1]
            takes_part[mine] = (one >= 0 and one != mine) or (two >= 0 and two != mine)
            put_label(labels, place, mine)
        if read[place] >= 0:
            put_label(labels, place, read[place])
        node = nodes.order[place]
        for edge in range(nodes.before[node], nodes.before[node + 1]):
            other = nodes.place[nodes.source[edge]] - nodes.first
            if other >= 0:
                put_label(labels, other, labels[2 * place])
                put_label(labels, other, labels[2 * place + 1])


@inlined
def put_label(labels: I32, place: Int, version: Int) -> None:
    """Add a version to those of a place, unless it has two."""
    if version < 0 or labels[2 * place] == version:
        return
    if labels[2 * place] < 0:
        labels[2 * place] = version
    elif labels[2 * place + 1] < 0:
        labels[2 * place + 1] = version


@kernel
def fill_clocks(nodes: Range, clocks: Clocks, takes_part: Bools) -> bool:
    """Fill in the clocks, and put each version that takes part at the end of a chain; whether there was room."""
    width, chains = clocks.width, 0
    for place in range(len(nodes.order)):
        row = place * width
        node = nodes.order[place]
        for edge in range(nodes.before[node], nodes.before[node + 1]):
            other = nodes.place[nodes.source[edge]] - nodes.first
            if other < 0:
                continue
            for chain in range(chains):
                clocks.entries[row + chain] = max(clocks.entries[row + chain], clocks.entries[other * width + chain])
        version = clocks.wrote[place]
        if version < 0 or not takes_part[version]:
            continue
        mine = -1
        for chain in range(chains):
            if clocks.entries[row + chain] == clocks.length[chain]:
                mine = chain
                break
        if mine < 0:
            if chains == width:
                return False
            mine = chains
            chains += 1
        clocks.length[mine] += 1
        clocks.entries[row + mine] = clocks.length[mine]
        clocks.chain[version] = mine
        clocks.position[version] = clocks.length[mine]
    return True


@inlined
def known(clocks: Clocks, place: Int, chain: Int) -> Int:
    """How many versions of a chain were written before the transaction at a place."""
    count = clocks.entries[place * clocks.width + chain]
    own = clocks.wrote[place]
    return count - 1 if own >= 0 and clocks.chain[own] == chain else count


@kernel
def find_pairs(
    accesses: Accesses, nodes: Range, clocks: Clocks, start: I64, at: I32, before: I64, earlier: I32, later: I32,
    read: I32, counts: I64,
) -> None:  # fmt: skip
    """Fill in pairs while there is room; `counts` says how many there are, and how many entries were looked at.

    Args:
        accesses, nodes, clocks: of the key.
        start, at: the versions of each chain.
        before: filled in: how many versions come before each one.
        earlier, later, read: pairs.
        counts: both zero.
    """
    for version in range(len(accesses.writer)):
        place = nodes.place[accesses.writer[version]] - nodes.first
        total = 0
        for chain in range(clocks.width):
            mine = known(clocks, place, chain)
            total += mine
            if mine > 0 and is_nearest(clocks, nodes, accesses, start, at, place, chain, mine, counts):
                put_pair(at[start[chain] + mine - 1], version, -1, earlier, later, read, counts)
        before[version] = total
        for number in range(accesses.start[version], accesses.start[version + 1]):
            there = nodes.place[accesses.reader[number]] - nodes.first
            for chain in range(clocks.width):
                last, mine = known(clocks, there, chain), known(clocks, place, chain)
                if last <= mine:
                    continue
                if clocks.chain[version] == chain:
                    # What overwrote the version first makes the shortest cycle.
                    mine = clocks.position[version]
                    if last > mine + 1:
                        put_pair(at[start[chain] + mine], version, number, earlier, later, read, counts)
                if last > mine:
                    put_pair(at[start[chain] + last - 1], version, number, earlier, later, read, counts)
        counts[1] += clocks.width * (1 + accesses.start[version + 1] - accesses.start[version])


@inlined
def is_nearest(
    clocks: Clocks, nodes: Range, accesses: Accesses, start: I64, at: I32, place: Int, chain: Int, mine: Int,
    counts: I64,
) -> Int:  # fmt: skip
    """Whether no other version before a place comes after that one of a chain."""
    for other in range(clocks.width):
        last = known(clocks, place, other)
        if other == chain or last == 0:
            continue
        there = nodes.place[accesses.writer[at[start[other] + last - 1]]] - nodes.first
        counts[1] += 1
        if clocks.entries[there * clocks.width + chain] >= mine:
            return False
    return True


@inlined
def put_pair(one: Int, other: Int, number: Int, earlier: I32, later: I32, read: I32, counts: I64) -> None:
    """Add a pair, if there is room."""
    at = counts[0]
    if at < len(earlier):
        earlier[at] = one
        later[at] = other
        read[at] = number
    counts[0] = at + 1
