"""The transactions that happened, numbered session by session, with what they read and wrote."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from splitbrain.checkers.transactions.columns import MAYBE, Transactions
from splitbrain.checkers.transactions.graph import I32, I64, Bools
from splitbrain.checkers.transactions.order import process_edges
from splitbrain.checkers.transactions.weak.sources import Sources
from splitbrain.results.columns import ranked


class Nodes(NamedTuple):
    """Transactions that happened, as nodes from 0: first all of one session in its order, then those of the next.

    Attributes:
        transaction: of each node.
        session: of each node.
        start: the first node of each session; one element more than there are sessions.
        follows: of each node one of another session that comes before it by their process; -1 for none.
        mop_start: of each transaction, as in `Transactions`.
        key: of each micro-operation.
        source: of each micro-operation the node that it reads from, INITIAL or INTERNAL.
        written: which micro-operations are the last write of their transaction and key.
        writer_start, writer: the nodes that wrote each key, ascending.
    """

    transaction: I32
    session: I32
    start: I64
    follows: I32
    mop_start: I64
    key: I32
    source: I32
    written: Bools
    writer_start: I64
    writer: I32


def nodes_of(transactions: Transactions, sources: Sources) -> Nodes:
    """Number the transactions."""
    happened = np.flatnonzero(sources.seen)
    _, session = ranked(_sessions(transactions, happened))
    order = np.argsort(session, kind="stable")
    chosen, session = happened[order].astype(np.int32), session[order]
    node_of = np.full(len(transactions) + 1, -1, np.int32)
    node_of[chosen] = np.arange(len(chosen), dtype=np.int32)
    source = sources.source
    translated = np.where(source >= 0, node_of[source], source)
    mops = sources.writes.mops
    written = sources.writes.final & sources.seen[mops.owner]
    writes = np.flatnonzero(written)
    keys, writers = mops.key[writes], node_of[mops.owner[writes]]
    by_key = np.lexsort((writers, keys))
    counts = np.bincount(keys, minlength=len(transactions.key_names))
    sessions = int(session[-1]) + 1 if len(session) else 0
    return Nodes(
        transaction=chosen,
        session=session,
        start=_starts(np.bincount(session, minlength=sessions)),
        follows=_followed(transactions, sources, node_of, session),
        mop_start=np.array(transactions.mop_start),
        key=np.array(transactions.mop_key),
        source=translated,
        written=written,
        writer_start=_starts(counts),
        writer=writers[by_key],
    )


def _sessions(transactions: Transactions, happened: I64) -> I64:
    """The session of each of these, by any number.

    It is the process. But a transaction of unknown outcome may take effect after those that its process made next: if
    there are any it has a session of its own.
    """
    _, process = ranked(transactions.process[happened])
    places = np.arange(len(happened))
    last = np.zeros(int(process.max(initial=-1)) + 1, np.int64)
    last[process] = places
    apart = (transactions.status[happened] == MAYBE) & (last[process] != places)
    return np.where(apart, len(last) + places, process)


def _followed(transactions: Transactions, sources: Sources, node_of: I32, session: I32) -> I32:
    """Of each node of unknown outcome that has a session of its own, the one before it in its process."""
    order = process_edges(transactions, sources.seen)
    source, target = node_of[order.source], node_of[order.target]
    apart = session[source] != session[target]
    found = np.full(len(session), -1, np.int32)
    found[target[apart]] = source[apart]
    return found


def _starts(counts: I64) -> I64:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])


class Pairs(NamedTuple):
    """Derived pairs: which node must come before which, and the read that shows it.

    Attributes:
        before, after: nodes; `after` is INITIAL if the read found nothing, which nothing can come before.
        read: the micro-operation of the third transaction.
    """

    before: I32
    after: I32
    read: I32

    def first(self, count: int) -> Pairs:
        """The first of them."""
        return Pairs(self.before[:count], self.after[:count], self.read[:count])


def room(size: int) -> Pairs:
    """Room for pairs."""
    return Pairs(np.empty(size, np.int32), np.empty(size, np.int32), np.empty(size, np.int32))
