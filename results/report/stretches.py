"""Values in equal stretches of the time of a run, as lines: quantiles, and how many a second there were."""

from __future__ import annotations

import itertools
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from results.report.svg import nice_step

Floats: TypeAlias = npt.NDArray[np.float64]
Line: TypeAlias = list[tuple[float, float]]
"""Times in seconds with values."""

BINS: Final = 100
"""Stretches of time of which each has a value, at most."""


def step_of(end_s: float) -> float:
    """How long the stretches are, in seconds."""
    return max(nice_step(end_s / BINS), 0.1)


def quantiles(times_s: Floats, values: Floats, end_s: float, quantile: float, least: int = 3) -> list[Line]:
    """The quantile in each stretch that has at least `least` values, as lines that break where there are fewer."""
    step = step_of(end_s)
    order = np.argsort(times_s, kind="stable")
    edges = np.searchsorted(times_s[order], np.arange(0, end_s + 2 * step, step)).tolist()
    lines: list[Line] = [[]]
    for i, (first, last) in enumerate(itertools.pairwise(edges)):
        if last - first >= least:
            at = min((i + 0.5) * step, end_s)
            lines[-1].append((at, float(np.quantile(values[order[first:last]], quantile))))
        elif lines[-1]:
            lines.append([])
    return [_visible(line, step) for line in lines if line]


def _visible(line: Line, step: float) -> Line:
    """A line of a single point as a stroke as long as its stretch."""
    if len(line) > 1:
        return line
    ((time_s, value),) = line
    return [(max(time_s - step / 2, 0.0), value), (time_s + step / 2, value)]


def rates(times_s: Floats, end_s: float) -> list[Line]:
    """Events a second, as steps. The last stretch is longer: what is left over would look like a drop."""
    step = step_of(end_s)
    bins = max(int(end_s / step + 1e-9), 1)
    counted = np.bincount(np.clip((times_s / step).astype(np.int64), 0, bins - 1), minlength=bins)
    line: Line = []
    for i, count in enumerate(counted.tolist()):
        until = (i + 1) * step if i + 1 < bins else max(end_s, (i + 1) * step)
        rate = count / (until - i * step)
        line += [(i * step, rate), (until, rate)]
    return [line]
