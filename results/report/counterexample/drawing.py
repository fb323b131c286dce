"""The first view of the picture, as SVG that needs no script: the ops about the one that cannot be placed.

`counterexample.js` draws every other view in the same measures and classes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from markupsafe import Markup

from splitbrain.results.calls import OPEN
from splitbrain.results.quantities import counted
from splitbrain.results.report.counterexample.ops import INFO, OK
from splitbrain.results.report.counterexample.scene import Fault, Path, Scene, op_words
from splitbrain.results.report.letters import cut, width_of
from splitbrain.results.report.svg import LANE_FONT, fault_style, number, tag
from splitbrain.results.text import clip

WIDTH: Final = 1180
LEFT: Final = 104
RIGHT: Final = 12
ROW: Final = 38
BAR: Final = 22
BAR_DOWN: Final = ROW - BAR - 6
"""Where in its row a bar is."""

FAULT: Final = 18
RIBBON: Final = 24
FLAG: Final = 18
"""Height of the row in which the op that cannot be placed is named."""

OVERVIEW: Final = 26
ROWS_MAX: Final = 40
FONTS: Final = {"on": (11.0, False), "label": (12.0, False), "state-name": (12.0, True), "failing": (12.5, True)}
"""Size and weight of texts, as `counterexample.css` has them."""

NAMED: Final = 24
"""The largest number of characters of the failing op's label in its row; the row above has all of it."""

LETTERS_MIN: Final = 5
"""A label of an op is cut to no fewer characters: one with room for fewer is left out; a hint has the words."""

PIN: Final = 7.5
"""Radius of the number of a step, which sits on the upper edge of its bar."""

PIN_LETTER: Final = 6.4
"""Room for a digit of it; where two are too close, the second pin has no number."""

VIEW: Final = 56
"""The least number of ranks in the first view."""

VIEW_MAX: Final = 84
BEHIND: Final = 7
"""Ranks that are shown after the op that cannot be placed."""

CRASHED_ROW: Final = -1
_KINDS: Final = ("ok", "fail", "info")


@dataclass(frozen=True)
class View:
    """A stretch of the axis of ranks, and the rows in it.

    Attributes:
        low, high: the ranks between which is drawn.
        rows: a process per row, CRASHED_ROW for ops that crashed before and are not marked.
        shown: ops with a bar, by row.
        crashed: ops behind the row of earlier crashes.
        rows_left_out: processes for which there is no room.
    """

    low: float
    high: float
    rows: list[int]
    shown: dict[int, list[int]]
    crashed: list[int]
    rows_left_out: int

    def x(self, rank: float) -> float:
        """Where a rank is; outside of the view at its edge."""
        inside = min(max(rank, self.low), self.high)
        return LEFT + (inside - self.low) / (self.high - self.low) * (WIDTH - LEFT - RIGHT)


def first_view(scene: Scene) -> View:
    """The view with which the picture opens: the failing op's end, what came before it, a little after it."""
    bars, end = scene.bars, _last_rank(scene)
    marked = [int(bars.begin[op]) for op in [*scene.witness, scene.failing]]
    wanted = min([end - VIEW, *(begin - 2 for begin in marked if begin >= end - VIEW_MAX)])
    return view(scene, max(wanted, -1.0), float(min(end + BEHIND, bars.ranks)))


def _last_rank(scene: Scene) -> int:
    end = int(scene.bars.end[scene.failing])
    return end if end != OPEN else scene.bars.ranks - 1


def view(scene: Scene, low: float, high: float) -> View:
    """The rows between two ranks: the failing op's process first, then by process."""
    bars = scene.bars
    closed = np.where((bars.end == OPEN) | (bars.kind == INFO), bars.ranks + 1, bars.end)
    inside = np.flatnonzero((bars.begin <= high) & (closed >= low))
    marked = {scene.failing, *scene.witness}
    if scene.paths:
        marked |= set(scene.paths[0].steps)
    shown: dict[int, list[int]] = {}
    crashed: list[int] = []
    for op in inside.tolist():
        gone = bars.kind[op] == INFO and max(int(bars.end[op]), int(bars.begin[op])) < low
        if gone and op not in marked:
            crashed.append(op)
        else:
            shown.setdefault(int(bars.process[op]), []).append(op)
    first = int(bars.process[scene.failing])
    ahead = {int(bars.process[op]) for op in marked}
    by_need = sorted(shown, key=lambda process: (process != first, process not in ahead, process))[:ROWS_MAX]
    rows = sorted(by_need, key=lambda process: (process != first, process))
    return View(low, high, [CRASHED_ROW, *rows] if crashed else rows, shown, crashed, len(shown) - len(rows))


