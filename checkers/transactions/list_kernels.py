"""Lists: the order of appends to each key, and what depends on what because of it.

The order of a key is the longest list of it that a committed transaction read. A read that is a prefix of it is even;
any other one is odd, and says nothing of the order. An append that no read shows comes after all that were read, since
appends are never lost; those of one key that none shows stay in no order among themselves.
"""

from __future__ import annotations

from typing import NamedTuple

from splitbrain.checkers.kernels import inlined, kernel
from splitbrain.checkers.transactions.graph import I32, I64, Bools, Int
from splitbrain.checkers.transactions.groups import Out, emit, to_all
from splitbrain.checkers.transactions.writes import Mops, Table, write_of


class Order(NamedTuple):
    """The order of all keys, one after the other.

    Attributes:
        start: where the order of each key begins in `write`; one element more than there are keys.
        write: the appends (their micro-operations), ABSENT, or SEVERAL.
        position: of each micro-operation that appends its place in the order of its key, -1 if no read shows it.
        longest: of each key the longest read, -1 if there is none.
        odd: of each micro-operation, whether it is a read that is no prefix of the longest.
        crooked: of each key, whether it has odd reads, or one with an element twice.
    """

    start: I64
    write: I32
    position: I32
    longest: I32
    odd: Bools
    crooked: Bools


@inlined
def length_of(mops: Mops, mop: Int) -> Int:
    """The length of the list that a micro-operation read, -1 if it read none, or it is not known which."""
    if mops.kind[mop] != 0 or mops.status[mops.owner[mop]] != 0:
        return -1
    if mops.list_length[mop] >= 0:
        return mops.list_length[mop]
    return 0 if mops.value[mop] == -9223372036854775808 else -1


@kernel
def find_longest(mops: Mops, longest: I32, length: I64) -> None:
    """The longest read of each key, and its length."""
    for mop in range(len(mops.kind)):
        found = length_of(mops, mop)
        key = mops.key[mop]
        if found > length[key] or (found == 0 and longest[key] < 0):
            length[key] = found
            longest[key] = mop


@kernel
def fill_order(mops: Mops, table: Table, order: Order) -> None:
    """Find who appended what the longest reads show. A key whose longest read has an append twice is crooked."""
    for key in range(len(order.longest)):
        if order.longest[key] < 0:
            continue
        begin = mops.list_start[order.longest[key]]
        for place in range(order.start[key + 1] - order.start[key]):
            write = write_of(mops, table, key, mops.elements[begin + place])
            order.write[order.start[key] + place] = write
            if write >= 0:
                if order.position[write] >= 0:
                    order.crooked[key] = True
                else:
                    order.position[write] = place


@kernel
def mark_odd(mops: Mops, order: Order) -> int:
    """Mark the reads that are no prefix of the longest; how many there are."""
    found = 0
    for mop in range(len(mops.kind)):
        length = length_of(mops, mop)
        if length <= 0:
            continue
        key = mops.key[mop]
        if order.longest[key] == mop:
            continue
        mine, other = mops.list_start[mop], mops.list_start[order.longest[key]]
        if mine == other:  # they share their elements
            continue
        for place in range(length):
            if mops.elements[mine + place] != mops.elements[other + place]:
                order.odd[mop] = True
                order.crooked[key] = True
                found += 1
                break
    return found


@kernel
def mark_committed(mops: Mops, table: Table, order: Order, committed: Bools) -> None:
    """Mark the transactions of unknown outcome whose appends a committed transaction has read."""
    for place in range(len(order.write)):
        write = order.write[place]
        if write >= 0 and mops.status[mops.owner[write]] == 1:
            committed[mops.owner[write]] = True
    for mop in range(len(mops.kind)):
        if not order.odd[mop]:
            continue
        begin = mops.list_start[mop]
        for place in range(mops.list_length[mop]):
            write = write_of(mops, table, mops.key[mop], mops.elements[begin + place])
            if write >= 0 and mops.status[mops.owner[write]] == 1:
                committed[mops.owner[write]] = True


