"""MN-2: a node that is silent is taken for down after the tick time, and before 1.25 of it: under every strategy.

too-early       a session ended before the tick time was over, and neither side had a reason for it
did-not-notice  nothing could come from a node for longer than it takes to declare it down, and another one saw it
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from splitbrain.checkers.strategies.early import losses, too_early
from splitbrain.checkers.strategies.late import did_not_notice
from splitbrain.checkers.strategies.verdicts import run_of, verdict
from splitbrain.checkers.verdict import OfOneRun, Verdict, Whole
from splitbrain.results.quantities import counted


class StrategyDown(OfOneRun):
    """Judges each end of a session, and each cut. No options.

    Unknown: no link was cut, or no node took another one for down after a silence. The figures: `lost`, how often a
    session ended at a node; `silent`, how often after a silence of the tick time; `cuts` and `broken`.
    """

    name = "strategy-down"
    partition: Whole = "whole run"

    def check(self, history: pa.Table, telemetry: pa.Table, options: Mapping[str, Any]) -> Verdict:
        """Judge a run: its nemesis ops, and the telemetry of its nodes.

        Raises:
            HistoryFormatError: a row does not say what it counts in the form `n1=17`.
        """
        run = run_of(self.name, history, telemetry, options)
        lost = losses(run)
        found = [*did_not_notice(run), *(too_early(run, lost) if run.reported.is_complete else ())]
        silent = sum(each.silent_ms > run.reported.setup.tick_ms for each in lost)
        praise = (
            f"Nodes took others for down {counted(silent, 'time')} after they had been silent for the tick time, and "
            f"never before; {counted(len(lost) - silent, 'session')} ended for another reason."
        )
        occasion = None if silent else "no node took another one for down that had been silent for the tick time."
        return verdict(self.name, run, found, praise, {"lost": len(lost), "silent": silent}, occasion)
