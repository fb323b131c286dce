"""Client ops in the lanes of the timeline: a tick each, or, where they are too many for that, how many at each moment.

A lane that holds more ops than it has places for ticks would be one solid block, in which an outage of a second is as
invisible as a failure. There the heights of two bands show how many ops ended ok and failed. Unknown ops and
the slowest ops have ticks as long as these are few.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np
from markupsafe import Markup

from splitbrain.results.calls import OPEN, Bools, Ints, ints, is_equal
from splitbrain.results.counts import ENDS
from splitbrain.results.report.run_view import RunView
from splitbrain.results.report.svg import LEFT, RIGHT, WIDTH, TimeAxis, number, tag

BANDS: Final = {"ok": (13.0, 17.0), "fail": (32.0, 6.0), "info": (40.0, 6.0)}
"""For each way to end: where its band begins in a lane, and how high it is."""

BIN: Final = 3
"""Width of a bar of a band."""

SLOW_MAX: Final = 12
"""Slow ops of a node that have a tick."""

SLOW_TIMES: Final = 5.0
"""An op is slow if it takes this many times as long as the median of the ok ops."""


class Lanes(NamedTuple):
    """Where lanes of nodes are, and how many places for ticks each has."""

    tops: dict[str, float]
    places: int


def is_dense(view: RunView, places: int) -> bool:
    """Whether some lane would hold more ops than places."""
    return len(view.calls.invoke) > places * max(len(view.nodes), 1)


def op_marks(view: RunView, lanes: Lanes, axis: TimeAxis) -> Iterator[Markup]:
    """For each node and way to end one path of ticks, or of bars; ops stand where they ended, open ones where they
    began."""
    calls = view.calls
    if not len(calls.invoke):
        return
    times = ints(calls.table, "time")
    ended = times[np.where(calls.complete == OPEN, calls.invoke, calls.complete)] / 1e9 / axis.end_s
    on = {node: np.asarray(is_equal(calls.table, "node", node)[calls.invoke], dtype=np.bool_) for node in lanes.tops}
    kinds = {how: calls.ended(how) for how in ENDS}
    if not is_dense(view, lanes.places):
        for node, top in lanes.tops.items():
            for how in ENDS:
                yield from _ticks(ended[on[node] & kinds[how]], how, top, lanes.places)
        return
    took = np.where(calls.complete == OPEN, 0, times[calls.complete] - times[calls.invoke])
    bars = (WIDTH - LEFT - RIGHT) // BIN
    slots = np.clip((ended * bars).astype(np.int64), 0, bars - 1)
    for how in ENDS:
        counted = {node: np.bincount(slots[on[node] & kinds[how]], minlength=bars) for node in lanes.tops}
        most = max((int(counts.max()) for counts in counted.values()), default=0)
        for node, top in lanes.tops.items():
            if how == "info" and int(np.count_nonzero(counted[node])) < bars / 8:
                yield from _ticks(ended[on[node] & kinds[how]], how, top, lanes.places)
            else:
                yield from _bars(counted[node], most, how, top)
    for node, top in lanes.tops.items():
        yield from _slow(ended, took, on[node] & kinds["ok"], top)


def _ticks(ended: np.ndarray[tuple[int], np.dtype[np.float64]], how: str, top: float, places: int) -> Iterator[Markup]:
    drawn = np.unique(np.clip((ended * places).astype(np.int64), 0, places - 1))
    if len(drawn):
        begin, length = BANDS[how]
        y, width = number(top + begin), (WIDTH - LEFT - RIGHT) / places
        data = "".join(f"M{number(LEFT + (i + 0.5) * width)} {y}v{length:g}" for i in drawn.tolist())
        yield tag("path", class_=f"tick tick-{how}", d=data)


def _bars(counts: Ints, most: int, how: str, top: float) -> Iterator[Markup]:
    """Bars on the lower edge of their band, as high as the root of their count: few ops beside many are seen."""
    some = np.flatnonzero(counts)
    if not len(some):
        return
    begin, height = BANDS[how]
    foot = top + begin + height
    heights = np.maximum(np.sqrt(counts[some] / most) * height, 1.0)
    data = "".join(
        f"M{LEFT + i * BIN} {number(foot)}v-{number(tall)}h{BIN}v{number(tall)}z"
        for i, tall in zip(some.tolist(), heights.tolist(), strict=True)
    )
    yield tag("path", class_=f"density density-{how}", d=data)


def _slow(ended: np.ndarray[tuple[int], np.dtype[np.float64]], took: Ints, ok: Bools, top: float) -> Iterator[Markup]:
    rows = np.flatnonzero(ok)
    if not len(rows):
        return
    rows = rows[took[rows] > SLOW_TIMES * float(np.median(took[rows]))]
    slowest = rows[np.argsort(took[rows], kind="stable")[::-1][:SLOW_MAX]]
    if len(slowest):
        begin, height = BANDS["ok"]
        words = f"the {len(slowest)} slowest, up to {int(took[slowest].max()) / 1e6:.0f} ms"
        y, width = number(top + begin), WIDTH - LEFT - RIGHT
        data = "".join(f"M{number(LEFT + at * width)} {y}v{height:g}" for at in sorted(ended[slowest].tolist()))
        yield tag("path", tag("title", words), class_="tick tick-slow", d=data)
