"""The spans without a fault, and how long faults excused each node from answering."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from splitbrain.checkers.quorum.topology import cores, topology
from splitbrain.results.faults import FaultOp, RunEvents, Window
from splitbrain.results.nemesisop import InForce


def calm(events: RunEvents, begin_ns: int, end_ns: int) -> Iterator[tuple[int, int, bool]]:
    """Spans of [begin_ns, end_ns) without any fault: from, to, and whether a fault came before.

    A fault is over once its stop is verified, or the harness notes that all is healed.
    """
    taken = [(op.invoke.time, _effective_ns(op)) for op in events.fault_ops]
    taken += [(window.begin_ns, window.end_ns) for window in (*events.windows, *_not_healed(events))]
    at_ns, after_fault = begin_ns, False
    for first, last in sorted(taken):
        if first > at_ns and first < end_ns:
            yield at_ns, first, after_fault
        after_fault = after_fault or first < end_ns
        at_ns = max(at_ns, last)
    if at_ns < end_ns:
        yield at_ns, end_ns, after_fault


def _not_healed(events: RunEvents) -> Iterator[Window]:
    """Spans in which a fault may be in force after its stop: the stop was not verified, or links or nodes are hit yet.

    A window of `RunEvents` ends at the invocation of the stop, as a fault is certainly in force only until then.
    """
    unverified: set[str] = set()
    hit: dict[str, bool] = {}
    begun: Window | None = None
    moments = [((op.completion or op.invoke).time, op) for op in events.fault_ops]
    for at_ns, op in sorted([*moments, *((op.time, None) for op in events.of_harness("healed"))], key=lambda at: at[0]):
        if op is None:
            unverified.clear()
            hit.clear()
        else:
            said = op.said
            if said.action == "stop":
                (unverified.discard if op.verified else unverified.add)(op.fault)
            hit.update(
                (name, bool(found))
                for name, found in (("cut", said.cut), ("down", said.down), ("paused", said.paused))
                if found is not None
            )
        if op is not None and begun is None and (unverified or any(hit.values())):
            begun = Window(op.fault, op, None, at_ns, events.end_ns + 1)
        elif begun is not None and not unverified and not any(hit.values()):
            yield msgspec.structs.replace(begun, end_ns=at_ns)
            begun = None
    if begun is not None:
        yield begun


def out_ns(events: RunEvents, nodes: Sequence[str], begin_ns: int, end_ns: int) -> dict[str, int]:
    """How long in [begin_ns, end_ns) each node did not have to answer, in nanoseconds.

    A node has to answer while it runs and belongs to every majority whose nodes are all linked with each other. A node
    that is only cut off from its leader may be silent, although it can reach a majority.
    """
    out = dict.fromkeys(nodes, 0)
    state, at_ns = InForce(cut=(), down=(), paused=()), begin_ns
    for until_ns, after in [*_states(events, state), (end_ns, state)]:
        until_ns = min(max(until_ns, at_ns), end_ns)
        for node in set(nodes) - _in_action(nodes, state):
            out[node] += until_ns - at_ns
        at_ns, state = until_ns, after
    return out


def _states(events: RunEvents, at_first: InForce) -> Iterator[tuple[int, InForce]]:
    """When each nemesis op ended, and what is in force after it: what it does not report stays as it was."""
    state = at_first
    for op in events.fault_ops:
        said = op.said
        state = InForce(
            cut=state.cut if said.cut is None else said.cut,
            down=state.down if said.down is None else said.down,
            paused=state.paused if said.paused is None else said.paused,
        )
        yield _effective_ns(op), state


def _effective_ns(op: FaultOp) -> int:
    return (op.completion or op.invoke).time


def _in_action(nodes: Sequence[str], state: InForce) -> frozenset[str]:
    """Nodes that run and belong to every majority whose nodes are all linked with each other."""
    at = topology(nodes, down=[*(state.down or ()), *(state.paused or ())], cut=state.cut or ())
    groups = [frozenset(group) for group in cores(at)]
    return groups[0].intersection(*groups[1:]) if groups else frozenset()
