from __future__ import annotations

from typing import Any

import pytest

from splitbrain.checkers.recovery import Recovery
from splitbrain.checkers.verdict import Verdict
from splitbrain.results.errors import UsageError
from splitbrain.results.history import HARNESS, NEMESIS
from tests.checkers.support import Script

STUCK = {"seconds": None, "missing": ["n2", "n5"], "problems": {"n2": "knows no leader", "n5": "is stopped"}}


def run(recovered: dict[str, Any] | None, *, at_s: float = 30, interrupted_s: float | None = None) -> Script:
    """A run that began to heal at 5 s and had healed its faults at 9 s."""
    script = Script()
    script.event(HARNESS, "info", "phase", {"phase": "faults"}, time_s=0)
    script.event(HARNESS, "info", "phase", {"phase": "heal"}, time_s=5)
    stop = {"fault": "partition", "action": "stop"}
    script.event(NEMESIS, "invoke", "stop-partition", stop, time_s=8)
    script.event(NEMESIS, "ok", "stop-partition", stop, time_s=9)
    if interrupted_s is not None and interrupted_s < at_s:
        script.event(HARNESS, "info", "interrupted", {"requests": 1}, time_s=interrupted_s)
    if recovered is not None:
        script.event(HARNESS, "info", "recovered", recovered, time_s=at_s)
    if interrupted_s is not None and interrupted_s >= at_s:
        script.event(HARNESS, "info", "interrupted", {"requests": 1}, time_s=interrupted_s)
    return script


def judge(script: Script, **options: Any) -> Verdict:
    return Recovery().check(script.table(), options)


def test_a_system_that_did_not_recover_is_a_violation_that_names_nodes_and_problems() -> None:
    verdict = judge(run(STUCK))
    assert (verdict.valid, verdict.anomalies) == ("false", ("no-recovery",))
    assert verdict.sentence == (
        "No recovery within 20 s after everything was healed: n2 knows no leader; n5 is stopped."
    )
    assert verdict.evidence == {"op": 4, "time_s": 30.0, "problems": STUCK["problems"]}
    assert verdict.figures == {"bound_s": 20.0, "waited_s": 21.0}


@pytest.mark.parametrize(("took_s", "valid"), [(0.3, "true"), (20.0, "true"), (20.001, "false")])
def test_recovery_counts_if_it_came_within_the_bound(took_s: float, valid: str) -> None:
    verdict = judge(run({"seconds": took_s}))
    assert (verdict.valid, verdict.figures["recovery_s"]) == (valid, took_s)
    assert verdict.anomalies == (() if valid == "true" else ("no-recovery",))


def test_the_bound_is_an_option() -> None:
    assert judge(run({"seconds": 3.0}), bound_s=2).valid == "false"
    assert judge(run({"seconds": 30.0}), bound_s=40).valid == "true"


@pytest.mark.parametrize(
    ("script", "why"),
    [
        (run(None), "the run ended before recovery could be checked"),
        (run(STUCK, interrupted_s=10), "the run was interrupted before the recovery bound"),
        (run(STUCK, at_s=20), "the harness waited only 11.000 s for recovery; the bound is 20 s"),
        (Script(), "the run ended before recovery could be checked"),
    ],
)
def test_a_run_that_did_not_wait_for_the_bound_is_not_judged(script: Script, why: str) -> None:
    verdict = judge(script)
    assert (verdict.valid, verdict.anomalies) == ("unknown", ())
    assert why in verdict.sentence


def test_an_interruption_after_the_system_was_seen_not_to_recover_excuses_nothing() -> None:
    assert judge(run(STUCK, interrupted_s=31)).valid == "false"
    assert judge(run({"seconds": 1.0}, interrupted_s=6)).valid == "true"


def test_a_verdict_that_is_unknown_says_why_and_what_to_do() -> None:
    scripts = [run(None), run(STUCK, interrupted_s=10), run(STUCK, at_s=20)]
    reasons = [judge(script).inconclusive[0] for script in scripts]
    assert [reason.code.value for reason in reasons] == ["recovery-not-seen", "interrupted", "no-recovery"]
    assert reasons[2].advice == "Set --recovery to at least the bound."


