"""One picture of a run: faults and violations above, a lane per node with its leadership and its answers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
from markupsafe import Markup

from splitbrain.results.calls import OPEN, ints
from splitbrain.results.faults import Window
from splitbrain.results.findings import Finding
from splitbrain.results.quantities import counted
from splitbrain.results.report.densities import Lanes, is_dense, op_marks
from splitbrain.results.report.lanes import Leadership, Stretch, leaderships, node_states
from splitbrain.results.report.letters import cut, width_of
from splitbrain.results.report.memberships import member_changes
from splitbrain.results.report.quorum import Figures, unserved
from splitbrain.results.report.run_view import RunView, rows_of
from splitbrain.results.report.svg import (
    FONT,
    LEFT,
    RIGHT,
    WIDTH,
    TimeAxis,
    fault_style,
    lane_name,
    number,
    picture,
    tag,
)
from splitbrain.results.text import clip

TERM_COLOURS: Final = 6
MARKED_MAX: Final = 24
"""The largest number of witness ops that are marked."""

FOUND_MAX: Final = 60
"""Findings that have a mark on the lane of violations."""

_TOP: Final = 16
_LANE: Final = 20
_NODE_LANE: Final = 48
_GAP: Final = 6
_BAND: Final = 10
_TICKS_MAX: Final = 1024 * 10
"""Places for ticks, of all nodes together: in each lane ops closer than a place share one."""

_SMALL_FONT: Final = 10.5
_TERM_FONT: Final = 9.5
_RULE_MAX: Final = 4


class Shown(NamedTuple):
    """What the picture shows beside the run itself.

    Attributes:
        witness: indexes of ops to mark, the first MARKED_MAX of which are.
        findings: numbered as in the page; each has a mark on the lane of violations.
        figures: of quorum progress, for the unserved spans; without them those follow from the cut links alone.
    """

    witness: Sequence[int] = ()
    findings: Sequence[Finding] = ()
    figures: Figures | None = None


def timeline(view: RunView, shown: Shown) -> Markup:
    """The picture."""
    axis = TimeAxis(view.events.end_ns / 1e9)
    kinds = list(dict.fromkeys(window.fault for window in view.events.windows))
    found = finding_times(view, shown.findings)
    tops = _tops(view.nodes, len(kinds) + bool(found))
    bottom = max(tops.values(), default=_TOP) + _NODE_LANE + 4
    leading = leaderships(view)
    label = (
        f"Timeline of {axis.end_s:.1f} seconds: {counted(len(view.events.windows), 'fault window')}, "
        f"{counted(len(view.nodes), 'node')}, "
        f"{counted(len({each.term for each in leading}), 'term')} with a leader, "
        f"{counted(len(view.calls.invoke), 'client op')}, "
        f"{counted(len(shown.findings), 'finding')}. The tables say the same in words."
    )
    parts = [
        *_shades(view.events.windows, axis, bottom),
        *_fault_lanes(view.events.windows, kinds, axis),
        *_violations(found, _TOP + len(kinds) * _LANE, axis),
        *_lane_names(view.nodes, tops),
        *_states(view, shown.figures, tops, axis),
        *op_marks(view, Lanes(tops, _places_of(view.nodes)), axis),
        *_leadership(leading, tops, axis),
        *_phases(view, axis, bottom),
        *_marks(view, tops, axis, shown.witness),
        *_moments(shown.findings, tops, axis),
        *_members(view, tops, axis),
        tag("g", *axis.draw(bottom), id="ruler"),
    ]
    return picture(bottom + 22, label, parts, id="timeline", role="group")


def tick_s(view: RunView) -> float:
    """Ops of one node that end within this number of seconds share a tick."""
    return max(view.events.end_ns / 1e9, 1e-3) / _places_of(view.nodes)


def bands(view: RunView) -> bool:
    """Whether there are so many ops that bands show their number."""
    return is_dense(view, _places_of(view.nodes))


def _places_of(nodes: Sequence[str]) -> int:
    return min(WIDTH - LEFT - RIGHT, _TICKS_MAX // max(len(nodes), 1))


def _tops(nodes: Sequence[str], lanes: int) -> dict[str, float]:
    start = _TOP + lanes * _LANE + _GAP
    return {node: start + i * (_NODE_LANE + _GAP) for i, node in enumerate(nodes)}


def _seconds(window: Window) -> tuple[float, float]:
    return window.begin_ns / 1e9, window.end_ns / 1e9


def _shades(windows: Sequence[Window], axis: TimeAxis, bottom: float) -> list[Markup]:
    return [
        tag(
            "rect", class_="shade", x=axis.x(begin), y=14, height=bottom - 14, width=max(axis.x(end) - axis.x(begin), 1)
        )
        for begin, end in map(_seconds, windows)
    ]


def _fault_lanes(windows: Sequence[Window], kinds: Sequence[str], axis: TimeAxis) -> list[Markup]:
    parts = [lane_name(kind, _TOP + i * _LANE + 13) for i, kind in enumerate(kinds)]
    for window in windows:
        begin, end = _seconds(window)
        x, width = axis.x(begin), max(axis.x(end) - axis.x(begin), 2)
        y = _TOP + kinds.index(window.fault) * _LANE
        words = f"{window.fault}: {window.target} ({begin:.3f} s to {end:.3f} s)"
        if not window.start.verified:
            words += f", not verified: {window.start.error}"
        style = fault_style(window.fault)
        parts.append(
            tag(
                "rect",
                tag("title", clip(words, 300)),
                x=x,
                y=y,
                width=width,
                height=_LANE - 4,
                rx=3,
                class_=style if window.start.verified else f"{style} unsure",
            )
        )
        text = cut(window.target, width - 8, FONT, least=3)
        if text:
            parts.append(tag("text", text, class_="on", x=x + 4, y=y + 12))
    return parts


def _lane_names(nodes: Sequence[str], tops: dict[str, float]) -> list[Markup]:
    parts: list[Markup] = []
    for node in nodes:
        y = tops[node]
        parts += [
            tag("rect", class_="ground", x=LEFT, y=y, width=WIDTH - LEFT - RIGHT, height=_NODE_LANE),
            lane_name(node, y + _NODE_LANE / 2 + 4),
        ]
    return parts


# --- violations -------------------------------------------------------------------------------------------------------


def finding_times(view: RunView, findings: Sequence[Finding]) -> list[tuple[int, float, Finding]]:
    """Findings with the times of the first thing that shows each, in seconds, by time; numbered as in the page."""
    found: list[tuple[int, float, Finding]] = []
    times, index = ints(view.history, "time"), ints(view.history, "index")
    for number_of, finding in enumerate(findings[:FOUND_MAX], 1):
        at = [moment.time_s for moment in finding.moments]
        rows = np.flatnonzero(np.isin(index, np.asarray(finding.ops, dtype=np.int64)))
        at += (times[rows] / 1e9).tolist()
        if at:
            found.append((number_of, min(at), finding))
    return sorted(found, key=lambda placed: placed[1])


def _violations(found: Sequence[tuple[int, float, Finding]], y: float, axis: TimeAxis) -> Iterator[Markup]:
    """A mark for each finding that leads to it. Where two would lie on each other the second is pushed aside, or left
    out if it is of the same rule."""
    if not found:
        return
    yield lane_name("violated", y + 13)
    free, before = 0.0, ""
    for number_of, time_s, finding in found:
        text = finding.rule if 0 < len(finding.rule) <= _RULE_MAX else f"#{number_of}"
        width = width_of(text, FONT) + 8
        if axis.x(time_s) < free and text == before:
            continue
        x = max(axis.x(time_s), free)
        if x + width > WIDTH and free:
            continue
        x = min(x, WIDTH - width)
        free, before = x + width + 2, text
        yield tag(
            "a",
            tag("title", clip(f"{finding.rule} at {time_s:.3f} s: {finding.sentence}", 400)),
            tag("rect", class_="violated", x=x, y=y, width=width, height=_LANE - 4, rx=3),
            tag("text", text, class_="on", x=x + width / 2, y=y + 12, text_anchor="middle"),
            href=f"#finding-{number_of}",
        )


def _moments(findings: Sequence[Finding], tops: dict[str, float], axis: TimeAxis) -> Iterator[Markup]:
    """A diamond in a node's lane for each of its reports that shows a finding."""
    for number_of, finding in enumerate(findings[:FOUND_MAX], 1):
        for moment in finding.moments[:4]:
            if moment.node in tops:
                x, y = axis.x(moment.time_s), tops[moment.node] + 6
                words = clip(f"{finding.rule}: {moment.node} reported at {moment.time_s:.3f} s: {moment.words}", 300)
                shape = tag("path", class_="mark", d=f"M{number(x)} {number(y - 6)}l6 6l-6 6l-6-6z")
                yield tag("a", tag("title", words), shape, href=f"#finding-{number_of}")


