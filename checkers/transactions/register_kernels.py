"""Registers: which version each transaction read first and which it overwrote, and what follows from that.

A version is a number: that of its key for the initial one, else the number of keys plus that of the write.
"""

from __future__ import annotations

from splitbrain.checkers.kernels import kernel
from splitbrain.checkers.transactions.graph import I32, I64, U8, Bools
from splitbrain.checkers.transactions.groups import Out, emit, to_all
from splitbrain.checkers.transactions.writes import Mops, Table, write_of


@kernel
def mark_read_from(mops: Mops, table: Table, committed: Bools) -> None:
    """Mark the transactions of unknown outcome whose writes a committed transaction has read."""
    for mop in range(len(mops.kind)):
        if mops.kind[mop] != 0 or mops.status[mops.owner[mop]] != 0 or mops.value[mop] <= -9223372036854775807:
            continue
        write = write_of(mops, table, mops.key[mop], mops.value[mop])
        if write >= 0 and mops.status[mops.owner[write]] == 1:
            committed[mops.owner[write]] = True


@kernel
def find_versions(
    mops: Mops,
    table: Table,
    final: Bools,
    previous: I32,
    committed: Bools,
    keys: int,
    version: I32,
    size: I32,
    out: Out,
) -> None:
    """Fill in which version each first read of a key found, and count its readers; edges from writers to readers.

    `version` stays -1 for what is no such read, and for versions that no committed transaction wrote last; it is -2 for
    those that no transaction wrote.
    """
    for mop in range(len(mops.kind)):
        reader = mops.owner[mop]
        if mops.kind[mop] != 0 or mops.status[reader] != 0 or previous[mop] >= 0:
            continue
        value = mops.value[mop]
        if value == -9223372036854775808:
            version[mop] = mops.key[mop]
            size[mops.key[mop]] += 1
            continue
        write = write_of(mops, table, mops.key[mop], value)
        if write == -1:
            version[mop] = -2
        if write < 0 or not final[write] or not committed[mops.owner[write]] or mops.owner[write] == reader:
            continue
        version[mop] = keys + write
        size[keys + write] += 1
        emit(out, mops.owner[write], reader, 1)


@kernel
def find_overwritten(
    mops: Mops, final: Bools, previous: I32, committed: Bools, version: I32, size: I32, targets: I32, group: I32,
    roots: I32, overwriters: I32,
) -> int:  # fmt: skip
    """List the last writes that come after a version, where others read it too; how many there are.

    That is the version that the transaction read first; the initial one if it read none, or another one. `roots` counts
    the writes of each key that are known to come after the initial version only, `overwriters` those of each version.
    """
    found = 0
    for mop in range(len(mops.kind)):
        if mops.kind[mop] == 0 or not final[mop] or not committed[mops.owner[mop]]:
            continue
        first = mop
        while previous[first] >= 0:
            first = previous[first]
        key, after = mops.key[mop], -1
        if mops.kind[first] == 0:
            after = version[first]
        if after < len(roots) or after >= len(size):
            roots[key] += 1
            after = key
            if size[key] == 0:
                continue
        else:
            overwriters[after - len(roots)] += 1
            if size[after] < 2:
                continue
        targets[found] = mop
        group[found] = after
        found += 1
    return found


@kernel
def link_versions(
    mops: Mops, version: I32, targets: I32, start: I64, place_of_mop: I32, own_write: I32, keys: int, nodes: int,
    derived: int, before: int, out: Out,
) -> None:  # fmt: skip
    """Edges from the readers of each version to the transactions that overwrite it.

    `targets` has the transactions of the writes, sorted by version, `start` where each version begins, `place_of_mop`
    the place there of each write, `own_write` the write of each reader itself. Edges are of kind `derived`, but
    observed ones where the version is the initial one: all others come after that.
    A transaction that read the initial version and writes the key itself comes before all that write it, or there is
    a G-single: an edge of the kind `before`.
    """
    for mop in range(len(mops.kind)):
        group = version[mop]
        if group < 0 or group >= len(start) - 1 or start[group] == start[group + 1]:
            continue
        reader, own = mops.owner[mop], -1
        if own_write[mop] > mop:
            own = place_of_mop[own_write[mop]]
        kind = 2 if group < keys else derived
        to_all(targets, start[group], start[group + 1], own, reader, kind, nodes, out)
        if group < keys and own >= 0:
            to_all(targets, start[group], start[group + 1], own, reader, before, nodes, out)


@kernel
def flag_reads(mops: Mops, table: Table, final: Bools, previous: I32, flags: U8) -> None:
    """Flag the reads of committed transactions: as in `list_findings`; GARBAGE for a value without a write."""
    for mop in range(len(mops.kind)):
        value = mops.value[mop]
        if mops.kind[mop] != 0 or mops.status[mops.owner[mop]] != 0 or value == -9223372036854775807:
            continue
        if previous[mop] >= 0 and mops.value[previous[mop]] != value:
            flags[mop] |= 4
        if value == -9223372036854775808:
            continue
        write = write_of(mops, table, mops.key[mop], value)
        if write == -1:
            flags[mop] |= 16
        if write < 0:
            continue
        if mops.owner[write] == mops.owner[mop]:
            if write > mop:
                flags[mop] |= 8
            continue
        if mops.status[mops.owner[write]] == 2:
            flags[mop] |= 1
        if not final[write]:
            flags[mop] |= 2


@kernel
def find_lost(mops: Mops, final: Bools, previous: I32, version: I32, first: I32, lost: I32) -> int:
    """Find committed transactions that read the same version of a key first, and then wrote it; how many.

    `first` has for each version the first such write; `lost` for each later one that one.
    """
    found = 0
    for mop in range(len(mops.kind)):
        if mops.kind[mop] == 0 or not final[mop] or mops.status[mops.owner[mop]] != 0:
            continue
        at = mop
        while previous[at] >= 0:
            at = previous[at]
        if mops.kind[at] != 0 or version[at] < 0:
            continue
        if first[version[at]] < 0:
            first[version[at]] = mop
        else:
            lost[mop] = first[version[at]]
            found += 1
    return found
