"""A later version of the state machine comes into force once all members understand it (RA-43; Ra 2.16's rule `all`).

    not-understood  a leader put a version into force, and a member had not said in that term that it understands it

A member that does not understand the version applies nothing from there on, and does not start again. Mostly it is
about to be upgraded: then all is well a moment later, and no client sees that the leader did not wait. The answers that
the leader got show it each time.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from splitbrain.checkers.consensus.counts import counts_of, with_counts
from splitbrain.checkers.consensus.findings import verdict_of
from splitbrain.checkers.consensus.rows import Row, of_group, refuse_options
from splitbrain.checkers.verdict import OfOneRun, Partition, Verdict
from splitbrain.results.quantities import counted


class Versions(OfOneRun):
    """Judges every row of event "version": a leader has appended the entry that puts a later version into force.

    No options. `counted_index` is the version, and `counted` the one that each other member said it understands, in its
    newest answer of the leader's term, as it came in: 0 for a member that gave none. The figures: `raised` (rows that
    were judged) and `broken`.
    """

    name = "versions"
    partition: Partition = "telemetry"

    def check(self, telemetry: pa.Table, options: Mapping[str, Any]) -> Verdict:
        """Judge the telemetry of one run.

        Raises:
            HistoryFormatError: a row does not say what members understand in the form `n1=2 n2#1=2`.
        """
        refuse_options(self.name, options)
        raised = list(with_counts(telemetry, "version"))
        found = [_not_understood(row, early) for row in raised if (early := _early(row))]
        return verdict_of(
            self.name,
            algorithm="row by row",
            found=found,
            otherwise=_praise(len(raised)),
            figures={"raised": len(raised), "broken": len(found)},
        )


def _early(row: Row) -> dict[str, int]:
    """The members that had not said that they understand the version, with what they had said."""
    version = row.counted_index or 0
    return {member: said for member, said in counts_of(row).items() if said < version}


def _not_understood(row: Row, early: Mapping[str, int]) -> dict[str, Any]:
    said = [f"{member} had said {f'version {version}' if version else 'nothing'}" for member, version in early.items()]
    return {
        "anomaly": "not-understood",
        "sentence": (
            f"Not understood: {row.node}{of_group(row.group)} led term {row.term} and put version {row.counted_index} "
            f"of the state machine into force by entry {row.log_index} ({row.at}), when in that term "
            f"{' and '.join(said)}."
        ),
        "by": row.node,
        "row": row.shown(),
    }


def _praise(raised: int) -> str:
    if not raised:
        return "No leader put a later version of the state machine into force."
    return (
        f"Leaders put a later version of the state machine into force {counted(raised, 'time')}, each time after all "
        "members had said that they understand it."
    )
