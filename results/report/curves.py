"""A picture of lines over time: values against a scale, stretches of time shaded, names of the lines above it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from markupsafe import Markup

from results.report.stretches import Line
from results.report.svg import LEFT, RIGHT, WIDTH, TimeAxis, nice_step, number, picture, tag
from results.report.text import clip

SERIES_MAX: Final = 12
"""Lines of one picture; each has a colour or a stroke of its own."""

NAME_MAX: Final = 24
_COLOURS: Final = 6
_LETTER: Final = 7.4
_STROKE: Final = 22
_ROW: Final = 17
_HEIGHT: Final = 140


class Band(NamedTuple):
    """A stretch of time that is shaded, in seconds, and what it was, in words."""

    begin_s: float
    end_s: float
    words: str
    style: str = "shade"


class Frame(NamedTuple):
    """What is drawn behind the lines.

    Attributes:
        end_s: the last moment of the axis of time, which begins at 0.
        bands: stretches that are shaded.
        marks_s: moments with a line across the picture.
    """

    end_s: float
    bands: Sequence[Band] = ()
    marks_s: Sequence[float] = ()


class Series(NamedTuple):
    """A line.

    Attributes:
        name: what it is.
        lines: its pieces, as times in seconds with values; it breaks where nothing is known.
        dashed: whether it is drawn so.
        colour: its number; None for its place among the series.
    """

    name: str
    lines: list[Line]
    dashed: bool = False
    colour: int | None = None


def chart(
    frame: Frame, series: Sequence[Series], label: str, *, id: str, unit: str = "", logarithmic: bool = False
) -> Markup:
    """The picture; of more than SERIES_MAX series the first are drawn."""
    drawn = list(series[:SERIES_MAX])
    axis = TimeAxis(frame.end_s)
    names, top = _legend(drawn)
    bottom = top + _HEIGHT
    values = [value for each in drawn for line in each.lines for _, value in line]
    y, rungs = _scale(values, top, bottom, unit, logarithmic)
    parts = [*shades(frame, axis, top, bottom), *names, *rungs]
    for place, each in enumerate(drawn):
        for line in each.lines:
            points = " ".join(f"{axis.x(time_s):.1f},{y(value):.1f}" for time_s, value in _thinned(line))
            parts.append(tag("polyline", class_=_style(place, each), points=points))
    return picture(bottom + 22, label, [*parts, *axis.draw(bottom)], id=id)


def _style(place: int, series: Series) -> str:
    colour = place if series.colour is None else series.colour
    dashed = " dashed" if series.dashed or colour >= _COLOURS else ""
    return f"line series-{colour % _COLOURS}{dashed}"


def _legend(series: Sequence[Series]) -> tuple[list[Markup], float]:
    """Names in rows, each behind a stroke of its line; where the rows end."""
    parts: list[Markup] = []
    x, y = float(LEFT), 12.0
    for place, each in enumerate(series):
        name = clip(each.name, NAME_MAX)
        width = _STROKE + len(name) * _LETTER + 14
        if x + width > WIDTH - RIGHT and x > LEFT:
            x, y = float(LEFT), y + _ROW
        parts += [
            tag("path", class_=_style(place, each), d=f"M{number(x)} {number(y - 4)}h16"),
            tag("text", name, x=x + _STROKE, y=y),
        ]
        x += width
    return parts, y + 8


def _scale(
    values: Sequence[float], top: float, bottom: float, unit: str, logarithmic: bool
) -> tuple[Callable[[float], float], list[Markup]]:
    """Where a value is, and the rungs of the scale with their labels."""
    if logarithmic:
        low = math.floor(math.log10(max(min(values, default=1.0), 1e-3)))
        high = max(math.ceil(math.log10(max(max(values, default=1.0), 1e-3))), low + 1)
        marks = [(float(power), f"{10.0**power:g}") for power in range(low, high + 1)]
        first, last = float(low), float(high)
    else:
        least, most = min([0.0, *values]), max([0.0, *values])
        step = nice_step(max(most - least, 1e-3) / 4)
        first, last = math.floor(least / step) * step, max(math.ceil(most / step) * step, step)
        marks = [(first + i * step, f"{first + i * step:g}") for i in range(round((last - first) / step) + 1)]

    def place(value: float) -> float:
        at = math.log10(max(value, 1e-3)) if logarithmic else value
        return bottom - (at - first) / (last - first) * (bottom - top)

    parts: list[Markup] = []
    for at, words in marks:
        y = bottom - (at - first) / (last - first) * (bottom - top)
        parts += rung(y, f"{words} {unit}".rstrip() if at == marks[-1][0] else words)
    return place, parts


def rung(y: float, label: str) -> list[Markup]:
    """A line across a picture with its label at the left."""
    return [
        tag("line", class_="grid", x1=LEFT, x2=WIDTH - RIGHT, y1=y, y2=y),
        tag("text", label, x=LEFT - 6, y=y + 4, text_anchor="end"),
    ]


def shades(frame: Frame, axis: TimeAxis, top: float, bottom: float) -> list[Markup]:
    """The bands and marks of a frame."""
    parts: list[Markup] = []
    for band in frame.bands:
        x, end = axis.x(band.begin_s), axis.x(band.end_s)
        title, width = tag("title", band.words), max(end - x, 1)
        parts.append(tag("rect", title, class_=band.style, x=x, y=top, width=width, height=bottom - top))
    for mark_s in frame.marks_s:
        x = axis.x(mark_s)
        parts.append(tag("line", class_="phase", x1=x, x2=x, y1=top, y2=bottom))
    return parts


def _thinned(line: Line) -> Line:
    """A line without the points between two of the same value."""
    return [
        point
        for i, point in enumerate(line)
        if i in (0, len(line) - 1) or not line[i - 1][1] == point[1] == line[i + 1][1]
    ]