def _members(view: RunView, tops: dict[str, float], axis: TimeAxis) -> Iterator[Markup]:
    """A flag in a node's lane where it left or joined, a smaller one where it took on other voters."""
    for change in member_changes(view):
        if change.node in tops:
            x, y = number(axis.x(change.time_s)), number(tops[change.node] + _NODE_LANE)
            shape = f"M{x} {y}v-18l9 4.5l-9 4.5" if change.what != "voters" else f"M{x} {y}v-9l5 2.5l-5 2.5"
            words = f"{change.words} at {change.time_s:.3f} s"
            yield tag("path", tag("title", words), class_=f"member member-{change.what}", d=shape)


# --- states of nodes --------------------------------------------------------------------------------------------------


def _states(view: RunView, figures: Figures | None, tops: dict[str, float], axis: TimeAxis) -> Iterator[Markup]:
    for stretch in stretches(view, figures):
        if stretch.node in tops:
            words = STATES.get(stretch.what, stretch.what)
            yield tag(
                "rect",
                tag("title", f"{clip(stretch.node, 60)} {words} ({stretch.begin_s:.3f} s to {stretch.end_s:.3f} s)"),
                class_=f"state state-{stretch.what.replace(' ', '-')}",
                x=axis.x(stretch.begin_s),
                y=tops[stretch.node],
                width=max(axis.x(stretch.end_s) - axis.x(stretch.begin_s), 1),
                height=_NODE_LANE,
            )


