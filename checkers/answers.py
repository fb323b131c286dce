"""Answers that are none: a node answered a question with what cannot be the answer to it.

The harness looks at every answer of the built-in operations (`splitbrain.harness.contract.answers`), and systems say so
where they cannot read a reply. Such an op is recorded as `info`, as the client learned nothing of its outcome. That it
was answered so proves a defect of the system: its nodes mixed up replies, or damaged one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa

from splitbrain.checkers.verdict import OfOneRun, Partition, Verdict
from splitbrain.results.calls import cell, client_calls, place, seconds
from splitbrain.results.errors import UsageError
from splitbrain.results.errors_of_ops import that_begin
from splitbrain.results.nonsense import NONSENSE
from splitbrain.results.quantities import counted

SHOWN_MAX: Final = 10
"""The largest number of ops in the evidence."""


class Answers(OfOneRun):
    """Judges how client ops ended; it takes no options.

    nonsense-answer   an op was answered with a value of a shape that no such op can have, or that nothing can read
    """

    name = "answers"
    partition: Partition = "run"
    counts_ops = True

    def check(self, history: pa.Table, options: Mapping[str, Any]) -> Verdict:
        """Judge one run."""
        if options:
            raise UsageError(f"checker answers takes no options, not {', '.join(options)}.")
        calls = client_calls(history)
        rows = that_begin(calls, NONSENSE).tolist()
        figures = {"nonsense": len(rows)}
        if not rows:
            return Verdict(
                checker=self.name, valid="true", sentence="Every answer can be one to what was asked.", figures=figures
            )
        table, first = calls.table, rows[0]
        index, f, node, process = (cell(table, column, first) for column in ("index", "f", "node", "process"))
        time_ns: int = cell(table, "time", first)
        what = str(cell(table, "error", first)).removeprefix(NONSENSE)
        more = "" if len(rows) == 1 else f" ({counted(len(rows) - 1, 'more op')} alike)"
        return Verdict(
            checker=self.name,
            valid="false",
            sentence=(
                f"Node {node} did not answer what was asked: op {index} ({f!r} of process {process}, at "
                f"{seconds(time_ns):.3f} s): {what}{more}."
            ),
            anomalies=("nonsense-answer",),
            figures=figures,
            evidence={"ops": [place(table, row) for row in rows[:SHOWN_MAX]]},
        )
