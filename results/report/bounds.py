"""What was not checked, and what the page leaves out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from splitbrain.results.quorum import RULES
from splitbrain.results.report.evidence import FINDINGS_MAX, WITNESS_MAX
from splitbrain.results.report.fault_rows import FAULTS_MAX
from splitbrain.results.report.inspector import OPS_MAX, ops_kept
from splitbrain.results.report.memberships import more_changes
from splitbrain.results.report.nodelogs import LINE_MAX, NodeLog
from splitbrain.results.report.past import Past
from splitbrain.results.report.plots import POINTS_MAX, latency_points
from splitbrain.results.report.quorum import Quorum
from splitbrain.results.report.quorum_plots import RECOVERIES_MAX
from splitbrain.results.report.quorum_windows import WINDOWS_MAX
from splitbrain.results.report.run_view import RunView
from splitbrain.results.report.timeline import FOUND_MAX, MARKED_MAX, bands, tick_s
from splitbrain.results.text import VALUE_MAX, clip

_UNJUDGED: Final = ("not judged", "too few ops", "stalled", "overloaded")


def unchecked(view: RunView, verdicts: Sequence[Mapping[str, Any]], quorum: Quorum) -> list[str]:
    """What this run does not prove."""
    if view.judgement is None:
        return ["Nothing was judged: the run has no verdict."]
    found = [
        f"{verdict['checker']}: {said}"
        for verdict in verdicts
        for said in verdict["inconclusive"] or ([verdict["sentence"]] if verdict["valid"] == "unknown" else ())
    ]
    if quorum.figures is None:
        found.append(quorum.why_not or "")
    else:
        for how in _UNJUDGED:
            rules = [
                f"{rule} ({RULES.get(rule, '?')})" for rule, result in quorum.figures.rules.items() if result == how
            ]
            found += [f"Rules of quorum progress, {how}: {', '.join(rules)}."] if rules else []
    left_out = view.document.get("left_out")
    if isinstance(left_out, list) and left_out:
        found.append(f"Faults that the backend could not inject: {clip(left_out, 600)}")
    if view.marks:
        missed = [mark for mark, times in view.marks.items() if not times]
        if missed:
            found.append(f"{len(missed)} of {len(view.marks)} coverage marks were not reached; they are listed above.")
    if view.telemetry.num_rows == 0:
        found.append("The nodes left no telemetry: leaders, terms and commit indexes are unknown.")
    return found


def left_out(
    view: RunView,
    *,
    witness: Sequence[int],
    findings: int,
    logs: Sequence[NodeLog],
    past: Past,
    quorum: Quorum,
    moments_s: Sequence[float],
    more_events: int,
) -> list[str]:
    """What the page does not show of what the run left behind."""
    whole = "history.parquet and nodes/ have them whole"
    bounds = [f"Values are cut after {VALUE_MAX} characters, lines of logs after {LINE_MAX}; {whole}."]
    total = len(view.calls.invoke)
    if total:
        if bands(view):
            bounds.append(
                "The timeline has too many ops for a tick each: it shows their number. Zoom in for single ops."
            )
        else:
            bounds.append(f"On the timeline, ops of a node that end within {tick_s(view) * 1000:.3g} ms share a tick.")
        drawn, ended = latency_points(view)
        if drawn < ended:
            bounds.append(
                f"The latency plot draws {drawn:,} of {ended:,} ops (evenly chosen up to {POINTS_MAX:,}, and the "
                f"slowest); its lines are computed from all of them."
            )
    if len(ops_kept(view, moments_s)) < total:
        bounds.append(f"{OPS_MAX:,} of {total:,} ops can be clicked: those nearest to faults and evidence.")
    if len(witness) > MARKED_MAX:
        bounds.append(f"The timeline marks {MARKED_MAX} of {len(witness)} witness ops.")
    if len(witness) >= WITNESS_MAX:
        bounds.append(f"At most {WITNESS_MAX} witness ops of a checker are listed.")
    if findings > FOUND_MAX:
        bounds.append(f"The timeline marks {FOUND_MAX} of {findings} findings; {FINDINGS_MAX} of a checker are listed.")
    if len(view.events.fault_ops) > FAULTS_MAX:
        bounds.append(f"The table of faults lists {FAULTS_MAX} of {len(view.events.fault_ops)} nemesis ops.")
    if more_changes(view):
        bounds.append(f"The {more_changes(view):,} latest changes of voters that nodes reported are not shown.")
    bounds += _of_quorum(quorum)
    if more_events:
        bounds.append(f"The table of the timeline ends before the last {more_events:,} events.")
    if past.left_out:
        bounds.append(f"{past.left_out:,} runs of this test, far from this one in time, were not read.")
    return bounds + [words for log in logs for words in _of_log(log)]


def _of_quorum(quorum: Quorum) -> list[str]:
    """What is missing of the figures of quorum progress."""
    figures, words = quorum.figures, list[str]()
    if figures is None:
        return words
    if len(figures.recovery) > RECOVERIES_MAX:
        words.append(f"The recovery plot draws the slowest {RECOVERIES_MAX} of {len(figures.recovery)}.")
    missing = figures.left_out.get("windows", 0) + max(len(figures.windows) - WINDOWS_MAX, 0)
    if missing:
        total = len(figures.windows) + figures.left_out.get("windows", 0)
        words.append(f"The table of windows leaves out {missing:,} of {total:,}.")
    return words


def _of_log(log: NodeLog) -> list[str]:
    """What is missing of one log."""
    name, words = clip(log.file), list[str]()
    if log.left_out:
        words.append(
            f"{name}: {len(log.lines):,} of {log.total:,} lines are in this page, those nearest to faults and evidence."
        )
    if log.unread:
        words.append(f"{name}: {log.unread:,} bytes in its middle were not read.")
    if log.total and all(line.time_s is None for line in log.lines):
        words.append(f"{name}: its lines have no known time stamp: they are not on the timeline.")
    return words
