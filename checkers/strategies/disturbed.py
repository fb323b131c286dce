"""When something may have come between two nodes, by the nemesis ops: a fault of their links, or of one of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from splitbrain.results.faults import FaultOp, RunEvents
from splitbrain.results.nemesisop import Link
from splitbrain.results.notes import Stalled

_END_NS: Final = 1 << 62


class _Span(NamedTuple):
    begin_ns: int
    end_ns: int
    nodes: frozenset[str] | None
    """Those that have a fault themselves; None if any node or link may have one."""
    links: frozenset[Link]


class Disturbed:
    """The times in which two nodes may not have had each other's messages at once.

    While an op is carried out, and where its effect is unknown, that is so for all. What is in force after the last op
    counts to the end of time, and a stall of the controller as a fault of all nodes.
    """

    def __init__(self, events: RunEvents) -> None:
        self._spans = [*_of_ops(events.fault_ops), *_of_stalls(events)]

    def between(self, one: str, other: str, begin_ns: int, end_ns: int) -> bool:
        """Whether anything touched two nodes, or a link between them, in a stretch."""
        links = {(one, other), (other, one)}
        return any(
            span.begin_ns < end_ns
            and span.end_ns > begin_ns
            and (span.nodes is None or one in span.nodes or other in span.nodes or bool(links & span.links))
            for span in self._spans
        )


def _of_ops(ops: tuple[FaultOp, ...]) -> Iterator[_Span]:
    begins = [op.invoke.time for op in ops[1:]]
    for op, next_ns in zip(ops, [*begins, _END_NS], strict=False):
        done_ns = op.completion.time if op.completion is not None else next_ns
        yield _Span(op.invoke.time, done_ns, None, frozenset())
        yield _in_force(op, done_ns, max(done_ns, next_ns))


def _in_force(op: FaultOp, begin_ns: int, end_ns: int) -> _Span:
    said = op.said
    if not op.verified or said.cut is None or said.links is None or said.down is None or said.paused is None:
        return _Span(begin_ns, end_ns, None, frozenset())
    nodes = frozenset([*said.down, *said.paused, *said.disks, *said.clocks, *said.cpus])
    return _Span(begin_ns, end_ns, nodes, frozenset([*said.cut, *said.links]))


def _of_stalls(events: RunEvents) -> Iterator[_Span]:
    for op, stall in events.notes("stall", Stalled):
        yield _Span(max(0, op.time - round(stall.gap_ms * 1e6)), op.time, None, frozenset())
