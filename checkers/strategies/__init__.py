"""What strategies for partitions promise (MN-2 to MN-8), judged on what nodes report that they saw and did.

A system under these strategies promises no client that its acknowledged write is kept (MN-9): that is what other
checkers judge. These judge whether a strategy did what it is there for, whatever was lost. They read the telemetry of
nodes (`splitbrain.checkers.strategies.sights` says what of it), and of the history what the nemesis had done when its
ops had ended; what was asked for counts for nothing.
"""

from __future__ import annotations

from splitbrain.checkers.strategies.apart import StrategyApart
from splitbrain.checkers.strategies.autoheal import StrategyAutoheal
from splitbrain.checkers.strategies.down import StrategyDown
from splitbrain.checkers.strategies.ignore import StrategyIgnore
from splitbrain.checkers.strategies.pausing import StrategyPauseIfAllDown, StrategyPauseMinority

__all__ = [
    "StrategyApart",
    "StrategyAutoheal",
    "StrategyDown",
    "StrategyIgnore",
    "StrategyPauseIfAllDown",
    "StrategyPauseMinority",
]
