"""Did this test test anything? Reasons why a run proves too little, whatever the other checkers say.

A pass means something only if clients got work done, if the faults that were asked for really took place while clients
were at work, and if the controller itself was awake to record it. Never a violation: reasons make a run inconclusive.
"""

from __future__ import annotations

from splitbrain.checkers.coverage.checker import Coverage
from splitbrain.checkers.coverage.options import Load, Options

__all__ = ["Coverage", "Load", "Options"]
