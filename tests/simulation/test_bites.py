"""Every way in which a simulated fault strikes does something to the cluster, which survives it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from splitbrain.checkers import engine
from splitbrain.harness.campaigns.compose import RunOptions, compose
from splitbrain.harness.running.simulate import simulate
from splitbrain.nemesis.catalogue import NEMESES, UNFAIR
from splitbrain.results.history import NEMESIS
from tests.cli.test_arguments import OPTIONS

WAYS = {
    "packet-loss": "messages lost",
    "packet-duplicate": "messages duplicated",
    "packet-reorder": "messages reordered",
    "packet-corrupt": "messages corrupted",
    "packet-delay": "messages delayed",
    "packet-rate": "messages queued",
    "packet-mtu": "messages oversized",
    "packet-flaky": "connection reset",
    "clog": "messages held",
    "disk-full": "disk refused writes",
    "disk-read-only": "disk refused writes",
    "disk-fails": "disk failed",
    "disk-sync": "sync failed",
    "disk-slow": "disk was slow",
    "clock-strobe": "clock strobed",
    "cpu-all": "node throttled",
    "cpu-leader": "leader throttled",
    "restart-rolling": "rolling restart",
    "restart-at-once": "restarted at once",
    "restart-any-order": "restarted in another order",
    "restart-in-good-order": "restarted in good order",
    "transfer": "leadership transferred",
    "groups": "group made again",
    "groups-some": "group made in part",
    "membership-replace": "member replaced",
    "membership-learner": "learner promoted",
    "bounce-random": "node bounced",
    "moment,kill": "fault at a moment",
    "bounce-at-moments": "fault at a moment",
    "upgrade": "every node upgraded",
}
"""By name the mark that says that it did something."""


@pytest.mark.slow
@pytest.mark.parametrize(("name", "mark"), WAYS.items())
def test_a_fault_that_strikes_does_something_and_the_cluster_survives_it(name: str, mark: str) -> None:
    limit_s = 60.0 if name == "moment,kill" else 12.0  # most moments do not come in a cluster at rest
    given = {"backend": "sim", "nemesis": name, "time_limit": limit_s, "interval": 1.5, "rate": 50.0}
    test = compose(RunOptions.of(**{**OPTIONS, **given}))
    left = simulate(test)
    assert left.failure is None
    assert left.marks[mark] > 0
    ops = [op for op in left.ops if op.process == NEMESIS and op.type != "invoke"]
    assert [op.error for op in ops if op.type != "ok"] == []
    verdicts = engine.judge(left.history, test.workload.checkers, left.telemetry)
    assert [verdict.checker for verdict in verdicts if verdict.valid == "false"] == []


@pytest.mark.slow
def test_a_strobing_clock_jumps_as_often_as_it_should() -> None:
    given = {"backend": "sim", "nemesis": "clock-strobe", "time_limit": 20.0, "interval": 2.0, "rate": 20.0}
    left = simulate(compose(RunOptions.of(**{**OPTIONS, **given})))
    struck: Mapping[str, Any] = {}
    began_ns, seen = 0, 0
    for op in left.ops:
        if op.process == NEMESIS and op.type == "ok" and op.f == "start-clock":
            struck, began_ns = op.value["skew"], op.time
        elif op.process == NEMESIS and op.type == "ok" and op.f == "stop-clock":
            for node, told in op.value["evidence"].items():
                expected = (op.time - began_ns) / 1e6 / struck[node]["strobe_ms"]
                assert abs(told["jumps"] - expected) <= 1
                seen += 1
    assert seen > 3


@pytest.mark.slow
def test_what_is_unfair_is_found_out() -> None:
    assert set(UNFAIR) < set(NEMESES)
    given = {"backend": "sim", "nemesis": ",".join(UNFAIR), "time_limit": 12.0, "interval": 1.5, "rate": 50.0}
    left = simulate(compose(RunOptions.of(**{**OPTIONS, **given})))
    assert left.marks["files truncated"] > 0
    assert left.marks["node did not start on rotten data"] + left.marks["node started on rotten data"] > 0
