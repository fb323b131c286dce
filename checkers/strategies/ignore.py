"""MN-4 and MN-8: under ignore a node does nothing about a partition, but make a partial one whole.

    stopped-by-itself  a strategy stopped a database
    left-partial       a node learned that a node which is down for it is not for another one, and kept that one
    partial-unseen     nodes saw what makes a partial partition, and none of them did anything

What both sides acknowledged stays on both sides, until somebody restarts a node. As the way to recover of
pause-if-all-down it says the same of nodes that see a listed one, and they may pause.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from splitbrain.checkers.strategies import partial
from splitbrain.checkers.strategies.unseen import unseen
from splitbrain.checkers.strategies.verdicts import run_of, verdict
from splitbrain.checkers.verdict import OfOneRun, Verdict, Whole
from splitbrain.results.quantities import counted


class StrategyIgnore(OfOneRun):
    """Judges each stop of a database, and each word of a partial partition. No options.

    Unknown: no link was cut, or no node saw a database that runs apart from its own. The figures: `apart`, the nodes
    that did; `partial`, how often a node learned of a partial partition; `cuts` and `broken`.
    """

    name = "strategy-ignore"
    partition: Whole = "whole run"
    counts_ops = True

    def check(self, history: pa.Table, telemetry: pa.Table, options: Mapping[str, Any]) -> Verdict:
        """Judge a run: its nemesis ops, and the telemetry of its nodes.

        Raises:
            HistoryFormatError: a row does not say what it counts in the form `n1=17`.
        """
        run = run_of(self.name, history, telemetry, options)
        pauses = run.reported.setup.strategy != "ignore"
        stops = ("loses",) if pauses else ("loses", "pauses")
        found = [
            run.finding("stopped-by-itself", f"Stopped: the strategy of {each.node} stopped its database", each)
            for each in run.reported.sights
            if each.event in stops
        ]
        if not pauses:
            found += [*partial.not_made_whole(run), *unseen(run)]
        apart = sorted({each.node for each in run.reported.sights if each.is_whole and each.apart})
        figures = {"apart": len(apart), "partial": partial.count(run)}
        praise = f"{counted(len(apart), 'node')} ran apart from others, and no strategy stopped a database."
        occasion = None if apart else "no node saw another one that runs apart from it: ignore had nothing to ignore."
        return verdict(self.name, run, found, praise, figures, occasion)
