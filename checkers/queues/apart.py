"""When a node was cut off from all others, or did not run: nothing that it or its clients say gets through."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from splitbrain.checkers.quorum.windows import stretches
from splitbrain.results.faults import RunEvents

Span = tuple[int, int]


def apart(events: RunEvents, nodes: Sequence[str]) -> Mapping[str, list[Span]]:
    """The spans, from and to in nanoseconds, by node, in the order of time.

    What a nemesis op says that is under way, or is not certain, ends a span: it begins when an op ends that left the
    node without a link, and ends when the next op of the nemesis begins after which the node may have one.

    Args:
        events: of the run.
        nodes: all nodes of the test.
    """
    found: dict[str, list[Span]] = {node: [] for node in nodes}
    for stretch in stretches(events, nodes):
        for node, spans in found.items():
            if not all(_is_apart(node, nodes, state.cut, state.down) for state in stretch.possibly):
                continue
            if spans and spans[-1][1] == stretch.begin_ns:
                spans[-1] = (spans[-1][0], stretch.end_ns)
            else:
                spans.append((stretch.begin_ns, stretch.end_ns))
    return found


def _is_apart(node: str, nodes: Sequence[str], cut: Sequence[tuple[str, str]], down: Sequence[str]) -> bool:
    if node in down:
        return True
    links = {link for other in nodes if other != node for link in ((node, other), (other, node))}
    return len(nodes) > 1 and links <= set(cut)
