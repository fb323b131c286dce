"""A node may refuse to start on a disk that lost data for good: that is no crash and no harness error."""

from __future__ import annotations

import pytest

from splitbrain.checkers import engine
from splitbrain.checkers.verdict import Outcome
from splitbrain.harness.campaigns.compose import RunOptions, compose
from splitbrain.harness.running.simulate import simulate
from tests.cli.test_arguments import OPTIONS


@pytest.mark.slow
@pytest.mark.parametrize("nemesis", ["disk-truncate", "disk-truncate,kill", "disk-truncate,power"])
@pytest.mark.parametrize("seed", [1, 2])
def test_nodes_that_refuse_a_damaged_disk_leave_the_run_inconclusive(nemesis: str, seed: int) -> None:
    options = {"backend": "sim", "seed": seed, "time_limit": 30.0, "nemesis": nemesis}
    test = compose(RunOptions.of(**{**OPTIONS, **options}))
    left = simulate(test)
    assert left.failure is None
    verdicts = engine.judge(left.history, test.workload.checkers, left.telemetry)
    found = {verdict.checker: verdict for verdict in verdicts}
    assert found["crashes"].valid == "true"
    assert engine.judged_outcome(verdicts, None)[0] is Outcome.INCONCLUSIVE
    assert "their disks lost data" in found["recovery"].sentence
