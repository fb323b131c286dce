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
from splitbrain.harness.contract.elections import Elections
from splitbrain.harness.contract.test import Test
from splitbrain.nemesis.schedule import LONGEST

ATTEMPTS: Final = 6
"""How many ops each node gets in it: twice as many as its silence must last for (`quorum.checker.Options`)."""

SHARE_MOST: Final = 0.5
"""The largest share of a test that is calm: one that is too short is about its faults."""


def calm_s(elections: Elections, interval_s: float, op_timeout_s: float, nodes: int, rate_hz: float) -> float:
    """How long the last window must be, in seconds; 0 if those between faults are long enough.

    Args:
        elections: of the system, in this test.
        interval_s: mean time between nemesis ops.
        op_timeout_s: how long a client waits.
        nodes: how many there are.
        rate_hz: of all clients together.
    """
    unjudged_s = elections.bound_s + op_timeout_s
    if LONGEST * interval_s > unjudged_s:
        return 0.0
    return unjudged_s + ATTEMPTS * nodes / rate_hz


def faults_end_s(test: Test, interval_s: float) -> float:
    """After this time no fault of a test begins, and those in force are healed one after the other.

    Args:
        test: what is run; of its nemesis nothing matters.
        interval_s: mean time between nemesis ops, in seconds.
    """
    elections = test.system.capabilities.elections
    if elections is None or not only_answers_tell(test):
        return test.time_limit_s
    elections = elections.under(test.settings)
    needed_s = calm_s(elections, interval_s, test.longest_timeout_s, len(test.nodes), test.rate)
    if needed_s == 0.0:
        return test.time_limit_s
    return max(test.time_limit_s - needed_s - interval_s, (1.0 - SHARE_MOST) * test.time_limit_s)


def only_answers_tell(test: Test) -> bool:
    """Whether the nodes of a test say nothing of themselves: they write no telemetry, and are not asked for any."""
    silent = validate.system(test.system).telemetry(test, Path("node")) is None
    return silent and test.system.capabilities.observation is None
