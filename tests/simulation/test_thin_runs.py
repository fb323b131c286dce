"""Runs that did next to nothing do not pass; the commands are those of real runs that once did."""

from __future__ import annotations

from typing import Any

import pytest

from splitbrain.checkers import engine
from splitbrain.checkers.verdict import Outcome, reasons
from splitbrain.harness.campaigns.compose import RunOptions, compose
from splitbrain.harness.campaigns.overlaps import SELDOM
from splitbrain.harness.running.simulate import simulate

OPTIONS: dict[str, Any] = {
    "system": "metadata",
    "backend": "sim",
    "bug": "",
    "nodes": "5",
    "concurrency": "1n",
    "rate": 100.0,
    "interval": 8.0,
    "op_timeout": 2.0,
    "recovery": 20.0,
    "seed": 1,
    "world": "swarm",
}


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (
            {"workload": "lock", "nemesis": "kill-majority", "time_limit": 12.0},
            "the system answered in only 4 of 10 equal parts of the faults phase",
        ),
        (
            {"workload": "set", "nemesis": "power-all", "time_limit": 15.0},
            "the system answered in only 4 of 10 equal parts of the faults phase",
        ),
    ],
    ids=["a lock that was taken six times", "a set of a hundred ops"],
)
def test_a_thin_run_is_inconclusive_and_says_what_to_change(given: dict[str, Any], sentence: str) -> None:
    test = compose(RunOptions.of(**{**OPTIONS, **given}))
    left = simulate(test)
    verdicts = engine.judge(left.history, test.workload.checkers, left.telemetry)
    outcome, error = engine.judged_outcome(verdicts, None)
    assert (outcome, error) == (Outcome.INCONCLUSIVE, None)
    few = [reason for reason in reasons(verdicts) if sentence in reason.sentence]
    assert [reason.cause for reason in few] == ["test"]
    assert "--time-limit" in few[0].advice


WAITS: dict[str, Any] = {
    **OPTIONS,
    "workload": "read-modes",
    "nemesis": "membership-learner,power-all",
    "nodes": "7",
    "time_limit": 60.0,
    "interval": 2.0,
    "op_timeout": 1.0,
    "seed": 2154,
    "world": "lan",
}
CUT_OFF: dict[str, Any] = {
    **OPTIONS,
    "workload": "register",
    "nemesis": "partition-mute-leader,membership-leave",
    "rate": 50.0,
    "concurrency": "3n",
    "time_limit": 60.0,
    "overlap": 0.9,
    "seed": 2214,
    "world": "lan",
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("thin", "mended", "code"),
    [
        ({**CUT_OFF, "nodes": "3"}, {"nodes": "4"}, "mostly-silent"),
    ],
    ids=["a missing member"],
)
def test_a_test_whose_faults_leave_no_quorum_is_thin_and_with_the_figures_of_a_draw_it_is_not(
    thin: dict[str, Any], mended: dict[str, Any], code: str
) -> None:
    assert code in _codes(thin)
    assert _codes({**thin, **mended}) == []


@pytest.mark.slow
@pytest.mark.parametrize("overlap", [SELDOM, 0.9])
def test_a_change_of_members_that_waits_for_nodes_without_power_leaves_them_in_force_no_longer(overlap: float) -> None:
    """The power came back only once the change had been given up: most of such a run was silence."""
    assert _codes({**WAITS, "overlap": overlap}) == []


def _codes(given: dict[str, Any]) -> list[str]:
    test = compose(RunOptions.of(**given))
    left = simulate(test, world=given["world"])
    return [reason.code for reason in reasons(engine.judge(left.history, test.workload.checkers, left.telemetry))]
