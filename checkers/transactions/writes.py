"""Who wrote which value of which key: a hash table of all writes, without an object for each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from splitbrain.checkers.kernels import inlined, kernel
from splitbrain.checkers.transactions.columns import ABORTED, READ, Transactions
from splitbrain.checkers.transactions.graph import I32, I64, U8, Bools, Int

N = TypeVar("N", bound=np.generic)

ABSENT: Final = -1
"""The write of a value that was never written."""

SEVERAL: Final = -2
"""The write of a value that several transactions wrote, so that it cannot be said which."""

# From SplitMix64 (Steele, Lea and Flood 2014).
_MIX: Final = np.uint64(0x9E3779B97F4A7C15)
_MIX_KEY: Final = np.uint64(0xBF58476D1CE4E5B9)
_SHIFT: Final = np.uint64(29)


class Mops(NamedTuple):
    """What kernels need of transactions.

    Attributes:
        start, kind, key, value, list_start, list_length, elements: as in `Transactions`.
        owner: the transaction of each micro-operation.
        status: of each transaction.
    """

    start: I64
    kind: U8
    key: I32
    value: I64
    list_start: I64
    list_length: I32
    elements: I64
    owner: I32
    status: U8


class Table(NamedTuple):
    """A hash table with open addressing.

    Attributes:
        slot: a write (its micro-operation), ABSENT where the slot is free.
        repeated: of each micro-operation, whether another transaction may have written the same.
    """

    slot: I32
    repeated: Bools


@dataclass(frozen=True)
class Writes:
    """The writes of a history.

    Attributes:
        mops: the columns.
        table: finds a write by key and value.
        final: of each micro-operation, whether it is the transaction's last write of its key.
        previous: the micro-operation before it of the same transaction and key, ABSENT if there is none.
    """

    mops: Mops
    table: Table
    final: Bools
    previous: I32

    @property
    def repeated(self) -> int:
        """How many writes have a value that another transaction may have written to the same key."""
        return int(np.count_nonzero(self.table.repeated))


def writes_of(transactions: Transactions) -> Writes:
    """Index the writes of a history."""
    owner = np.repeat(np.arange(len(transactions), dtype=np.int32), np.diff(transactions.mop_start))
    mops = Mops(
        _frozen(transactions.mop_start),
        _frozen(transactions.mop_kind),
        _frozen(transactions.mop_key),
        _frozen(transactions.mop_value),
        _frozen(transactions.list_start),
        _frozen(transactions.list_length),
        _frozen(transactions.elements),
        _frozen(owner),
        _frozen(transactions.status),
    )
    count = int(np.count_nonzero(transactions.mop_kind != READ))
    size = 16
    while size < 2 * count:
        size *= 2
    table = Table(np.full(size, ABSENT, np.int32), np.zeros(transactions.mop_count, np.bool_))
    final = np.zeros(transactions.mop_count, np.bool_)
    previous = np.full(transactions.mop_count, ABSENT, np.int32)
    last = np.full(len(transactions.key_names), ABSENT, np.int32)
    link_mops(mops, last, previous)
    last[:] = ABSENT
    mark_final(mops, last, final)
    index_writes(mops, table)
    return Writes(mops, table, final, previous)


def _frozen(column: npt.NDArray[N]) -> npt.NDArray[N]:
    """The column, as one that cannot be written: Arrow's memory is, and kernels are compiled for one type only."""
    frozen = column.view()
    frozen.flags.writeable = False
    return frozen


@kernel
def link_mops(mops: Mops, last: I32, previous: I32) -> None:
    """Link each micro-operation to the one before it of the same transaction and key."""
    for mop in range(len(mops.kind)):
        before = last[mops.key[mop]]
        if before >= 0 and mops.owner[before] == mops.owner[mop]:
            previous[mop] = before
        last[mops.key[mop]] = mop


@kernel
def find_own(mops: Mops, place: I32, last: I32, own: I32) -> None:
    """Find for each micro-operation that of the same transaction and key that has a place (not -1); the last one.

    Args:
        mops: of the history.
        place: of each micro-operation.
        last: room by key.
        own: filled in: the micro-operation, -1 if there is none.
    """
    last[:] = -1
    for back in range(len(mops.kind)):
        mop = len(mops.kind) - 1 - back
        found = last[mops.key[mop]]
        if place[mop] >= 0 and (found < 0 or mops.owner[found] != mops.owner[mop]):
            last[mops.key[mop]] = mop
            found = mop
        own[mop] = found if found >= 0 and mops.owner[found] == mops.owner[mop] else -1
    last[:] = -1
    for mop in range(len(mops.kind)):
        if own[mop] >= 0:
            last[mops.key[mop]] = own[mop]
            continue
        found = last[mops.key[mop]]
        if found >= 0 and mops.owner[found] == mops.owner[mop]:
            own[mop] = found


@kernel
def mark_final(mops: Mops, last: I32, final: Bools) -> None:
    """Mark the last write of each transaction and key. `last` has the transaction that was seen writing each key."""
    for mop in range(len(mops.kind) - 1, -1, -1):
        if mops.kind[mop] != READ and last[mops.key[mop]] != mops.owner[mop]:
            last[mops.key[mop]] = mops.owner[mop]
            final[mop] = True


@inlined
def place_of(key: Int, value: Int, size: Int) -> Int:
    """Where in a table of that size the write of a value to a key is looked for first."""
    mixed = (np.uint64(value) * _MIX) ^ (np.uint64(key) * _MIX_KEY)
    mixed = (mixed ^ (mixed >> _SHIFT)) * _MIX
    return np.int64((mixed >> np.uint64(33)) & np.uint64(size - 1))


@kernel
def index_writes(mops: Mops, table: Table) -> None:
    """Enter all writes. One that may have happened takes the place of one that did not."""
    size = len(table.slot)
    for mop in range(len(mops.kind)):
        if mops.kind[mop] == READ:
            continue
        at = place_of(mops.key[mop], mops.value[mop], size)
        while True:
            held = table.slot[at]
            if held < 0:
                table.slot[at] = mop
                break
            if mops.key[held] == mops.key[mop] and mops.value[held] == mops.value[mop]:
                happened, happens = mops.status[mops.owner[held]] != ABORTED, mops.status[mops.owner[mop]] != ABORTED
                if happened and happens:
                    table.repeated[held] = True
                    table.repeated[mop] = True
                elif happens:
                    table.slot[at] = mop
                break
            at = (at + 1) & (size - 1)


@inlined
def write_of(mops: Mops, table: Table, key: Int, value: Int) -> Int:
    """The micro-operation that wrote a value to a key, ABSENT, or SEVERAL."""
    size = len(table.slot)
    at = place_of(key, value, size)
    while True:
        held = table.slot[at]
        if held < 0:
            return -1
        if mops.key[held] == key and mops.value[held] == value:
            return -2 if table.repeated[held] else np.int64(held)
        at = (at + 1) & (size - 1)
