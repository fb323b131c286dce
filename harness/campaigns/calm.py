"""The calm end of a test: faults end before clients do, where answers alone show that nodes make progress again.

Who answers after a fault is judged once the system had its time to recover, and clients theirs to wait
(`quorum-progress`). Where faults follow each other more quickly, no window is so long, and without telemetry nothing
else shows progress: the test would prove nothing about it. So the last window, in which nothing is wrong any more, is
made long enough.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from splitbrain.harness import validate
from splitbrain.harness.campaigns.judges import recovery_bound_s
from splitbrain.harness.contract.test import Test
from splitbrain.nemesis.schedule import LONGEST

ATTEMPTS: Final = 6
"""How many ops each node gets in it: twice as many as its silence must last for (`quorum.checker.Options`)."""

SHARE_MOST: Final = 0.5
"""The largest share of a test that is calm: one that is too short is about its faults."""


def calm_s(test: Test, interval_s: float) -> float:
    """How long before the end of a test the faults have to end, in seconds; 0 if that does not matter.

    That is so if its system has no elections or its nodes tell of themselves, or if windows between faults are so long
    that progress is judged in them.

    Args:
        test: what is run; its length and its nemesis do not matter.
        interval_s: mean time between nemesis ops, in seconds.
    """
    elections = test.system.capabilities.elections
    if elections is None or not only_answers_tell(test):
        return 0.0
    elections = elections.under(test.settings)
    unjudged_s = recovery_bound_s(test, elections) + test.longest_timeout_s
    if test.quiet_s is None:
        unjudged_s += elections.recovery_per_outage * min(LONGEST * interval_s, elections.outage_limit_s)
    if LONGEST * interval_s > unjudged_s:
        return 0.0
    return interval_s + unjudged_s + ATTEMPTS * len(test.nodes) / test.rate


def faults_end_s(test: Test, interval_s: float) -> float:
    """After this time no fault of a test begins, and those in force are healed one after the other.

    Args:
        test: what is run; its nemesis does not matter.
        interval_s: mean time between nemesis ops, in seconds.
    """
    return max(test.time_limit_s - calm_s(test, interval_s), (1.0 - SHARE_MOST) * test.time_limit_s)


def only_answers_tell(test: Test) -> bool:
    """Whether the nodes of a test say nothing of themselves: they write no telemetry, and are not asked for any."""
    silent = validate.system(test.system).telemetry(test, Path("node")) is None
    return silent and test.system.capabilities.observation is None
