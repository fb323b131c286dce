"""Nodes that end by themselves. In a simulation nothing but their own code can end them: each is a defect found.

A broken invariant that a node notices is the earliest evidence of a bug; what clients see of it may never come, as a
node that stopped answers nobody (TigerBeetle's simulator counts a panic as a failure for the same reason). A node that
stops because its disk failed does what it should: the harness notes that as a "halt", which is none of this.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

import pyarrow as pa

from splitbrain.checkers.verdict import Partition, Verdict
from splitbrain.results.calls import seconds
from splitbrain.results.errors import UsageError
from splitbrain.results.faults import happenings

TOLD_MAX = 10
"""Crashes that the evidence lists."""


class Crashes:
    """Judges the harness's notes "crash"; it takes no options.

    node-crash   a node ended by itself, and its disk was well
    """

    name = "crashes"
    partition: Partition = "run"

    def check(self, history: pa.Table, options: Mapping[str, Any]) -> Verdict:
        """Judge one run."""
        if options:
            raise UsageError(f"checker crashes takes no options, not {', '.join(options)}.")
        crashes = [(op, cast("dict[str, Any]", op.value)) for op in happenings(history).of_harness("crash")]
        if not crashes:
            return Verdict(checker=self.name, valid="true", sentence="No node ended by itself.", figures={"crashes": 0})
        first, told = crashes[0]
        more = "" if len(crashes) == 1 else f" ({len(crashes) - 1} more)"
        return Verdict(
            checker=self.name,
            valid="false",
            sentence=(
                f"Node {told.get('node')} ended by itself before {seconds(first.time):.3f} s: "
                f"{told.get('exit', 'nobody knows why')}{more}."
            ),
            anomalies=("node-crash",),
            figures={"crashes": len(crashes)},
            evidence={
                "ended": [{"op": op.index, "time_s": seconds(op.time), **value} for op, value in crashes[:TOLD_MAX]]
            },
        )

    def merge(self, verdicts: Iterable[Verdict], options: Mapping[str, Any]) -> Verdict:
        """A run is one partition: there is one verdict."""
        (verdict,) = verdicts
        return verdict
