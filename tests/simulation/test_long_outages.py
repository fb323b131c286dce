"""No pass over an outage of almost the whole run, however long clients wait for their answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest

from splitbrain.checkers import engine
from splitbrain.checkers.verdict import Outcome, reasons
from splitbrain.harness.campaigns.compose import RunOptions, compose
from splitbrain.harness.running.simulate import simulate
from tests.cli.test_arguments import OPTIONS

OUTAGES: Final[dict[str, list[str]]] = {
    "answers come after the outage": ['[1.0, "pause", {"spec": "all"}]', '[14.0, "resume"]'],
    "nodes are down": ['[1.0, "kill", {"spec": "all"}]', '[14.5, "start"]'],
}
"""Both last for thirteen of fifteen seconds."""

WORKLOADS: Final = ("register", "set", "lock", "declare", "create-once", "records")

QUICK: Final = [("register", "answers come after the outage", 30.0), ("lock", "nodes are down", 1000.0)]

OP_TIMEOUTS: Final = (1.0, 30.0, 1000.0)

ALL: Final = [
    (workload, outage, OP_TIMEOUTS[(row + place) % len(OP_TIMEOUTS)])
    for row, workload in enumerate(WORKLOADS)
    for place, outage in enumerate(OUTAGES)
]
"""Each timeout in turn."""


def outcome_of(tmp_path: Path, workload: str, outage: str, **given: Any) -> tuple[Outcome, list[str]]:
    schedule = tmp_path / "faults.schedule"
    schedule.write_text("\n".join(OUTAGES[outage]))
    options = {
        "backend": "sim",
        "seed": 1,
        "time_limit": 15.0,
        "schedule": str(schedule),
        "workload": workload,
        **given,
    }
    test = compose(RunOptions.of(**{**OPTIONS, **options}))
    left = simulate(test)
    assert left.failure is None
    verdicts = engine.judge(left.history, test.workload.checkers, left.telemetry)
    return engine.judged_outcome(verdicts, None)[0], [reason.code.value for reason in reasons(verdicts)]


def never_passes(tmp_path: Path, workload: str, outage: str, op_timeout: float) -> None:
    outcome, codes = outcome_of(tmp_path, workload, outage, op_timeout=op_timeout)
    assert outcome is Outcome.INCONCLUSIVE
    assert {"mostly-silent", "too-few-ops", "never-ok"} & set(codes), codes


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("workload", "outage", "op_timeout"), QUICK)
def test_an_outage_of_most_of_the_run_does_not_pass(
    tmp_path: Path, workload: str, outage: str, op_timeout: float
) -> None:
    never_passes(tmp_path, workload, outage, op_timeout)


@pytest.mark.slow
@pytest.mark.parametrize(("workload", "outage", "op_timeout"), ALL)
def test_no_outage_of_most_of_the_run_passes(tmp_path: Path, workload: str, outage: str, op_timeout: float) -> None:
    never_passes(tmp_path, workload, outage, op_timeout)
