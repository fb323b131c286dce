"""What each node showed of itself at any time: what it says nothing of has not changed, while its process runs."""

from __future__ import annotations

import bisect
from collections.abc import Collection
from typing import Final

from splitbrain.checkers.strategies.sights import Reported, Sight
from splitbrain.results.faults import FaultOp, RunEvents
from splitbrain.results.notes import NodeEnded

SLACK_NS: Final = 1_000_000_000
"""How far times of two nodes may be apart."""


class Timelines:
    """Over the whole rows of each node, of all its processes."""

    def __init__(self, reported: Reported, events: RunEvents) -> None:
        self._spans = reported.spans
        self._ended = {
            *(note.node for f in ("crash", "halt") for _, note in events.notes(f, NodeEnded)),
            *(node for op in events.fault_ops[-1:] for node in _stopped(op, reported.nodes)),
        }
        self._whole: dict[str, list[Sight]] = {node: [] for node in reported.nodes}
        self._lost: dict[str, list[Sight]] = {}
        for each in reported.sights:
            if each.is_whole:
                self._whole[each.node].append(each)
            elif each.event == "lost":
                self._lost.setdefault(each.node, []).append(each)

    def lived(self, node: str, begin_ns: int, end_ns: int) -> bool:
        """Whether one process of a node wrote something before a stretch, and something behind it."""
        return any(span.begin_ns <= begin_ns and end_ns <= span.end_ns for span in self._spans.get(node, ()))

    def restarts(self, node: str) -> list[int]:
        """When each process of a node but the first began."""
        return [span.begin_ns for span in self._spans.get(node, ())[1:]]

    def may_have_lived(self, node: str, begin_ns: int, end_ns: int) -> bool:
        """The same, or it was its last process, and nothing says that this ended.

        One that has nothing to report writes no rows. That a process ended is said by its last row, by the harness if
        it ended by itself, and by the last op of the nemesis, which says which nodes were stopped then.
        """
        last = self._spans[node][-1]
        goes_on = last.begin_ns <= begin_ns and not last.is_over and node not in self._ended
        return self.lived(node, begin_ns, end_ns) or goes_on

    def shown(self, node: str, begin_ns: int, end_ns: int) -> list[Sight]:
        """The whole rows of a node in a stretch, both ends included, behind the last one before it."""
        own = self._whole.get(node, [])
        first = bisect.bisect_left(own, begin_ns, key=lambda each: each.time)
        return own[max(0, first - 1) : bisect.bisect_right(own, end_ns, key=lambda each: each.time)]

    def saw(self, node: str, others: set[str], begin_ns: int, end_ns: int) -> bool:
        """Whether a node saw all of some others, all through a stretch, and each in one session."""
        shown = self.shown(node, begin_ns, end_ns)
        ended = any(each.other in others and begin_ns <= each.time <= end_ns for each in self._lost.get(node, ()))
        return bool(shown) and shown[0].time <= begin_ns and not ended and all(others <= each.alive for each in shown)


def _stopped(op: FaultOp, nodes: Collection[str]) -> Collection[str]:
    """The nodes that may be stopped after an op."""
    return op.said.down if op.verified and op.said.down is not None else nodes
