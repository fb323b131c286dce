"""The voter sets in force: each that some node holds, by what the nodes told last."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec
import numpy as np
import pyarrow as pa

from checkers.quorum.topology import NodeId, Voters
from results.arrow import Column, array, compute
from results.calls import Ints, ints

_BETWEEN_NAMES: Final = "\0"


class Piece(msgspec.Struct, frozen=True):
    """A part of a stretch, and the voter sets in force in it; `changing` while clocks leave open which of them are."""

    begin_ns: int
    end_ns: int
    configurations: tuple[Voters, ...]
    changing: bool


class Configurations:
    """What the nodes of a run held, and when the whole of it changed.

    A node holds what it told last, also while it is down; before its first word it holds what it tells then. One that
    never tells anything, or no voter at all, holds nothing. Where nobody tells, all nodes of the test vote.
    """

    def __init__(self, telemetry: pa.Table, nodes: Sequence[NodeId], offset_ns: int = 0) -> None:
        """Read the telemetry; clocks may be `offset_ns` apart."""
        self._offset_ns = offset_ns
        self._times: list[int] = []
        """When the voter sets in force changed."""
        self._sets: list[tuple[Voters, ...]] = [(frozenset(nodes),)]
        """Those at the beginning, and those after each change."""
        held: dict[NodeId, Voters] = {}
        told = _changes(telemetry, nodes)
        for _, node, voters in told:
            held.setdefault(node, voters)
        held = {node: held[node] for node in nodes if node in held}
        if held:
            self._sets = [tuple(dict.fromkeys(held.values()))]
        for place, (time_ns, node, voters) in enumerate(told):
            held[node] = voters
            at_once = place + 1 < len(told) and told[place + 1][0] == time_ns
            now = tuple(dict.fromkeys(held.values()))
            if not at_once and set(now) != set(self._sets[-1]):
                self._times.append(time_ns)
                self._sets.append(now)

    def pieces(self, begin_ns: int, end_ns: int) -> Iterator[Piece]:
        """A stretch, split where the voter sets in force change; a change takes as long as clocks are apart."""
        times = np.array(self._times, dtype=np.int64)
        first = int(np.searchsorted(times, begin_ns - self._offset_ns, side="right"))
        last = int(np.searchsorted(times, end_ns + self._offset_ns, side="left"))
        place = first
        while place < last:
            until = place + 1
            while until < last and self._times[until] - self._times[until - 1] <= 2 * self._offset_ns:
                until += 1
            opens, closes = self._times[place] - self._offset_ns, self._times[until - 1] + self._offset_ns
            if opens > begin_ns:
                yield Piece(begin_ns, opens, self._sets[place], changing=False)
            begin_ns, stop_ns = max(begin_ns, opens), min(end_ns, closes)
            if stop_ns > begin_ns:
                either = dict.fromkeys(voters for held in self._sets[place : until + 1] for voters in held)
                yield Piece(begin_ns, stop_ns, tuple(either), changing=True)
            begin_ns, place = max(begin_ns, stop_ns), until
        if end_ns > begin_ns:
            yield Piece(begin_ns, end_ns, self._sets[place], changing=False)


def _changes(telemetry: pa.Table, nodes: Sequence[NodeId]) -> list[tuple[int, NodeId, Voters]]:
    """Each node's first voter set and those that differ from the one before, in the order of time."""
    known: Column = compute.index_in(telemetry["node"], value_set=array(list(nodes), pa.string()))
    size: Column = compute.list_value_length(telemetry["voters"])
    number = np.asarray(known.fill_null(-1).to_numpy(), dtype=np.int64)
    rows = np.flatnonzero((size.fill_null(0).to_numpy() > 0) & (number >= 0))
    if not len(rows):
        return []
    names: Column = compute.binary_join(telemetry["voters"].take(array(rows)), _BETWEEN_NAMES)
    distinct: Column = names.combine_chunks().dictionary_encode()
    sets = [frozenset(text.split(_BETWEEN_NAMES)) for text in distinct.dictionary.to_pylist()]
    meaning: dict[Voters, int] = {}
    same = np.array([meaning.setdefault(voters, len(meaning)) for voters in sets], dtype=np.int64)
    code: Ints = same[distinct.indices.to_numpy()]
    node = number[rows]
    time_ns = ints(telemetry, "time")[rows]
    found: list[tuple[int, NodeId, Voters]] = []
    by_code = list(meaning)
    for each in np.unique(node):
        of_node = np.flatnonzero(node == each)
        codes = code[of_node]
        times = np.maximum.accumulate(time_ns[of_node])  # a clock that was set back does not undo what was told
        changed = np.flatnonzero(np.diff(codes, prepend=-1))
        found += [(int(times[at]), nodes[int(each)], by_code[int(codes[at])]) for at in changed]
    return sorted(found, key=lambda change: change[0])