def test_waiting_exactly_for_the_bound_is_enough() -> None:
    assert judge(run(STUCK, at_s=29)).valid == "false", "healed at 9 s, and the bound is 20 s"
    assert judge(run(STUCK, at_s=28.999)).valid == "unknown"


def test_the_wait_begins_with_the_heal_phase_where_no_fault_was_healed_in_it() -> None:
    script = Script()
    script.event(HARNESS, "info", "phase", {"phase": "faults"}, time_s=0)
    script.event(NEMESIS, "invoke", "stop-partition", {"fault": "partition", "action": "stop"}, time_s=3)
    script.event(NEMESIS, "ok", "stop-partition", {"fault": "partition", "action": "stop"}, time_s=4)
    script.event(HARNESS, "info", "phase", {"phase": "heal"}, time_s=5)
    script.event(HARNESS, "info", "recovered", STUCK, time_s=30)
    assert judge(script).figures["waited_s"] == 25.0


def test_what_was_healed_after_the_system_was_seen_not_to_recover_does_not_shorten_the_wait() -> None:
    script = run(STUCK)
    stop = {"fault": "disk", "action": "stop"}
    script.event(NEMESIS, "invoke", "stop-disk", stop, time_s=31)
    script.event(NEMESIS, "ok", "stop-disk", stop, time_s=32)
    assert judge(script).figures["waited_s"] == 21.0


def test_the_first_time_that_recovery_was_checked_counts() -> None:
    script = run(STUCK)
    script.event(HARNESS, "info", "recovered", {"seconds": 1.0}, time_s=40)
    assert judge(script).valid == "false"


@pytest.mark.parametrize(
    ("recovered", "problems"),
    [
        ({"missing": ["n2"], "problems": {}}, {"n2": ""}),
        ({"missing": [], "problems": {"n5": "is stopped"}}, {"n5": "is stopped"}),
        ({"missing": ["n2"], "problems": {"n5": "is stopped"}}, {"n2": "", "n5": "is stopped"}),
        ({}, {}),
    ],
)
def test_nodes_are_named_also_where_only_that_they_are_missing_or_only_their_problem_is_known(
    recovered: dict[str, Any], problems: dict[str, str]
) -> None:
    verdict = judge(run({"seconds": None, **recovered}))
    assert (verdict.valid, verdict.evidence["problems"]) == ("false", problems)
    if not problems:
        assert verdict.sentence.endswith("after everything was healed: some node is not usable.")


@pytest.mark.parametrize("options", [{"bound": 3}, {"bound_s": "long"}, {"bound_s": 0}, {"bound_s": float("nan")}])
def test_wrong_options_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="checker recovery"):
        judge(run({"seconds": 1.0}), **options)


@pytest.mark.parametrize(
    ("halts", "valid"),
    [
        ([("n2", True), ("n5", True)], "unknown"),
        ([("n2", True)], "false"),
        ([("n2", True), ("n5", False)], "false"),
        ([], "false"),
    ],
    ids=["both lost data for good", "one did", "one's disk is well again", "none"],
)
def test_nodes_whose_disks_lost_something_for_good_need_not_come_back(
    halts: list[tuple[str, bool]], valid: str
) -> None:
    script = run(None)
    for node, damaged in halts:
        script.event(HARNESS, "info", "halt", {"node": node, **({"damaged": True} if damaged else {})}, time_s=9.5)
    script.event(HARNESS, "info", "recovered", STUCK, time_s=30)
    assert judge(script).valid == valid


def test_nodes_that_were_never_usable_are_a_violation_that_names_them() -> None:
    script = Script()
    script.event(HARNESS, "info", "started", {**STUCK, "waited_s": 30.0}, time_s=0)
    verdict = judge(script)
    assert (verdict.valid, verdict.anomalies) == ("false", ("no-start",))
    assert verdict.sentence == (
        "No start: the nodes were not usable within 30 s of their start: n2 knows no leader; n5 is stopped."
    )
    assert verdict.evidence == {"op": 0, "problems": STUCK["problems"]}
