"""Pre-votes: a node that hears its leader grants none (Raft; Ongaro's thesis, 4.2.3 and 9.6).

    heard-leader  a node asked before an election, and stood for it, although a majority of voters heard their leader

A node that cannot hear the leader asks, without an effect on others, whether it would win. If those that hear the
leader say yes, it unseats a leader that works, again and again. Clients lose little by each time.

What a node knows of a leader is in its rows of events "role" and "timeout". It grants a pre-vote only between the
moment when it has no leader any more and the moment when it has one. Only answers to the last question count.

Times of different nodes are compared here. A node whose clock is not known, by the run, to go with the others' may have
granted anything; and so may one that was killed meanwhile, as its last words may be lost.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa

from splitbrain.checkers.consensus.rows import WOULD_NOT_START, WOULD_START, Row, of_group, rows
from splitbrain.results.arrow import compute
from splitbrain.results.calls import ints
from splitbrain.results.columns import array
from splitbrain.results.notes import Clocks
from splitbrain.results.telemetry import TABLES

SLACK_NS: Final = 100_000_000
"""How far the clocks of two nodes may be apart, in the time of the run, beside what it knows of their errors."""

_OF_NO_PROCESS: Final = ("new-member", WOULD_START, WOULD_NOT_START)
"""Events of rows that are counted to the life before, whose process wrote none of them."""

_EVENTS: Final = ("role", "timeout")


class _Node:
    """What a node's last rows said in one group.

    Attributes:
        before: the last of them.
        asked_ns: when it asked last whether it would win, while it does.
        last_free_ns: when it had no leader for the last time; none yet if that is before its first row.
    """

    def __init__(self, row: Row) -> None:
        self.before = row
        self.asked_ns: int | None = None
        self.last_free_ns = row.time

    @property
    def has_leader(self) -> bool:
        """Whether it leads, or follows a leader that it hears."""
        row = self.before
        return row.event == "role" and row.role in ("leader", "follower") and row.leader is not None

    def step(self, row: Row) -> None:
        """Take its next row."""
        if not self.has_leader:
            self.last_free_ns = row.time
        self.before = row
        if row.event == "timeout" or row.role == "pre_candidate":
            self.asked_ns = row.time
        elif row.role != "candidate":
            self.asked_ns = None

    def may_grant(self, since_ns: int, slack_ns: int) -> bool:
        """Whether it may have granted a pre-vote since then."""
        return not self.has_leader or self.last_free_ns >= since_ns - slack_ns


class _Knowledge:
    """What else is known of the nodes: how their clocks go, and until when each life reported anything."""

    def __init__(self, telemetry: pa.Table, clocks: Clocks) -> None:
        self._clocks = clocks
        self._slack_ns = SLACK_NS + 2 * round(clocks.error_s * 1e9)
        columns = (telemetry[name].to_pylist() for name in ("group", "node", "life", "event"))
        self._last_ns = {
            (group, node, life): time_ns
            for group, node, life, event, time_ns in zip(*columns, ints(telemetry, "time").tolist(), strict=True)
            if event not in _OF_NO_PROCESS
        }

    def may_grant(self, node: _Node | None, since_ns: int, until_ns: int) -> bool:
        """Whether a node may have granted a pre-vote in between."""
        if node is None or not self._clocks.knows(node.before.node):
            return True
        row = node.before
        was_killed = self._last_ns.get((row.group, row.node, row.life), 0) < until_ns
        return was_killed or node.may_grant(since_ns, self._slack_ns)


def unseated(telemetry: pa.Table, clocks: Clocks) -> Iterator[dict[str, Any]]:
    """Every election that was begun although a majority heard its leader, in the order of time.

    Args:
        telemetry: of the nodes.
        clocks: what the run knows of them.
    """
    chosen = compute.is_in(telemetry.column("event"), value_set=array(list(_EVENTS), pa.string()))
    tables = compute.equal(telemetry.column("group"), TABLES)
    found = telemetry.filter(chosen).filter(compute.invert(compute.fill_null(tables.filter(chosen), False)))
    nodes: dict[tuple[str | None, str], _Node] = {}
    known = _Knowledge(telemetry, clocks)
    electorates: list[list[str] | None] = found.column("voters").to_pylist()
    for row, voters in zip(rows(found), electorates, strict=True):
        node = nodes.setdefault((row.group, row.node), _Node(row))
        asked_ns, before = node.asked_ns, node.before
        node.step(row)
        stands = row.role == "candidate" and row.event == "role" and before.life == row.life
        # A follower that the leader asked to take over asks no other before.
        if not (stands and voters and asked_ns is not None and before.role == "pre_candidate"):
            continue
        if not clocks.knows(row.node):
            continue
        hear = [
            each
            for each in voters
            if each != row.node and not known.may_grant(nodes.get((row.group, each)), asked_ns, row.time)
        ]
        if 2 * (len(voters) - len(hear)) <= len(voters):
            yield _finding(row, asked_ns, voters, hear)


def _finding(row: Row, asked_ns: int, voters: list[str], hear: list[str]) -> dict[str, Any]:
    return {
        "anomaly": "heard-leader",
        "sentence": (
            f"Stood beside a leader that is heard: {row.node}{of_group(row.group)} asked at {asked_ns / 1e9:.3f} s "
            f"whether it would win, and stood for election in term {row.term} ({row.at}). Of the voters "
            f"{', '.join(voters)} {', '.join(hear)} had a leader all the while, and may grant nothing."
        ),
        "by": row.node,
        "row": row.shown(),
    }
