"""The order of processes, and real time, as edges.

Real time takes a barrier for every run of completions without an invocation between them: an edge from each completed
transaction to its barrier, from each barrier to the next, and from the last barrier to each transaction that begins. So
there are at most three edges a transaction at any concurrency; Elle's have as many as clients overlap.
"""

from __future__ import annotations

import numpy as np

from splitbrain.checkers.kernels import kernel
from splitbrain.checkers.transactions.columns import COMMITTED, Transactions
from splitbrain.checkers.transactions.graph import I32, I64, PROCESS, U8, Bools, Edges
from splitbrain.results.columns import ranked


def process_edges(transactions: Transactions, committed: Bools) -> Edges:
    """An edge from the last committed transaction of a process to the next one, and to each that may have between them.

    From the latter there is none: they may take effect later than what their process did next. Elle gives their process
    a new name, and orders only those that certainly committed.
    """
    processes, actor = ranked(transactions.process)
    last = np.full(len(processes), -1, np.int32)
    source, target = np.empty(len(transactions), np.int32), np.empty(len(transactions), np.int32)
    count = link_processes(actor, committed, transactions.status == COMMITTED, last, source, target)
    return Edges(source[:count], target[:count], np.full(count, PROCESS, np.uint8))


@kernel
def link_processes(actor: I32, committed: Bools, certain: Bools, last: I32, source: I32, target: I32) -> int:
    """Fill in the edges; how many there are."""
    count = 0
    for transaction in range(len(actor)):
        if not committed[transaction]:
            continue
        before = last[actor[transaction]]
        if before >= 0:
            source[count] = before
            target[count] = transaction
            count += 1
        if certain[transaction]:
            last[actor[transaction]] = transaction
    return count


def realtime_edges(transactions: Transactions, committed: Bools, nodes: int) -> tuple[Edges, int]:
    """Edges of real time between committed transactions, and the number of nodes with the barriers.

    A transaction whose outcome is unknown precedes none.
    """
    ended = np.flatnonzero(transactions.status == COMMITTED)
    ended = ended[np.argsort(transactions.completed[ended], kind="stable")].astype(np.int32)
    size = 2 * len(transactions) + len(ended)
    source, target, kind = np.empty(size, np.int32), np.empty(size, np.int32), np.empty(size, np.uint8)
    counts = np.zeros(2, np.int64)
    link_barriers(transactions.invoked, transactions.completed, committed, ended, nodes, source, target, kind, counts)
    count = int(counts[0])
    return Edges(source[:count], target[:count], kind[:count]), nodes + int(counts[1])


@kernel
def link_barriers(
    invoked: I64, completed: I64, committed: Bools, ended: I32, nodes: int, source: I32, target: I32, kind: U8,
    counts: I64,
) -> None:  # fmt: skip
    """Fill in the edges; `counts` says how many there are, and how many barriers."""
    count, barriers, at = 0, 0, 0
    for transaction in range(len(invoked)):
        if not committed[transaction]:
            continue
        if at < len(ended) and completed[ended[at]] < invoked[transaction]:
            barrier = nodes + barriers
            barriers += 1
            while at < len(ended) and completed[ended[at]] < invoked[transaction]:
                source[count] = ended[at]
                target[count] = barrier
                kind[count] = 7
                count += 1
                at += 1
            if barriers > 1:
                source[count] = barrier - 1
                target[count] = barrier
                kind[count] = 8
                count += 1
        if barriers > 0:
            source[count] = nodes + barriers - 1
            target[count] = transaction
            kind[count] = 8
            count += 1
    counts[0] = count
    counts[1] = barriers
