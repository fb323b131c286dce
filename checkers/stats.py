"""How many ops of which kind, how fast, when, and where: figures only, never a verdict of its own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from checkers.verdict import Partition, Verdict
from results.calls import client_calls
from results.counts import run_counts
from results.faults import happenings


class Stats:
    """Counts and latencies of a run.

    The figures: `ops`, and how they ended (`ok`, `fail`, `info`; an op without a completion counts as info),
    `duration_s`, `ok_per_s` (over the whole run but its quiet phase), `info_share` (0 to 1), `max_concurrency` (ops in
    flight at once); then the same counts `by_f`, `by_node` and `by_phase` (an op belongs to the phase in which it was
    invoked); `latency_ms` holds p50, p95, p99 and max from invocation to completion, by the way in which the ops ended;
    `errors` the commonest.
    """

    name = "stats"
    partition: Partition = "run"

    def check(self, history: pa.Table, options: Mapping[str, Any]) -> Verdict:
        """Count one run."""
        calls = client_calls(history)
        figures = run_counts(calls, happenings(history))
        sentence = (
            f"{figures['ops']} ops in {figures['duration_s']:.1f} s: {figures['ok']} ok, {figures['fail']} "
            f"fail, {figures['info']} info; up to {figures['max_concurrency']} at once."
        )
        return Verdict(checker=self.name, valid="true", algorithm="counts", sentence=sentence, figures=figures)

    def merge(self, verdicts: Iterable[Verdict], options: Mapping[str, Any]) -> Verdict:
        """A run is one partition: there is one verdict."""
        (verdict,) = verdicts
        return verdict
