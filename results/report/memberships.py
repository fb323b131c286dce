"""Changes of members: nodes that were made to leave or join, and nodes that took on another list of voters."""

from __future__ import annotations

from typing import Final, NamedTuple

from splitbrain.results.faults import FaultOp
from splitbrain.results.nemesisop import own_fields
from splitbrain.results.report.run_view import RunView
from splitbrain.results.telemetry import of_lasting_groups
from splitbrain.results.text import clip

FAULT: Final = "membership"

REPORTED_MAX: Final = 200
"""The largest number of shown changes of voters that nodes reported."""

_NODES_MAX: Final = 9


class MemberChange(NamedTuple):
    """A change of members, at a node.

    Attributes:
        node: who left or joined, or who took on other voters.
        time_s: when: at the end of the nemesis op, or of the node's report.
        what: "left", "joined" or "voters".
        words: the same as a sentence.
    """

    node: str
    time_s: float
    what: str
    words: str


def member_changes(view: RunView) -> list[MemberChange]:
    """All of them by time; of those that nodes reported the first `REPORTED_MAX`."""
    hits = [op for op in view.events.fault_ops if op.said.fault == FAULT and op.completion and op.hit]
    nodes = frozenset(view.nodes)
    done = [change for op in hits for change in _of_op(op, nodes)]
    return sorted([*done, *_reported(view)[:REPORTED_MAX]], key=lambda change: change.time_s)


def _of_op(op: FaultOp, nodes: frozenset[str]) -> list[MemberChange]:
    time_s = (op.completion or op.invoke).time / 1e9
    left = op.said.action == "start"
    named = [node for node in op.said.target.split() if node in nodes]
    what, words = ("left", "left the cluster") if left else ("joined", "joined the cluster as a new member")
    asked = own_fields(op.invoke.value) if left else {}
    back = len(named) if asked.get("learner") else 1 if asked.get("replace") and len(named) > 1 else 0
    again = ", and joined it as a learner" if asked.get("learner") else ", and joined it again"
    return [
        MemberChange(node, time_s, what, f"{clip(node, 60)} {words}{again if place < back else ''}")
        for place, node in enumerate(named)
    ]


def _reported(view: RunView) -> list[MemberChange]:
    """Where a node's own list of voters of a group differs from the one that it reported of that group before."""
    lasting = of_lasting_groups(view.telemetry)
    rows = lasting.select(["time", "node", "group", "voters"]).filter(lasting["voters"].is_valid()).to_pylist()
    held: dict[tuple[str, str | None], frozenset[str]] = {}
    found: list[MemberChange] = []
    for row in rows:
        voters, before = frozenset(row["voters"]), held.get((row["node"], row["group"]))
        if before is not None and voters != before:
            shown = ", ".join(clip(node, 30) for node in sorted(voters)[:_NODES_MAX])
            more = f" and {len(voters) - _NODES_MAX} more" if len(voters) > _NODES_MAX else ""
            words = f"{clip(row['node'], 60)} changed to the voters {shown or 'none'}{more}"
            found.append(MemberChange(row["node"], row["time"] / 1e9, "voters", words))
        held[row["node"], row["group"]] = voters
    return sorted(found, key=lambda change: change.time_s)


def more_changes(view: RunView) -> int:
    """How many changes that nodes reported are not shown."""
    return max(len(_reported(view)) - REPORTED_MAX, 0)
