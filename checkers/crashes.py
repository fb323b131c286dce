"""Nodes that end by themselves. In a simulation only their own code can end them: each crash is a defect.

A broken invariant that a node detects is the earliest evidence of a bug. Clients may never see it, since a stopped node
does not answer (TigerBeetle's simulator counts a panic as a failure for the same reason). A node that stops because its
disk failed is correct: the harness records that as a "halt", which does not count here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import pyarrow as pa

from splitbrain.checkers.verdict import OfOneRun, Partition, Verdict
from splitbrain.results.calls import seconds
from splitbrain.results.errors import UsageError
from splitbrain.results.faults import run_events
from splitbrain.results.notes import NodeEnded

CRASHES_MAX = 10
"""The largest number of crashes in the evidence."""


class Crashes(OfOneRun):
    """Judges the harness ops "crash"; it takes no options.

    node-crash   a node ended by itself, and its disk had not failed
    """

    name = "crashes"
    partition: Partition = "run"
    counts_ops = True

    def check(self, history: pa.Table, options: Mapping[str, Any]) -> Verdict:
        """Judge one run."""
        if options:
            raise UsageError(f"checker crashes takes no options, not {', '.join(options)}.")
        crashes = run_events(history).notes("crash", NodeEnded)
        if not crashes:
            return Verdict(checker=self.name, valid="true", sentence="No node ended by itself.", figures={"crashes": 0})
        first, crash = crashes[0]
        more = "" if len(crashes) == 1 else f" ({len(crashes) - 1} more)"
        return Verdict(
            checker=self.name,
            valid="false",
            sentence=(f"Node {crash.node} ended by itself before {seconds(first.time):.3f} s: {crash.how}{more}."),
            anomalies=("node-crash",),
            figures={"crashes": len(crashes)},
            evidence={
                "ended": [
                    {"op": op.index, "time_s": seconds(op.time), **_shown(value)} for op, value in crashes[:CRASHES_MAX]
                ]
            },
        )


def _shown(ended: NodeEnded) -> dict[str, Any]:
    """What a note says, as evidence, without what it leaves out."""
    return {name: each for name, each in msgspec.structs.asdict(ended).items() if each not in (None, False)}