STATES: Final = {
    "unserved": "could not reach a quorum: it must not answer",
    "halted": "had no quorum, like every node: no node may answer",
    "cut off": "could not reach a majority",
    "down": "was down",
    "paused": "was paused",
}
"""What is said of a node in each of the states that its lane shows."""


def stretches(view: RunView, figures: Figures | None) -> list[Stretch]:
    """Where the windows of quorum progress are known, these say who was unserved; else the cut links do."""
    states = node_states(view)
    if figures is None:
        return states
    return [*unserved(figures, view.nodes), *(state for state in states if state.what != "cut off")]


def _leadership(leading: Sequence[Leadership], tops: dict[str, float], axis: TimeAxis) -> list[Markup]:
    """Bands on top of the lanes; those of several groups one above the other, as a node may lead more than one."""
    parts: list[Markup] = []
    height = _BAND / (1 + max((each.row for each in leading), default=0))
    for each in leading:
        x, end = axis.x(each.begin_s), axis.x(each.end_s)
        which = "" if each.group is None else f"{clip(each.group, 60)} "
        span = f"({each.begin_s:.3f} s to {each.end_s:.3f} s)"
        words = f"{clip(each.node, 60)} leads {which}in term {each.term} {span}"
        y = tops[each.node]
        parts.append(
            tag(
                "rect",
                tag("title", words),
                class_=f"term term-{each.term % TERM_COLOURS}",
                x=x,
                y=y + 2 + each.row * height,
                width=max(end - x, 1.5),
                height=height,
                rx=2 if each.group is None else 0,
            )
        )
        # Where it begins, a mark of evidence may stand.
        if each.group is None and end - x > 14 + width_of(f"t{each.term}", _TERM_FONT, bold=True):
            parts.append(tag("text", f"t{each.term}", class_="on term-name", x=x + 10, y=y + 10.4))
    return parts


# --- ops --------------------------------------------------------------------------------------------------------------


def _marks(view: RunView, tops: dict[str, float], axis: TimeAxis, witness: Sequence[int]) -> list[Markup]:
    """Witness ops from invocation to completion, with their index where there is room for it."""
    rows = rows_of(view, witness)[:MARKED_MAX]
    times, nodes, index = ints(view.history, "time"), view.history["node"], ints(view.history, "index")
    parts: list[Markup] = []
    named: dict[float, float] = {}
    for position, call in enumerate(rows):
        invoke, complete = int(view.calls.invoke[call]), int(view.calls.complete[call])
        node = nodes[invoke].as_py()
        if node not in tops:
            continue
        x, end = axis.x(times[invoke] / 1e9), axis.x(times[complete] / 1e9 if complete != OPEN else axis.end_s)
        y = tops[node] + 21 + (position % 3) * 9
        shown = index[complete] if complete != OPEN else index[invoke]
        title = tag("title", f"op {index[invoke]}: what every node logged around it")
        bar = tag("rect", class_="mark", x=x - 2, y=y - 5, width=max(end - x, 0) + 4, height=7, rx=3)
        wide = width_of(str(shown), FONT, bold=True)
        label_x = min(end + 4, WIDTH - 2 - wide)
        drawn = [title, bar]
        if label_x >= named.get(tops[node], 0.0):
            drawn.append(tag("text", str(shown), class_="mark-label", x=label_x, y=y + 2))
            named[tops[node]] = label_x + wide + 8
        parts.append(tag("a", *drawn, href=f"#op-{index[invoke]}"))
    return parts


def _phases(view: RunView, axis: TimeAxis, bottom: float) -> list[Markup]:
    """Where phases begin; names that would run into each other share one label."""
    parts: list[Markup] = []
    labels: list[_Label] = []
    for phase in view.events.phases:
        x = axis.x(phase.begin_ns / 1e9)
        parts.append(tag("line", class_="phase", x1=x, x2=x, y1=2, y2=bottom))
        label = _Label(x, clip(phase.name, 40))
        while labels and label.left < labels[-1].left + labels[-1].width + 4:
            before = labels.pop()
            label = _Label(before.x, f"{before.text}, {label.text}")
        labels.append(label)
    return parts + [
        tag("text", cut(label.text, WIDTH - 4, _SMALL_FONT), class_="small", x=label.left, y=10) for label in labels
    ]


class _Label(NamedTuple):
    """A label right of a line, or left of it where the picture ends."""

    x: float
    text: str

    @property
    def width(self) -> float:
        return width_of(self.text, _SMALL_FONT)

    @property
    def left(self) -> float:
        """Where it begins."""
        return self.x + 3 if self.x + 3 + self.width < WIDTH - RIGHT else max(self.x - 3 - self.width, 2.0)
