"""When something may have been wrong with a node itself, by a run's nemesis ops: a pause, its disk, clock or CPU."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from splitbrain.results.faults import FaultOp, RunEvents
from splitbrain.results.notes import Stalled


class _Trouble(NamedTuple):
    begin_ns: int
    end_ns: int
    nodes: frozenset[str] | None
    """Those that had it; None for all."""


class Troubles:
    """The times in which nodes may have been too slow to do anything.

    While an op is carried out any node may be. After it those are that its report names, until the next op begins; all
    of them if its effect is unknown. What is in force after the last op counts to the end of time.
    """

    def __init__(self, events: RunEvents) -> None:
        troubles = [*_of_ops(events.fault_ops), *(_Trouble(*stall, None) for stall in stalls(events))]
        self._troubles = sorted(troubles, key=lambda trouble: trouble.begin_ns)

    def longest_without(self, node: str, begin_ns: int, end_ns: int) -> int:
        """The length of the longest part of a stretch in which nothing was wrong with a node, in ns."""
        longest, free_ns = 0, begin_ns
        for trouble in self._troubles:
            if trouble.begin_ns >= end_ns:
                break
            if trouble.nodes is None or node in trouble.nodes:
                longest = max(longest, trouble.begin_ns - free_ns)
                free_ns = max(free_ns, trouble.end_ns)
        return max(longest, end_ns - free_ns, 0)


_END_NS = 1 << 62


def _of_ops(ops: tuple[FaultOp, ...]) -> Iterator[_Trouble]:
    begins = [op.invoke.time for op in ops[1:]]
    for op, next_ns in zip(ops, [*begins, _END_NS], strict=False):
        done_ns = op.completion.time if op.completion is not None else next_ns
        yield _Trouble(op.invoke.time, done_ns, None)
        nodes = _in_trouble(op)
        if nodes is None or nodes:
            yield _Trouble(done_ns, max(done_ns, next_ns), nodes)


def _in_trouble(op: FaultOp) -> frozenset[str] | None:
    said = op.said
    if not op.verified or said.paused is None:
        return None
    return frozenset([*said.paused, *said.disks, *said.clocks, *said.cpus])


def stalls(events: RunEvents) -> Iterator[tuple[int, int]]:
    """Stretches, from and to, in which the controller was stalled: the machine was busy, with real nodes on it too."""
    for op, stall in events.notes("stall", Stalled):
        yield max(0, op.time - round(stall.gap_ms * 1e6)), op.time