def draw(scene: Scene, view: View) -> Markup:
    """The picture of a view."""
    top = 6.0
    faults_top = top
    lanes = [kind for kind in scene.kinds if any(fault.kind == kind for fault in _faults(scene, view))]
    top += FAULT * len(lanes) + (6 if lanes else 0)
    flag_top = top
    top += FLAG
    ribbon_top = top
    top += RIBBON + 8
    rows_top = top
    bottom = rows_top + ROW * len(view.rows) + 2
    parts = [
        *_shades(scene, view, faults_top, bottom),
        *_fault_lanes(scene, view, lanes, faults_top),
        *_ribbon(scene, view, ribbon_top),
        *_rows(scene, view, rows_top),
        *_failing_line(scene, view, flag_top, bottom),
        *_order(scene, view, rows_top),
        *_axis(scene, view, bottom),
        *_overview(scene, view, bottom + 30),
    ]
    bars = scene.bars
    label = (
        f"{counted(len(view.rows), 'process', 'processes')}, ops {bars.index[max(round(view.low), 0)]} to "
        f"{bars.index[min(round(view.high), bars.ranks - 1)]} of the history; the op that cannot be placed is "
        f"{op_words(scene, scene.failing)}"
    )
    return tag(
        "svg",
        tag("title", label, id="picture-title"),
        *parts,
        class_="plot",
        id="picture",
        role="group",
        aria_labelledby="picture-title",
        viewBox=f"0 0 {WIDTH} {number(bottom + 30 + OVERVIEW + 4)}",
        xmlns="http://www.w3.org/2000/svg",
    )


# --- faults and states ------------------------------------------------------------------------------------------------


def _shades(scene: Scene, view: View, top: float, bottom: float) -> list[Markup]:
    return [
        tag(
            "rect", class_="shade", x=view.x(f.begin), y=top, width=view.x(f.end) - view.x(f.begin), height=bottom - top
        )
        for f in _faults(scene, view)
    ]


def _faults(scene: Scene, view: View) -> list[Fault]:
    return [fault for fault in scene.faults if fault.begin < view.high and fault.end > view.low]


def _fault_lanes(scene: Scene, view: View, lanes: list[str], top: float) -> list[Markup]:
    parts = [_gutter(kind, top + lane * FAULT + 12) for lane, kind in enumerate(lanes)]
    for fault in _faults(scene, view):
        x, y = view.x(fault.begin), top + lanes.index(fault.kind) * FAULT
        width = max(view.x(fault.end) - x, 2)
        style = fault_style(fault.kind)
        parts.append(
            tag(
                "rect",
                tag("title", fault.words),
                class_=style if fault.verified else f"{style} unsure",
                x=x,
                y=y,
                width=width,
                height=FAULT - 3,
                rx=3,
            )
        )
        parts += _fitted(fault.target, x + 5, y + 11.5, width - 8, "on")
    return parts


def _ribbon(scene: Scene, view: View, top: float) -> list[Markup]:
    """The states of the order that is drawn, one after the other."""
    if not scene.paths:
        return []
    parts = [_gutter("state", top + 16)]
    for begin, end, state, step in stretches(scene, scene.paths[0]):
        if end <= view.low or begin >= view.high:
            continue
        x, width = view.x(begin), view.x(end) - view.x(begin)
        words = f"the state is {state}" + (f" after step {step}" if step else " when this order begins")
        title = tag("title", words)
        box = tag("rect", title, class_="state", x=x, y=top, width=max(width, 1), height=RIBBON - 2, rx=3)
        parts += [box, *_fitted(state, x + 5, top + 15, width - 8, "state-name")]
    return parts


def stretches(scene: Scene, path: Path) -> list[tuple[float, float, str, int]]:
    """From where to where a path is in which state, and after which step (0: from its beginning)."""
    found: list[tuple[float, float, str, int]] = []
    begin, state, step = float(scene.since), path.begins, 0
    for place, (point, following) in enumerate(zip(path.points, path.states, strict=True), 1):
        if following != state:
            found.append((begin, point, state, step))
            begin, state, step = point, following, place
    return [*found, (begin, float(_last_rank(scene)), state, step)]


# --- ops --------------------------------------------------------------------------------------------------------------


def _rows(scene: Scene, view: View, top: float) -> list[Markup]:
    parts: list[Markup] = []
    for row, process in enumerate(view.rows):
        y = top + row * ROW
        parts.append(tag("rect", class_="ground", x=LEFT, y=y, width=WIDTH - LEFT - RIGHT, height=ROW - 3))
        if process == CRASHED_ROW:
            parts += _crashed(scene, view, y)
            continue
        ops = view.shown[process]
        node = scene.bars.node[ops[0]]
        parts.append(_gutter(f"{process} · {node}" if node else f"process {process}", y + ROW - 14))
        taken = _failing_label(scene, view) if scene.failing in ops else None
        for position, op in enumerate(ops):
            after = view.x(float(scene.bars.begin[ops[position + 1]]) if position + 1 < len(ops) else view.high)
            if taken is not None and op != scene.failing and view.x(int(scene.bars.begin[op])) < taken.end:
                after = min(after, taken.begin)
            parts.append(_bar(scene, view, op, y + BAR_DOWN, after))
        if taken is not None:
            parts.append(tag("text", taken.text, class_=taken.style, x=taken.begin, y=y + BAR_DOWN + 17))
    return parts


