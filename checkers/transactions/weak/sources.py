"""Which write each read of a register is from, and reads that no level allows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from splitbrain.checkers.kernels import inlined, kernel
from splitbrain.checkers.transactions.columns import APPEND, COMMITTED, NO_LIST, Transactions
from splitbrain.checkers.transactions.graph import I32, I64, Bools, Int
from splitbrain.checkers.transactions.writes import Mops, Table, Writes, write_of, writes_of
from splitbrain.results.errors import HistoryFormatError

INITIAL: Final = -1
"""The source of a read that found nothing."""

INTERNAL: Final = -2
"""The source of what is no read of another transaction."""

ANOMALIES: Final = ("G1a", "G1b", "garbage-read", "internal", "future-read")
"""Reads that no level allows, by number."""

SEVERAL: Final = len(ANOMALIES)
"""A read of a value that several transactions wrote: its source is not known."""


@dataclass(frozen=True)
class Sources:
    """Which transaction reads from which.

    Attributes:
        writes: of the history.
        source: of each micro-operation the transaction that it reads from, INITIAL or INTERNAL.
        wrong: of each of `ANOMALIES` the first read that is one, -1 if there is none; then that of `SEVERAL`.
        seen: which transactions happened: they committed, or were read from.
    """

    writes: Writes
    source: I32
    wrong: I64
    seen: Bools


def sources_of(transactions: Transactions, source: str = "history") -> Sources:
    """The source of each read.

    Raises:
        HistoryFormatError: the history has appends or reads of lists.
    """
    if (transactions.mop_kind == APPEND).any() or (transactions.list_length != NO_LIST).any():
        raise HistoryFormatError(
            source, "it has lists: read committed, read atomic and causal are judged of registers."
        )
    writes = writes_of(transactions)
    found = np.full(transactions.mop_count, INTERNAL, np.int32)
    wrong = np.full(len(ANOMALIES) + 1, -1, np.int64)
    seen = transactions.status == COMMITTED
    own = np.full(len(transactions.key_names), -1, np.int32)
    read_sources(writes.mops, writes.table, writes.final, own, found, wrong, seen)
    return Sources(writes, found, wrong, seen)


@inlined
def problem_of(mops: Mops, final: Bools, write: Int, owner: Int) -> Int:
    """The number of what is wrong with a read of a write, -1 if nothing is."""
    if write == -1:
        return 2
    if write == -2:
        return 5
    if mops.status[mops.owner[write]] == 2:
        return 0
    if mops.owner[write] == owner:
        return 4
    return -1 if final[write] else 1


@kernel
def read_sources(mops: Mops, table: Table, final: Bools, own: I32, source: I32, wrong: I64, seen: Bools) -> None:
    """Fill in `source`, `wrong` and `seen`. `own` has the last write of each key that was met, of any transaction."""
    for mop in range(len(mops.kind)):
        owner, key, value = mops.owner[mop], mops.key[mop], mops.value[mop]
        if mops.kind[mop] != 0:
            own[key] = mop
            continue
        if mops.status[owner] != 0:
            continue
        problem = -1
        if own[key] >= 0 and mops.owner[own[key]] == owner:
            if mops.value[own[key]] != value:
                problem = 3
        elif value == -(1 << 63):
            source[mop] = -1
        else:
            write = write_of(mops, table, key, value)
            problem = problem_of(mops, final, write, owner)
            if problem == -1 or problem == 1:
                source[mop] = mops.owner[write]
                seen[mops.owner[write]] = True
        if problem >= 0 and wrong[problem] < 0:
            wrong[problem] = mop
