"""Rates and latencies over time, with the fault windows shaded."""

from __future__ import annotations

import itertools
import math
from typing import Final

import numpy as np
import numpy.typing as npt
from markupsafe import Markup

from splitbrain.results.calls import OPEN, Ints, ints
from splitbrain.results.counts import ENDS
from splitbrain.results.report.curves import rung, shades
from splitbrain.results.report.frames import frame_of
from splitbrain.results.report.run_view import RunView
from splitbrain.results.report.svg import TimeAxis, nice_step, picture, tag

POINTS_MAX: Final = 3000
"""Points in the latency plot; of more ops every n-th is drawn, and the slowest of all."""

_SLOWEST: Final = 200
_BINS: Final = 120
_TOP: Final = 10
_HEIGHT: Final = 170
_BOTTOM: Final = _TOP + _HEIGHT

Floats = npt.NDArray[np.float64]


def rate_plot(view: RunView) -> Markup:
    """Ops that ended per second, by how they ended."""
    axis = TimeAxis(view.events.end_ns / 1e9)
    step = max(nice_step(axis.end_s / _BINS), 0.1)
    bins = max(int(axis.end_s / step + 1e-9), 1)  # the last one is longer: what is left over would look like a drop
    length = np.full(bins, step)
    length[-1] = max(axis.end_s - (bins - 1) * step, step)
    calls, times = view.calls, ints(view.history, "time")
    closed = calls.complete != OPEN
    slot = np.minimum((times[calls.complete[closed]] / 1e9 / step).astype(np.int64), bins - 1)
    rates = {how: np.bincount(slot[calls.ended(how)[closed]], minlength=bins) / length for how in ENDS}
    top = max(max(float(rate.max()) for rate in rates.values()), 1.0)
    grid = nice_step(top / 4)

    def y(value: float) -> float:
        return _BOTTOM - value / (math.ceil(top / grid) * grid) * _HEIGHT

    parts = [*shades(frame_of(view.events), axis, _TOP, _BOTTOM)]
    for i in range(math.ceil(top / grid) + 1):
        parts += rung(y(i * grid), f"{i * grid:g}")
    for how in ENDS:
        if rates[how].any():
            edges = [axis.x(i * step) for i in range(bins)] + [axis.x(axis.end_s)]
            points = [(x, y(float(r))) for i, r in enumerate(rates[how]) for x in edges[i : i + 2]]
            parts.append(tag("polyline", class_=f"line line-{how}", points=_points(points)))
    label = f"Ops per second that ended ok, failed or stayed unknown, in stretches of {step:g} s"
    return picture(_BOTTOM + 22, label, [*parts, *axis.draw(_BOTTOM)], id="rate")


def latency_plot(view: RunView) -> Markup:
    """How long ops took, on a logarithmic scale, at the time at which they were invoked; ok ops with their median."""
    axis = TimeAxis(view.events.end_ns / 1e9)
    calls, times = view.calls, ints(view.history, "time")
    chosen = np.flatnonzero(calls.complete != OPEN)
    begun = times[calls.invoke[chosen]] / 1e9
    took = np.maximum((times[calls.complete[chosen]] - times[calls.invoke[chosen]]) / 1e6, 0.01)
    low, high = _decades(took)

    def y(value: float) -> float:
        return _BOTTOM - (math.log10(value) - low) / (high - low) * _HEIGHT

    parts = [*shades(frame_of(view.events), axis, _TOP, _BOTTOM)]
    for power in range(low, high + 1):
        parts += rung(y(10.0**power), f"{10.0**power:g} ms" if power == high else f"{10.0**power:g}")
    drawn = _sample(took)
    for how in ENDS:
        of_kind = drawn[calls.ended(how)[chosen][drawn]]
        if len(of_kind):
            dots = "".join(f"M{axis.x(float(begun[i])):.1f} {y(float(took[i])):.1f}h0" for i in of_kind.tolist())
            parts.append(tag("path", class_=f"dots dots-{how}", d=dots))
    ok = calls.ended("ok")[chosen]
    for name, quantile in (("median", 0.5), ("p95", 0.95)):
        for stretch in _quantiles(begun[ok], took[ok], axis.end_s, quantile):
            line = _points([(axis.x(x), y(value)) for x, value in stretch])
            parts.append(tag("polyline", class_=f"line {name}", points=line))
    label = "Latency of client ops in milliseconds, logarithmic, with median and 95th percentile of ok ops"
    return picture(_BOTTOM + 22, label, [*parts, *axis.draw(_BOTTOM)], id="latency")


def latency_points(view: RunView) -> tuple[int, int]:
    """How many ops the latency plot draws, and of how many."""
    total = int(np.count_nonzero(view.calls.complete != OPEN))
    return len(_sample(np.zeros(total))), total


def _sample(took: Floats) -> Ints:
    if len(took) <= POINTS_MAX:
        return np.arange(len(took))
    slowest = np.argsort(took, kind="stable")[-_SLOWEST:]
    return np.union1d(np.arange(0, len(took), math.ceil(len(took) / (POINTS_MAX - _SLOWEST))), slowest)


def _decades(took: Floats) -> tuple[int, int]:
    if not len(took):
        return 0, 3
    low, high = math.floor(math.log10(float(took.min()))), math.ceil(math.log10(float(took.max())))
    return low, max(high, low + 1)


def _quantiles(begun: Floats, took: Floats, end_s: float, quantile: float) -> list[list[tuple[float, float]]]:
    """The quantile in each stretch of time that has at least three ops, as lines that break where there are fewer."""
    step = end_s / _BINS * 2
    order = np.argsort(begun, kind="stable")
    edges = np.searchsorted(begun[order], np.arange(0, end_s + step, step)).tolist()
    lines: list[list[tuple[float, float]]] = [[]]
    for i, (first, last) in enumerate(itertools.pairwise(edges)):
        if last - first >= 3:
            lines[-1].append(((i + 0.5) * step, float(np.quantile(took[order[first:last]], quantile))))
        elif lines[-1]:
            lines.append([])
    return [line for line in lines if line]


def _points(points: list[tuple[float, float]]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
