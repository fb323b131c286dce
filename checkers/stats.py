"""How many ops of which kind, how fast, when, and where: figures only, never a verdict of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec
import pyarrow as pa

from splitbrain.checkers.verdict import OfOneRun, Partition, Verdict
from splitbrain.results.arrivals import Asked
from splitbrain.results.calls import client_calls
from splitbrain.results.counts import run_counts
from splitbrain.results.errors import UsageError
from splitbrain.results.faults import run_events
from splitbrain.results.quantities import counted


class Stats(OfOneRun):
    """Counts and latencies of a run.

    The figures: `ops`, and how they ended (`ok`, `fail`, `info`; an op without a completion counts as info),
    `duration_s`, `ok_per_s` (over the whole run but its quiet phase), `info_share` (0 to 1), `max_concurrency` (ops in
    flight at once); then the same counts `by_f`, `by_node` and `by_phase` (an op belongs to the phase in which it was
    invoked); `latency_ms` holds p50, p95, p99 and max from invocation to completion, by the way in which the ops ended,
    `due_latency_ms` the same from when ops were due by the schedule of the test (ops without one are left out);
    `load` the rates that were asked for, offered and achieved (`splitbrain.results.arrivals.Load`), None where there
    was no schedule; `errors` the commonest.

    Its options are the load that the test asked for (`splitbrain.results.arrivals.Asked`).
    """

    name = "stats"
    partition: Partition = "run"
    counts_ops = True

    def check(self, history: pa.Table, options: Mapping[str, Any]) -> Verdict:
        """Count one run.

        Raises:
            UsageError: an option is wrong.
        """
        try:
            asked = msgspec.convert(dict(options), Asked)
        except msgspec.ValidationError as error:
            raise UsageError(f"checker stats: {error}; it takes {', '.join(Asked.__struct_fields__)}.") from None
        calls, events = client_calls(history), run_events(history)
        figures = run_counts(calls, events, asked)
        sentence = (
            f"{counted(figures['ops'], 'op')} in {figures['duration_s']:.1f} s: {figures['ok']} ok, {figures['fail']} "
            f"fail, {figures['info']} info; up to {figures['max_concurrency']} at once."
        )
        sentences: list[str | None] = [sentence, waited(figures)]
        if figures["load"] is not None:
            sentences.append(figures["load"]["sentence"])
        return Verdict(
            checker=self.name,
            valid="true",
            algorithm="counts",
            sentence=" ".join(each for each in sentences if each is not None),
            figures=figures,
        )


WAIT_SHOWN_MS: Final = 100.0
"""The least difference, in ms, at which the sentence also gives the latency from when ops were due."""


def waited(figures: Mapping[str, Any]) -> str | None:
    """A sentence if ops waited for a free client so long that the slowest were clearly slower; else None."""
    begun, due = (figures[name].get("ok", {}).get("p99", 0.0) for name in ("latency_ms", "due_latency_ms"))
    if due - begun <= WAIT_SHOWN_MS:
        return None
    return (
        f"The p99 latency of ok ops is {begun / 1000:.3g} s; with the time for which they waited for a free client "
        f"it is {due / 1000:.3g} s."
    )
