"""Smaller plans made from a plan, for `splitbrain.nemesis.shrink`: without some parts, or with less time between them.

Each function takes a plan and returns another one; None if the rest would not be a plan. Whether a plan fails is not
known here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeAlias, TypeVar

import msgspec

from splitbrain.harness.contract.listed import names
from splitbrain.harness.generators.script import ScriptedFault, ScriptedOp
from splitbrain.harness.running.plan import Plan, heals
from splitbrain.nemesis.catalogue import reduced
from splitbrain.results.nemesisop import fault_in

Timed = TypeVar("Timed", ScriptedOp, ScriptedFault)

Window: TypeAlias = tuple[int, ...]
"""Indexes in `Plan.faults`: the start of a fault and its end, or one of them if the other is missing."""

_GRIDS_NS: Final = (500_000_000, 100_000_000, 10_000_000, 1_000_000)
"""Round times, coarse ones first."""


def size(plan: Plan) -> int:
    """How much could be removed: ops, nemesis ops, clients and nodes together."""
    return len(plan.ops) + len(plan.final_ops) + len(plan.faults) + len(plan.placement) + len(plan.nodes)


# --- ops, keys, clients ---------------------------------------------------------------------------------------------


def with_ops(plan: Plan, ops: Sequence[ScriptedOp]) -> Plan:
    """With these ops in the faults phase."""
    return msgspec.structs.replace(plan, ops=tuple(ops))


def with_final_ops(plan: Plan, ops: Sequence[ScriptedOp]) -> Plan:
    """With these ops in the final phase."""
    return msgspec.structs.replace(plan, final_ops=tuple(ops))


def keys(plan: Plan) -> list[str | None]:
    """The keys of its ops, in the order of their first use; None for ops without one."""
    return list(dict.fromkeys(op.key for op in (*plan.ops, *plan.final_ops)))


def with_keys(plan: Plan, kept: Sequence[str | None]) -> Plan:
    """With ops on these keys only."""
    return _with_ops_where(plan, lambda op: op.key in kept)


def with_threads(plan: Plan, kept: Sequence[int]) -> Plan | None:
    """With these client threads only, renumbered; they stay on their nodes. None without any."""
    if not kept:
        return None
    numbers = {thread: number for number, thread in enumerate(kept)}
    fewer = _with_ops_where(plan, lambda op: op.thread in numbers)
    return msgspec.structs.replace(
        _with_threads_numbered(fewer, numbers), placement=tuple(plan.placement[thread] for thread in kept)
    )


def with_threads_merged(plan: Plan) -> Iterator[Plan]:
    """With one client less, whose ops another one takes over: every such plan, heirs on the same node first."""
    threads = range(len(plan.placement))
    pairs = [(gone, heir) for gone in reversed(threads) for heir in threads if heir != gone]
    for gone, heir in sorted(pairs, key=lambda pair: plan.placement[pair[0]] != plan.placement[pair[1]]):
        kept = [thread for thread in threads if thread != gone]
        numbers = {thread: number for number, thread in enumerate(kept)}
        yield msgspec.structs.replace(
            _with_threads_numbered(plan, {**numbers, gone: numbers[heir]}),
            placement=tuple(plan.placement[thread] for thread in kept),
        )


def _with_ops_where(plan: Plan, wanted: Callable[[ScriptedOp], bool]) -> Plan:
    return msgspec.structs.replace(
        plan,
        ops=tuple(op for op in plan.ops if wanted(op)),
        final_ops=tuple(op for op in plan.final_ops if wanted(op)),
    )


def _with_threads_numbered(plan: Plan, numbers: dict[int, int]) -> Plan:
    def numbered(ops: tuple[ScriptedOp, ...]) -> tuple[ScriptedOp, ...]:
        return tuple(msgspec.structs.replace(op, thread=numbers[op.thread]) for op in ops)

    return msgspec.structs.replace(plan, ops=numbered(plan.ops), final_ops=numbered(plan.final_ops))


# --- faults ---------------------------------------------------------------------------------------------------------


def windows(plan: Plan) -> list[Window]:
    """Faults with what heals them, in the order of their beginnings."""
    open_: dict[str, int] = {}
    found: list[Window] = []
    for place, fault in enumerate(plan.faults):
        kind = str(fault_in(fault.value))
        if not heals(fault):
            if kind in open_:
                found.append((open_[kind],))
            open_[kind] = place
        elif kind in open_:
            found.append((open_.pop(kind), place))
        else:
            found.append((place,))
    return sorted([*found, *((place,) for place in open_.values())])


def with_windows(plan: Plan, kept: Sequence[Window]) -> Plan:
    """With the nemesis ops of these windows only."""
    places = sorted(place for window in kept for place in window)
    return with_faults(plan, [plan.faults[place] for place in places])


def with_faults(plan: Plan, faults: Sequence[ScriptedFault]) -> Plan:
    """With these nemesis ops only."""
    return msgspec.structs.replace(plan, faults=tuple(faults))


# --- nodes ----------------------------------------------------------------------------------------------------------


def with_nodes(plan: Plan, kept: Sequence[str]) -> Plan | None:
    """With these nodes only: without the clients of the others, and without faults that hit only other nodes, and
    without the ops that heal those.

    None if no node or no client is left.
    """
    threads = [thread for thread, node in enumerate(plan.placement) if node in kept]
    fewer = with_threads(plan, threads) if kept else None
    if fewer is None:
        return None
    gone = [node for node in plan.nodes if node not in kept]
    named = names("--nemesis", str(plan.options.get("nemesis", "")))
    left = [_fault_without(each, gone, named) for each in plan.faults]
    whole = sorted(place for window in windows(plan) if left[window[0]] is not None for place in window)
    faults = [fault for fault in (left[place] for place in whole) if fault is not None]
    return msgspec.structs.replace(fewer, nodes=tuple(kept), faults=tuple(faults))


def _fault_without(fault: ScriptedFault, gone: Sequence[str], named: Sequence[str]) -> ScriptedFault | None:
    """A nemesis op without these nodes; None if it was only for these."""
    if fault.value is None:
        return fault
    value = reduced(fault.f, fault.value, gone, named)
    return None if value is None else msgspec.structs.replace(fault, value=value)


# --- time -----------------------------------------------------------------------------------------------------------


def ending_at(plan: Plan, end_ns: int) -> Plan | None:
    """Without everything from that time on; the faults phase ends then. None if there was no time before."""
    if end_ns <= 0:
        return None
    return msgspec.structs.replace(
        plan,
        end_ns=end_ns,
        ops=tuple(op for op in plan.ops if op.at_ns < end_ns),
        faults=tuple(fault for fault in plan.faults if fault.at_ns < end_ns),
    )


def beginning_at(plan: Plan, begin_ns: int) -> Plan | None:
    """Without everything before that time; the rest is moved to the beginning, and faults in force then begin at once.

    None if there is no time after.
    """
    if begin_ns >= plan.end_ns:
        return None
    in_force = [
        window[0]
        for window in windows(plan)
        if plan.faults[window[0]].at_ns < begin_ns <= plan.faults[window[-1]].at_ns
        or (len(window) == 1 and plan.faults[window[0]].at_ns < begin_ns and not heals(plan.faults[window[0]]))
    ]
    faults = [
        fault.moved(max(0, fault.at_ns - begin_ns))
        for place, fault in enumerate(plan.faults)
        if fault.at_ns >= begin_ns or place in in_force
    ]
    ops = [op.moved(op.at_ns - begin_ns) for op in plan.ops if op.at_ns >= begin_ns]
    return msgspec.structs.replace(plan, end_ns=plan.end_ns - begin_ns, ops=tuple(ops), faults=tuple(faults))


def final_at_once(plan: Plan) -> Plan:
    """With final ops that follow one another without a pause."""
    return with_final_ops(plan, [op.moved(0) for op in plan.final_ops])


def _times(plan: Plan) -> list[int]:
    """The times of all events, in order, the end included; events of one moment count separately."""
    return [*sorted([each.at_ns for each in plan.ops] + [each.at_ns for each in plan.faults]), plan.end_ns]


def gaps(plan: Plan) -> list[int]:
    """The distances between one event and the next, as indexes of events, the longest first."""
    lengths = [gap_ns(plan, place) for place in range(len(_times(plan)))]
    return sorted(range(len(lengths)), key=lambda place: (-lengths[place], place))


def gap_ns(plan: Plan, place: int) -> int:
    """The distance from the previous event to the event of that index; from the beginning to the first one."""
    times = _times(plan)
    return times[place] - (times[place - 1] if place else 0)


def with_gap(plan: Plan, place: int, length_ns: int) -> Plan | None:
    """With that distance; everything from the event of that index on is earlier by the difference. None if no time is
    left.
    """
    begin_ns, less_ns = _times(plan)[place], gap_ns(plan, place) - length_ns
    return _with_times(plan, lambda at_ns: at_ns - less_ns if at_ns >= begin_ns else at_ns)


def rounded(plan: Plan) -> Iterator[Plan | None]:
    """With round times, in halves of a second, in tenths, in hundredths, in thousandths."""
    for grid_ns in _GRIDS_NS:
        yield _with_times(plan, lambda at_ns, grid_ns=grid_ns: (at_ns + grid_ns // 2) // grid_ns * grid_ns)


def _with_times(plan: Plan, moved: Callable[[int], int]) -> Plan | None:
    """With every time moved; the order of events stays."""
    end_ns = moved(plan.end_ns)
    if end_ns <= 0:
        return None

    def at_other_times(timed: tuple[Timed, ...]) -> tuple[Timed, ...]:
        return tuple(each.moved(moved(each.at_ns)) for each in timed)

    return msgspec.structs.replace(
        plan, end_ns=end_ns, ops=at_other_times(plan.ops), faults=at_other_times(plan.faults)
    )
