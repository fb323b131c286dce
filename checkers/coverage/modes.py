"""Reads that may be stale only under faults: if none was answered under faults, their promise was not tested."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from splitbrain.checkers.coverage.calls import ClientOps
from splitbrain.checkers.coverage.options import Options
from splitbrain.checkers.coverage.sights import SEEN_MIN
from splitbrain.results.calls import seconds
from splitbrain.results.faults import RunEvents
from splitbrain.results.quantities import counted
from splitbrain.results.reasons import Code, Reason


def of_modes(ops: ClientOps, events: RunEvents, wanted: Options) -> Iterator[Reason]:
    """A reason for each of these functions of which too few ops were ok once a fault had begun."""
    if not events.windows:
        return
    begin_ns = min(window.begin_ns for window in events.windows)
    for f in wanted.under_faults:
        ok = int(np.count_nonzero(ops.are(f) & ops.ok & ops.faults & (ops.begun >= begin_ns)))
        if ok < SEEN_MIN:
            yield Reason(
                Code.NO_OCCASION,
                f"only {counted(ok, 'ok op')} of {f!r} after the first fault began, at {seconds(begin_ns):.3f} s; at "
                f"least {SEEN_MIN} are needed: such reads may be stale only then.",
                "Give it a longer --time-limit, a shorter --interval, or a higher --rate.",
            )
