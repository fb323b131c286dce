"""What the lanes of a picture show of each node: when it was down, paused or cut off, and when it led."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from splitbrain.results.arrow import compute
from splitbrain.results.columns import text as literal
from splitbrain.results.nemesisop import Link
from splitbrain.results.report.run_view import RunView
from splitbrain.results.telemetry import of_lasting_groups


class Stretch(NamedTuple):
    """A stretch of time of one node, in seconds, and what it was: a term, or a state."""

    node: str
    begin_s: float
    end_s: float
    what: Any


class Leadership(NamedTuple):
    """A stretch of time, in seconds, in which a node believed to lead a group; where there is one only, it has no name.

    Of several groups `row` is the place of this one among them, from 0 on.
    """

    node: str
    begin_s: float
    end_s: float
    term: int
    group: str | None = None
    row: int = 0


def node_states(view: RunView) -> list[Stretch]:
    """When each node was down, paused, or without two-way links to a majority, by the reports of nemesis ops."""
    nodes = view.nodes
    since: dict[tuple[str, str], float] = {}
    found: list[Stretch] = []
    for op in view.events.fault_ops:
        if op.completion is None:
            continue
        time_s = op.completion.time / 1e9
        now = {("down", node) for node in op.said.down or ()}
        now |= {("paused", node) for node in op.said.paused or ()}
        now |= {("cut off", node) for node in _cut_off(nodes, op.said.cut or ())}
        over = [state for state in since if state not in now]
        found += [Stretch(node, since.pop((what, node)), time_s, what) for what, node in over]
        for state in sorted(now):
            since.setdefault(state, time_s)
    end_s = view.events.end_ns / 1e9
    return found + [Stretch(node, begin, end_s, what) for (what, node), begin in since.items()]


def _cut_off(nodes: Sequence[str], cut: Sequence[Link]) -> list[str]:
    """Nodes that reach no majority over links that are open both ways."""
    closed = {frozenset(link) for link in cut}
    return [node for node in nodes if 2 * sum(frozenset((node, peer)) not in closed for peer in nodes) <= len(nodes)]


def leaderships(view: RunView) -> list[Leadership]:
    """When each node believed to be the leader of a group, and of which term, by its telemetry.

    A node that is killed reports nothing more: its leadership ends where it went down.
    """
    table = of_lasting_groups(view.telemetry)
    rows = table.select(["time", "node", "group", "life", "term", "role"]).to_pylist()
    groups = _led(table)
    by_member: dict[tuple[str, str | None], list[dict[str, Any]]] = {}
    for row in rows:
        if row["role"] is not None and row["node"] in view.nodes:
            by_member.setdefault((row["node"], row["group"]), []).append(row)
    downs = [stretch for stretch in node_states(view) if stretch.what == "down"]
    found: list[Leadership] = []
    for node, group in sorted(by_member, key=lambda member: (view.nodes.index(member[0]), member[1] or "")):
        of = (group, groups.index(group or "")) if len(groups) > 1 and (group or "") in groups else (None, 0)
        begun: dict[str, Any] | None = None
        for row in by_member[node, group]:
            same = begun is not None and (row["role"], row["term"], row["life"]) == (
                "leader",
                begun["term"],
                begun["life"],
            )
            if begun is not None and not same:
                found.append(_leadership_of(node, begun, row["time"] / 1e9, downs, *of))
                begun = None
            if row["role"] == "leader" and begun is None:
                begun = row
        if begun is not None:
            found.append(_leadership_of(node, begun, view.events.end_ns / 1e9, downs, *of))
    return found


def groups_led(view: RunView) -> list[str]:
    """The groups that had a leader, in the order of their rows; none if there is one only."""
    groups = _led(of_lasting_groups(view.telemetry))
    return groups if len(groups) > 1 else []


def _led(telemetry: pa.Table) -> list[str]:
    leads = telemetry.filter(compute.equal(telemetry["role"], literal("leader")))
    return sorted(group or "" for group in compute.unique(leads["group"]).to_pylist())


def _leadership_of(
    node: str, row: dict[str, Any], end_s: float, downs: Sequence[Stretch], group: str | None, place: int
) -> Leadership:
    begin_s = row["time"] / 1e9
    died = min((down.begin_s for down in downs if down.node == node and begin_s <= down.begin_s), default=end_s)
    return Leadership(node, begin_s, min(end_s, died), row["term"] or 0, group, place)
