"""How many ops of which kind, how fast, when, and where: figures only, never a verdict of its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from checkers.verdict import Verdict
from results.calls import OPEN, Bools, Calls, client_calls, ints, is_equal, seconds
from results.faults import Happenings, happenings

ENDS: Final = ("ok", "fail", "info")
_QUANTILES: Final = (("p50", 0.5), ("p95", 0.95), ("p99", 0.99), ("max", 1.0))
_ERRORS_LISTED: Final = 10


class Stats:
    """Counts and latencies of a run.

    The figures: `ops`, and how they ended (`ok`, `fail`, `info`; an op without a completion counts as info),
    `duration_s`, `ok_per_s` (over the whole run), `info_share` (0 to 1), `max_concurrency` (ops in flight at once);
    then the same counts `by_f`, `by_node` and `by_phase` (an op belongs to the phase in which it was invoked);
    `latency_ms` holds p50, p95, p99 and max from invocation to completion, by the way in which the ops ended; `errors`
    the commonest.
    """

    name = "stats"
    partition: Literal["run", "key"] = "run"

    def check(self, history: pa.Table, options: Mapping[str, Any]) -> Verdict:  # noqa: ARG002 - protocol
        """Count one run."""
        calls = client_calls(history)
        figures = _Count(calls, happenings(history)).figures()
        sentence = (f"{figures['ops']} ops in {figures['duration_s']:.1f} s: {figures['ok']} ok, {figures['fail']} "
                    f"fail, {figures['info']} info; up to {figures['max_concurrency']} at once.")
        return Verdict(checker=self.name, valid="true", algorithm="counts", sentence=sentence, figures=figures)

    def merge(self, verdicts: Iterable[Verdict], options: Mapping[str, Any]) -> Verdict:  # noqa: ARG002 - protocol
        """A run is one partition: there is one verdict."""
        (verdict,) = verdicts
        return verdict



class _Count:
    """The client ops of a run as arrays, one element per op."""

    def __init__(self, calls: Calls, around: Happenings) -> None:
        self.calls = calls
        self.around = around
        self.ends = {how: calls.ended(how) for how in ENDS}
        times = ints(calls.table, "time")
        self.begun = times[calls.invoke]
        closed = calls.complete != OPEN
        self.closed = closed
        self.latency_ms = np.where(closed, times[calls.complete] - self.begun, 0) / 1e6 if len(times) else \
            np.zeros(0, dtype=np.float64)

    def figures(self) -> dict[str, Any]:
        every = np.ones(len(self.begun), dtype=np.bool_)
        counts = self._ends(every)
        duration_s = seconds(self.around.end_ns)
        total = len(self.begun)
        return {
            "ops": total, **counts, "duration_s": duration_s,
            "ok_per_s": round(counts["ok"] / duration_s, 3) if duration_s else 0.0,
            "info_share": round(counts["info"] / total, 6) if total else 0.0,
            "max_concurrency": self._max_concurrency(),
            "latency_ms": self._latencies(every),
            "by_f": {f: self._group(mask) for f, mask in self._by("f")},
            "by_node": {node: self._group(mask) for node, mask in self._by("node")},
            "by_phase": self._by_phase(),
            "errors": self._errors(),
        }

    def _ends(self, mask: Bools) -> dict[str, int]:
        return {how: int(np.count_nonzero(mask & self.ends[how])) for how in ENDS}

    def _group(self, mask: Bools) -> dict[str, Any]:
        return {**self._ends(mask), "latency_ms": self._latencies(mask)}

    def _latencies(self, mask: Bools) -> dict[str, dict[str, float]]:
        found = {how: self.latency_ms[mask & self.ends[how] & self.closed] for how in ENDS}
        return {how: _quantiles(latencies) for how, latencies in found.items() if len(latencies)}

    def _by(self, column: str) -> Iterable[tuple[str, Bools]]:
        cells = self.calls.table[column]
        names = [str(name) for name in pc.unique(cells).to_pylist() if name is not None]
        for name in sorted(names):
            mask = is_equal(self.calls.table, column, name)[self.calls.invoke]
            if mask.any():
                yield name, mask

    def _by_phase(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for phase in self.around.phases:
            last = phase is self.around.phases[-1]
            mask = (self.begun >= phase.begin_ns) & ((self.begun < phase.end_ns) | last)
            found[phase.name] = {"begin_s": seconds(phase.begin_ns), "end_s": seconds(phase.end_ns),
                                 **self._group(mask),
                                 "by_f": {f: self._ends(mask & of_f) for f, of_f in self._by("f")}}
        return found

    def _max_concurrency(self) -> int:
        """Ops in flight at once, in the order of the history; an op that nobody saw end is not in flight for ever."""
        change = np.zeros(self.calls.table.num_rows, dtype=np.int64)
        change[self.calls.invoke[self.closed]] = 1
        change[self.calls.complete[self.closed]] = -1
        return int(np.cumsum(change).max(initial=0))

    def _errors(self) -> list[dict[str, Any]]:
        rows = self.calls.complete[self.closed]
        table = self.calls.table.select(["type", "error"]).take(rows)
        table = table.filter(table["error"].is_valid())
        counted = Counter(zip(table["type"].to_pylist(), table["error"].to_pylist(), strict=True))
        common = sorted(counted.items(), key=lambda item: (-item[1], item[0]))[:_ERRORS_LISTED]
        return [{"type": how, "error": error, "count": count} for (how, error), count in common]


def _quantiles(latencies: npt.NDArray[np.float64]) -> dict[str, float]:
    values = np.quantile(latencies, [q for _, q in _QUANTILES])
    return {name: round(float(value), 3) for (name, _), value in zip(_QUANTILES, values, strict=True)}