@kernel
def link_order(mops: Mops, order: Order, committed: Bools, following: I32, last: I32, out: Out) -> None:
    """Edges from each committed append to the next one of another transaction.

    `following` is filled in: of each key, for each length of a read the first committed append that the read lacks (-1:
    none of the order). `last` too: of each key the transaction of the last committed append.
    """
    for key in range(len(order.longest)):
        before, at = -1, order.start[key]
        for place in range(order.start[key + 1] - order.start[key]):
            write = order.write[at + place]
            if write < 0 or not committed[mops.owner[write]] or order.position[write] != place:
                continue
            owner = mops.owner[write]
            if before >= 0 and before != owner:
                emit(out, before, owner, 0)
            before = owner
        last[key] = before
        after = -1
        for place in range(order.start[key + 1] - order.start[key], -1, -1):
            following[at + key + place] = after
            if place > 0:
                write = order.write[at + place - 1]
                if write >= 0 and committed[mops.owner[write]] and order.position[write] == place - 1:
                    after = write


@kernel
def link_reads(mops: Mops, table: Table, order: Order, committed: Bools, following: I32, out: Out) -> None:
    """Edges from the writer of the last element of each read, and to the first append that the read lacks."""
    for mop in range(len(mops.kind)):
        length = length_of(mops, mop)
        if length < 0:
            continue
        key, reader = mops.key[mop], mops.owner[mop]
        if length > 0:
            if order.odd[mop]:
                write = write_of(mops, table, key, mops.elements[mops.list_start[mop] + length - 1])
            else:
                write = order.write[order.start[key] + length - 1]
            if write >= 0:
                writer = mops.owner[write]
                if writer == reader:
                    continue
                if committed[writer]:
                    emit(out, writer, reader, 1)
        if not order.odd[mop]:
            after = following[order.start[key] + key + length]
            if after >= 0 and mops.owner[after] != reader:
                emit(out, reader, mops.owner[after], 2)


@kernel
def count_unseen(mops: Mops, table: Table, order: Order, final: Bools, committed: Bools, unseen: I32, size: I64) -> int:
    """List the last appends of committed transactions that no read shows; how many. `size` counts those of each key."""
    found = 0
    for mop in range(len(mops.kind)):
        if mops.kind[mop] == 0 or not final[mop] or order.position[mop] >= 0:
            continue
        key = mops.key[mop]
        if table.repeated[mop] or not committed[mops.owner[mop]]:
            continue
        unseen[found] = mop
        size[key + 1] += 1
        found += 1
    return found


@kernel
def link_last(order: Order, last: I32, targets: I32, start: I64, nodes: int, out: Out) -> None:
    """Edges from the last append that a read shows to those that none shows."""
    for key in range(len(order.longest)):
        if last[key] >= 0:
            own = -1
            for place in range(start[key], start[key + 1]):
                if targets[place] == last[key]:
                    own = place
            to_all(targets, start[key], start[key + 1], own, last[key], 0, nodes, out)


@kernel
def link_unseen(
    mops: Mops, order: Order, following: I32, targets: I32, start: I64, place_of_mop: I32, own_append: I32, nodes: int,
    before: int, out: Out,
) -> None:  # fmt: skip
    """Edges from the reads of the whole order to appends that no read shows.

    `targets` has the transactions of these appends, sorted by key, `start` where each key begins, `place_of_mop` the
    place there of each append, and `own_append` that of each reader itself.
    A transaction that read the whole order and appends itself comes before the others, or there is a G-single: an edge
    of the kind `before`.
    """
    for mop in range(len(mops.kind)):
        length = length_of(mops, mop)
        if length < 0 or order.odd[mop]:
            continue
        key, reader = mops.key[mop], mops.owner[mop]
        if start[key] == start[key + 1] or following[order.start[key] + key + length] >= 0:
            continue
        if length > 0:
            write = order.write[order.start[key] + length - 1]
            if write >= 0 and mops.owner[write] == reader:
                continue
        append = own_append[mop]
        own = place_of_mop[append] if append >= 0 else -1
        to_all(targets, start[key], start[key + 1], own, reader, 2, nodes, out)
        if append > mop:
            to_all(targets, start[key], start[key + 1], own, reader, before, nodes, out)