class Label(NamedTuple):
    """A text, and from where to where it reaches."""

    text: str
    begin: float
    end: float
    style: str = "failing-label"


def _failing_label(scene: Scene, view: View) -> Label:
    """Where the failing op's own label stands: in its bar, else left of it, else right of it. Labels of other ops make
    room for it."""
    x, stop = view.x(int(scene.bars.begin[scene.failing])), view.x(_last_rank(scene))
    text, width = _named(scene.bars.text(scene.failing)), max(stop - x, 3.0)
    needed = _wide(text)
    if needed <= width - 8:
        return Label(text, x + 5, x + 5 + needed, "failing-label inside")
    left, right = x - 5 - LEFT, WIDTH - RIGHT - (x + width + 5)
    if needed > max(left, right):
        text = _cut(text, max(left, right), "failing")
        needed = _wide(text)
    sides = [side for side, room in ((x - 5 - needed, left), (x + width + 5, right)) if needed <= room]
    others = [op for op in view.shown[int(scene.bars.process[scene.failing])] if op != scene.failing]
    free = [side for side in sides if not any(_touches(scene, view, op, side, side + needed) for op in others)]
    begin = [*free, *sides][0]
    return Label(text, begin, begin + needed)


def _touches(scene: Scene, view: View, op: int, begin: float, end: float) -> bool:
    """Whether an op's bar reaches into a stretch of its row."""
    bars = scene.bars
    closes = bars.ranks if bars.kind[op] == INFO or bars.end[op] == OPEN else int(bars.end[op])
    return view.x(int(bars.begin[op])) < end and view.x(closes) > begin


def _crashed(scene: Scene, view: View, y: float) -> list[Markup]:
    """One row for all ops that crashed before the view: they may still take effect."""
    listed = "\n".join(op_words(scene, op) for op in view.crashed[-30:])
    more = f"\nand {len(view.crashed) - 30} before them" if len(view.crashed) > 30 else ""
    last = ", ".join(scene.bars.text(op) for op in view.crashed[-12:])
    words = f"{counted(len(view.crashed), 'op')} crashed before, and may take effect at any time: {last}"
    box = tag(
        "rect",
        tag("title", listed + more),
        class_="op info",
        x=LEFT,
        y=y + BAR_DOWN,
        width=WIDTH - LEFT - RIGHT,
        height=BAR,
    )
    return [
        _gutter("crashed", y + ROW - 14),
        box,
        *_fitted(words, LEFT + 6, y + ROW - 13, WIDTH - LEFT - RIGHT - 12, "label"),
    ]


def _bar(scene: Scene, view: View, op: int, y: float, after: float) -> Markup:
    """An op from invocation to completion; one with unknown outcome has no end."""
    bars = scene.bars
    kind, end = int(bars.kind[op]), int(bars.end[op])
    open_ended = kind == INFO
    x, stop = view.x(int(bars.begin[op])), view.x(bars.ranks if open_ended or end == OPEN else end)
    width = max(stop - x, 3)
    classes = ["op", _KINDS[kind]]
    if op in scene.witness:
        classes.append("witness")
    if op == scene.failing:
        classes.append("failing")
    if int(bars.begin[op]) > _last_rank(scene):
        classes.append("later")
    words = clip(_hover(scene, op), 1000)
    overflows = kind == OK and bars.begin[op] >= view.low and op != scene.failing
    room = (after - x if overflows else min(width, after - x)) - 8
    return tag(
        "g",
        tag("title", words),
        tag("rect", x=x, y=y, width=width, height=BAR, rx=4),
        *([] if op == scene.failing else _fitted(bars.text(op), x + 5, y + 17, room, "label", LETTERS_MIN)),
        class_=" ".join(classes),
        tabindex="0",
        data_op=str(op),
        aria_label=words,
        **({"id": "failing"} if op == scene.failing else {}),
    )


def _hover(scene: Scene, op: int) -> str:
    words = op_words(scene, op)
    if op == scene.failing:
        return f"{words}\nNo order lets it take effect."
    if not scene.paths:
        return words
    path = scene.paths[0]
    if op in path.steps:
        step = path.steps.index(op)
        return f"{words}\nStep {step + 1} of the order that is drawn; the state after it is {path.states[step]}"
    return f"{words}\nHad taken effect before the order that is drawn begins" if op in path.already else words


