"""When nodes were cut off from others, or did not run: nothing that they or their clients say gets through."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

import msgspec

from splitbrain.checkers.quorum.windows import NOTHING_WRONG, Wrong, stretches
from splitbrain.results.faults import RunEvents


class Span(msgspec.Struct, frozen=True):
    """A time in which a node was cut off.

    Attributes:
        begin_ns, end_ns: from when to when, in nanoseconds.
        within: the nodes that may have reached each other, with this one.
        silences: about how many silences of nodes there were before that were too short to be noticed by all.
    """

    begin_ns: int
    end_ns: int
    within: frozenset[str]
    silences: int = 0


NOTICED_S: Final = 6.0
"""A node that is cut off, or stands still, for so long is noticed by all others."""


def apart(events: RunEvents, nodes: Sequence[str]) -> Mapping[str, list[Span]]:
    """By node the spans in which it certainly reached some nodes in no way, in the order of time.

    A span begins when an op of the nemesis ends that left the node without links, and ends when one begins after which
    it may have them, or after which a node that it does not reach may stand still.

    Args:
        events: of the run.
        nodes: all nodes of the test.
    """
    found: dict[str, list[Span]] = {node: [] for node in nodes}
    states: list[_State] = []
    for stretch in stretches(events, nodes):
        if states and states[-1].wrong == stretch.before:
            states[-1] = _State(states[-1].begin_ns, stretch.end_ns, stretch.before)
        else:
            states.append(_State(stretch.begin_ns, stretch.end_ns, stretch.before))
        for node, spans in found.items():
            within = frozenset[str]().union(*(_within(node, nodes, state) for state in stretch.possibly))
            if len(within) == len(nodes) or _may_stand_still(stretch.possibly, within):
                continue
            if spans and spans[-1].end_ns == stretch.begin_ns and len(within | spans[-1].within) < len(nodes):
                last = spans.pop()
                spans.append(Span(last.begin_ns, stretch.end_ns, within | last.within, last.silences))
            else:
                silences = sum(state.silences for state in states if state.end_ns <= stretch.begin_ns)
                spans.append(Span(stretch.begin_ns, stretch.end_ns, within, silences))
    return found


class _State(msgspec.Struct, frozen=True):
    """A time in which the same was wrong."""

    begin_ns: int
    end_ns: int
    wrong: Wrong

    @property
    def silences(self) -> int:
        """About how many silences that others may not have noticed it brought."""
        if self.wrong == NOTHING_WRONG:
            return 0
        if self.wrong.uncertain_links or self.wrong.uncertain_nodes:
            return 2  # slow or lossy: there may be several
        return int(self.end_ns - self.begin_ns < NOTICED_S * 1e9)


def _may_stand_still(possibly: Sequence[Wrong], within: Collection[str]) -> bool:
    """Whether one of the other nodes may not run, or run slowly: it notices no silence of another then."""
    return any(node not in within for state in possibly for node in (*state.down, *state.uncertain_nodes))


def _within(node: str, nodes: Sequence[str], state: Wrong) -> Collection[str]:
    """The nodes to or from which there may be a way from a node, over others too; of one that is down itself alone."""
    if node in state.down:
        return {node}
    cut, reached, more = set(state.cut), {node}, [node]
    while more:
        here = more.pop()
        for other in nodes:
            if other not in reached and not {(here, other), (other, here)} <= cut:
                reached.add(other)
                more.append(other)
    return reached
