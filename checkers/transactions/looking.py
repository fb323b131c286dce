"""One look at each of some keys: the pairs of their versions that follow from the ways, and the edges of these."""

from __future__ import annotations

from typing import Final

from splitbrain.checkers.kernels import inlined, kernel
from splitbrain.checkers.transactions.derived_edges import Columns, Label, put_edge
from splitbrain.checkers.transactions.graph import I64, Bools, Int
from splitbrain.checkers.transactions.open_keys import Keys
from splitbrain.checkers.transactions.reach import DISTINCT, NEED, PAIRS, STEPS, TOO_WIDE, Room, find_pairs
from splitbrain.checkers.transactions.ways import Ways

NEW: Final = 3
"""Further steps of an edge that is new."""

ENTRIES: Final = 1_000
"""How many nodes, edges and entries of clocks are one step."""

NEXT: Final = 0
EDGES: Final = 1
WORK: Final = 2
SPENT: Final = 3
"""Places in the progress: which of the keys is next, how many edges there are, how many steps were taken, and whether
a key had no room."""

LOOKED: Final = 0
PAUSED: Final = 1
LACKS_EDGES: Final = -4
"""How a call ends: all was looked at, or the allowance is spent; it should be called again; there has to be room for
more edges before (or for what `find_pairs` lacks)."""


@kernel
def find_spans(keys: Keys, ways: Ways, first: I64, last: I64) -> None:
    """Fill in between which places each key is accessed. A version is written before it is read."""
    for key in range(len(keys.number)):
        first[key] = len(ways.order)
        last[key] = -1
        for version in range(keys.first[key], keys.first[key + 1]):
            place = ways.place[keys.writer[version]]
            first[key] = min(first[key], place)
            last[key] = max(last[key], place)
            for number in range(keys.start[version], keys.start[version + 1]):
                last[key] = max(last[key], ways.place[keys.reader[number]])


@kernel
def look(
    keys: Keys, which: I64, first: I64, last: I64, ways: Ways, room: Room, columns: Columns, label: Label, known: int,
    is_open: Bools, most: int, work: int, pause: int, progress: I64, said: I64,
) -> int:  # fmt: skip
    """Look at some keys, from the next one on, and add the edges that follow.

    Args:
        keys: all of them.
        which: those that are looked at.
        first, last: between which places each key is accessed.
        ways, room: see `find_pairs`.
        columns: take the edges.
        label: of these edges.
        known: how many edges were known when this round began.
        is_open: of each key whether its whole order is unknown; filled in.
        most: the largest number of entries of clocks of one key.
        work: how many steps may be taken in all.
        pause: after how many nodes, edges and entries it should be called again.
        progress: see `NEXT`.
        said: room for what is said of a key.

    Returns:
        LOOKED, PAUSED, LACKS_EDGES, LACKS_ENTRIES or LACKS_PAIRS; of what is lacking `said[NEED]` has how much.
    """
    looked = 0
    for at in range(progress[NEXT], len(which)):
        if progress[WORK] >= work:
            break
        if looked >= pause:
            return PAUSED
        key = which[at]
        pairs = find_pairs(keys, key, ways, first[key], last[key], room, most, said)
        if pairs < TOO_WIDE:
            return pairs
        if pairs == TOO_WIDE:
            progress[SPENT] = 1
        need = edges_of(keys, room, said[PAIRS])
        if progress[EDGES] + need > len(columns.source):
            said[NEED] = need
            return LACKS_EDGES
        progress[WORK] += 1 + said[STEPS] // ENTRIES
        is_open[key] = said[DISTINCT] == 0
        put_edges(keys, room, said[PAIRS], columns, label, known, work, progress)
        progress[NEXT] = at + 1
        looked += said[STEPS]
    return LOOKED


@inlined
def edges_of(keys: Keys, room: Room, pairs: Int) -> Int:
    """How many edges follow from pairs of versions at most."""
    most = 0
    for pair in range(pairs):
        earlier = room.earlier[pair]
        most += 1 + keys.start[earlier + 1] - keys.start[earlier]
    return most


@inlined
def put_edges(
    keys: Keys, room: Room, pairs: Int, columns: Columns, label: Label, known: Int, work: Int, progress: I64
) -> None:
    """Add the edges that follow from pairs of versions, but those that are there, or as much by less."""
    for pair in range(pairs):
        if progress[WORK] >= work:
            break
        earlier, later, number = room.earlier[pair], room.later[pair], room.found[pair]
        write, writer = keys.write[earlier], keys.writer[earlier]
        after, target = keys.write[later], keys.writer[later]
        begin, end, edge = keys.start[earlier], keys.start[earlier + 1], progress[EDGES]
        reached = after
        if number >= 0:
            reached = keys.read[number]
            progress[WORK] += 1
            if writer != target:
                edge = put_edge(columns, edge, writer, target, label.ww, label.same_ww, write, reached, write, after,
                                known)  # fmt: skip
        for each in range(begin, end):
            if keys.reader[each] != target:
                edge = put_edge(columns, edge, keys.reader[each], target, label.rw, label.same_rw, write, reached,
                                keys.read[each], after, known)  # fmt: skip
        progress[WORK] += end - begin + NEW * (edge - progress[EDGES])
        progress[EDGES] = edge
