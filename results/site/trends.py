"""Figures of a test's runs over time, as small pictures above the table of its runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from splitbrain.results.site.rows import Row

RUNS_MAX: Final = 200
"""The largest number of runs that are drawn: the latest ones."""

WIDTH: Final = 260
HEIGHT: Final = 56
_EDGE: Final = 6

_DRAWN: Final[tuple[tuple[str, Callable[[Row], float | None]], ...]] = (
    ("ok/s", lambda row: row.ok_per_s),
    ("latency p99, ms", lambda row: row.p99_ms),
    ("availability in time, %", lambda row: None if row.available is None else 100 * row.available),
    ("recovery of a majority, s", lambda row: row.recovery_s),
    ("leader changes", lambda row: row.leader_changes),
)


class Dot(msgspec.Struct, frozen=True):
    """A run in a picture: where it is, and its figure."""

    row: Row
    x: float
    y: float
    value: float


class Trend(msgspec.Struct, frozen=True):
    """One figure of several runs.

    Attributes:
        name: with its unit.
        dots: the oldest run first; the least value is at the bottom, the greatest at the top.
        low, high: the range.
    """

    name: str
    dots: list[Dot]
    low: float
    high: float

    @property
    def line(self) -> str:
        """The points of a line through the dots."""
        return " ".join(f"{dot.x:.1f},{dot.y:.1f}" for dot in self.dots)


def trends(rows: Sequence[Row]) -> list[Trend]:
    """A picture for each figure that at least two of the runs have.

    Args:
        rows: of one test, in any order.
    """
    latest = sorted(rows, key=lambda row: row.run)[-RUNS_MAX:]
    found: list[Trend] = []
    for name, of in _DRAWN:
        known = [(row, float(value)) for row in latest if (value := of(row)) is not None]
        if len(known) > 1:
            found.append(_trend(name, known))
    return found


def _trend(name: str, known: Sequence[tuple[Row, float]]) -> Trend:
    low, high = min(value for _, value in known), max(value for _, value in known)
    step = (WIDTH - 2 * _EDGE) / (len(known) - 1)
    room = HEIGHT - 2 * _EDGE

    def y(value: float) -> float:
        return HEIGHT / 2 if high == low else HEIGHT - _EDGE - room * (value - low) / (high - low)

    return Trend(name, [Dot(row, _EDGE + i * step, y(value), value) for i, (row, value) in enumerate(known)], low, high)
