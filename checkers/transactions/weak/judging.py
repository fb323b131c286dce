"""Whether a history satisfies read committed, read atomic or causal consistency, and a cycle if it does not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Literal, TypeAlias

import numpy as np

from splitbrain.checkers.transactions.columns import Transactions
from splitbrain.checkers.transactions.components import count_into, cyclic_nodes, peel
from splitbrain.checkers.transactions.graph import I32, PROCESS, WR, WW, Edges, graph_of
from splitbrain.checkers.transactions.weak.causal import (
    TOO_NARROW,
    Clocks,
    causal_pairs,
    count_readers,
    groups_of,
    kept_at_most,
)
from splitbrain.checkers.transactions.weak.chains import no_chains, open_at_once
from splitbrain.checkers.transactions.weak.direct import pairs_by_reads, pairs_by_sessions
from splitbrain.checkers.transactions.weak.nodes import Nodes, Pairs, nodes_of, room
from splitbrain.checkers.transactions.weak.paths import shortest_cycle
from splitbrain.checkers.transactions.weak.sources import ANOMALIES, INITIAL, SEVERAL, Sources, sources_of
from splitbrain.checkers.transactions.weak.visits import by_completion, none_visited

Level: TypeAlias = Literal["read-committed", "read-atomic", "causal"]

LEVELS: Final[tuple[Level, ...]] = ("read-committed", "read-atomic", "causal")
"""From the weakest to the strongest."""

NAMES: Final = {"read-committed": "non-monotonic-read", "read-atomic": "fractured-read", "causal": "causal-violation"}
"""What a violation is called that no weaker level forbids."""

ROOM: Final = 1 << 28
"""The largest number of entries of clocks: 1 GiB."""

WORK: Final = 1 << 32
"""The largest number of entries that clocks of all transactions have together, where each is a session: seconds."""


@dataclass(frozen=True)
class Weak:
    """Whether a history satisfies a level.

    Attributes:
        level: read-committed, read-atomic or causal.
        valid: "true" or "false"; "unknown" if it shows no violation, but several transactions wrote what one read, or
            it is `too_large`.
        anomaly: what is wrong: one of `sources.ANOMALIES`, "G1c-process" (sessions and reads alone have a cycle), or
            one of `NAMES`; None if nothing is.
        read: the read that is wrong by itself, or that shows what the initial state would come after; -1 if none is.
        cycle: nodes, each before the next, the last before the first; empty if one read is wrong by itself. Of a read
            of the initial state it is the one node that would come before it.
        kinds: of each edge of the cycle: PROCESS, WR, or WW for a derived pair.
        nodes: the transactions.
        pairs: all that were derived.
        sources: which node reads from which.
        too_large: whether its clocks would take more than `ROOM`, or more than the work that was allowed.
    """

    level: Level
    valid: Literal["true", "false", "unknown"]
    anomaly: str | None
    read: int
    cycle: tuple[int, ...]
    kinds: tuple[int, ...]
    nodes: Nodes
    pairs: Pairs
    sources: Sources
    too_large: bool = False

    @property
    def by_session(self) -> bool:
        """Whether the cycle itself has an order of a session; the reasons of derived pairs may have one besides."""
        return PROCESS in self.kinds


def judge_weak(transactions: Transactions, level: Level, source: str = "history", work: int | None = None) -> Weak:
    """Judge one level; of `work`, if it is limited, see `WORK`.

    Raises:
        HistoryFormatError: the history is not of registers.
    """
    return _Case(transactions, source, work).judge(level)


def judge_weak_all(transactions: Transactions, source: str = "history") -> dict[Level, Weak]:
    """Judge every level.

    Raises:
        HistoryFormatError: the history is not of registers.
    """
    case = _Case(transactions, source)
    return {level: case.judge(level) for level in LEVELS}


class _Case:
    """A history, with what all levels need."""

    def __init__(self, transactions: Transactions, source: str, work: int | None = None) -> None:
        self.transactions = transactions
        self.work = work
        self.sources = sources_of(transactions, source)
        self.nodes = nodes_of(transactions, self.sources)
        self.count = len(self.nodes.transaction)
        self.edges = base_edges(self.nodes)
        base = graph_of(self.count, self.count, self.edges)
        into = np.zeros(self.count, np.int32)
        count_into(base.target, into)
        self.order = np.empty(self.count, np.int32)
        self.acyclic = peel(base.start, base.target, into, self.order) == self.count
        self.base = base

    @cached_property
    def by_completion(self) -> I32:
        """An order near that of real time."""
        return by_completion(self.nodes, self.transactions)

    def judge(self, level: Level) -> Weak:
        nothing = room(0)
        for anomaly, read in zip(ANOMALIES, self.sources.wrong.tolist(), strict=False):
            if read >= 0:
                return self._violated(level, anomaly, nothing, read=read)
        if not self.acyclic:
            cycle, kinds = shortest_cycle(self.base)
            return self._violated(
                level, "G1c-process" if PROCESS in kinds else "G1c", nothing, cycle=cycle, kinds=kinds
            )
        try:
            pairs = self._pairs(level)
        except _TooLargeError:
            return Weak(level, "unknown", None, -1, (), (), self.nodes, nothing, self.sources, too_large=True)
        name = NAMES[level]
        initial = np.flatnonzero(pairs.after == INITIAL)
        if len(initial):
            at = initial[0]
            return self._violated(level, name, pairs, read=int(pairs.read[at]), cycle=(int(pairs.before[at]),))
        derived = Edges(pairs.before, pairs.after, np.full(len(pairs.before), WW, np.uint8))
        graph = graph_of(self.count, self.count, [*self.edges, derived])
        if cyclic_nodes(graph).any():
            cycle, kinds = shortest_cycle(graph)
            return self._violated(level, name, pairs, cycle=cycle, kinds=kinds)
        valid = "unknown" if self.sources.wrong[SEVERAL] >= 0 else "true"
        return Weak(level, valid, None, -1, (), (), self.nodes, pairs, self.sources)

    def _violated(
        self,
        level: Level,
        anomaly: str,
        pairs: Pairs,
        *,
        read: int = -1,
        cycle: tuple[int, ...] = (),
        kinds: tuple[int, ...] = (),
    ) -> Weak:
        return Weak(level, "false", anomaly, read, cycle, kinds, self.nodes, pairs, self.sources)

    def _pairs(self, level: Level) -> Pairs:
        nodes, keys = self.nodes, len(self.nodes.writer_start) - 1
        if level == "causal":
            return _enough(lambda pairs: self._causal(pairs), len(nodes.key))
        any_order = level == "read-atomic"
        found = _enough(
            lambda pairs: pairs_by_reads(
                nodes, any_order, _none(self.count), _none(keys), _none(len(nodes.key)), pairs
            ),
            len(nodes.key),
        )
        if not any_order:
            return found
        further = _enough(lambda pairs: pairs_by_sessions(nodes, _none(keys), pairs), len(nodes.key))
        return Pairs(*(np.concatenate(each) for each in zip(found, further, strict=True)))

    def _causal(self, pairs: Pairs) -> int:
        nodes, sessions = self.nodes, len(self.nodes.start) - 1
        readers = np.zeros(self.count, np.int32)
        count_readers(nodes, readers)
        order, kept = min(
            ((each, kept_at_most(nodes, each, readers, readers.copy())) for each in (self.by_completion, self.order)),
            key=lambda each: each[1],
        )
        width = open_at_once(nodes, order)
        while True:
            width = min(width + width // 4 + 16, sessions)
            too_much_work = self.work is not None and self.count * width > self.work
            if too_much_work or (width + kept + 2) * width > ROOM:
                raise _TooLargeError
            clocks = Clocks(
                of_chain=np.zeros((width + 1, width), np.int32),
                kept=np.zeros((kept + 1, width), np.int32),
                slot=_none(self.count),
                readers=readers.copy(),
                free=np.arange(kept + 1, dtype=np.int32),
            )
            chains = no_chains(nodes, readers, width)
            found = causal_pairs(nodes, order, groups_of(nodes), none_visited(nodes), chains, clocks, pairs)
            if found != TOO_NARROW:
                return found
            width *= 2


class _TooLargeError(Exception):
    """The clocks would take more than there is room for."""


def _none(size: int) -> I32:
    return np.full(size, -1, np.int32)


def _enough(fill: Callable[[Pairs], int], size: int) -> Pairs:
    """All pairs, with as much room as they need."""
    while True:
        pairs = room(max(size, 16))
        found = fill(pairs)
        if found <= len(pairs.before):
            return pairs.first(found)
        size = found


def base_edges(nodes: Nodes) -> list[Edges]:
    """The order of sessions, and which node reads from which."""
    return [_sessions(nodes), _reads(nodes)]


def _sessions(nodes: Nodes) -> Edges:
    """From each transaction to the next of its session, and to those of unknown outcome that follow it."""
    source = np.flatnonzero(nodes.session[1:] == nodes.session[:-1]).astype(np.int32)
    apart = np.flatnonzero(nodes.follows >= 0).astype(np.int32)
    sources = np.concatenate([source, nodes.follows[apart]])
    return Edges(sources, np.concatenate([source + np.int32(1), apart]), np.full(len(sources), PROCESS, np.uint8))


def _reads(nodes: Nodes) -> Edges:
    """From each transaction to those that read from it."""
    size = np.diff(nodes.mop_start)[nodes.transaction]
    owner = np.full(len(nodes.key), -1, np.int32)
    places = np.repeat(nodes.mop_start[nodes.transaction] - np.cumsum(size) + size, size) + np.arange(int(size.sum()))
    owner[places] = np.repeat(np.arange(len(nodes.transaction), dtype=np.int32), size)
    reads = np.flatnonzero(nodes.source >= 0)
    return Edges(nodes.source[reads], owner[reads], np.full(len(reads), WR, np.uint8))
