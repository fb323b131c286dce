"""The timeline in words: what its picture shows of faults, phases, nodes, leaders and findings, by time.

For those who cannot see the picture, and for those who want to search it. Client ops are too many for it: of those the
witness is listed, and the page's script can show all of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from splitbrain.results.report.lanes import leaderships
from splitbrain.results.report.memberships import member_changes
from splitbrain.results.report.run_view import RunView
from splitbrain.results.report.timeline import STATES, Shown, finding_times, stretches
from splitbrain.results.text import clip

EVENTS_MAX: Final = 400
"""The largest number of rows of the table."""


class Event(NamedTuple):
    """A row: when, which node or process ("" for the run), what happened, and where in the page there is more of it."""

    time_s: float
    who: str
    words: str
    href: str = ""


def story(view: RunView, shown: Shown) -> tuple[list[Event], int]:
    """The events by time, at most EVENTS_MAX; how many are left out, those at the end."""
    events = [*_harness(view), *_nodes(view, shown), *_findings(view, shown)]
    events.sort(key=lambda event: event.time_s)
    return events[:EVENTS_MAX], max(len(events) - EVENTS_MAX, 0)


def _harness(view: RunView) -> Iterator[Event]:
    for phase in view.events.phases:
        yield Event(phase.begin_ns / 1e9, "", f"phase {clip(phase.name, 40)} begins")
    for window in view.events.windows:
        fault, target = clip(window.fault, 40), clip(window.target, 160)
        seen = "" if window.start.verified else ", not verified"
        yield Event(window.begin_ns / 1e9, "", f"{fault} begins: {target}{seen}")
        yield Event(window.end_ns / 1e9, "", f"{fault} ends: {target}")


def _nodes(view: RunView, shown: Shown) -> Iterator[Event]:
    for state in stretches(view, shown.figures):
        words = STATES.get(state.what, str(state.what))
        yield Event(state.begin_s, clip(state.node, 60), f"{words}, until {state.end_s:.3f} s")
    for leading in leaderships(view):
        which = "" if leading.group is None else f"{clip(leading.group, 60)} "
        words = f"led {which}in term {leading.term}, until {leading.end_s:.3f} s"
        yield Event(leading.begin_s, clip(leading.node, 60), words)
    for change in member_changes(view):
        yield Event(change.time_s, clip(change.node, 60), change.words)


def _findings(view: RunView, shown: Shown) -> Iterator[Event]:
    for number, time_s, finding in finding_times(view, shown.findings):
        words = f"{finding.rule}: {clip(finding.sentence, 300)}" if finding.rule else clip(finding.sentence, 300)
        yield Event(time_s, "", words, f"#finding-{number}")
