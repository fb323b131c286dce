"""What the verdict holds of a judgement: a row per window, a row per violation, and findings in sentences.

A row of a window holds, beside its place in the run (`number`, `start_s`, `end_s`): what is wrong (`cut`,
`uncertain_links`, `down`, `uncertain`), the `configurations` in force, which nodes are `capable`, `possibly_capable`
and `possibly_served`, the `cores`; per node (`nodes`) the ops that began in it, how many were `answered`, `refused` and
left `unknown`, and the seconds from its start to the first answer; and the results of Q1, Q2, Q3 and Q8 in it.

A row of a violation: `rule`, `window` (None where it belongs to none), `op` (the index of the answer in the history) or
`row` (of the telemetry), `sentence`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec
import numpy as np

from splitbrain.checkers.quorum.answers import Answers
from splitbrain.checkers.quorum.findings import Finding, RuleResult
from splitbrain.checkers.quorum.progress import first_per_node, per_node
from splitbrain.checkers.quorum.topology import (
    Link,
    NodeId,
    Topology,
    capable,
    cores,
    possibly_capable,
    possibly_served,
)
from splitbrain.checkers.quorum.windows import Window
from splitbrain.results.calls import seconds

FINDINGS_MAX: Final = 20
"""The largest number of findings in the evidence; the first of each rule come first."""

WINDOWS_MAX: Final = 2_000
VIOLATIONS_MAX: Final = 1_000


def evidence(found: Sequence[Finding]) -> dict[str, Any]:
    """The findings as evidence: of each rule the first ones, so that no rule hides another."""
    if not found:
        return {}
    shown = sorted(_by_turns(found)[:FINDINGS_MAX])
    return {"findings": [_shown(found[number]) for number in shown]}


def _by_turns(found: Sequence[Finding]) -> list[int]:
    """Places of the findings: the first of each rule, then the second ones, and so on."""
    seen: dict[str, int] = {}
    ranks: list[tuple[int, int]] = []
    for number, finding in enumerate(found):
        seen[finding.rule] = rank = seen.get(finding.rule, 0) + 1
        ranks.append((rank, number))
    return [number for _, number in sorted(ranks)]


def _shown(finding: Finding) -> dict[str, Any]:
    fields = msgspec.to_builtins(finding)
    del fields["numbers"], fields["why"]
    return fields


def results_by_window(
    occasion: Sequence[dict[str, RuleResult]], found: Sequence[Finding], windows: Sequence[Window], given: Answers
) -> list[dict[str, RuleResult]]:
    """The results of the rules in each window: those of `occasion`, and "violated" where a finding belongs."""
    results = [dict(one) for one in occasion]
    for finding in found:
        places = [finding.window] if finding.window is not None else windows_of(finding, windows, given)
        for place in places:
            if place is not None and finding.rule in results[place]:
                results[place][finding.rule] = "violated"
    return results


def windows_of(finding: Finding, windows: Sequence[Window], given: Answers) -> list[int | None]:
    """For each op of a finding the window in which it began and ended, None if there is none."""
    begins = np.array([window.begin_ns for window in windows], dtype=np.int64)
    ends = np.array([window.end_ns for window in windows], dtype=np.int64)
    ops = np.array(finding.numbers, dtype=np.int64)
    places = np.searchsorted(begins, given.begun[ops], side="right") - 1
    return [
        int(place) if place >= 0 and end <= ends[place] else None
        for place, end in zip(places.tolist(), given.ended[ops].tolist(), strict=True)
    ]


def window_rows(
    windows: Sequence[Window], results: Sequence[dict[str, RuleResult]], given: Answers
) -> tuple[list[dict[str, Any]], int]:
    """A row per window, in the order of time, and how many were left out.

    Of more than WINDOWS_MAX windows those with a violation are kept first, then the earliest ones.
    """
    order = sorted(range(len(windows)), key=lambda number: ("violated" not in results[number].values(), number))
    shown = sorted(order[:WINDOWS_MAX])
    rows = [{"number": number, **_window(windows[number], given), **results[number]} for number in shown]
    return rows, len(windows) - len(shown)


def _window(window: Window, given: Answers) -> dict[str, Any]:
    at = window.at
    return {
        "start_s": seconds(window.begin_ns),
        "end_s": seconds(window.end_ns),
        "cut": sorted(set(_links(at.nodes)) - at.possibly_open),
        "uncertain_links": sorted(at.possibly_open - at.open),
        "down": [node for node in at.nodes if node not in at.possibly_up],
        "uncertain": [node for node in at.nodes if node in at.possibly_up and node not in at.up],
        "configurations": [[node for node in at.nodes if node in voters] for voters in at.configurations],
        "capable": _in_order(at, capable(at)),
        "possibly_capable": _in_order(at, possibly_capable(at)),
        "possibly_served": _in_order(at, possibly_served(at)),
        "cores": [list(core) for core in cores(at)],
        "nodes": _counts(window, given),
    }


def _counts(window: Window, given: Answers) -> dict[NodeId, dict[str, Any]]:
    of = given.begun_in(window.begin_ns, window.end_ns)
    answered, refused = given.served[of], given.refused[of]
    counts = {
        "ops": per_node(given, of),
        "answered": per_node(given, of, answered),
        "refused": per_node(given, of, refused),
        "unknown": per_node(given, of, ~(answered | refused)),
    }
    first = first_per_node(given, of.start + np.flatnonzero(answered))
    return {
        node: {
            **{name: of_nodes[node] for name, of_nodes in counts.items()},
            "first_answer_s": None if (time_ns := first[node]) is None else seconds(time_ns - window.begin_ns),
        }
        for node in given.nodes
    }


def violation_rows(
    found: Sequence[Finding], windows: Sequence[Window], given: Answers
) -> tuple[list[dict[str, Any]], int]:
    """The first VIOLATIONS_MAX violations, a row for each, by rule and time; and how many were left out."""
    rows: list[dict[str, Any]] = []
    total = 0
    for finding in found:
        total += max(1, len(finding.numbers))
        if len(rows) < VIOLATIONS_MAX:
            rows += _violations(finding, windows, given, VIOLATIONS_MAX - len(rows))
    return rows, total - len(rows)


def _violations(finding: Finding, windows: Sequence[Window], given: Answers, most: int) -> list[dict[str, Any]]:
    if not finding.numbers:
        row = finding.rows[-1] if finding.rows else None
        of = {"op": finding.ops[0]["index"]} if finding.ops else {} if row is None else {"row": row}
        return [{"rule": finding.rule, "window": finding.window, **of, "sentence": finding.sentence}]
    numbers = np.array(finding.numbers[:most], dtype=np.int64)
    places = windows_of(finding, windows, given)
    ops = zip(given.indexes(numbers), numbers.tolist(), places, strict=False)
    return [
        {"rule": finding.rule, "window": place, "op": index, "sentence": _sentence(finding, given, number, index)}
        for index, number, place in ops
    ]


def _sentence(finding: Finding, given: Answers, number: int, index: int) -> str:
    place = int(given.node[number])
    who = given.nodes[place] if place >= 0 else "a node unknown to the test"
    return f"{who} answered op {index} at {int(given.ended[number]) / 1e9:.3f} s, {finding.why}."


def _links(nodes: Sequence[NodeId]) -> list[Link]:
    return [(source, destination) for source in nodes for destination in nodes if source != destination]


def _in_order(at: Topology, chosen: frozenset[NodeId]) -> list[NodeId]:
    return [node for node in at.nodes if node in chosen]
