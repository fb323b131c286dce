"""The checker `coverage`: collects the reasons why a run is inconclusive."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from splitbrain.checkers.coverage.calls import carried_out_alone
from splitbrain.checkers.coverage.clients import of_clients
from splitbrain.checkers.coverage.controller import of_controller, of_nodes, of_recovery, recovery_s, stalled_s
from splitbrain.checkers.coverage.faults import of_faults
from splitbrain.checkers.coverage.options import Options, options_of
from splitbrain.checkers.coverage.work import Work
from splitbrain.checkers.verdict import OfOneRun, Partition, Verdict
from splitbrain.results.calls import Calls, client_calls
from splitbrain.results.counts import window_counts
from splitbrain.results.faults import RunEvents, run_events
from splitbrain.results.quantities import counted
from splitbrain.results.reasons import in_order


class Coverage(OfOneRun):
    """Finds reasons why a run is inconclusive; its options are the fields of `Options`.

    The figures: `ok` per function, `floors` (what the run had to do, see `splitbrain.checkers.coverage.work`),
    `stalled_s`, `recovery_s`, and `windows`: when each fault was in force, how the client ops that were invoked in it
    ended, and how many ops under way in it ended, and were answered.
    """

    name = "coverage"
    partition: Partition = "run"
    counts_ops = True

    def check(self, history: pa.Table, options: Mapping[str, Any]) -> Verdict:
        """Look at one run.

        Raises:
            UsageError: an option is wrong.
        """
        wanted = options_of(options)
        calls, events = client_calls(history), run_events(history)
        windows = [window_counts(calls, window) for window in events.windows]
        work = Work(calls, events, wanted)
        reasons = in_order(
            [
                *of_controller(events, wanted),
                *of_clients(calls),
                *of_nodes(events),
                *of_recovery(events),
                *work.reasons(),
                *of_faults(events, windows if not wanted.local else _windows_at_nodes(calls, events, wanted), wanted),
            ]
        )
        if reasons:
            more = f" ({counted(len(reasons) - 1, 'more reason')})" if len(reasons) > 1 else ""
            sentence = f"Inconclusive: {reasons[0]}{more}"
        elif windows:
            sentence = f"The run tested enough: {counted(len(windows), 'fault window')}, client ops in each of them."
        else:
            sentence = "The run tested enough (the test has no faults)."
        recovery = recovery_s(events)
        figures: dict[str, Any] = {
            "ok": work.ok_by_f(),
            "floors": work.floors(),
            "stalled_s": stalled_s(events),
            "windows": windows,
            **({} if recovery is None else {"recovery_s": recovery}),
        }
        return Verdict(
            checker=self.name,
            valid="true",
            algorithm="coverage",
            sentence=sentence,
            inconclusive=tuple(reasons),
            figures=figures,
        )


def _windows_at_nodes(calls: Calls, events: RunEvents, wanted: Options) -> list[dict[str, Any]]:
    """The windows with only those ops that clients sent to nodes: a fault cannot affect others."""
    of_nodes = ~carried_out_alone(calls, wanted.local)
    ops = Calls(calls.table, calls.invoke[of_nodes], calls.complete[of_nodes])
    return [window_counts(ops, window) for window in events.windows]
