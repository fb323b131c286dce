"""Values in equal stretches of the time of a run, as numbers and as lines: quantiles, and events a second."""

from __future__ import annotations

import itertools
import math
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from splitbrain.results.report.svg import nice_step

Floats: TypeAlias = npt.NDArray[np.float64]
Line: TypeAlias = list[tuple[float, float]]
"""Times in seconds with values."""

BINS: Final = 100
"""The largest number of spans of time that have a value each."""

_LEAST: Final = 3
"""Values that a stretch needs to have a quantile."""


def step_of(end_s: float) -> float:
    """How long the stretches are, in seconds."""
    return max(nice_step(end_s / BINS), 0.1)


def quantiles(times_s: Floats, values: Floats, end_s: float, quantile: float, least: int = _LEAST) -> list[Line]:
    """The quantile in each stretch that has at least `least` values, as lines that break where there are fewer."""
    step = step_of(end_s)
    return as_points(quantile_values(times_s, values, end_s, step, quantile, least), end_s, step)


def rates(times_s: Floats, end_s: float) -> list[Line]:
    """Events a second, as steps."""
    step = step_of(end_s)
    return as_steps(rate_values(times_s, end_s, step), end_s, step)


# --- numbers ----------------------------------------------------------------------------------------------------------


def rate_values(times_s: Floats, end_s: float, step: float) -> Floats:
    """Events a second in each stretch. The last stretch is longer: what is left over would look like a drop."""
    bins = max(int(end_s / step + 1e-9), 1)
    counted = np.bincount(np.clip((times_s / step).astype(np.int64), 0, bins - 1), minlength=bins)
    lengths = np.full(bins, step)
    lengths[-1] = max(end_s - (bins - 1) * step, step)
    return counted / lengths


def quantile_values(
    times_s: Floats, values: Floats, end_s: float, step: float, quantile: float, least: int = _LEAST
) -> Floats:
    """The quantile of the values in each stretch; NaN where there are fewer than `least`."""
    order = np.argsort(times_s, kind="stable")
    edges = np.searchsorted(times_s[order], np.arange(0, end_s + 2 * step, step)).tolist()
    return np.asarray(
        [
            np.quantile(values[order[first:last]], quantile) if last - first >= least else np.nan
            for first, last in itertools.pairwise(edges)
        ],
        dtype=np.float64,
    )


# --- lines ------------------------------------------------------------------------------------------------------------


def as_points(values: Floats, end_s: float, step: float) -> list[Line]:
    """Lines through the middles of the stretches, which break at NaN."""
    lines: list[Line] = [[]]
    for i, value in enumerate(values.tolist()):
        if not math.isnan(value):
            lines[-1].append((min((i + 0.5) * step, end_s), value))
        elif lines[-1]:
            lines.append([])
    return [_visible(line, step) for line in lines if line]


def as_steps(values: Floats, end_s: float, step: float) -> list[Line]:
    """Lines that stay at a value for the length of its stretch, and break at NaN; the last one goes to the end."""
    lines: list[Line] = [[]]
    for i, value in enumerate(values.tolist()):
        if not math.isnan(value):
            until = (i + 1) * step if i + 1 < len(values) else max(end_s, (i + 1) * step)
            lines[-1] += [(i * step, value), (until, value)]
        elif lines[-1]:
            lines.append([])
    return [line for line in lines if line]


def _visible(line: Line, step: float) -> Line:
    """A line of a single point as a stroke as long as its stretch."""
    if len(line) > 1:
        return line
    ((time_s, value),) = line
    return [(max(time_s - step / 2, 0.0), value), (time_s + step / 2, value)]
