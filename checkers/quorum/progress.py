"""Who must answer, how soon, and how much was answered: Q3, Q4 and Q9.

    Q3  in a window with a core, longer than the recovery bound, every node of at least one core answers
    Q4  how long each node took from a fault, or its heal, to its first answer
    Q9  which share of the time and of the ops was answered, by each node and by the cluster

For Q3 count ops that were invoked after the bound and at least an op timeout before the window's end. A core kept
silent if one of its nodes was asked often enough and answered nothing. It is a violation if every core did.

Nothing is demanded while a node outside of all cores may lead: whoever hears from a majority stays in office by right,
and need not reach each member of a core (its processor or links may be too slow for that). Those whom it does reach
elect nobody else. (Partial connectivity without a quorum lost: Ng, Haridi and Carbone, Omni-Paxos, EuroSys 2023.)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from splitbrain.checkers.quorum.answers import NOWHERE, Answers
from splitbrain.checkers.quorum.findings import Fared, Finding, during
from splitbrain.checkers.quorum.topology import NodeId, Topology, cores, possibly_capable
from splitbrain.checkers.quorum.windows import Window
from splitbrain.results.arrivals import NEVER
from splitbrain.results.availability import availability
from splitbrain.results.calls import Bools, Ints, seconds
from splitbrain.results.faults import FaultOp, Happenings


class Bounds(msgspec.Struct, frozen=True):
    """What progress is measured by.

    Attributes:
        recovery_ns: for so long after a change nothing is demanded.
        timeout_ns: after that a client gives up.
        attempts: so many ops a node must have been asked before its silence counts.
    """

    recovery_ns: int
    timeout_ns: int
    attempts: int


class Progress(msgspec.Struct, frozen=True):
    """How Q3 fared in a window, and what shows it where it was violated."""

    fared: Fared
    finding: Finding | None = None


def progress(
    number: int, window: Window, given: Answers, bounds: Bounds, stalls: Sequence[tuple[int, int]]
) -> Progress:
    """Q3 in one window.

    Args:
        number: of the window.
        window: the window.
        given: the answers.
        bounds: what is demanded.
        stalls: when the controller itself stood still: it is no judge of the windows that these touch.
    """
    found = cores(window.at)
    first_ns, last_ns = window.begin_ns + bounds.recovery_ns, window.end_ns - bounds.timeout_ns
    if not found or _led_from_outside(window.at, found) or first_ns >= last_ns:
        return Progress("not judged")
    if touched(window.begin_ns, window.end_ns, stalls):
        return Progress("stalled")
    asked = given.begun_in(first_ns, last_ns)
    sent = per_node(given, asked)
    got = per_node(given, asked, given.given[asked])
    silent = [_silent(core, sent, got, bounds.attempts) for core in found]
    if any(who == () for who in silent):
        return Progress("held")
    if any(who is None for who in silent):
        return Progress("too few ops")
    stories = [
        f"of the core {' '.join(core)} {' '.join(who or ())} answered none of "
        f"{sum(sent[node] for node in who or ())} ops"
        for core, who in zip(found, silent, strict=True)
    ]
    one = given.nodes.index((silent[0] or ("",))[0])
    examples = asked.start + np.flatnonzero(given.node[asked] == one)[:3]
    sentence = (
        f"No progress with a quorum {during(window)}: {'; '.join(stories)} that were invoked after the recovery bound "
        f"of {seconds(bounds.recovery_ns):g} s."
    )
    ops = tuple(given.shown(int(op)) for op in examples)
    return Progress("violated", Finding(rule="Q3", sentence=sentence, window=number, ops=ops))


def _led_from_outside(at: Topology, found: Sequence[tuple[NodeId, ...]]) -> bool:
    """Whether a node in no core may lead."""
    return not possibly_capable(at) <= {node for core in found for node in core}


def per_node(given: Answers, of: slice, chosen: Bools | None = None) -> dict[NodeId, int]:
    """How many of these ops each node was asked, or of the chosen ones among them."""
    nodes = given.node[of] if chosen is None else given.node[of][chosen]
    counts = np.bincount(nodes - NOWHERE, minlength=len(given.nodes) + 1)[-NOWHERE:]
    return dict(zip(given.nodes, counts.tolist(), strict=True))


def _silent(
    core: tuple[NodeId, ...], sent: Mapping[NodeId, int], got: Mapping[NodeId, int], attempts: int
) -> tuple[NodeId, ...] | None:
    """The nodes of a core that were asked often enough and kept silent; None if too little was asked to tell."""
    who = tuple(node for node in core if sent[node] >= attempts and not got[node])
    return who or (() if all(got[node] for node in core) else None)


def touched(begin_ns: int, end_ns: int, stalls: Sequence[tuple[int, int]]) -> bool:
    """Whether the controller stood still at some time in the stretch."""
    return any(begin < end_ns and end > begin_ns for begin, end in stalls)


def recovery_times(
    around: Happenings, given: Answers, stalls: Sequence[tuple[int, int]] = ()
) -> Iterator[dict[str, Any]]:
    """Q4: for each fault and heal the seconds from its invocation until each node first answered.

    Only ops count that were invoked after it was complete: earlier ones may have been answered before it took effect.
    None for a node that answered none before the next op of the nemesis. `stalled`: the controller stood still
    meanwhile, and the seconds say nothing.
    """
    ops = [op for op in around.fault_ops if op.completion is not None and op.struck]
    ends = [*(op.invoke.time for op in ops[1:]), around.end_ns]
    for op, until_ns in zip(ops, ends, strict=False):
        yield {
            **_which(op),
            "nodes": _first_answers_s(op, given, until_ns),
            "stalled": touched(op.invoke.time, until_ns, stalls),
        }


def _which(op: FaultOp) -> dict[str, Any]:
    return {
        "fault": op.fault,
        "action": op.said.action or "start",
        "target": op.said.target,
        "time_s": seconds(op.invoke.time),
        "op": op.invoke.index,
    }


def _first_answers_s(op: FaultOp, given: Answers, until_ns: int) -> dict[NodeId, float | None]:
    found = given.given_in((op.completion or op.invoke).time, until_ns)
    first = first_per_node(given, found)
    return {node: None if time_ns is None else seconds(time_ns - op.invoke.time) for node, time_ns in first.items()}


def first_per_node(given: Answers, found: Ints) -> dict[NodeId, int | None]:
    """When each node gave its first of these answers, None where it gave none."""
    first = np.full(len(given.nodes) + 1, NEVER, dtype=np.int64)
    np.minimum.at(first, given.node[found] - NOWHERE, given.ended[found])
    return {
        node: None if time_ns == NEVER else time_ns
        for node, time_ns in zip(given.nodes, first[-NOWHERE:].tolist(), strict=True)
    }


def shares(given: Answers, end_ns: int) -> dict[str, Any]:
    """Q9: the shares of seconds and of ops that were answered, by node and for the cluster; None where nobody asked.

    `silent` lists for the cluster the seconds that were not served (`splitbrain.results.availability`).
    """
    cluster = availability(given.due, given.ended, given.given, end_ns)
    of_nodes = {
        node: availability(given.due[asked], given.ended[asked], given.given[asked], end_ns)
        for node in given.nodes
        for asked in (given.at(node),)
    }
    return {
        "cluster": {"time": cluster.time, "ops": cluster.ops, "silent": [list(each) for each in cluster.silent]},
        "nodes": {node: {"time": found.time, "ops": found.ops} for node, found in of_nodes.items()},
    }
