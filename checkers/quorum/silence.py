"""Which nodes must not answer: Q1, Q2 and Q8.

    Q1  while no node can be capable, no op that needs a quorum is answered
    Q2  a node that no capable node can serve gives no quorum answer
    Q8  after so many nodes stopped that no majority runs, no quorum answer until a majority was started

Q1 and Q2 judge ops that begin and end inside a window: Q1 ops to any address, Q2 ops to the nodes of the test. Q8 also
judges the unstable spans between windows: while nodes are started one by one there is no majority, in any state
of the links. A node with a lease may answer until the lease ends.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from splitbrain.checkers.quorum.answers import NOWHERE, Answers
from splitbrain.checkers.quorum.findings import Finding, RuleResult, during
from splitbrain.checkers.quorum.topology import halted, possibly_served
from splitbrain.checkers.quorum.windows import NoMajority, Window
from splitbrain.results.calls import Ints, seconds

LISTED = 5
"""The largest number of ops that a finding names."""


def judged(window: Window, no_majority: Sequence[NoMajority], lease_ns: int) -> dict[str, RuleResult]:
    """Which of the three rules apply to a window: they "held" unless there is a finding."""
    served, none = possibly_served(window.at), halted(window.at)
    long_enough = window.begin_ns + lease_ns <= window.end_ns
    stopped = any(
        span.begin_ns <= window.begin_ns and window.end_ns <= span.end_ns and span.begin_ns + lease_ns <= window.end_ns
        for span in no_majority
    )
    return {
        "Q1": "held" if none and long_enough else "not judged",
        "Q2": "held" if not none and long_enough and len(served) < len(window.at.nodes) else "not judged",
        "Q8": "held" if stopped else "not judged",
    }


def wrong_side(windows: Sequence[Window], given: Answers, lease_ns: int) -> Iterator[Finding]:
    """Q1 and Q2: a finding for each window and node that answered and should not have.

    Args:
        windows: the windows of the run.
        given: its answers.
        lease_ns: how long after a window's beginning a node may still answer from a lease.
    """
    for number, window in enumerate(windows):
        served, none = possibly_served(window.at), halted(window.at)
        if len(served) == len(window.at.nodes):
            continue
        # Begun and answered inside: an op that began before the window may have been decided before it.
        inside = given.given_in(window.begin_ns + lease_ns, window.end_ns)
        rule = "Q1" if none else "Q2"
        for who, found in _by_node(given, inside):
            if who in served or (who is None and not none):
                continue
            why = "no node could reach a majority" if none else f"{_named(who)} could not reach a majority"
            yield Finding(
                rule=rule,
                sentence=f"{_answered(given, who, found)} {during(window)}, while {why}.",
                window=number,
                ops=_shown(given, found),
                numbers=tuple(found.tolist()),
                why=f"while {why}",
            )


def before_a_majority(no_majority: Sequence[NoMajority], given: Answers, lease_ns: int) -> Iterator[Finding]:
    """Q8: a finding for each span without a running majority, and each node that answered in it.

    Args:
        no_majority: the spans without a majority of running nodes.
        given: the answers of the run.
        lease_ns: how long after the stop a running node may still answer from a lease.
    """
    why = "while too few nodes ran for a majority"
    for span in no_majority:
        for who, found in _by_node(given, given.given_in(span.begin_ns + lease_ns, span.end_ns)):
            yield Finding(
                rule="Q8",
                sentence=(
                    f"{_answered(given, who, found)} between {seconds(span.begin_ns):.3f} s and "
                    f"{seconds(span.end_ns):.3f} s, {why}."
                ),
                ops=_shown(given, found),
                numbers=tuple(found.tolist()),
                why=why,
            )


def _by_node(given: Answers, numbers: Ints) -> Iterator[tuple[str | None, Ints]]:
    """The ops by the node that received them, in the order of the nodes; last those sent to no node of the test."""
    of = given.node[numbers]
    for place, node in enumerate(given.nodes):
        if len(found := numbers[of == place]):
            yield node, found
    if len(found := numbers[of == NOWHERE]):
        yield None, found


def _named(node: str | None) -> str:
    return "a node unknown to the test" if node is None else node


def _answered(given: Answers, node: str | None, found: Ints) -> str:
    first = given.shown(int(found[0]))
    what = f"op {first['index']} ({first['f']}{_key(first.get('key'))}) at {first['time_s']:.3f} s"
    more = f" and {len(found) - 1} more" if len(found) > 1 else ""
    return f"{_named(node)} answered {what}{more}"


def _key(key: object) -> str:
    return "" if key is None else f" of key {key}"


def _shown(given: Answers, found: Ints) -> tuple[dict[str, object], ...]:
    return tuple(given.shown(int(number)) for number in found[:LISTED])
