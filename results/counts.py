"""Counts and latencies of a run, for the checker that states them and the report that shows them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from splitbrain.results.arrivals import Asked, arrivals, load
from splitbrain.results.calls import OPEN, Bools, Calls, ints, is_equal, seconds
from splitbrain.results.columns import array
from splitbrain.results.faults import RunEvents, Window

ENDS: Final = ("ok", "fail", "info")
"""How an op can end; one without a completion counts as info."""

_QUANTILES: Final = (("p50", 0.5), ("p95", 0.95), ("p99", 0.99), ("max", 1.0))
_ERRORS_LISTED: Final = 10


NOTHING_ASKED: Final = Asked()


def run_counts(calls: Calls, events: RunEvents, asked: Asked = NOTHING_ASKED) -> dict[str, Any]:
    """The figures of a run, as `splitbrain.checkers.stats.Stats` describes them; `asked`: the load of its test."""
    return _Count(calls, events, asked).figures()


def total_counts(calls: Calls, events: RunEvents) -> dict[str, Any]:
    """Of these figures those of all ops together, which cost a tenth of all."""
    return _Count(calls, events, NOTHING_ASKED).totals()


def window_counts(calls: Calls, window: Window) -> dict[str, Any]:
    """Client ops invoked while a fault was in force, by how they ended; how many were under way in it, and of these how
    many ended and how many were answered (ok or fail), be it later: an op that waits for the next leader has seen the
    fault."""
    times = ints(calls.table, "time")
    begun = times[calls.invoke]
    inside = (begun >= window.begin_ns) & (begun <= window.end_ns)
    closed_before = (calls.complete != OPEN) & (times[calls.complete] < window.begin_ns)
    under_way = (begun <= window.end_ns) & ~closed_before
    return {
        "fault": window.fault,
        "target": window.target,
        "verified": window.start.verified,
        "start_s": seconds(window.begin_ns),
        "end_s": seconds(window.end_ns),
        "ops": int(np.count_nonzero(inside)),
        **{f"ops_{how}": int(np.count_nonzero(inside & calls.ended(how))) for how in ENDS},
        "under_way": int(np.count_nonzero(under_way)),
        "ended": int(np.count_nonzero(under_way & (calls.complete != OPEN))),
        "answered": int(np.count_nonzero(under_way & ~calls.ended("info"))),
    }


class _Count:
    """The client ops of a run as arrays, one element per op."""

    def __init__(self, calls: Calls, events: RunEvents, asked: Asked) -> None:
        self.calls = calls
        self.events = events
        self.ends = {how: calls.ended(how) for how in ENDS}
        self.closed = calls.complete != OPEN
        self.arrivals = arrivals(calls)
        self.latency_ms, self.due_latency_ms = self.arrivals.latency_ms, self.arrivals.due_latency_ms
        self.begun = self.arrivals.begun
        self.load = load(self.arrivals, events, asked)

    def totals(self) -> dict[str, Any]:
        every = np.ones(len(self.begun), dtype=np.bool_)
        counts = self._ends(every)
        duration_s = seconds(self.events.end_ns)
        loaded_s = duration_s if self.events.quiet_ns is None else seconds(self.events.quiet_ns)
        total = len(self.begun)
        return {
            "ops": total,
            **counts,
            "duration_s": duration_s,
            "ok_per_s": round(counts["ok"] / loaded_s, 3) if loaded_s else 0.0,
            "info_share": round(counts["info"] / total, 6) if total else 0.0,
            "max_concurrency": self._max_concurrency(),
            "latency_ms": self._latencies(every),
            "due_latency_ms": self._due_latencies(every),
            "load": None if self.load is None else self.load.document(),
        }

    def figures(self) -> dict[str, Any]:
        return {
            **self.totals(),
            "by_f": {f: self._group(mask) for f, mask in self._by_f},
            "by_node": {node: self._group(mask) for node, mask in self._by("node")},
            "by_phase": self._by_phase(),
            "errors": self._errors(),
        }

    def _ends(self, mask: Bools) -> dict[str, int]:
        return {how: int(np.count_nonzero(mask & self.ends[how])) for how in ENDS}

    def _group(self, mask: Bools) -> dict[str, Any]:
        return {
            **self._ends(mask),
            "latency_ms": self._latencies(mask),
            "due_latency_ms": self._due_latencies(mask),
        }

    def _latencies(self, mask: Bools) -> dict[str, dict[str, float]]:
        return self._quantiles(mask, self.latency_ms)

    def _due_latencies(self, mask: Bools) -> dict[str, dict[str, float]]:
        return self._quantiles(mask & self.arrivals.scheduled, self.due_latency_ms)

    def _quantiles(self, mask: Bools, latency_ms: npt.NDArray[np.float64]) -> dict[str, dict[str, float]]:
        found = {how: latency_ms[mask & self.ends[how] & self.closed] for how in ENDS}
        return {how: _quantiles(latencies) for how, latencies in found.items() if len(latencies)}

    @cached_property
    def _by_f(self) -> list[tuple[str, Bools]]:
        """Every phase is taken apart by them."""
        return list(self._by("f"))

    def _by(self, column: str) -> Iterable[tuple[str, Bools]]:
        cells = self.calls.table[column]
        names = [str(name) for name in pc.unique(cells).to_pylist() if name is not None]
        for name in sorted(names):
            mask = is_equal(self.calls.table, column, name)[self.calls.invoke]
            if mask.any():
                yield name, mask

    def _by_phase(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for phase in self.events.phases:
            last = phase is self.events.phases[-1]
            mask = (self.begun >= phase.begin_ns) & ((self.begun < phase.end_ns) | last)
            found[phase.name] = {
                "begin_s": seconds(phase.begin_ns),
                "end_s": seconds(phase.end_ns),
                **self._group(mask),
                "by_f": {f: self._ends(mask & of_f) for f, of_f in self._by_f},
            }
        return found

    def _max_concurrency(self) -> int:
        """Ops in flight at once, in the order of the history; an op without a known end does not stay in flight."""
        change = np.zeros(self.calls.table.num_rows, dtype=np.int64)
        change[self.calls.invoke[self.closed]] = 1
        change[self.calls.complete[self.closed]] = -1
        return int(np.cumsum(change).max(initial=0))

    def _errors(self) -> list[dict[str, Any]]:
        rows = self.calls.complete[self.closed]
        table = self.calls.table.select(["type", "error"]).take(array(rows))
        table = table.filter(table["error"].is_valid())
        counted = Counter(zip(table["type"].to_pylist(), table["error"].to_pylist(), strict=True))
        common = sorted(counted.items(), key=lambda item: (-item[1], item[0]))[:_ERRORS_LISTED]
        return [{"type": how, "error": error, "count": count} for (how, error), count in common]


def _quantiles(latencies: npt.NDArray[np.float64]) -> dict[str, float]:
    """As `numpy.quantile` has them, which takes ten times as long for the few ops of a group."""
    ordered = np.sort(latencies)
    return {name: round(_quantile(ordered, share), 3) for name, share in _QUANTILES}


def _quantile(ordered: npt.NDArray[np.float64], share: float) -> float:
    """What lies at this share of the way through ordered values; between two of them, on the line that joins them."""
    place = share * (len(ordered) - 1)
    below = int(place)
    low, high = float(ordered[below]), float(ordered[min(below + 1, len(ordered) - 1)])
    part = place - below
    return high - (high - low) * (1 - part) if part >= 0.5 else low + (high - low) * part