def _order(scene: Scene, view: View, top: float) -> list[Markup]:
    """A line through the moments at which the ops of the first path take effect, numbered."""
    if not scene.paths:
        return []
    path = scene.paths[0]
    row = {process: number for number, process in enumerate(view.rows)}
    stops: list[tuple[float, float, int]] = []
    for step, (op, point) in enumerate(zip(path.steps, path.points, strict=True), 1):
        process = int(scene.bars.process[op])
        if view.low <= point <= view.high and process in row:
            stops.append((view.x(point), top + row[process] * ROW + BAR_DOWN, step))
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y, _ in stops)
    parts = [tag("polyline", class_="order", points=line)]
    free: dict[float, float] = {}
    for x, y, step in stops:
        pin, half = [tag("circle", cx=x, cy=y, r=PIN)], len(str(step)) * PIN_LETTER / 2
        if x - half >= free.get(y, 0.0):
            pin.append(tag("text", str(step), x=x, y=y + 3.3, text_anchor="middle"))
            free[y] = x + half
        parts.append(tag("g", *pin, class_="step"))
    return parts


def _failing_line(scene: Scene, view: View, top: float, bottom: float) -> list[Markup]:
    """Where everything ends: a line, and above it, in a row of its own, the op that fits into no order."""
    x = view.x(_last_rank(scene))
    line = tag("line", class_="wall", x1=x, x2=x, y1=top + FLAG - 3, y2=bottom)
    flag = _cut(f"✗ {scene.bars.text(scene.failing)}", WIDTH - LEFT - RIGHT, "failing")
    begin = max(min(x - 4, WIDTH - RIGHT - _wide(flag)), LEFT)
    return [line, tag("text", flag, class_="flag", x=begin, y=top + 11)]


# --- axis and overview ------------------------------------------------------------------------------------------------


def _axis(scene: Scene, view: View, y: float) -> list[Markup]:
    """Times, or indexes where there are none, at evenly spaced ranks."""
    parts = [tag("line", class_="axis", x1=LEFT, x2=WIDTH - RIGHT, y1=y, y2=y)]
    bars = scene.bars
    for part in range(8):
        rank = round(view.low + (part + 0.5) / 8 * (view.high - view.low))
        if not 0 <= rank < bars.ranks:
            continue
        x, time_ns = view.x(rank), int(bars.time_ns[rank])
        words = f"op {bars.index[rank]}" if time_ns < 0 else f"{time_ns // 1000 / 1e6:.4f} s"
        parts += [
            tag("line", class_="axis", x1=x, x2=x, y1=y, y2=y + 4),
            tag("text", words, x=x, y=y + 16, text_anchor="middle"),
        ]
    return parts


def _overview(scene: Scene, view: View, y: float) -> list[Markup]:
    """The whole history as a strip: faults, the view, the failing op."""
    whole = View(-1, max(scene.bars.ranks, 1), [], {}, [], 0)
    parts = [
        _gutter(f"{len(scene.bars.begin):,} ops", y + 16),
        tag("rect", class_="ground", x=LEFT, y=y, width=WIDTH - LEFT - RIGHT, height=OVERVIEW - 2, id="overview"),
    ]
    for fault in scene.faults:
        style = fault_style(fault.kind)
        x = whole.x(fault.begin)
        width = max(whole.x(fault.end) - x, 1)
        parts.append(tag("rect", class_=f"{style} faint", x=x, y=y + 3, width=width, height=OVERVIEW - 8))
    x = whole.x(_last_rank(scene))
    parts.append(tag("line", class_="wall", x1=x, x2=x, y1=y, y2=y + OVERVIEW - 2))
    x, width = whole.x(view.low), max(whole.x(view.high) - whole.x(view.low), 3)
    parts.append(tag("rect", class_="lens", id="lens", x=x, y=y, width=width, height=OVERVIEW - 2, rx=2))
    return parts


def _named(text: str) -> str:
    """The beginning of the failing op's label."""
    return text if len(text) <= NAMED else text[: NAMED - 1] + "…"


def _cut(text: str, room: float, style: str, least: int = 2) -> str:
    size, bold = FONTS[style]
    return cut(text, room, size, bold=bold, least=least)


def _wide(text: str) -> float:
    """How wide a text about the failing op is."""
    size, bold = FONTS["failing"]
    return width_of(text, size, bold=bold)


def _gutter(text: str, y: float) -> Markup:
    return tag("text", cut(text, LEFT - 10, LANE_FONT), class_="lane", x=LEFT - 8, y=y, text_anchor="end")


def _fitted(text: str, x: float, y: float, room: float, style: str, least: int = 2) -> list[Markup]:
    """A text where it fits, cut where it does not, none where there is no room for `least` characters of it."""
    shown = _cut(text, room, style, least)
    return [tag("text", shown, class_=style, x=x, y=y)] if shown else []
