"""How far the clocks of the nodes' hosts were from the controller's, as the harness recorded it in the history.

An op of the harness, `f` "clocks", has it in seconds: `offsets_s` (how far each host's CLOCK_MONOTONIC is ahead of the
controller's), `errors_s` (how far from the truth that may be), and `walls_s` (the same of the wall clocks, with which
hosts stamp logs; a clock fault of a node comes on top). The last such op of a run holds for the whole of it.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from splitbrain.results.arrow import own_ops
from splitbrain.results.faults import RunEvents
from splitbrain.results.history import HARNESS, Op
from splitbrain.results.notes import CLOCKS, Clocks, notes_of


def clocks_of(events: RunEvents) -> Clocks:
    """The estimates of its hosts' clocks that a run recorded.

    Raises:
        HistoryFormatError: the note is damaged.
    """
    return _last(events.harness)


def clocks_in(history: pa.Table) -> Clocks:
    """The same, from a history of which nothing else is wanted."""
    return _last([op for op in own_ops(history) if op.process == HARNESS])


def _last(harness: Sequence[Op]) -> Clocks:
    found = notes_of(harness, CLOCKS, Clocks)
    return found[-1][1] if found else Clocks()
