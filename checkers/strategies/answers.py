"""Whether a node whose database had stopped acknowledged ops: by the history, which says who answered.

Where the node has consensus beside its tables, only answers with term 0 are of the tables.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from splitbrain.checkers.consensus.findings import Finding
from splitbrain.checkers.quorum.answers import NO_TERM
from splitbrain.checkers.strategies.sights import STOPPED, Sight
from splitbrain.checkers.strategies.verdicts import Run
from splitbrain.results.calls import client_calls, ints
from splitbrain.results.columns import numbers
from splitbrain.results.telemetry import TABLES, TERM_OF_TABLES

SLACK_NS: Final = 250_000_000
"""How far times of a node and of the controller may be apart, with what was answered already and is on its way."""


class _Stop(NamedTuple):
    begin_ns: int
    end_ns: int
    sight: Sight


def answered_while_stopped(run: Run, history: pa.Table) -> Iterator[Finding]:
    """The first op of each stop that was invoked and acknowledged while the database had stopped."""
    by_node = {node: _stops(run.reported.lives, node) for node in run.reported.nodes}
    calls = client_calls(history)
    chosen = np.flatnonzero(calls.ended("ok"))
    if any(each.row.group == TABLES for each in run.reported.sights[:1]):
        terms = numbers(history["term"], null=NO_TERM)
        chosen = chosen[terms[calls.complete[chosen]] == TERM_OF_TABLES]
    times, nodes = ints(history, "time"), history.column("node")
    reported = set[tuple[str, int]]()
    for place in chosen.tolist():
        invoked_ns, done_ns = int(times[calls.invoke[place]]), int(times[calls.complete[place]])
        node = str(nodes[int(calls.complete[place])].as_py())
        stop = _stop_of(by_node.get(node, []), invoked_ns, done_ns)
        if stop is not None and (node, stop.begin_ns) not in reported:
            reported.add((node, stop.begin_ns))
            f = history.column("f")[int(calls.invoke[place])].as_py()
            words = (
                f"Answered: the database of {node} had stopped ({stop.sight.row.at}), and a {f} that began at "
                f"{invoked_ns / 1e9:.3f} s was acknowledged by it at {done_ns / 1e9:.3f} s"
            )
            yield run.finding("answered", words, stop.sight, at_ns=invoked_ns)


def _stop_of(stops: Sequence[_Stop], invoked_ns: int, done_ns: int) -> _Stop | None:
    place = bisect.bisect_right(stops, invoked_ns - SLACK_NS, key=lambda stop: stop.begin_ns) - 1
    return stops[place] if place >= 0 and done_ns + SLACK_NS < stops[place].end_ns else None


def _stops(lives: Sequence[Sequence[Sight]], node: str) -> list[_Stop]:
    """When the database of a node had stopped, as far as its own rows enclose that."""
    found: list[_Stop] = []
    for life in lives:
        since: Sight | None = None
        for each in life:
            if each.node != node or each.event in ("answers", "decides"):
                continue
            if each.row.role != STOPPED:
                since = None
            elif since is None:
                since = each
            else:
                if found and found[-1].sight is since:
                    found.pop()
                found.append(_Stop(since.time, each.time, since))
    return sorted(found, key=lambda stop: stop.begin_ns)
