"""Latency quantiles over time, from invocation and from when ops were due; rate and latency by function and by node."""

from __future__ import annotations

from collections import Counter
from typing import Final, TypeAlias

import numpy as np
from markupsafe import Markup

from splitbrain.results.arrivals import Arrivals, arrivals
from splitbrain.results.calls import OPEN, Bools, is_equal
from splitbrain.results.columns import array
from splitbrain.results.report.curves import SERIES_MAX, Series, chart
from splitbrain.results.report.frames import frame_of
from splitbrain.results.report.run_view import RunView
from splitbrain.results.report.stretches import Line, quantiles, rates

QUANTILES: Final = (("p50", 0.5), ("p95", 0.95), ("p99", 0.99))
QUANTILE_WORDS: Final = (
    "Latency over time: percentiles of ok ops in each stretch with at least three, in milliseconds, logarithmic. Whole "
    "lines count from the invocation; dashed ones from when the op was due, with the wait for a free client."
)
Groups: TypeAlias = list[tuple[str, Bools]]
"""Names, each with which client ops are of it."""

_BY: Final = {"f": "function", "node": "node"}


def load_plots(view: RunView) -> dict[str, Markup]:
    """The pictures by name; none where no client op ended ok."""
    found = arrivals(view.calls)
    ok = view.calls.ended("ok") & (view.calls.complete != OPEN)
    if not ok.any():
        return {}
    plots = {"quantiles": _quantile_plot(view, found, ok)}
    for column, word in _BY.items():
        groups, left_out = _groups(view, column, ok)
        if len(groups) > 1:
            plots[f"rate-by-{column}"] = _rate_plot(view, found, ok, groups, left_out, word)
            plots[f"latency-by-{column}"] = _latency_plot(view, found, ok, groups, left_out, word)
    return plots


def _quantile_plot(view: RunView, found: Arrivals, ok: Bools) -> Markup:
    end_s = view.events.end_ns / 1e9
    series = [
        Series(
            f"{name} from invocation", quantiles(found.begun[ok] / 1e9, found.latency_ms[ok], end_s, q), colour=place
        )
        for place, (name, q) in enumerate(QUANTILES)
    ]
    due = ok & found.scheduled & (found.due >= 0)
    if due.any():
        series += [
            Series(
                f"{name} from due", quantiles(found.due[due] / 1e9, found.due_latency_ms[due], end_s, q), True, place
            )
            for place, (name, q) in enumerate(QUANTILES)
        ]
    label = (
        "Latency of ok ops over time in milliseconds, logarithmic: 50th, 95th and 99th percentile, from the invocation "
        "and from when the op was due"
    )
    return chart(frame_of(view.events), series, label, id="quantiles", unit="ms", logarithmic=True)


def _rate_plot(view: RunView, found: Arrivals, ok: Bools, groups: Groups, left_out: int, word: str) -> Markup:
    end_s, name = view.events.end_ns / 1e9, f"rate-by-{_column(word)}"
    series = [Series(name, rates(found.ended[ok & mask] / 1e9, end_s)) for name, mask in groups]
    label = f"Ok ops per second by {word}"
    return chart(frame_of(view.events), series, label, id=name, unit="/s", left_out=left_out)


def _latency_plot(view: RunView, found: Arrivals, ok: Bools, groups: Groups, left_out: int, word: str) -> Markup:
    end_s, name = view.events.end_ns / 1e9, f"latency-by-{_column(word)}"

    def lines(mask: Bools) -> list[Line]:
        return quantiles(found.begun[mask] / 1e9, found.latency_ms[mask], end_s, 0.95)

    series = [Series(name, lines(ok & mask)) for name, mask in groups]
    label = f"95th percentile of the latency of ok ops from the invocation by {word}, in milliseconds, logarithmic"
    return chart(frame_of(view.events), series, label, id=name, unit="ms", logarithmic=True, left_out=left_out)


def _column(word: str) -> str:
    return next(column for column, of in _BY.items() if of == word)


def _groups(view: RunView, column: str, ok: Bools) -> tuple[Groups, int]:
    """Client ops by a column; nodes in the test's order, functions by name. Of more than SERIES_MAX those with the most
    ok ops, and how many others there are."""
    cells = view.calls.table[column].take(array(view.calls.invoke))
    met = {str(name) for name in cells.unique().to_pylist() if name is not None}
    names = [node for node in view.nodes if node in met] if column == "node" else sorted(met)
    answered = Counter(cells.filter(array(ok)).to_pylist())
    chosen = set(sorted(names, key=lambda name: -answered[name])[:SERIES_MAX])
    groups = [
        (name, np.asarray(is_equal(view.calls.table, column, name)[view.calls.invoke], dtype=np.bool_))
        for name in names
        if name in chosen
    ]
    return groups, len(names) - len(groups)
