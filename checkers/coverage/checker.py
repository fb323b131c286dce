"""The checker `coverage`: puts together what is missing of a run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from splitbrain.checkers.coverage.calls import carried_out_alone
from splitbrain.checkers.coverage.controller import of_controller, of_nodes, of_recovery, recovery_s, stalled_s
from splitbrain.checkers.coverage.options import Options, options_of
from splitbrain.checkers.coverage.struck import of_faults
from splitbrain.checkers.coverage.work import Work
from splitbrain.checkers.verdict import Partition, Verdict
from splitbrain.results.calls import Calls, client_calls
from splitbrain.results.counts import window_counts
from splitbrain.results.faults import Happenings, happenings
from splitbrain.results.reasons import in_order


class Coverage:
    """Finds reasons why a run is inconclusive; its options are the fields of `Options`.

    The figures: `ok` per function, `floors` (what the run had to do, see `splitbrain.checkers.coverage.work`),
        `stalled_s`,
    `recovery_s`, and `windows`: when each fault was in force, how the client ops ended that were invoked in it, and how
    many under way in it ended, and were answered.
    """

    name = "coverage"
    partition: Partition = "run"

    def check(self, history: pa.Table, options: Mapping[str, Any]) -> Verdict:
        """Look at one run.

        Raises:
            UsageError: an option is wrong.
        """
        wanted = options_of(options)
        calls, around = client_calls(history), happenings(history)
        windows = [window_counts(calls, window) for window in around.windows]
        work = Work(calls, around, wanted)
        reasons = in_order(
            [
                *of_controller(around, wanted),
                *of_nodes(around),
                *of_recovery(around),
                *work.reasons(),
                *of_faults(around, windows if not wanted.local else _asked(calls, around, wanted), wanted),
            ]
        )
        if reasons:
            more = f" ({len(reasons) - 1} more reasons)" if len(reasons) > 1 else ""
            sentence = f"Inconclusive: {reasons[0]}{more}"
        elif windows:
            sentence = f"The run tested what it was meant to: {len(windows)} fault windows, client ops in each of them."
        else:
            sentence = "The run tested what it was meant to (no faults were asked for)."
        recovery = recovery_s(around)
        figures: dict[str, Any] = {
            "ok": work.ok_by_f(),
            "floors": work.floors(),
            "stalled_s": stalled_s(around),
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

    def merge(self, verdicts: Iterable[Verdict], options: Mapping[str, Any]) -> Verdict:
        """A run is one partition: there is one verdict."""
        (verdict,) = verdicts
        return verdict


def _asked(calls: Calls, around: Happenings, wanted: Options) -> list[dict[str, Any]]:
    """The windows with those ops only that clients asked nodes for: a fault meets no other load."""
    of_nodes = ~carried_out_alone(calls, wanted.local)
    asked = Calls(calls.table, calls.invoke[of_nodes], calls.complete[of_nodes])
    return [window_counts(asked, window) for window in around.windows]
