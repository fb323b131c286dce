"""One picture of a run: faults above, a lane per node with its leadership and its clients' ops, witness ops marked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple, cast

import numpy as np
from markupsafe import Markup

from results.calls import OPEN, Ints, ints, is_equal
from results.counts import ENDS
from results.faults import Window
from results.report.run_view import RunView
from results.report.svg import LEFT, RIGHT, WIDTH, TimeAxis, picture, rectangles, tag
from results.report.text import clip

BINS: Final = 360
"""Ops are drawn as counts in this many equal stretches of the run."""

TERM_COLOURS: Final = 6
MARKED_MAX: Final = 24

_STYLED: Final = ("partition", "packet", "kill", "bounce", "power", "pause")
_FAULT_LANE: Final = 20
_NODE_LANE: Final = 46
_GAP: Final = 6
_BAND: Final = 7
_LETTER: Final = 6.2


class Stretch(NamedTuple):
    """A stretch of time of one node, in seconds, and what it was: a term, or a state."""

    node: str
    begin_s: float
    end_s: float
    what: Any


def timeline(view: RunView, witness: Sequence[int]) -> Markup:
    """The picture. `witness` holds indexes of ops to mark, the first MARKED_MAX of which are."""
    axis = TimeAxis(view.around.end_ns / 1e9)
    kinds = list(dict.fromkeys(window.fault for window in view.around.windows))
    tops = _tops(view.nodes, kinds)
    bottom = max(tops.values(), default=0) + _NODE_LANE + 4
    label = (
        f"Timeline of {axis.end_s:.1f} seconds: {len(view.around.windows)} fault windows, "
        f"{len(view.nodes)} nodes, {len(view.calls.invoke)} client ops"
    )
    parts = [
        *_shades(view.around.windows, axis, bottom),
        *_fault_lanes(view.around.windows, kinds, axis),
        *_lane_names(view.nodes, tops),
        *_states(view, tops, axis),
        *_ops(view, tops, axis),
        *_leadership(view, tops, axis),
        *_phases(view, axis, bottom),
        *_marks(view, tops, axis, witness),
        *axis.draw(bottom),
    ]
    return picture(bottom + 22, label, parts, id="timeline")


def _tops(nodes: Sequence[str], kinds: Sequence[str]) -> dict[str, float]:
    start = 16 + len(kinds) * _FAULT_LANE + _GAP
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
    parts = [
        tag("text", kind[:9], class_="lane", x=LEFT - 6, y=16 + i * _FAULT_LANE + 13, text_anchor="end")
        for i, kind in enumerate(kinds)
    ]
    for window in windows:
        begin, end = _seconds(window)
        x, width = axis.x(begin), max(axis.x(end) - axis.x(begin), 2)
        y = 16 + kinds.index(window.fault) * _FAULT_LANE
        words = f"{window.fault}: {window.target} ({begin:.3f} s to {end:.3f} s)"
        if not window.start.verified:
            words += f", not verified: {window.start.error}"
        style = f"fault-{window.fault}" if window.fault in _STYLED else "fault-other"
        parts.append(
            tag(
                "rect",
                tag("title", clip(words, 300)),
                x=x,
                y=y,
                width=width,
                height=_FAULT_LANE - 4,
                rx=3,
                class_=style if window.start.verified else f"{style} unsure",
            )
        )
        room = int(width / _LETTER) - 1
        if room >= 3:
            text = window.target if len(window.target) <= room else window.target[: room - 1] + "…"
            parts.append(tag("text", text, class_="on", x=x + 4, y=y + 12))
    return parts


def _lane_names(nodes: Sequence[str], tops: dict[str, float]) -> list[Markup]:
    parts: list[Markup] = []
    for node in nodes:
        y = tops[node]
        name = node if len(node) <= 8 else node[:7] + "…"
        parts += [
            tag("rect", class_="ground", x=LEFT, y=y, width=WIDTH - LEFT - RIGHT, height=_NODE_LANE),
            tag("text", name, class_="lane", x=LEFT - 6, y=y + _NODE_LANE / 2 + 4, text_anchor="end"),
        ]
    return parts


# --- states of nodes ----------------------------------------------------------------------------------------------


def node_states(view: RunView) -> list[Stretch]:
    """When each node was down, paused, or without two-way links to a majority, as the nemesis ops tell."""
    nodes = view.nodes
    since: dict[tuple[str, str], float] = {}
    found: list[Stretch] = []
    for op in view.around.fault_ops:
        if op.completion is None:
            continue
        time_s = op.completion.time / 1e9
        now = {("down", str(node)) for node in op.listed("down")}
        now |= {("paused", str(node)) for node in op.listed("paused")}
        now |= {("cut off", node) for node in _cut_off(nodes, op.listed("cut"))}
        over = [state for state in since if state not in now]
        found += [Stretch(node, since.pop((what, node)), time_s, what) for what, node in over]
        for state in sorted(now):
            since.setdefault(state, time_s)
    end_s = view.around.end_ns / 1e9
    return found + [Stretch(node, begin, end_s, what) for (what, node), begin in since.items()]


def _cut_off(nodes: Sequence[str], cut: Sequence[Any]) -> list[str]:
    """Nodes that reach no majority over links that are open both ways."""
    closed = {frozenset(map(str, cast("list[Any]", link))) for link in cut if isinstance(link, list)}
    return [node for node in nodes if 2 * sum(frozenset((node, peer)) not in closed for peer in nodes) <= len(nodes)]


def _states(view: RunView, tops: dict[str, float], axis: TimeAxis) -> list[Markup]:
    return [
        tag(
            "rect",
            tag("title", f"{stretch.node} {stretch.what} ({stretch.begin_s:.3f} s to {stretch.end_s:.3f} s)"),
            class_=f"state state-{stretch.what.replace(' ', '-')}",
            x=axis.x(stretch.begin_s),
            y=tops[stretch.node],
            width=max(axis.x(stretch.end_s) - axis.x(stretch.begin_s), 1),
            height=_NODE_LANE,
        )
        for stretch in node_states(view)
        if stretch.node in tops
    ]


def leaderships(view: RunView) -> list[Stretch]:
    """When each node held itself to be the leader, and of which term, as its telemetry tells.

    A node that is killed tells nothing more: its leadership ends where it went down.
    """
    rows = view.telemetry.select(["time", "node", "life", "term", "role"]).to_pylist()
    downs = [stretch for stretch in node_states(view) if stretch.what == "down"]
    found: list[Stretch] = []
    for node in view.nodes:
        begun: dict[str, Any] | None = None
        for row in (row for row in rows if row["node"] == node and (row["role"] is not None)):
            same = begun is not None and (row["role"], row["term"], row["life"]) == (
                "leader",
                begun["term"],
                begun["life"],
            )
            if begun is not None and not same:
                found.append(_leadership_of(node, begun, row["time"] / 1e9, downs))
                begun = None
            if row["role"] == "leader" and begun is None:
                begun = row
        if begun is not None:
            found.append(_leadership_of(node, begun, view.around.end_ns / 1e9, downs))
    return found


def _leadership_of(node: str, row: dict[str, Any], end_s: float, downs: Sequence[Stretch]) -> Stretch:
    begin_s = row["time"] / 1e9
    died = min((down.begin_s for down in downs if down.node == node and begin_s <= down.begin_s), default=end_s)
    return Stretch(node, begin_s, min(end_s, died), row["term"])


def _leadership(view: RunView, tops: dict[str, float], axis: TimeAxis) -> list[Markup]:
    parts: list[Markup] = []
    for stretch in leaderships(view):
        term = stretch.what if stretch.what is not None else 0
        x, end = axis.x(stretch.begin_s), axis.x(stretch.end_s)
        words = f"{stretch.node} leads in term {term} ({stretch.begin_s:.3f} s to {stretch.end_s:.3f} s)"
        y = tops[stretch.node]
        parts.append(
            tag(
                "rect",
                tag("title", words),
                class_=f"term term-{term % TERM_COLOURS}",
                x=x,
                y=y + 1,
                width=max(end - x, 1.5),
                height=_BAND,
                rx=2,
            )
        )
        if end - x > 14 + 6 * len(str(term)):
            parts.append(tag("text", f"t{term}", class_="small", x=x + 3, y=y + _BAND + 11))
    return parts


# --- ops ----------------------------------------------------------------------------------------------------------


def _ops(view: RunView, tops: dict[str, float], axis: TimeAxis) -> list[Markup]:
    """For each node a bar per stretch of time, its height by the number of ops that ended in it."""
    calls = view.calls
    if not len(calls.invoke):
        return []
    times = ints(calls.table, "time")
    ended = times[np.where(calls.complete == OPEN, calls.invoke, calls.complete)] / 1e9
    slot = np.minimum((ended / axis.end_s * BINS).astype(np.int64), BINS - 1)
    counts = {
        (node, how): np.bincount(slot[on & calls.ended(how)], minlength=BINS)
        for node in tops
        for on in [is_equal(calls.table, "node", node)[calls.invoke]]
        for how in ENDS
    }
    tallest = max(int(sum(counts[node, how] for how in ENDS).max()) for node in tops) if tops else 0  # type: ignore[union-attr]
    scale = (_NODE_LANE - _BAND - 8) / max(tallest, 1)
    width = (WIDTH - LEFT - RIGHT) / BINS
    parts: list[Markup] = []
    for node, top in tops.items():
        floor = np.full(BINS, top + _NODE_LANE - 1.0)
        for how in ENDS:
            drawn = counts[node, how]
            heights = np.where(drawn > 0, np.maximum(drawn * scale, 1.5), 0.0)
            boxes = [
                (LEFT + i * width, float(floor[i] - heights[i]), width, float(heights[i]))
                for i in np.flatnonzero(drawn).tolist()
            ]
            floor -= heights
            if boxes:
                parts.append(tag("path", class_=how, d=rectangles(boxes)))
    return parts


def _marks(view: RunView, tops: dict[str, float], axis: TimeAxis, witness: Sequence[int]) -> list[Markup]:
    """Witness ops from invocation to completion, numbered by their index."""
    rows = rows_of(view, witness)[:MARKED_MAX]
    times, nodes, index = ints(view.history, "time"), view.history["node"], ints(view.history, "index")
    parts: list[Markup] = []
    for position, call in enumerate(rows):
        invoke, complete = int(view.calls.invoke[call]), int(view.calls.complete[call])
        node = nodes[invoke].as_py()
        if node not in tops:
            continue
        x, end = axis.x(times[invoke] / 1e9), axis.x(times[complete] / 1e9 if complete != OPEN else axis.end_s)
        y = tops[node] + 16 + (position % 3) * 9
        shown = index[complete] if complete != OPEN else index[invoke]
        title = tag("title", f"op {index[invoke]}: see the witness table")
        bar = tag("rect", class_="mark", x=x - 2, y=y - 5, width=max(end - x, 0) + 4, height=7, rx=3)
        name = tag("text", str(shown), class_="mark-label", x=min(end + 4, WIDTH - 40), y=y + 2)
        parts.append(tag("a", title, bar, name, href=f"#op-{index[invoke]}"))
    return parts


def rows_of(view: RunView, witness: Sequence[int]) -> list[int]:
    """Positions in `calls` of the client ops whose invocation or completion has one of these indexes, in order."""
    wanted = np.asarray(witness, dtype=np.int64)
    index = ints(view.history, "index")
    chosen: Ints = np.flatnonzero(np.isin(index, wanted))
    hit = np.isin(view.calls.invoke, chosen) | np.isin(view.calls.complete, chosen)
    return np.flatnonzero(hit).tolist()


def _phases(view: RunView, axis: TimeAxis, bottom: float) -> list[Markup]:
    """Where phases begin; names that would run into each other share one label."""
    parts: list[Markup] = []
    labels: list[_Label] = []
    for phase in view.around.phases:
        x = axis.x(phase.begin_ns / 1e9)
        parts.append(tag("line", class_="phase", x1=x, x2=x, y1=2, y2=bottom))
        label = _Label(x, phase.name[:12])
        if labels and label.left < labels[-1].left + labels[-1].width + 4:
            labels[-1] = _Label(labels[-1].x, f"{labels[-1].text}, {label.text}")
        else:
            labels.append(label)
    return parts + [tag("text", label.text, class_="small", x=label.left, y=10) for label in labels]


class _Label(NamedTuple):
    """A label right of a line, or left of it where the picture ends."""

    x: float
    text: str

    @property
    def width(self) -> float:
        return _LETTER * len(self.text)

    @property
    def left(self) -> float:
        return self.x + 3 if self.x + 3 + self.width < WIDTH - RIGHT else self.x - 3 - self.width
