"""Real time in pieces: the barriers of a piece of a history, and one at each of its ends.

As in `splitbrain.checkers.transactions.order`, a barrier stands before each op that is invoked after others have
completed. Here one stands before the first op of each piece besides, so that no piece needs to know another one: the
barriers make one chain over all pieces.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from splitbrain.checkers.transactions.by_key.edges import barrier, edge_rows, time_of_barrier
from splitbrain.checkers.transactions.columns import Ints
from splitbrain.checkers.transactions.graph import LINK, REALTIME, Bools

COMPLETES: Final = 0
INVOKES: Final = 1
NOTHING: Final = 2
"""What a row is: a transaction completes, or is invoked, or the piece is there, and nothing more."""


def barrier_rows(first: int, end: int, index: Ints, role: Ints, txn: Ints, time: Ints, *, last: bool) -> pa.Table:
    """The edges of real time of a piece.

    Args:
        first, end: indexes of the ops of the piece.
        index: of ops that invoke committed transactions, and that complete those whose outcome is known.
        role: of each what it is.
        txn: its transaction, as a node.
        time: the place in time of that.
        last: whether no piece follows.
    """
    real = role != NOTHING
    order = np.argsort(index[real])
    index, role, txn, time = (each[real][order] for each in (index, role, txn, time))
    invokes = role == INVOKES
    new = invokes & np.concatenate([np.zeros(min(1, len(role)), np.bool_), role[:-1] == COMPLETES])
    before = np.maximum.accumulate(np.where(new, index, first))
    after = np.minimum.accumulate(np.where(new, index, end)[::-1])[::-1]
    done = ~invokes & ((after < end) | (not last))
    begun = invokes & ((before > first) | (first > 0))
    chain = np.concatenate([[first], index[new], [] if last else [end]]).astype(np.int64)
    if first == 0:
        chain = chain[1:]
    done_rows = edge_rows(
        txn[done], barrier(after[done]), _all(REALTIME, done), time[done], time_of_barrier(after[done])
    )
    begun_rows = edge_rows(
        barrier(before[begun]), txn[begun], _all(LINK, begun), time_of_barrier(before[begun]), time[begun]
    )
    one, other = chain[:-1], chain[1:]
    chain_rows = edge_rows(
        barrier(one), barrier(other), np.full(len(one), LINK), time_of_barrier(one), time_of_barrier(other)
    )
    return pa.concat_tables([done_rows, begun_rows, chain_rows])


def _all(kind: int, chosen: Bools) -> Ints:
    return np.full(int(np.count_nonzero(chosen)), kind)
