"""Availability by node and window, and the time that each node needed to answer again after each fault and heal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from markupsafe import Markup

from splitbrain.results.quantities import counted
from splitbrain.results.report.letters import cut
from splitbrain.results.report.quorum import Figures, QuorumWindow, Recovery
from splitbrain.results.report.svg import (
    LANE_FONT,
    LEFT,
    RIGHT,
    WIDTH,
    TimeAxis,
    lane_name,
    nice_step,
    number,
    picture,
    tag,
)
from splitbrain.results.text import clip

RECOVERIES_MAX: Final = 60
"""Rows of the recovery plot; of more the slowest are drawn."""

_LANE: Final = 22
_SHARE: Final = 112
"""Room at the right for a node's share of the whole run."""

_NAMES: Final = 330
"""Room at the left of the recovery plot, for what was done to whom."""

_NONE: Final = 60


def availability_plot(figures: Figures, nodes: Sequence[str], end_s: float) -> Markup:
    """A lane per node, a cell per window: the darker, the more of the ops that the node was asked it answered."""
    axis = TimeAxis(end_s, right=_SHARE)
    parts: list[Markup] = []
    for lane, node in enumerate(nodes):
        y = 4 + lane * _LANE
        parts += [
            lane_name(node, y + 14),
            tag("rect", class_="ground", x=LEFT, y=y, width=WIDTH - LEFT - _SHARE, height=_LANE - 4),
        ]
        parts += [cell for window in figures.windows for cell in _cell(window, node, axis, y)]
        shares = figures.availability.nodes.get(node)
        words = "?" if shares is None else f"{_percent(shares.time)} / {_percent(shares.ops)}"
        parts.append(tag("text", words, class_="small", x=WIDTH - 4, y=y + 14, text_anchor="end"))
    bottom = 4 + len(nodes) * _LANE
    cluster = figures.availability.cluster
    label = (
        f"Availability of {counted(len(nodes), 'node')} in {counted(len(figures.windows), 'window')}; the cluster "
        f"answered in {_percent(cluster.time)} of the seconds and {_percent(cluster.ops)} of the ops"
    )
    return picture(bottom + 22, label, [*parts, *axis.draw(bottom)], id="availability")


def _cell(window: QuorumWindow, node: str, axis: TimeAxis, y: float) -> list[Markup]:
    asked = window.nodes.get(node)
    if asked is None or not asked.ops:
        return []
    share = asked.answered / asked.ops
    x, end = axis.x(window.start_s), axis.x(window.end_s)
    words = (
        f"of {counted(asked.ops, 'op')} that {clip(node, 60)} received from {window.start_s:.3f} s to "
        f"{window.end_s:.3f} s it answered {asked.answered}, in the window or later"
        f"{'' if node in window.possibly_served else '; it could not reach a quorum'}"
    )
    kind = "answered" if asked.answered else "silent"
    width = max(end - x, 1)
    box = tag(
        "rect",
        tag("title", words),
        class_=kind,
        x=x,
        y=y,
        width=width,
        height=_LANE - 4,
        fill_opacity=f"{0.2 + 0.8 * share:.2f}" if asked.answered else "1",
    )
    if width < 34:
        return [box]
    return [box, tag("text", f"{share:.0%}", class_="cell", x=x + width / 2, y=y + 13, text_anchor="middle")]


def _percent(share: float | None) -> str:
    return "?" if share is None else f"{share:.1%}"


def recovery_plot(figures: Figures) -> Markup:
    """A row per fault and heal, a dot per node at the seconds after which it first answered; "none" at the right."""
    rows = drawn_recoveries(figures)
    bound = figures.bounds.get("recovery_s")
    times = [time for row in rows for time in row.nodes.values() if time is not None]
    longest = max([*times, 0.1])
    shows_bound = bound is not None and bound <= 4 * longest
    top = max(longest, bound if shows_bound and bound is not None else 0.0) * 1.03
    step, right = nice_step(top / 8), WIDTH - RIGHT - _NONE

    def x(time_s: float) -> float:
        return _NAMES + time_s / top * (right - _NAMES)

    bottom = 8 + len(rows) * _LANE
    parts: list[Markup] = []
    for i in range(int(top / step + 1e-9) + 1):
        parts += [
            tag("line", class_="grid", x1=x(i * step), x2=x(i * step), y1=4, y2=bottom),
            tag("text", f"{i * step:g}" + (" s" if i == 0 else ""), x=x(i * step), y=bottom + 16, text_anchor="middle"),
        ]
    parts.append(tag("text", "none", x=right + _NONE / 2, y=bottom + 16, text_anchor="middle"))
    if shows_bound and bound is not None:
        parts.append(
            tag("line", tag("title", f"bound: {bound:g} s"), class_="bound", x1=x(bound), x2=x(bound), y1=4, y2=bottom)
        )
    for place, row in enumerate(rows):
        y = 8 + place * _LANE + 11
        words = f"{row.time_s:.1f} s  {row.fault} {row.action}  {row.target}"
        parts += [
            tag("text", cut(words, _NAMES - 16, LANE_FONT), class_="lane", x=6, y=y + 4),
            tag("line", class_="grid", x1=_NAMES, x2=WIDTH - RIGHT, y1=y + 11, y2=y + 11),
            *_dots(row, y, x, right),
        ]
    changes = counted(len(rows), "fault or heal", "faults and heals")
    label = f"Recovery: seconds until each node answered again after {changes}"
    return picture(bottom + 22, label, parts, id="recovery")


def _dots(row: Recovery, y: float, x: Callable[[float], float], right: float) -> list[Markup]:
    parts: list[Markup] = []
    silent = [node for node, time in row.nodes.items() if time is None]
    for node, time in row.nodes.items():
        if time is not None:
            title = tag("title", f"{clip(node, 60)}: {time:.3f} s after the invocation at {row.time_s:.3f} s")
            parts.append(tag("circle", title, class_="back", cx=number(x(time)), cy=number(y), r="4"))
    if silent:
        title = tag("title", clip(f"no answer before the next change: {', '.join(silent)}", 300))
        words = f"{len(silent)} of {len(row.nodes)}"
        parts.append(tag("text", title, words, class_="none", x=right + _NONE / 2, y=y + 4, text_anchor="middle"))
    return parts


def drawn_recoveries(figures: Figures) -> list[Recovery]:
    """The rows of the recovery plot, in the order of time."""
    if len(figures.recovery) <= RECOVERIES_MAX:
        return figures.recovery
    slowest = sorted(figures.recovery, key=_slowness, reverse=True)[:RECOVERIES_MAX]
    return sorted(slowest, key=lambda row: row.time_s)


def _slowness(row: Recovery) -> float:
    return max((time for time in row.nodes.values() if time is not None), default=0.0)
