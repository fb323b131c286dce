"""When no fault was in force, and for how long faults excused each node from answering."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, cast

from splitbrain.checkers.quorum.topology import cores, topology
from splitbrain.results.faults import FaultOp, Happenings


def calm(around: Happenings, begin_ns: int, end_ns: int) -> Iterator[tuple[int, int, bool]]:
    """Stretches of [begin_ns, end_ns) without any fault: from, to, and whether a fault came before."""
    taken = [(op.invoke.time, _effective_ns(op)) for op in around.fault_ops]
    taken += [(window.begin_ns, window.end_ns) for window in around.windows]
    at_ns, struck = begin_ns, False
    for first, last in sorted(taken):
        if first > at_ns and first < end_ns:
            yield at_ns, first, struck
        struck = struck or first < end_ns
        at_ns = max(at_ns, last)
    if at_ns < end_ns:
        yield at_ns, end_ns, struck


def out_ns(around: Happenings, nodes: Sequence[str], begin_ns: int, end_ns: int) -> dict[str, int]:
    """For how long in [begin_ns, end_ns) each node did not have to answer.

    A node has to answer while it runs and belongs to every majority whose nodes all hear each other. A node that only
    lost its leader may be silent, although it hears a majority.
    """
    out = dict.fromkeys(nodes, 0)
    state: dict[str, list[Any]] = {"down": [], "paused": [], "cut": []}
    at_ns = begin_ns
    for until_ns, change in [*_changes(around), (end_ns, {})]:
        until_ns = min(max(until_ns, at_ns), end_ns)
        for node in set(nodes) - _in_action(nodes, state):
            out[node] += until_ns - at_ns
        at_ns = until_ns
        state.update(change)
    return out


def _changes(around: Happenings) -> Iterator[tuple[int, dict[str, list[Any]]]]:
    """When each nemesis op was over, and what it tells of the state after it."""
    for op in around.fault_ops:
        told = {name: op.value.get(name) for name in ("down", "paused", "cut")}
        yield _effective_ns(op), {name: cast("list[Any]", value) for name, value in told.items() if _is_list(value)}


def _effective_ns(op: FaultOp) -> int:
    return (op.completion or op.invoke).time


def _is_list(value: Any) -> bool:
    return isinstance(value, list)


def _in_action(nodes: Sequence[str], state: dict[str, list[Any]]) -> frozenset[str]:
    """Nodes that run and belong to every majority whose nodes all hear each other."""
    cut = [(source, destination) for source, destination in state["cut"]]
    at = topology(nodes, down=[*state["down"], *state["paused"]], cut=cut)
    groups = [frozenset(group) for group in cores(at)]
    return groups[0].intersection(*groups[1:]) if groups else frozenset()
