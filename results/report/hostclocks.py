"""What the page says of the clocks of the nodes' hosts, and takes off the times in their logs (see
`splitbrain.results.clocks`).

Logs are stamped by wall clocks. What libfaketime adds to a node's clock is a fault, and it was not measured.
"""

from __future__ import annotations

from typing import Final

from splitbrain.results.notes import Clocks

_FARTHEST_S: Final = 1e9
"""Clocks that are farther apart are none: an imported history may hold any number."""


def ahead_ns(clocks: Clocks, node: str) -> int:
    """Nanoseconds by which a node's host's wall clock was ahead of the controller's; 0 where it was not measured."""
    ahead_s = clocks.walls_s.get(node, 0.0)
    return round(ahead_s * 1e9) if abs(ahead_s) < _FARTHEST_S else 0


def words_of(clocks: Clocks) -> str:
    """The worst of the wall clocks in words, "" where nothing was measured."""
    if not clocks.walls_s:
        return ""
    largest_s = max(abs(ahead_s) for ahead_s in clocks.walls_s.values())
    if largest_s == 0 and clocks.error_s == 0:
        return "one clock for all"
    known = f", known within {_ms(clocks.error_s)}" if clocks.errors_s else ""
    return f"within {_ms(largest_s)} of the controller's{known}"


def _ms(time_s: float) -> str:
    return f"{time_s:.4g} s" if time_s >= 10 else f"{time_s * 1000:.3g} ms"
