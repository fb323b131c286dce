"""Who must not answer: Q1, Q2 and Q8.

    Q1  while nobody can be capable, nothing that needs a quorum is answered
    Q2  a node that no capable one can serve gives no quorum answer
    Q8  after a stop of so many nodes that no majority is left, no quorum answer before the start that makes one

Q1 and Q2 judge ops that begin and end inside a window. Q8 goes on through the unstable spans between windows: while one
node after the other is started there is no majority, whatever the links do.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from checkers.quorum.answers import Answers
from checkers.quorum.findings import Finding, during
from checkers.quorum.topology import Topology, halted, majority, possibly_served
from checkers.quorum.windows import Window
from results.calls import seconds

LISTED = 5
"""How many ops a finding names."""


def wrong_side(windows: Sequence[Window], given: Answers, lease_ns: int) -> Iterator[Finding]:
    """Q1 and Q2: a finding for each window and node that answered and should not have.

    Args:
        windows: the windows of the run.
        given: its answers.
        lease_ns: for so long after a window's beginning a node may still answer from a lease.
    """
    for number, window in enumerate(windows):
        served = possibly_served(window.at)
        inside = given.given & given.inside(window.begin_ns + lease_ns, window.end_ns)
        for node in window.at.nodes:
            if node in served:
                continue
            found = np.flatnonzero(inside & given.at(node))
            if not len(found):
                continue
            rule = "Q1" if halted(window.at) else "Q2"
            why = "no node had a majority within reach" if rule == "Q1" else f"{node} was out of reach of a majority"
            yield Finding(
                rule=rule,
                sentence=f"{_answered(given, node, found)} {during(window)}, while {why}.",
                window=number,
                ops=_shown(given, found),
            )


def before_a_majority(windows: Sequence[Window], given: Answers) -> Iterator[Finding]:
    """Q8: a finding for each stretch without a majority of running nodes, and each node that answered in it."""
    for begin_ns, end_ns in _stopped(windows):
        inside = given.given & given.inside(begin_ns, end_ns)
        for node in given.nodes:
            found = np.flatnonzero(inside & given.at(node))
            if len(found):
                yield Finding(
                    rule="Q8",
                    sentence=(
                        f"{_answered(given, node, found)} between {seconds(begin_ns):.3f} s and "
                        f"{seconds(end_ns):.3f} s, when so many nodes were stopped that no majority was left."
                    ),
                    ops=_shown(given, found),
                )


def _stopped(windows: Sequence[Window]) -> Iterator[tuple[int, int]]:
    """Stretches in which no majority runs: to the beginning of the change that may have started one."""
    begin_ns: int | None = None
    end_ns = 0
    for window in windows:
        if _majority_may_run(window.at):
            if begin_ns is not None:
                yield begin_ns, end_ns
            begin_ns = None
        else:
            begin_ns = window.begin_ns if begin_ns is None else begin_ns
            end_ns = window.end_ns
    if begin_ns is not None:
        yield begin_ns, end_ns


def _majority_may_run(at: Topology) -> bool:
    return any(len(voters & at.possibly_up) >= majority(voters) for voters in at.configurations)


def _answered(given: Answers, node: str, found: np.ndarray[tuple[int], np.dtype[np.intp]]) -> str:
    first = given.shown(int(found[0]))
    what = f"op {first['index']} ({first['f']}{_key(first.get('key'))}) at {first['time_s']:.3f} s"
    more = f" and {len(found) - 1} more" if len(found) > 1 else ""
    return f"{node} answered {what}{more}"


def _key(key: object) -> str:
    return "" if key is None else f" of key {key}"


def _shown(given: Answers, found: np.ndarray[tuple[int], np.dtype[np.intp]]) -> tuple[dict[str, object], ...]:
    return tuple(given.shown(int(number)) for number in found[:LISTED])
