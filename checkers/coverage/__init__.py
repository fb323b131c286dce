"""Coverage: whether the run tested enough. It gives reasons why a run is inconclusive.

It does not look at what other checkers find.

A pass has a meaning only if clients completed ops, if the requested faults took effect while ops were under way, and if
the controller was not stalled. Coverage never reports a violation: its reasons make a run inconclusive.
"""

from __future__ import annotations

from splitbrain.checkers.coverage.checker import Coverage
from splitbrain.checkers.coverage.options import Load, Options

__all__ = ["Coverage", "Load", "Options"]
