"""Who must not answer: Q1, Q2 and Q8.

    Q1  while nobody can be capable, nothing that needs a quorum is answered
    Q2  a node that no capable one can serve gives no quorum answer
    Q8  after a stop of so many nodes that no majority is left, no quorum answer before the start that makes one

Q1 and Q2 judge ops that begin and end inside a window: Q1 all of them, whomever they were sent to; Q2 those of the
nodes of the test. Q8 goes on through the unstable spans between windows: while one node after the other is started
there is no majority, whatever the links do. From a lease a node may go on to answer for as long as it lasts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from splitbrain.checkers.quorum.answers import NOWHERE, Answers
from splitbrain.checkers.quorum.findings import Fared, Finding, during
from splitbrain.checkers.quorum.topology import halted, possibly_served
from splitbrain.checkers.quorum.windows import Lull, Window
from splitbrain.results.calls import Ints, seconds

LISTED = 5
"""How many ops a finding names."""


def judged(window: Window, lulls: Sequence[Lull], lease_ns: int) -> dict[str, Fared]:
    """Which of the three rules a window gives occasion to: those "held" unless there is a finding."""
    served, none = possibly_served(window.at), halted(window.at)
    long_enough = window.begin_ns + lease_ns <= window.end_ns
    stopped = any(
        lull.begin_ns <= window.begin_ns and window.end_ns <= lull.end_ns and lull.begin_ns + lease_ns <= window.end_ns
        for lull in lulls
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
        lease_ns: for so long after a window's beginning a node may still answer from a lease.
    """
    for number, window in enumerate(windows):
        served, none = possibly_served(window.at), halted(window.at)
        if len(served) == len(window.at.nodes):
            continue
        inside = given.given_in(window.begin_ns + lease_ns, window.end_ns)
        rule = "Q1" if none else "Q2"
        for who, found in _by_node(given, inside):
            if who in served or (who is None and not none):
                continue
            why = "no node had a majority within reach" if none else f"{_named(who)} was out of reach of a majority"
            yield Finding(
                rule=rule,
                sentence=f"{_answered(given, who, found)} {during(window)}, while {why}.",
                window=number,
                ops=_shown(given, found),
                numbers=tuple(found.tolist()),
                why=f"while {why}",
            )


def before_a_majority(lulls: Sequence[Lull], given: Answers, lease_ns: int) -> Iterator[Finding]:
    """Q8: a finding for each lull, and each node that answered in it.

    Args:
        lulls: the parts of the run without a majority of running nodes.
        given: its answers.
        lease_ns: for so long after the stop a node that is left may still answer from a lease.
    """
    why = "when so many nodes were stopped that no majority was left"
    for lull in lulls:
        for who, found in _by_node(given, given.given_in(lull.begin_ns + lease_ns, lull.end_ns)):
            yield Finding(
                rule="Q8",
                sentence=(
                    f"{_answered(given, who, found)} between {seconds(lull.begin_ns):.3f} s and "
                    f"{seconds(lull.end_ns):.3f} s, {why}."
                ),
                ops=_shown(given, found),
                numbers=tuple(found.tolist()),
                why=why,
            )


def _by_node(given: Answers, numbers: Ints) -> Iterator[tuple[str | None, Ints]]:
    """The ops by the node that was asked, in the order of the nodes; last those that were sent to none of the test."""
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
