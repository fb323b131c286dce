"""What each node reported, row by row: whom it saw, whether its database served, and what its strategy did."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

import pyarrow as pa

from splitbrain.checkers.consensus.counts import counts_of
from splitbrain.checkers.consensus.rows import Row, rows_of_tables

RUNNING: Final = "running"
STOPPED: Final = "stopped"

_WHOLE: Final = ("sees", "look")
"""Events of rows that show a node as it is after an event was carried out as a whole."""


class Sight(NamedTuple):
    """One row.

    Attributes:
        row: as evidence, and for its time.
        alive: the nodes that were not down for it; of an answer, for the node that answered; of a decision, the losers.
        apart: the nodes whose databases ran apart from its own; of an answer likewise.
    """

    row: Row
    alive: frozenset[str]
    apart: frozenset[str]

    @property
    def time(self) -> int:
        """In ns since the test began."""
        return self.row.time

    @property
    def node(self) -> str:
        """Which reported it."""
        return self.row.node

    @property
    def event(self) -> str:
        """What happened."""
        return self.row.event

    @property
    def is_whole(self) -> bool:
        """Whether it shows a state between two events, and not one in the middle of one."""
        return self.row.event in _WHOLE

    @property
    def serves(self) -> bool:
        """Whether the database ran, or was about to: it waited for tables."""
        return self.row.role != STOPPED

    @property
    def other(self) -> str:
        """The node that the event is about."""
        return self.row.leader or ""


class Setup(NamedTuple):
    """What the nodes say that they were started with.

    Attributes:
        strategy: by name; empty if no node says.
        listed: the nodes that pause-if-all-down lists.
        size: how many nodes there are.
        tick_ms: the tick time.
    """

    strategy: str
    listed: frozenset[str]
    size: int
    tick_ms: int


class Span(NamedTuple):
    """From the first to the last row of a process, starts and ends included; `is_over` if it says that it ended."""

    begin_ns: int
    end_ns: int
    is_over: bool


class Reported(NamedTuple):
    """The telemetry of a run.

    Attributes:
        setup: what nodes were started with.
        nodes: all that reported anything, sorted.
        sights: all rows but those of starts, in order of time.
        lives: the same by node and process, each from its start on.
        spans: by node, of each process, in order of time.
    """

    setup: Setup
    nodes: tuple[str, ...]
    sights: tuple[Sight, ...]
    lives: tuple[tuple[Sight, ...], ...]
    spans: Mapping[str, tuple[Span, ...]]

    @property
    def is_complete(self) -> bool:
        """Whether as many nodes reported as there are."""
        return bool(self.setup.strategy) and len(self.nodes) == self.setup.size


def reported(telemetry: pa.Table) -> Reported:
    """Read the telemetry of a run.

    Raises:
        HistoryFormatError: a row does not say what it counts in the form `n1=17`.
    """
    setup = Setup("", frozenset(), 0, 0)
    lives: dict[tuple[str, int], list[Sight]] = {}
    spans: dict[tuple[str, int], Span] = {}
    for row in rows_of_tables(telemetry):
        before = spans.get((row.node, row.life))
        spans[row.node, row.life] = Span(row.time if before is None else before.begin_ns, row.time, row.event == "end")
        life = lives.setdefault((row.node, row.life), [])
        if row.event == "start":
            said = counts_of(row)
            setup = Setup(row.raised_by or "", _names(row.members), said.get("nodes", 0), said.get("net_tick_ms", 0))
        elif row.event != "end":
            life.append(_sight(row))
    every = sorted((each for life in lives.values() for each in life), key=lambda each: each.time)
    nodes = tuple(sorted({node for node, _ in lives}))
    by_node = {node: tuple(span for (of, _), span in sorted(spans.items()) if of == node) for node in nodes}
    return Reported(setup, nodes, tuple(every), tuple(map(tuple, lives.values())), by_node)


def _sight(row: Row) -> Sight:
    return Sight(row, _names(row.members), frozenset(counts_of(row)) if row.counted else frozenset())


def _names(members: str | None) -> frozenset[str]:
    return frozenset((members or "").split())


def words_of(nodes: Iterable[str]) -> str:
    """Nodes in words."""
    return ", ".join(sorted(nodes)) or "none"


def shown(*sights: Sight) -> list[dict[str, Any]]:
    """Rows as evidence."""
    return [each.row.shown() for each in sights]
