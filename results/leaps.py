"""Indexes and terms in telemetry that no log reaches.

Where a system begins to count is its own affair: some take a clock for an index, whose numbers are close to the largest
that there are. But within a run no log grows by 2^61 entries, and no term by as many elections: a column that spans so
much is damaged. Zero and what is below it stand for "none", as does the least number that there is; they may stand
beside any index.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from splitbrain.results.columns import numbers
from splitbrain.results.errors import HistoryFormatError

COLUMNS: Final = (
    "term",
    "commit_index",
    "applied_index",
    "last_index",
    "applied_count",
    "log_index",
    "log_term",
    "counted_index",
)
"""The columns that count entries or elections."""

LEAP: Final = 2**61

_NONE: Final = -(2**63)


class Leaps:
    """Looks for them in the telemetry of one run, which may come in pieces.

    Args:
        source: the file, as an error names it.
    """

    def __init__(self, source: str) -> None:
        self._source = source
        self._spans: dict[str, tuple[int, int]] = {}

    def refuse(self, telemetry: pa.Table) -> None:
        """Take the next piece into account.

        Raises:
            HistoryFormatError: a column spans more than a run can.
        """
        for name in COLUMNS:
            found = numbers(telemetry.column(name), null=0)
            below = found[(found <= -LEAP) & (found > _NONE)]
            if len(below):
                raise HistoryFormatError(self._source, f"{name} is {below[0]}: no log begins so far below zero")
            counted = found[found > 0]
            if len(counted):
                self._widen(name, int(counted.min()), int(counted.max()))

    def _widen(self, name: str, low: int, high: int) -> None:
        before = self._spans.get(name, (low, high))
        low, high = min(low, before[0]), max(high, before[1])
        if high - low >= LEAP:
            raise HistoryFormatError(
                self._source, f"{name} is {low} in one row and {high} in another: no run goes so far"
            )
        self._spans[name] = low, high
