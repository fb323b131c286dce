"""Lists: what is wrong with single reads and updates, without a cycle."""

from __future__ import annotations

from typing import Final

import numpy as np

from splitbrain.checkers.kernels import inlined, kernel
from splitbrain.checkers.transactions.graph import I32, I64, U8, Bools, Int
from splitbrain.checkers.transactions.list_kernels import Order, length_of
from splitbrain.checkers.transactions.writes import Mops, Table, write_of

G1A: Final = 1
G1B: Final = 2
INTERNAL: Final = 4
FUTURE: Final = 8
GARBAGE: Final = 16
DUPLICATE: Final = 32
TORN: Final = 64


@kernel
def first_flaws(
    mops: Mops, table: Table, order: Order, previous: I32, aborted: I64, unwritten: I64, twice: I64, torn: I64,
    seen: I32,
) -> None:  # fmt: skip
    """Of each key, how long a read must be to hold an aborted append, one never appended, one twice, and a torn one.

    Each is the length of the order plus one where no read does. An append is torn from the one before it of the same
    transaction if that is not there before it.
    """
    for key in range(len(order.longest)):
        length = order.start[key + 1] - order.start[key]
        aborted[key], unwritten[key], twice[key], torn[key] = length + 1, length + 1, length + 1, length + 1
        for place in range(length - 1, -1, -1):
            write = order.write[order.start[key] + place]
            if write == -1:
                unwritten[key] = place + 1
            elif write >= 0 and mops.status[mops.owner[write]] == 2:
                aborted[key] = place + 1
        for place in range(length):
            write = order.write[order.start[key] + place]
            if write >= 0:
                if seen[write] == 1:
                    twice[key] = place + 1
                    break
                seen[write] = 1
        for place in range(length):
            write = order.write[order.start[key] + place]
            if write >= 0:
                before = append_before(mops, table, previous, write)
                if before >= 0 and not 0 <= order.position[before] < place:
                    torn[key] = place + 1
                    break


@inlined
def append_before(mops: Mops, table: Table, previous: I32, mop: Int) -> Int:
    """The append to the same key before one of the same transaction; -1 for none, or one that others made too.

    Of an append that failed, another one of its value that may have happened has the place.
    """
    at = previous[mop]
    while at >= 0 and mops.kind[at] == 0:
        at = previous[at]
    if at < 0 or write_of(mops, table, mops.key[at], mops.value[at]) != at:
        return np.int64(-1)
    return np.int64(at)


@kernel
def flag_reads(
    mops: Mops,
    table: Table,
    order: Order,
    final: Bools,
    previous: I32,
    aborted: I64,
    unwritten: I64,
    twice: I64,
    torn: I64,
    stamp: I32,
    flags: U8,
) -> None:
    """Flag the reads of committed transactions that are G1a, G1b, garbage, torn, or have an element twice."""
    for mop in range(len(mops.kind)):
        length = length_of(mops, mop)
        if length <= 0:
            continue
        key = mops.key[mop]
        if order.odd[mop]:
            last = flag_odd(mops, table, previous, mop, length, stamp, flags)
        else:
            last = order.write[order.start[key] + length - 1]
            if length >= aborted[key]:
                flags[mop] |= 1
            if length >= unwritten[key]:
                flags[mop] |= 16
            if length >= twice[key]:
                flags[mop] |= 32
            if length >= torn[key]:
                flags[mop] |= 64
        if last >= 0 and mops.owner[last] != mops.owner[mop] and not final[last]:
            flags[mop] |= 2


@inlined
def flag_odd(mops: Mops, table: Table, previous: I32, mop: Int, length: Int, stamp: I32, flags: U8) -> Int:
    """Look at every element of a read that is no prefix; who appended the last one."""
    begin, last = mops.list_start[mop], -1
    for place in range(length):
        last = write_of(mops, table, mops.key[mop], mops.elements[begin + place])
        if last == -1:
            flags[mop] |= 16
        elif last >= 0:
            if mops.status[mops.owner[last]] == 2:
                flags[mop] |= 1
            if stamp[last] == mop:
                flags[mop] |= 32
            stamp[last] = mop
            before = append_before(mops, table, previous, last)
            if before >= 0 and stamp[before] != mop:
                flags[mop] |= 64
    return last


