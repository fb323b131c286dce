"""Which nodes must answer, how soon, and how much was answered: Q3, Q4 and Q9.

    Q3  in a window with a core, longer than the recovery bound, every node of at least one core answers
    Q4  how long each node took from a fault, or its heal, to its first answer
    Q9  which share of the time and of the ops was answered, by each node and by the cluster

Q3 counts ops that were invoked after the bound and at least an op timeout before the window's end. A node was silent
if it received enough of them, answered none, and gave no answer to an earlier op of the window either once the bound
was over. A core was silent if one of its nodes was, and it is a violation if every core was. Ops that were all invoked
within a moment (`MOMENT_NS`) are not enough: a slow system stands still for as long, and answers before and after.

In a system with standbys only the node that leads answers, and the others say that they do not lead: there one node of
a core has to answer, and each of the others to answer or to say that.

Silence is none where the core's other answers come late: if half of them took more than half an op timeout, the nodes
have more to do than they can, and an op without an answer in time may be one that had to wait for longer.

Q3 demands nothing while a node outside of all cores may lead. A leader that receives answers of a majority rightly
stays leader, and may not reach each member of a core (its processor or links may be too slow for that). The nodes that
it reaches elect no other leader. (Partial connectivity: Ng, Haridi and Carbone, Omni-Paxos, EuroSys 2023.)
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec
import numpy as np

from splitbrain.checkers.quorum.answers import NOWHERE, Answers
from splitbrain.checkers.quorum.findings import Finding, RuleResult, during
from splitbrain.checkers.quorum.topology import NodeId, Topology, cores, possibly_capable
from splitbrain.checkers.quorum.windows import Window
from splitbrain.results.arrivals import NEVER
from splitbrain.results.availability import availability
from splitbrain.results.calls import Bools, Ints, seconds
from splitbrain.results.faults import FaultOp, RunEvents
from splitbrain.results.quantities import counted

MOMENT_NS: Final = 1_000_000_000
"""Silence towards ops of a shorter span proves nothing; nor does one of less than an op timeout, if that is shorter."""


class Bounds(msgspec.Struct, frozen=True):
    """The bounds of Q3.

    Attributes:
        recovery_ns: the time after a change in which no answer is demanded.
        timeout_ns: the timeout of a client's op.
        attempts: how many ops a node must have received before its silence counts.
        standbys: whether nodes that do not lead may refuse all ops.
    """

    recovery_ns: int
    timeout_ns: int
    attempts: int
    standbys: bool = False


class Progress(msgspec.Struct, frozen=True):
    """The result of Q3 in a window, and a finding if it was violated."""

    result: RuleResult
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
        stalls: when the controller was stalled: windows that overlap with a stall are not judged.
    """
    found = cores(window.at)
    first_ns, last_ns = window.begin_ns + bounds.recovery_ns, window.end_ns - bounds.timeout_ns
    if not found or _led_from_outside(window.at, found) or first_ns >= last_ns:
        return Progress("not judged")
    if touched(window.begin_ns, window.end_ns, stalls):
        return Progress("stalled")
    asked = given.begun_in(first_ns, last_ns)
    sent = per_node(given, asked)
    since = given.begun_in(window.begin_ns, last_ns)
    late = given.ended[since] >= first_ns
    got = per_node(given, since, given.served[since] & late)
    spoke = per_node(given, since, (given.served | given.declined)[since] & late) if bounds.standbys else got
    moment_ns = min(MOMENT_NS, bounds.timeout_ns)
    enough = {node for node in sent if sent[node] >= bounds.attempts and _span_ns(given, asked, node) >= moment_ns}
    silent = [_silent(core, enough, got, spoke) for core in found]
    # One core that answers is enough: the leader may be in that one, and the others need not reach it.
    if any(who == () for who in silent):
        return Progress("held")
    if any(who is None for who in silent):
        # In a shorter time no number of ops is enough: no load could have had it judged.
        return Progress("too few ops" if last_ns - first_ns >= moment_ns else "not judged")
    if _overloaded(given, asked, found, bounds):
        return Progress("overloaded")
    stories = [
        f"{' '.join(who or ())} of the core {' '.join(core)} answered none of "
        f"{counted(sum(sent[node] for node in who or ()), 'op')}"
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
    """How many of these ops were sent to each node, or of the chosen ones among them."""
    nodes = given.node[of] if chosen is None else given.node[of][chosen]
    # `bincount` takes no negative numbers: all are shifted by one, and the place of NOWHERE is dropped.
    counts = np.bincount(nodes - NOWHERE, minlength=len(given.nodes) + 1)[-NOWHERE:]
    return dict(zip(given.nodes, counts.tolist(), strict=True))


def _span_ns(given: Answers, of: slice, node: NodeId) -> int:
    """The time between the first and the last invocation of these ops at a node."""
    begun = given.begun[of][given.at(node)[of]]
    return int(begun[-1] - begun[0]) if len(begun) else 0


def _silent(
    core: tuple[NodeId, ...], enough: Collection[NodeId], got: Mapping[NodeId, int], spoke: Mapping[NodeId, int]
) -> tuple[NodeId, ...] | None:
    """The nodes of a core that received enough ops and answered none; None if too few ops were sent to judge.

    Args:
        core: the core.
        enough: nodes that received enough ops.
        got: how many answers each node gave.
        spoke: the same with what standbys declined, which is no answer of the core if all of its nodes do.
    """
    who = tuple(node for node in core if node in enough and not spoke[node])
    if who or not all(spoke[node] for node in core):
        return who or None
    if any(got[node] for node in core):
        return ()
    return core if all(node in enough for node in core) else None


def _overloaded(given: Answers, of: slice, found: Sequence[tuple[NodeId, ...]], bounds: Bounds) -> bool:
    """Whether enough of these ops were answered by nodes of a core, and half of them later than half an op timeout."""
    nodes = [given.nodes.index(node) for node in {node for core in found for node in core}]
    served = given.served[of] & np.isin(given.node[of], nodes)
    took_ns = (given.ended[of] - given.begun[of])[served]
    return len(took_ns) >= bounds.attempts and 2 * float(np.median(took_ns)) > bounds.timeout_ns


def touched(begin_ns: int, end_ns: int, stalls: Sequence[tuple[int, int]]) -> bool:
    """Whether the controller was stalled at some time in this span."""
    return any(begin < end_ns and end > begin_ns for begin, end in stalls)


def recovery_times(
    events: RunEvents, given: Answers, stalls: Sequence[tuple[int, int]] = ()
) -> Iterator[dict[str, Any]]:
    """Q4: for each fault and heal the seconds from its invocation until each node first answered.

    Only ops that were invoked after its completion count: earlier ones may have been answered before it took effect.
    None for a node that answered none before the next nemesis op. `stalled`: the controller was stalled meanwhile, and
    the seconds prove nothing.
    """
    ops = [op for op in events.fault_ops if op.completion is not None and op.hit]
    ends = [*(op.invoke.time for op in ops[1:]), events.end_ns]
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
    found = given.served_in((op.completion or op.invoke).time, until_ns)
    first = first_per_node(given, found)
    return {node: None if time_ns is None else seconds(time_ns - op.invoke.time) for node, time_ns in first.items()}


def first_per_node(given: Answers, found: Ints) -> dict[NodeId, int | None]:
    """The time of each node's first answer among these, None if it gave none."""
    first = np.full(len(given.nodes) + 1, NEVER, dtype=np.int64)
    np.minimum.at(first, given.node[found] - NOWHERE, given.ended[found])
    return {
        node: None if time_ns == NEVER else time_ns
        for node, time_ns in zip(given.nodes, first[-NOWHERE:].tolist(), strict=True)
    }


def shares(given: Answers, end_ns: int) -> dict[str, Any]:
    """Q9: the shares of seconds and of ops that were answered, by node and for the cluster; None without ops.

    `silent` lists for the cluster the seconds that were not served (`splitbrain.results.availability`).
    """
    cluster = availability(given.due, given.ended, given.served, end_ns)
    of_nodes = {
        node: availability(given.due[asked], given.ended[asked], given.served[asked], end_ns)
        for node in given.nodes
        for asked in (given.at(node),)
    }
    return {
        "cluster": {"time": cluster.time, "ops": cluster.ops, "silent": [list(each) for each in cluster.silent]},
        "nodes": {node: {"time": found.time, "ops": found.ops} for node, found in of_nodes.items()},
    }
