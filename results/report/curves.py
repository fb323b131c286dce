"""A picture of lines over time: values against a scale, stretches of time shaded, names of the lines above it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from markupsafe import Markup

from splitbrain.results.report.letters import cut, width_of
from splitbrain.results.report.stretches import Line
from splitbrain.results.report.svg import FONT, LEFT, RIGHT, WIDTH, TimeAxis, nice_step, number, picture, tag

SERIES_MAX: Final = 12
"""Lines of one picture; each has a colour or a stroke of its own."""

NAME_MAX: Final = 180
"""Room for the name of a line."""

_COLOURS: Final = 6
_STROKE: Final = 22
_ROW: Final = 17
_HEIGHT: Final = 140
_LANE: Final = 16
_NONE: Final = 24


class Band(NamedTuple):
    """A stretch of time that is shaded, in seconds, and what it was, in words."""

    begin_s: float
    end_s: float
    words: str
    style: str = "shade"


class Frame(NamedTuple):
    """What is drawn behind the lines, and above them.

    Attributes:
        end_s: the last moment of the axis of time, which begins at 0.
        bands: stretches that are shaded.
        marks_s: moments with a line across the picture.
        lanes: lanes above the scale, each with its name and the stretches in it.
    """

    end_s: float
    bands: Sequence[Band] = ()
    marks_s: Sequence[float] = ()
    lanes: Sequence[tuple[str, Sequence[Band]]] = ()


class Dot(NamedTuple):
    """A value at a moment, in words as well; None has a row of its own above the scale.

    `low` and `high` are the ends of a line through it, None where there is none.
    """

    time_s: float
    value: float | None
    words: str
    low: float | None = None
    high: float | None = None


class Series(NamedTuple):
    """A line.

    Attributes:
        name: what it is.
        lines: its pieces, as times in seconds with values; it breaks where nothing is known.
        dashed: whether it is drawn so.
        colour: its number; None for its place among the series.
        areas: stretches between a lower and an upper line, behind the lines.
        dots: single values; a disc each, or, dashed, a hollow diamond.
    """

    name: str
    lines: list[Line]
    dashed: bool = False
    colour: int | None = None
    areas: Sequence[tuple[Line, Line]] = ()
    dots: Sequence[Dot] = ()

    @property
    def values(self) -> list[float]:
        """All that the scale has to hold."""
        areas = [value for area in self.areas for line in area for _, value in line]
        dots = [value for dot in self.dots for value in (dot.low, dot.value, dot.high) if value is not None]
        return [*(value for line in self.lines for _, value in line), *areas, *dots]


def chart(
    frame: Frame,
    series: Sequence[Series],
    label: str,
    *,
    id: str,
    unit: str = "",
    logarithmic: bool = False,
    left_out: int = 0,
) -> Markup:
    """The picture; of more than SERIES_MAX series the first are drawn. How many are not stands in it, `left_out` ones
    included."""
    drawn = list(series[:SERIES_MAX])
    axis = TimeAxis(frame.end_s)
    names, top = _legend(drawn, left_out + len(series) - len(drawn))
    lanes, top = _lanes(frame, axis, top)
    missing = any(dot.value is None for each in drawn for dot in each.dots)
    none_y, top = top + 6, top + (_NONE if missing else 0)
    bottom = top + _HEIGHT
    y, rungs = _scale([value for each in drawn for value in each.values], top, bottom, unit, logarithmic)
    parts = [*shades(frame, axis, top, bottom), *names, *lanes, *rungs]
    if missing:
        parts.append(tag("text", "none", x=LEFT - 6, y=none_y + 4, text_anchor="end"))
    for place, each in enumerate(drawn):
        parts += _areas(place, each, axis, y)
    for place, each in enumerate(drawn):
        for line in each.lines:
            parts.append(tag("polyline", class_=_style(place, each), points=_points(_thinned(line), axis, y)))
        parts += [part for dot in each.dots for part in _dot(place, each, dot, axis, y, none_y)]
    return picture(bottom + 22, label, [*parts, *axis.draw(bottom)], id=id)


def _points(line: Line, axis: TimeAxis, y: Callable[[float], float]) -> str:
    return " ".join(f"{axis.x(time_s):.1f},{y(value):.1f}" for time_s, value in line)


def _areas(place: int, series: Series, axis: TimeAxis, y: Callable[[float], float]) -> list[Markup]:
    style = f"area fill-{_colour(place, series) % _COLOURS}"
    return [
        tag("polygon", class_=style, points=_points([*low, *reversed(high)], axis, y)) for low, high in series.areas
    ]


def _dot(
    place: int, series: Series, dot: Dot, axis: TimeAxis, y: Callable[[float], float], none_y: float
) -> list[Markup]:
    """Side by side with those of other series at the same moment."""
    colour = _colour(place, series) % _COLOURS
    x, at = axis.x(dot.time_s) + 4 * place, none_y if dot.value is None else y(dot.value)
    title = tag("title", dot.words)
    parts: list[Markup] = []
    if dot.low is not None and dot.high is not None:
        parts.append(tag("line", class_=f"whisker series-{colour}", x1=x, x2=x, y1=y(dot.low), y2=y(dot.high)))
    if series.dashed:
        shape = f"M{number(x)} {number(at - 5)}l5 5l-5 5l-5-5z"
        return [*parts, tag("path", title, class_=f"hollow series-{colour}", d=shape)]
    return [*parts, tag("circle", title, class_=f"fill-{colour}", cx=x, cy=at, r=4)]


def _colour(place: int, series: Series) -> int:
    return place if series.colour is None else series.colour


def _style(place: int, series: Series) -> str:
    colour = _colour(place, series)
    dashed = " dashed" if series.dashed or colour >= _COLOURS else ""
    return f"line series-{colour % _COLOURS}{dashed}"


def _legend(series: Sequence[Series], left_out: int) -> tuple[list[Markup], float]:
    """Names in rows, each behind a stroke of its line, and how many have none; where the rows end."""
    named: list[tuple[str, str | None]] = [
        (cut(each.name, NAME_MAX, FONT), _style(place, each)) for place, each in enumerate(series)
    ]
    if left_out:
        named.append((f"{left_out:,} more {'is' if left_out == 1 else 'are'} not drawn", None))
    parts: list[Markup] = []
    x, y = float(LEFT), 12.0
    for name, style in named:
        width = _STROKE + width_of(name, FONT) + 14
        if x + width > WIDTH - RIGHT and x > LEFT:
            x, y = float(LEFT), y + _ROW
        if style is not None:
            parts.append(tag("path", class_=style, d=f"M{number(x)} {number(y - 4)}h16"))
        parts.append(tag("text", name, x=x + _STROKE, y=y))
        x += width
    return parts, y + 8


def _lanes(frame: Frame, axis: TimeAxis, top: float) -> tuple[list[Markup], float]:
    """The lanes from `top` on, and where they end. Stretches tell their words as hints."""
    parts: list[Markup] = []
    for place, (name, bands) in enumerate(frame.lanes):
        y = top + place * _LANE
        parts.append(tag("text", cut(name, LEFT - 8, FONT), x=LEFT - 6, y=y + 10, text_anchor="end"))
        for band in bands:
            x, end = axis.x(band.begin_s), axis.x(band.end_s)
            title = tag("title", band.words)
            parts.append(tag("rect", title, class_=band.style, x=x, y=y, width=max(end - x, 2), height=_LANE - 4, rx=2))
    return parts, top + len(frame.lanes) * _LANE + (8 if frame.lanes else 0)


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
