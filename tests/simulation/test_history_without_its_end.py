"""A history that has lost its end is never a pass, wherever it was cut: nothing says what the lost rows would show."""

from __future__ import annotations

import pytest

from splitbrain.checkers import engine
from splitbrain.checkers.verdict import Outcome, Verdict, reasons
from splitbrain.harness.campaigns.compose import RunOptions, compose
from splitbrain.harness.running.simulate import simulate
from splitbrain.results.reasons import Code
from tests.cli.test_arguments import OPTIONS


@pytest.mark.parametrize("workload", ["register", "set", "queue"])
def test_a_run_that_passes_is_inconclusive_without_its_last_rows(workload: str) -> None:
    given = {"workload": workload, "backend": "sim", "nemesis": "partition", "time_limit": 8.0, "rate": 60.0, "seed": 3}
    test = compose(RunOptions.of(**{**OPTIONS, **given}))
    left = simulate(test)
    assert left.failure is None

    def judged(rows: int) -> tuple[Outcome, list[Verdict]]:
        verdicts = engine.judge(left.history.slice(0, rows), test.workload.checkers, left.telemetry)
        return engine.judged_outcome(verdicts)[0], verdicts

    rows = left.history.num_rows
    assert judged(rows)[0] is Outcome.PASS
    for lost in (1, 2, 3, 10, 100, rows // 2):
        outcome, verdicts = judged(rows - lost)
        assert outcome is not Outcome.PASS
        assert Code.HISTORY_CUT in [reason.code for reason in reasons(verdicts)]
