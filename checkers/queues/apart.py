"""When nodes were cut off from others, or did not run: nothing that they or their clients say gets through."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import msgspec

from splitbrain.checkers.quorum.windows import Wrong, stretches
from splitbrain.results.faults import RunEvents


class Span(msgspec.Struct, frozen=True):
    """A time in which a node was cut off.

    Attributes:
        begin_ns, end_ns: from when to when, in nanoseconds.
        within: the nodes that may have reached each other, with this one.
    """

    begin_ns: int
    end_ns: int
    within: frozenset[str]


def apart(events: RunEvents, nodes: Sequence[str]) -> Mapping[str, list[Span]]:
    """By node the spans in which it certainly reached some nodes in no way, in the order of time.

    A span begins when an op of the nemesis ends that left the node without links, and ends when one begins after which
    it may have them.

    Args:
        events: of the run.
        nodes: all nodes of the test.
    """
    found: dict[str, list[Span]] = {node: [] for node in nodes}
    for stretch in stretches(events, nodes):
        for node, spans in found.items():
            within = frozenset[str]().union(*(_within(node, nodes, state) for state in stretch.possibly))
            if len(within) == len(nodes):
                continue
            begin_ns = stretch.begin_ns
            if spans and spans[-1].end_ns == begin_ns and len(within | spans[-1].within) < len(nodes):
                last = spans.pop()
                begin_ns, within = last.begin_ns, within | last.within
            spans.append(Span(begin_ns, stretch.end_ns, within))
    return found


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
