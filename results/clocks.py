"""How far the clocks of the nodes' hosts were from the controller's, as the harness recorded it in the history.

An op of the harness, `f` "clocks", has it in seconds: `offsets_s` (how far each host's CLOCK_MONOTONIC is ahead of the
controller's), `errors_s` (how far from the truth that may be), and `walls_s` (the same of the wall clocks, with which
hosts stamp logs; a clock fault of a node comes on top). The last such op of a run holds for the whole of it.
"""

from __future__ import annotations

from typing import Any

import msgspec
import pyarrow as pa

from splitbrain.results.arrow import from_table
from splitbrain.results.calls import ints
from splitbrain.results.columns import array
from splitbrain.results.faults import RunEvents
from splitbrain.results.history import HARNESS, Op

CLOCKS = "clocks"


class Clocks(msgspec.Struct, frozen=True):
    """By node, in seconds; empty where the run has no estimates.

    Attributes:
        offsets_s: how far the monotonic clock of its host is ahead of the controller's.
        errors_s: how far that may be from the truth.
        walls_s: how far the wall clock of its host is ahead of the controller's.
    """

    offsets_s: dict[str, float] = {}
    errors_s: dict[str, float] = {}
    walls_s: dict[str, float] = {}

    @property
    def error_s(self) -> float:
        """The largest error; 0 without estimates."""
        return max(self.errors_s.values(), default=0.0)

    def ahead_ns(self) -> dict[str, int]:
        """`offsets_s` in nanoseconds."""
        return {node: round(offset * 1e9) for node, offset in self.offsets_s.items()}


def clocks_of(events: RunEvents) -> Clocks:
    """The estimates of its hosts' clocks that a run recorded."""
    return _last(events.of_harness(CLOCKS))


def clocks_in(history: pa.Table) -> Clocks:
    """The same, from a history of which nothing else is wanted."""
    of_harness = from_table(history.filter(array(ints(history, "process") == HARNESS)))
    return _last([op for op in of_harness if op.f == CLOCKS])


def _last(ops: list[Op]) -> Clocks:
    value: Any = ops[-1].value if ops else {}
    try:
        return msgspec.convert(value, Clocks)
    except msgspec.ValidationError:  # an imported history may hold anything under the name
        return Clocks()
