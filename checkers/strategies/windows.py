"""When links between nodes were cut, by what the nemesis had done: the partition that a sentence is about."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Final, NamedTuple

from splitbrain.results.faults import FaultOp, RunEvents
from splitbrain.results.nemesisop import Link

_END_NS: Final = 1 << 62


class Cut(NamedTuple):
    """A stretch of the run in which the same links were cut.

    Attributes:
        begin_ns: when the op that cut the last of them had ended.
        end_ns: when the op began that changed it; the end of the run if none did.
        links: directed.
    """

    begin_ns: int
    end_ns: int
    links: frozenset[Link]

    def unheard(self, node: str) -> frozenset[str]:
        """The nodes from which nothing comes to a node."""
        return frozenset(sender for sender, to in self.links if to == node)

    def said(self, nodes: Collection[str]) -> str:
        """The partition in words, with its times."""
        times = f"from {self.begin_ns / 1e9:.1f} s to {self.end_ns / 1e9:.1f} s"
        parts = sides(nodes, self.links)
        if len(parts) > 1:
            return f"partition of {' | '.join(','.join(part) for part in parts)} {times}"
        pairs = sorted({tuple(sorted(link)) for link in self.links})
        return f"partial partition ({', '.join('-'.join(pair) for pair in pairs)}) {times}"


def sides(nodes: Collection[str], links: frozenset[Link]) -> list[list[str]]:
    """The sides of a partition: nodes that reach each other over links that are open both ways, or over other nodes."""
    left, parts = sorted(nodes), list[list[str]]()
    while left:
        part = [left.pop(0)]
        for node in part:
            near = [other for other in left if (node, other) not in links and (other, node) not in links]
            part += near
            left = [other for other in left if other not in near]
        parts.append(sorted(part))
    return parts


def cuts(events: RunEvents) -> tuple[Cut, ...]:
    """All stretches with cut links, in order of time; an op whose effect is unknown ends one, and begins none."""
    return tuple(_merged(list(_between(events.fault_ops, events.end_ns))))


def _between(ops: Sequence[FaultOp], end_ns: int) -> Iterator[Cut]:
    begins = [op.invoke.time for op in ops[1:]]
    for op, next_ns in zip(ops, [*begins, end_ns], strict=False):
        begin_ns = op.completion.time if op.completion is not None else next_ns
        known = op.said.cut if op.verified else None
        yield Cut(begin_ns, max(begin_ns, next_ns), frozenset(known or ()))


def _merged(found: Sequence[Cut]) -> Iterator[Cut]:
    """Those with links, each as one where other faults came and went meanwhile."""
    open_cut: Cut | None = None
    for cut in found:
        if open_cut is not None and cut.links == open_cut.links:
            open_cut = open_cut._replace(end_ns=cut.end_ns)
            continue
        if open_cut is not None and open_cut.links:
            yield open_cut
        open_cut = cut
    if open_cut is not None and open_cut.links:
        yield open_cut


def last_begun(found: Sequence[Cut], time_ns: int) -> Cut | None:
    """The cut that was in force at a moment, or the last one before it; None before the first."""
    return next((cut for cut in reversed(found) if cut.begin_ns <= time_ns), None)


def when(found: Sequence[Cut], time_ns: int, nodes: Collection[str]) -> str:
    """That cut in words; where there is none, so it says."""
    cut = last_begun(found, time_ns)
    return "before any partition" if cut is None else cut.said(nodes)
