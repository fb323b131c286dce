"""Drawing: SVG elements as escaped markup, and a time axis."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from markupsafe import Markup, escape

from splitbrain.results.report.letters import cut, width_of
from splitbrain.results.text import visible

PLOTS_STYLE: Final = Path(__file__).with_name("plots.css")
"""The style of all pictures; a page that has one needs it."""

WIDTH = 1100
"""Width of every picture, in its own units; pages scale it."""

FONT: Final = 11.5
"""Size of the font of a text without a class; `plots.css` has those of classes."""

LANE_FONT: Final = 12.5
"""Size of the font of the name of a lane."""

_STYLED: Final = ("partition", "packet", "kill", "bounce", "power", "pause")

LEFT = 88
RIGHT = 14


def tag(name: str, *children: str | Markup, **attributes: str | float) -> Markup:
    """An element. Text and attributes are escaped; `class_` and `text_anchor` become `class` and `text-anchor`."""
    words = [name]
    for key, value in attributes.items():
        text = number(value) if isinstance(value, (int, float)) else str(escape(visible(value)))
        words.append(f'{key.rstrip("_").replace("_", "-")}="{text}"')
    body = "".join(str(child if isinstance(child, Markup) else escape(visible(child))) for child in children)
    return Markup(f"<{' '.join(words)}>{body}</{name}>")


def number(value: float) -> str:
    """A coordinate with at most one decimal."""
    text = f"{value:.1f}"
    return text.removesuffix(".0")


def picture(height: float, label: str, children: Iterable[Markup], *, id: str, role: str = "img") -> Markup:
    """A whole picture with its description for those who cannot see it; one that holds links is a "group"."""
    return tag(
        "svg",
        tag("title", label, id=f"{id}-title"),
        *children,
        class_="plot",
        id=id,
        role=role,
        aria_labelledby=f"{id}-title",
        viewBox=f"0 0 {WIDTH} {number(height)}",
        xmlns="http://www.w3.org/2000/svg",
    )


def rectangles(boxes: Iterable[tuple[float, float, float, float]]) -> str:
    """Many boxes (x, y, width, height) as the data of one path."""
    return "".join(f"M{number(x)} {number(y)}h{number(w)}v{number(h)}h-{number(w)}z" for x, y, w, h in boxes)


def fault_style(kind: str) -> str:
    """The class of a kind of fault, which has its colour."""
    return f"fault-{kind}" if kind in _STYLED else "fault-other"


def lane_name(name: str, y: float) -> Markup:
    """As much of a name as fits left of its lane."""
    return tag("text", cut(name, LEFT - 8, LANE_FONT), class_="lane", x=LEFT - 6, y=y, text_anchor="end")


class TimeAxis:
    """Seconds of a run to the x of a picture."""

    def __init__(self, end_s: float, right: float = RIGHT) -> None:
        self.end_s = max(end_s, 1e-3)
        self.right = WIDTH - right

    def x(self, time_s: float) -> float:
        """Where a time is; clamped to the run."""
        inside = min(max(time_s, 0.0), self.end_s)
        return LEFT + inside / self.end_s * (self.right - LEFT)

    def draw(self, y: float) -> list[Markup]:
        """The axis at the bottom of a picture."""
        step = nice_step(self.end_s / 10)
        marks = [tag("line", class_="axis", x1=LEFT, x2=self.right, y1=y, y2=y)]
        for i in range(int(self.end_s / step + 1e-9) + 1):
            x = self.x(i * step)
            label = f"{i * step:.10g}" + (" s" if i == 0 else "")
            middle = min(x, WIDTH - 1 - width_of(label, FONT) / 2)
            marks += [
                tag("line", class_="axis", x1=x, x2=x, y1=y, y2=y + 4),
                tag("text", label, x=middle, y=y + 18, text_anchor="middle"),
            ]
        return marks


def nice_step(least: float) -> float:
    """The smallest of 1, 2, 5, 10, ... (times a power of ten) that is not less."""
    if least <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(least))
    return next(step * power for step in (1, 2, 5, 10) if step * power >= least * (1 - 1e-9))