@kernel
def flag_internal(mops: Mops, previous: I32, flags: U8) -> None:
    """Flag reads that contradict what their own transaction has read or appended before."""
    for mop in range(len(mops.kind)):
        length = length_of(mops, mop)
        if length < 0 or previous[mop] < 0:
            continue
        at, end = previous[mop], mops.list_start[mop] + length
        while at >= 0 and mops.kind[at] != 0:
            end -= 1
            if end < mops.list_start[mop] or mops.elements[end] != mops.value[at]:
                flags[mop] |= 4
                break
            at = previous[at]
        if flags[mop] & 4 or at < 0:
            continue
        before = length_of(mops, at)
        if before != end - mops.list_start[mop]:
            flags[mop] |= 4
            continue
        for place in range(before):
            if mops.elements[mops.list_start[at] + place] != mops.elements[mops.list_start[mop] + place]:
                flags[mop] |= 4
                break


@kernel
def flag_future(mops: Mops, table: Table, order: Order, later: I32, flags: U8) -> None:
    """Flag reads of an element that their own transaction appends only later.

    `later` has two rows by key: the transaction met last, going back, and the first place of its appends so far.
    """
    for back in range(len(mops.kind)):
        mop = len(mops.kind) - 1 - back
        key, owner = mops.key[mop], mops.owner[mop]
        if mops.status[owner] != 0:
            continue
        if mops.kind[mop] != 0:
            position = order.position[mop]
            if later[0, key] != owner:
                later[0, key] = owner
                later[1, key] = -1
            if position >= 0 and (later[1, key] < 0 or position < later[1, key]):
                later[1, key] = position
        elif later[0, key] == owner:
            length = length_of(mops, mop)
            if order.odd[mop]:
                if shows_later(mops, table, mop, length):
                    flags[mop] |= 8
            elif 0 <= later[1, key] < length:
                flags[mop] |= 8


@inlined
def shows_later(mops: Mops, table: Table, mop: Int, length: Int) -> Int:
    """Whether a read has an element that its own transaction appends only later."""
    owner, begin = mops.owner[mop], mops.list_start[mop]
    for place in range(length):
        write = write_of(mops, table, mops.key[mop], mops.elements[begin + place])
        if write >= 0 and mops.owner[write] == owner and write > mop:
            return True
        if write == -2:  # several transactions wrote it
            for other in range(mop + 1, mops.start[owner + 1]):
                appends = mops.kind[other] != 0 and mops.key[other] == mops.key[mop]
                if appends and mops.elements[begin + place] == mops.value[other]:
                    return True
    return False


@kernel
def find_lost(mops: Mops, order: Order, final: Bools, previous: I32, first: I32, lost: I32) -> int:
    """Find committed transactions that read the same list of a key first, and then appended to it.

    `first` has for each key and length the first such transaction; `lost` for each later one's append that of the
    first.
    """
    found = 0
    for mop in range(len(mops.kind)):
        if mops.kind[mop] == 0 or not final[mop] or mops.status[mops.owner[mop]] != 0:
            continue
        at = mop
        while previous[at] >= 0:
            at = previous[at]
        length = length_of(mops, at)
        if length < 0 or order.odd[at]:
            continue
        place = order.start[mops.key[mop]] + mops.key[mop] + length
        if first[place] < 0:
            first[place] = mop
        else:
            lost[mop] = first[place]
            found += 1
    return found


@kernel
def find_dirty(mops: Mops, order: Order, committed: Bools, dirty: I64) -> None:
    """Of each key, the place of an aborted append that a committed one follows, or -1."""
    for key in range(len(order.longest)):
        dirty[key] = -1
        held = -1
        for place in range(order.start[key + 1] - order.start[key]):
            write = order.write[order.start[key] + place]
            if write < 0:
                continue
            if mops.status[mops.owner[write]] == 2:
                held = place
            elif held >= 0 and committed[mops.owner[write]]:
                dirty[key] = held
                break
