"""Which pairs read committed and read atomic need: those by one read, or by one step of a session.

For each transaction that another one reads from, either its writes are looked up among the reader's reads, or the
reader's reads among its writes, whichever are fewer: O(n^1.5) in all (AWDIT).
"""

from __future__ import annotations

from splitbrain.checkers.kernels import inlined, kernel
from splitbrain.checkers.transactions.graph import I32, Int
from splitbrain.checkers.transactions.weak.nodes import Nodes, Pairs


@inlined
def put(pairs: Pairs, count: Int, before: Int, after: Int, read: Int) -> Int:
    """Add a pair where there is room; how many there are, with those that there was no room for."""
    if count < len(pairs.before):
        pairs.before[count] = before
        pairs.after[count] = after
        pairs.read[count] = read
    return count + 1


@inlined
def wrote(nodes: Nodes, node: Int, key: Int) -> Int:
    """Whether a node wrote a key: 1 or 0."""
    low, high = nodes.writer_start[key], nodes.writer_start[key + 1]
    while low < high:
        middle = (low + high) // 2
        if nodes.writer[middle] < node:
            low = middle + 1
        else:
            high = middle
    return 1 if low < nodes.writer_start[key + 1] and nodes.writer[low] == node else 0


@inlined
def link_reads(nodes: Nodes, begin: Int, end: Int, latest: I32, earlier: I32) -> Int:
    """Link the reads of one key in one transaction; how many reads it has."""
    reads = 0
    for mop in range(begin, end):
        if nodes.source[mop] >= -1:
            before = latest[nodes.key[mop]]
            # Nodes do not come in the order of their micro-operations: what was seen last may be of a later one.
            earlier[mop] = before if begin <= before < mop else -1
            latest[nodes.key[mop]] = mop
            reads += 1
    return reads


@kernel
def pairs_by_reads(nodes: Nodes, any_order: bool, met: I32, latest: I32, earlier: I32, pairs: Pairs) -> int:
    """The pairs by reads of one transaction; how many.

    Args:
        nodes: the transactions.
        any_order: whether the order of reads does not matter (read atomic).
        met: of each node the reader that was last seen to read from it; -1 first.
        latest: of each key the last read that was seen; -1 first.
        earlier: of each read the one before it of the same transaction and key.
        pairs: what is found, as far as there is room.
    """
    count = 0
    for node in range(len(nodes.transaction)):
        begin, end = nodes.mop_start[nodes.transaction[node]], nodes.mop_start[nodes.transaction[node] + 1]
        reads = link_reads(nodes, begin, end, latest, earlier)
        for mop in range(begin, end):
            other = nodes.source[mop]
            if other < 0 or met[other] == node:
                continue
            met[other] = node
            since = begin - 1 if any_order else mop
            first, last = nodes.mop_start[nodes.transaction[other]], nodes.mop_start[nodes.transaction[other] + 1]
            if last - first <= reads:
                for write in range(first, last):
                    read = latest[nodes.key[write]] if nodes.written[write] else -1
                    while since < read < end and read >= begin:
                        count = differing(nodes, pairs, count, other, read)
                        read = earlier[read]
            else:
                for read in range(since + 1, end):
                    if nodes.source[read] >= -1 and wrote(nodes, other, nodes.key[read]):
                        count = differing(nodes, pairs, count, other, read)
    return count


@inlined
def differing(nodes: Nodes, pairs: Pairs, count: Int, other: Int, read: Int) -> Int:
    """Add the pair of a writer of what was read, and the one that it was read from, unless they are the same."""
    return count if nodes.source[read] == other else put(pairs, count, other, nodes.source[read], read)


@kernel
def pairs_by_sessions(nodes: Nodes, last: I32, pairs: Pairs) -> int:
    """The pairs by the last writer of a key before a read in its session; how many. `last` is that writer, -1 first."""
    count = 0
    for node in range(len(nodes.transaction)):
        begin, end = nodes.mop_start[nodes.transaction[node]], nodes.mop_start[nodes.transaction[node] + 1]
        own = nodes.start[nodes.session[node]]
        for mop in range(begin, end):
            if nodes.source[mop] >= -1:
                before = last[nodes.key[mop]]
                if before >= own and before != nodes.source[mop]:
                    count = put(pairs, count, before, nodes.source[mop], mop)
        for mop in range(begin, end):
            if nodes.written[mop]:
                last[nodes.key[mop]] = node
    return count
