"""The voter sets in force: each set that some node holds of some group, by its last report of that group."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa

from splitbrain.checkers.quorum.topology import NodeId, Voters
from splitbrain.results.arrow import Column, array, compute
from splitbrain.results.calls import Ints, ints, is_equal
from splitbrain.results.columns import numbers, text

_BETWEEN_NAMES: Final = "\0"

POLLED: Final = "seen"
"""The event of a row that comes from polling a node."""


class Piece(msgspec.Struct, frozen=True):
    """A part of a stretch, and the voter sets in force in it; `changing` while it is uncertain which of them are."""

    begin_ns: int
    end_ns: int
    configurations: tuple[Voters, ...]
    changing: bool


class Configurations:
    """The voter sets that the nodes of a run held, and the times at which they changed.

    A node holds the set that it reported last, also while it is down; before its first report it holds the set of that
    report. A node that reports no voters holds no set. If no node reports voters, all nodes of the test are voters. A
    node that is a member of several groups holds a set of each: what it says of one group says nothing of another.

    A node that writes telemetry reports a change at once. The change of a polled node (`POLLED`) may have happened at
    any time since its previous row.
    """

    def __init__(self, telemetry: pa.Table, nodes: Sequence[NodeId], offset_ns: int = 0) -> None:
        """Read the telemetry; clocks may be `offset_ns` apart."""
        self._offset_ns = offset_ns
        self._times: list[int] = []
        """When the changed voter sets were reported."""
        self._since: list[int] = []
        """For each of these times: since when that change, or a later one, may have been in force."""
        self._sets: list[tuple[Voters, ...]] = [(frozenset(nodes),)]
        """The sets at the beginning, and after each change."""
        held: dict[_Holder, Voters] = {}
        changes = _changes(telemetry, nodes)
        for change in changes:
            held.setdefault(change.holder, change.voters)
        order = {node: number for number, node in enumerate(nodes)}
        held = {holder: held[holder] for holder in sorted(held, key=lambda holder: (order[holder.node], holder.group))}
        if held:
            self._sets = [tuple(dict.fromkeys(held.values()))]
        since_ns: int | None = None
        for place, change in enumerate(changes):
            held[change.holder] = change.voters
            since_ns = change.since_ns if since_ns is None else min(since_ns, change.since_ns)
            if place + 1 < len(changes) and changes[place + 1].time_ns == change.time_ns:
                continue
            now = tuple(dict.fromkeys(held.values()))
            if set(now) != set(self._sets[-1]) or since_ns < change.time_ns:
                self._times.append(change.time_ns)
                self._since.append(since_ns)
                self._sets.append(now)
            since_ns = None
        # A change that is reported later may have happened earlier. Ascending, for the search in `pieces`.
        self._since = np.minimum.accumulate(np.array(self._since[::-1], dtype=np.int64))[::-1].tolist()

    def pieces(self, begin_ns: int, end_ns: int) -> Iterator[Piece]:
        """A stretch, split where the voter sets in force change.

        A change is widened by the clock offset, and by the time for which it may have been unreported.
        """
        times, since = np.array(self._times, dtype=np.int64), np.array(self._since, dtype=np.int64)
        first = int(np.searchsorted(times, begin_ns - self._offset_ns, side="right"))
        last = int(np.searchsorted(since, end_ns + self._offset_ns, side="left"))
        place = first
        while place < last:
            until = place + 1
            while until < last and self._since[until] - self._times[until - 1] <= 2 * self._offset_ns:
                until += 1
            opens, closes = self._since[place] - self._offset_ns, self._times[until - 1] + self._offset_ns
            if opens > begin_ns:
                yield Piece(begin_ns, opens, self._sets[place], changing=False)
            begin_ns, stop_ns = max(begin_ns, opens), min(end_ns, closes)
            if stop_ns > begin_ns:
                either = dict.fromkeys(voters for held in self._sets[place : until + 1] for voters in held)
                yield Piece(begin_ns, stop_ns, tuple(either), changing=True)
            begin_ns, place = max(begin_ns, stop_ns), until
        if end_ns > begin_ns:
            yield Piece(begin_ns, end_ns, self._sets[place], changing=False)


class _Holder(NamedTuple):
    """A node as a member of one group, by the group's number."""

    node: NodeId
    group: int


class _Change(msgspec.Struct, frozen=True):
    """A node has another voter set of a group: reported at `time_ns`, in force since `since_ns` at the earliest."""

    time_ns: int
    since_ns: int
    holder: _Holder
    voters: Voters


def _changes(telemetry: pa.Table, nodes: Sequence[NodeId]) -> list[_Change]:
    """Each node's first voter set of each group, and those that differ from the one before, in the order of time."""
    known: Column = compute.index_in(telemetry["node"], value_set=array(list(nodes), pa.string()))
    size: Column = compute.list_value_length(telemetry["voters"])
    number = numbers(known, null=-1).astype(np.int64)
    rows = np.flatnonzero((numbers(size, null=0) > 0) & (number >= 0))
    if not len(rows):
        return []
    joined: Column = compute.binary_join(telemetry["voters"].take(array(rows)), text(_BETWEEN_NAMES))
    distinct: Column = joined.combine_chunks().dictionary_encode()
    sets = [frozenset(names.split(_BETWEEN_NAMES)) for names in distinct.dictionary.to_pylist()]
    meaning: dict[Voters, int] = {}
    same = np.array([meaning.setdefault(voters, len(meaning)) for voters in sets], dtype=np.int64)
    code: Ints = same[numbers(distinct.indices)]
    groups = _group_numbers(telemetry)[rows]
    holders = number[rows] * (int(groups.max()) + 1) + groups
    time_ns = ints(telemetry, "time")[rows]
    asked = is_equal(telemetry, "event", POLLED)[rows]
    found: list[_Change] = []
    by_code = list(meaning)
    for each in np.unique(holders):
        of_node = np.flatnonzero(holders == each)
        holder = _Holder(nodes[int(number[rows[of_node[0]]])], int(groups[of_node[0]]))
        codes = code[of_node]
        times = np.maximum.accumulate(time_ns[of_node])  # a clock that was set back does not undo a report
        changed = np.flatnonzero(np.diff(codes, prepend=-1))
        found += [
            _Change(
                time_ns=int(times[at]),
                since_ns=int(times[at - 1] if at and asked[of_node[at]] else times[at]),
                holder=holder,
                voters=by_code[int(codes[at])],
            )
            for at in changed
        ]
    return sorted(found, key=lambda change: change.time_ns)


def _group_numbers(telemetry: pa.Table) -> Ints:
    """For each row the number of its group, in the order of first mention; rows of no group are of one, too."""
    column: Column = telemetry["group"].combine_chunks()
    return numbers(column.dictionary_encode(null_encoding="encode").indices).astype(np.int64)
