"""Where the texts of a picture are, without a browser: boxes from the style and the widths of a wide font."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

import splitbrain.results.report
from splitbrain.results.report.letters import width_of

_STYLES = ("plots.css", "counterexample/counterexample.css")
_SVG = "{http://www.w3.org/2000/svg}"
_ASCENT, _DESCENT = 0.93, 0.24
_TOUCH = 0.5
"""Boxes may share so much of an edge: lines of text have room above and below the letters."""


class Box(NamedTuple):
    """A text, and where it is in the picture."""

    text: str
    left: float
    top: float
    right: float
    bottom: float


def clashes(picture: str) -> list[str]:
    """What is wrong with the texts of a picture: two that lie on each other, or one that leaves the picture."""
    root = ElementTree.fromstring(picture)
    _, _, width, height = map(float, root.attrib["viewBox"].split())
    return clashes_of(boxes(root), width, height)


def clashes_of(found: list[Box], width: float, height: float) -> list[str]:
    """The same for boxes, in a picture of a size."""
    outside = [
        f"{box.text!r} leaves the picture: {box[1:]}"
        for box in found
        if box.left < -_TOUCH or box.top < -_TOUCH or box.right > width + _TOUCH or box.bottom > height + _TOUCH
    ]
    found = sorted(found, key=lambda box: box.left)
    return outside + [
        f"{box.text!r} {box[1:]} lies on {other.text!r} {other[1:]}"
        for place, box in enumerate(found)
        for other in _until(found[place + 1 :], box.right - _TOUCH)
        if min(box.bottom, other.bottom) - max(box.top, other.top) > _TOUCH
    ]


def _until(found: list[Box], x: float) -> Iterator[Box]:
    """Those that begin before it, of boxes by their left edges: the others cannot meet one that ends there."""
    return itertools.takewhile(lambda box: box.left < x, found)


def boxes(root: ElementTree.Element) -> list[Box]:
    """The texts of a picture."""
    return [
        _box(element, "" if group is root else group.get("class", ""))
        for group in root.iter()
        for element in group.findall(f"{_SVG}text")
    ]


def _box(element: ElementTree.Element, group: str) -> Box:
    """A text in an element with these classes."""
    text = "".join(part for part in (element.text, *(child.tail for child in element)) if part)
    size, bold = _font(element.get("class", group))
    width = width_of(text, size, bold=bold)
    x, y = float(element.attrib["x"]), float(element.attrib["y"])
    left = x - {"start": 0.0, "middle": 0.5, "end": 1.0}[element.get("text-anchor", "start")] * width
    return Box(text, left, y - _ASCENT * size, left + width, y + _DESCENT * size)


def _font(classes: str) -> tuple[float, bool]:
    size, bold = 11.5, False
    for name in classes.split():
        size, bold = _fonts().get(name, (size, bold))
    return size, bold


@cache
def _fonts() -> dict[str, tuple[float, bool]]:
    """Size and weight by class, as the rules for texts in the styles say."""
    folder = Path(splitbrain.results.report.__file__).parent
    css = "".join((folder / name).read_text(encoding="utf-8") for name in _STYLES)
    found: dict[str, tuple[float, bool]] = {}
    for selectors, body in re.findall(r"([^{}]+)\{([^{}]*)\}", css):
        size, weight = (re.search(rf"{name}: ([\d.]+)", body) for name in ("font-size", "font-weight"))
        if size is None and weight is None:
            continue
        for name in re.findall(r"\.([\w-]+)(?: text)?\s*(?:,|$)", selectors.strip(), re.MULTILINE):
            before = found.get(name, (11.5, False))
            at = float(size[1]) if size else before[0]
            found[name] = (at, float(weight[1]) >= 600 if weight else before[1])
    return found
