"""How far the clocks of the nodes' hosts were from the controller's, as measured and noted in the history.

The harness notes it as an op of its own, `clocks`, whose value holds `walls_s` (for each node how many seconds its
host's wall clock, with which logs are stamped, was ahead of the controller's; negative: behind) and `errors_s` (how
wrong that may be). Where there are several the last word on each node counts. What libfaketime adds to a node's clock
is a fault, and not in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple, cast

from results.faults import Happenings

OP: Final = "clocks"
"""The function of the harness's op."""


class HostClocks(NamedTuple):
    """By node, in seconds: how far its host's clock was ahead of the controller's, and how wrong that may be."""

    walls_s: Mapping[str, float]
    errors_s: Mapping[str, float]

    def offset_ns(self, node: str) -> int:
        """How many nanoseconds a node's clock was ahead; 0 where nobody measured it."""
        return round(self.walls_s.get(node, 0.0) * 1e9)

    @property
    def words(self) -> str:
        """The worst of them in words, "" where nothing was measured."""
        if not self.walls_s:
            return ""
        largest = max(abs(ahead) for ahead in self.walls_s.values())
        error = max(self.errors_s.values(), default=0.0)
        if largest == 0 and error == 0:
            return "one clock for all"
        known = f", known within {_ms(error)}" if self.errors_s else ""
        return f"within {_ms(largest)} of the controller's{known}"


def clocks_of(around: Happenings) -> HostClocks:
    """What was measured; empty in a run in which nobody did."""
    walls: dict[str, float] = {}
    errors: dict[str, float] = {}
    for op in around.of_harness(OP):
        if isinstance(op.value, dict):
            told = cast("dict[str, Any]", op.value)
            walls |= _numbers(told.get("walls_s"))
            errors |= _numbers(told.get("errors_s"))
    return HostClocks(walls, errors)


def _numbers(value: Any) -> dict[str, float]:
    if not isinstance(value, dict):
        return {}
    told = cast("dict[Any, Any]", value)
    return {
        str(node): float(number)
        for node, number in told.items()
        if isinstance(number, (int, float)) and not isinstance(number, bool) and abs(number) < 1e9
    }


def _ms(time_s: float) -> str:
    return f"{time_s:.1f} s" if abs(time_s) >= 10 else f"{time_s * 1000:.3g} ms"
