"""Which versions of one key come before which, by an order of transactions: by clocks, without a bit for each pair.

Versions that precede each other form chains. Of every transaction its clock says, for each chain, how many of its
versions were written before. There are about as many chains as writers of the key run beside each other, so that a key
with a hundred thousand writes has a few, where sets of versions take the square (clocks: Fidge and Mattern, 1988;
chains: Jagadish, TODS 1990).

A version takes no part if all that is reached from it are reads of it: nothing comes after it.

Keys are looked at one after the other in the same room, which grows where a key needs more: most keys are small, and
there are many.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from splitbrain.checkers.kernels import inlined, kernel
from splitbrain.checkers.transactions.graph import I32, I64, Bools, Int
from splitbrain.checkers.transactions.open_keys import Keys
from splitbrain.checkers.transactions.ways import Ways

ROOM: Final = 1 << 25
"""The largest number of entries of clocks of one key: 128 MiB."""

FEW: Final = 4
"""How many chains there is room for at first."""

TOO_WIDE: Final = -1
"""A key has no pairs: its clocks would take more than `ROOM`."""

LACKS_ENTRIES: Final = -2
LACKS_PAIRS: Final = -3
"""A key has to be looked at again in more room."""

PAIRS: Final = 0
STEPS: Final = 1
DISTINCT: Final = 2
NEED: Final = 3
"""Places in what is said of a key: how many pairs were found, how many entries were looked at, whether the numbers of
versions before each version are all different, so that the whole order is known, and how much room it takes."""


class Room(NamedTuple):
    """What is known of the key that is looked at.

    Attributes:
        labels, wrote, read: by place behind the first write: two versions that are accessed from there on, the version
            that was written there, and that was read, -1 for none.
        entries: clocks by place: each of so many numbers as there is room for chains, how many versions of each chain
            are before or at it.
        takes_part, chain, position: of each version (of all keys); -1 and 0 if it takes no part; positions are from 1.
        length, begin: of each chain, and where it begins in `at`.
        at: the versions of all chains.
        seen: numbers of versions before a version that there are.
        earlier, later, found: pairs of versions, and the read of the later one that was reached, -1 if its writer was.
    """

    labels: I32
    wrote: I32
    read: I32
    entries: I32
    takes_part: Bools
    chain: I32
    position: I32
    length: I32
    begin: I64
    at: I32
    seen: Bools
    earlier: I32
    later: I32
    found: I32


def room_for(keys: Keys, nodes: int) -> Room:
    """Room for keys whose accesses have so many nodes between them."""
    versions = len(keys.write)
    most = int(np.diff(keys.first).max(initial=0))
    pairs = 4 * most + 64
    return Room(
        labels=np.empty(2 * nodes, np.int32),
        wrote=np.empty(nodes, np.int32),
        read=np.empty(nodes, np.int32),
        entries=np.empty(FEW * nodes, np.int32),
        takes_part=np.empty(versions, np.bool_),
        chain=np.empty(versions, np.int32),
        position=np.empty(versions, np.int32),
        length=np.empty(2 * most + FEW, np.int32),
        begin=np.empty(2 * most + FEW + 1, np.int64),
        at=np.empty(most, np.int32),
        seen=np.empty(most + 1, np.bool_),
        earlier=np.empty(pairs, np.int32),
        later=np.empty(pairs, np.int32),
        found=np.empty(pairs, np.int32),
    )


def with_more(room: Room, lacks: int, need: int) -> Room:
    """The same with as much room as a key needs."""
    if lacks == LACKS_ENTRIES:
        return room._replace(entries=np.empty(need, np.int32))
    earlier, later, found = (np.empty(need, np.int32) for _ in range(3))
    return room._replace(earlier=earlier, later=later, found=found)


@kernel
def find_pairs(keys: Keys, key: Int, ways: Ways, first: Int, last: Int, room: Room, most: int, said: I64) -> int:
    """Find the pairs of versions of one key from which the others follow.

    Args:
        keys: all of them.
        key: which one.
        ways: the order of transactions.
        first, last: places of the first write and of the last access.
        room: `earlier`, `later` and `found` are filled in.
        most: the largest number of entries.
        said: filled in, see `PAIRS`.

    Returns:
        How many pairs there are; or TOO_WIDE, LACKS_ENTRIES or LACKS_PAIRS.
    """
    size, width = last - first + 1, FEW
    for place in range(size):
        room.wrote[place] = -1
        room.read[place] = -1
        room.labels[2 * place] = -1
        room.labels[2 * place + 1] = -1
    for version in range(keys.first[key], keys.first[key + 1]):
        room.wrote[ways.place[keys.writer[version]] - first] = version
        for number in range(keys.start[version], keys.start[version + 1]):
            room.read[ways.place[keys.reader[number]] - first] = version
    edges = mark_followed(ways, first, size, room)
    said[PAIRS], said[STEPS], said[DISTINCT] = 0, edges, 0
    while True:
        if size * width > most:
            return TOO_WIDE
        if size * width > len(room.entries):
            said[NEED] = size * width
            return LACKS_ENTRIES
        said[STEPS] += width * edges
        if fill_clocks(keys, key, ways, first, size, room, width):
            break
        width *= 2
    place_chains(keys, key, room, width)
    put_pairs(keys, key, ways, first, room, width, said)
    if said[PAIRS] > len(room.earlier):
        said[NEED] = said[PAIRS]
        return LACKS_PAIRS
    return said[PAIRS]


@inlined
def mark_followed(ways: Ways, first: Int, size: Int, room: Room) -> Int:
    """Mark the versions from whose writer an access of another version is reached; how many nodes and edges there are.

    `labels` has two versions for each place that are accessed at or behind it: two are enough to know of another one.
    """
    labels, looked = room.labels, size
    for back in range(size):
        place = size - 1 - back
        mine = room.wrote[place]
        if mine >= 0:
            one, two = labels[2 * place], labels[2 * place + 1]
            room.takes_part[mine] = (one >= 0 and one != mine) or (two >= 0 and two != mine)
            put_label(labels, place, mine)
        if room.read[place] >= 0:
            put_label(labels, place, room.read[place])
        node = ways.order[first + place]
        looked += ways.start[node + 1] - ways.start[node]
        for edge in range(ways.start[node], ways.start[node + 1]):
            other = ways.place[ways.source[edge]] - first
            if other >= 0:
                put_label(labels, other, labels[2 * place])
                put_label(labels, other, labels[2 * place + 1])
    return looked


@inlined
def put_label(labels: I32, place: Int, version: Int) -> None:
    """Add a version to those of a place, unless it has two."""
    if version >= 0 and labels[2 * place] != version:
        if labels[2 * place] < 0:
            labels[2 * place] = version
        elif labels[2 * place + 1] < 0:
            labels[2 * place + 1] = version


@inlined
def fill_clocks(keys: Keys, key: Int, ways: Ways, first: Int, size: Int, room: Room, width: Int) -> Int:
    """Fill in the clocks, and put each version that takes part at the end of a chain; whether there was room."""
    entries, chains = room.entries, 0
    for version in range(keys.first[key], keys.first[key + 1]):
        room.chain[version] = -1
        room.position[version] = 0
    for chain in range(width):
        room.length[chain] = 0
    for place in range(size):
        row = place * width
        for chain in range(width):
            entries[row + chain] = 0
        node = ways.order[first + place]
        for edge in range(ways.start[node], ways.start[node + 1]):
            other = ways.place[ways.source[edge]] - first
            if other < 0:
                continue
            for chain in range(chains):
                entries[row + chain] = max(entries[row + chain], entries[other * width + chain])
        version = room.wrote[place]
        if version < 0 or not room.takes_part[version]:
            continue
        mine = 0
        while mine < chains and entries[row + mine] < room.length[mine]:
            mine += 1
        if mine == width:
            return False
        chains = max(chains, mine + 1)
        room.length[mine] += 1
        entries[row + mine] = room.length[mine]
        room.chain[version] = mine
        room.position[version] = room.length[mine]
    return True


@inlined
def place_chains(keys: Keys, key: Int, room: Room, width: Int) -> None:
    """List the versions of each chain."""
    room.begin[0] = 0
    for chain in range(width):
        room.begin[chain + 1] = room.begin[chain] + room.length[chain]
    for version in range(keys.first[key], keys.first[key + 1]):
        if room.chain[version] >= 0:
            room.at[room.begin[room.chain[version]] + room.position[version] - 1] = version


@inlined
def known(room: Room, width: Int, place: Int, chain: Int) -> Int:
    """How many versions of a chain were written before the transaction at a place."""
    count = room.entries[place * width + chain]
    own = room.wrote[place]
    return count - 1 if own >= 0 and room.chain[own] == chain else count


@inlined
def put_pairs(keys: Keys, key: Int, ways: Ways, first: Int, room: Room, width: Int, said: I64) -> None:
    """Fill in pairs while there is room; `said` says how many there are, and how many entries were looked at."""
    versions, distinct = keys.first[key + 1] - keys.first[key], True
    for total in range(versions + 1):
        room.seen[total] = False
    for version in range(keys.first[key], keys.first[key + 1]):
        place = ways.place[keys.writer[version]] - first
        total = 0
        for chain in range(width):
            mine = known(room, width, place, chain)
            total += mine
            if mine > 0 and is_nearest(keys, ways, first, room, width, place, chain, mine, said):
                put_pair(room.at[room.begin[chain] + mine - 1], version, -1, room, said)
        distinct = distinct and not room.seen[total]
        room.seen[total] = True
        for number in range(keys.start[version], keys.start[version + 1]):
            there = ways.place[keys.reader[number]] - first
            for chain in range(width):
                last, mine = known(room, width, there, chain), known(room, width, place, chain)
                if last <= mine:
                    continue
                if room.chain[version] == chain:
                    # What overwrote the version first makes the shortest cycle.
                    mine = room.position[version]
                    if last > mine + 1:
                        put_pair(room.at[room.begin[chain] + mine], version, number, room, said)
                if last > mine:
                    put_pair(room.at[room.begin[chain] + last - 1], version, number, room, said)
        said[STEPS] += width * (1 + keys.start[version + 1] - keys.start[version])
    said[DISTINCT] = distinct


@inlined
def is_nearest(
    keys: Keys, ways: Ways, first: Int, room: Room, width: Int, place: Int, chain: Int, mine: Int, said: I64
) -> Int:
    """Whether no other version before a place comes after that one of a chain."""
    nearest = True
    for other in range(width):
        last = known(room, width, place, other)
        if other == chain or last == 0:
            continue
        there = ways.place[keys.writer[room.at[room.begin[other] + last - 1]]] - first
        said[STEPS] += 1
        if room.entries[there * width + chain] >= mine:
            nearest = False
            break
    return nearest


@inlined
def put_pair(one: Int, other: Int, number: Int, room: Room, said: I64) -> None:
    """Add a pair, if there is room."""
    at = said[PAIRS]
    if at < len(room.earlier):
        room.earlier[at] = one
        room.later[at] = other
        room.found[at] = number
    said[PAIRS] = at + 1
