"""Reasons that come from the clients themselves: code of theirs that failed."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from splitbrain.results.calls import Calls, cell, seconds
from splitbrain.results.errors_of_ops import that_begin
from splitbrain.results.nonsense import CLIENT_FAILED
from splitbrain.results.quantities import counted
from splitbrain.results.reasons import Code, Reason


def of_clients(calls: Calls) -> Iterator[Reason]:
    """The reason why nothing is proven if an op ended because its client's code failed."""
    rows = that_begin(calls, CLIENT_FAILED)
    if not len(rows):
        return
    first = int(rows[0])
    op, f, node = (cell(calls.table, column, first) for column in ("index", "f", "node"))
    error = str(cell(calls.table, "error", first)).removeprefix(CLIENT_FAILED)
    more = f" ({counted(len(rows) - 1, 'more op')} alike)" if len(rows) > 1 else ""
    yield Reason(
        Code.CLIENT_FAILED,
        f"a client failed in its own code at {seconds(int(np.asarray(calls.table['time'])[first])):.3f} s, in {f!r} on "
        f"node {node} (op {op}): {error}{more}.",
        "Correct the client, or have it raise IndefiniteError where the outcome is unknown.",
    )
