from __future__ import annotations

from typing import Any

import pytest

from splitbrain.checkers.coverage import Coverage
from splitbrain.checkers.coverage.judged import OF_THE_RUN
from splitbrain.checkers.registry import CHECKERS, checker
from splitbrain.checkers.verdict import Outcome, Verdict, outcome
from splitbrain.results.arrow import to_table
from splitbrain.results.errors import UsageError
from splitbrain.results.history import HARNESS, NEMESIS, OpType
from tests.checkers.support import Script

OPTIONS: dict[str, Any] = {"fs": ["write"], "min_ok": 3, "faults": True}


def run(
    *,
    writes: OpType = "ok",
    during: bool = True,
    fault: OpType | None = "ok",
    recovery: Any = 1.5,
    stall_ms: float = 0,
    interrupted: bool = False,
) -> Script:
    """A small run: three writes before a partition (1 s to 3 s), one in it, recovery."""
    script = Script()
    script.event(HARNESS, "info", "phase", {"phase": "faults"}, time_s=0)
    for number in range(3):
        script.event(0, "invoke", "write", number, time_s=0.1 + number / 10)
        script.event(0, writes, "write", number, time_s=0.15 + number / 10)
    request = {"fault": "partition", "action": "start", "shape": "isolate-one"}
    if fault is not None:
        script.event(NEMESIS, "invoke", "start-partition", request, time_s=0.9)
        script.event(
            NEMESIS,
            fault,
            "start-partition",
            {**request, "target": "n4 | n1 n2 n3 n5"},
            time_s=1.0,
            error=None if fault == "ok" else "link n4 -> n1 still passes",
        )
        if during:
            script.event(1, "invoke", "write", 9, time_s=2.0)
            script.event(1, "fail", "write", 9, time_s=2.5)
        script.event(NEMESIS, "invoke", "stop-partition", {"fault": "partition", "action": "stop"}, time_s=3.0)
        script.event(NEMESIS, "ok", "stop-partition", {"fault": "partition", "action": "stop"}, time_s=3.1)
    if stall_ms:
        script.event(HARNESS, "info", "stall", {"gap_ms": stall_ms}, time_s=3.2)
    if interrupted:
        script.event(HARNESS, "info", "interrupted", time_s=3.3)
    script.event(HARNESS, "info", "phase", {"phase": "heal"}, time_s=4.0)
    if recovery is not None:
        script.event(
            HARNESS, "info", "recovered", recovery if isinstance(recovery, dict) else {"seconds": recovery}, time_s=5.5
        )
    script.event(HARNESS, "info", "phase", {"phase": "quiet"}, time_s=6.0)
    return script


def judge(script: Script, **options: Any) -> Verdict:
    return Coverage().check(to_table(script.ops), {**OPTIONS, **options})


def test_a_run_that_did_what_it_was_meant_to_has_no_reasons_and_shows_its_windows() -> None:
    verdict = judge(run())
    assert verdict.inconclusive == ()
    assert outcome([verdict]) is Outcome.PASS
    assert verdict.figures["windows"] == [
        {
            "fault": "partition",
            "target": "n4 | n1 n2 n3 n5",
            "verified": True,
            "start_s": 1.0,
            "end_s": 3.0,
            "ops": 1,
            "ops_ok": 0,
            "ops_fail": 1,
            "ops_info": 0,
            "under_way": 1,
            "ended": 1,
            "answered": 1,
        }
    ]
    assert verdict.figures["recovery_s"] == 1.5


@pytest.mark.parametrize(
    ("script", "options", "reason"),
    [
        (run(writes="fail"), {}, "none of 4 client ops was ok"),
        (run(), {"min_ok": {"write": 4}}, "only 3 ok ops of 'write'; at least 4"),
        (run(), {"fs": ["write", "cas"], "min_ok": 1}, "no op of 'cas' was ever invoked"),
        (run(during=False), {}, "no client op was under way during the partition from 1.000 s to 3.000 s"),
        (run(fault="info"), {}, "'start-partition' at 0.900 s was not verified: link n4 -> n1 still passes"),
        (run(fault=None), {}, "no fault took place"),
        (run(), {"faults": ["partition", "kill"]}, "no fault of kind 'kill' took place"),
        (run(recovery={"seconds": None, "missing": ["n2", "n5"]}), {}, "everything was healed: n2, n5"),
        (run(recovery=None), {}, "ended before recovery could be checked"),
        (run(stall_ms=900), {}, "stalled for 0.900 s of 6.0 s"),
        (run(interrupted=True), {}, "interrupted at 3.300 s"),
    ],
)
def test_a_run_that_proves_too_little_says_why(script: Script, options: dict[str, Any], reason: str) -> None:
    verdict = judge(script, **options)
    assert any(reason in found.sentence for found in verdict.inconclusive), verdict.inconclusive
    assert reason in verdict.sentence
    assert verdict.valid == "true"
    assert outcome([verdict]) is Outcome.INCONCLUSIVE


@pytest.mark.parametrize(
    ("script", "options", "reason", "advice"),
    [
        (run(), {"fs": ["write", "cas"]}, "no op of 'cas' was ever invoked.", "generator make ops of 'cas'"),
    ],
)
def test_an_advice_fits_its_reason(script: Script, options: dict[str, Any], reason: str, advice: str) -> None:
    first = judge(script, **options).inconclusive[0]
    assert reason in first.sentence
    assert advice in first.advice


def test_the_error_of_a_run_in_which_nothing_was_ok_is_named() -> None:
    script = Script()
    for number in range(2):
        script.event(0, "invoke", "write", number, time_s=number)
        script.event(0, "fail", "write", number, time_s=number + 0.5, error="no leader")
    sentences = [reason.sentence for reason in judge(script).inconclusive]
    assert any(sentence.endswith("All of them ended with this error: no leader.") for sentence in sentences)


def test_the_error_of_ops_that_were_never_ok_is_named() -> None:
    script = run()
    for number, error in enumerate(["KeyError: 'bad'", "timeout", "KeyError: 'bad'"]):
        script.event(3, "invoke", "bad", number, time_s=6.5 + number)
        script.event(3, "info", "bad", number, time_s=6.6 + number, error=error)
    [reason] = judge(script, fs=["write", "bad"], min_ok=None, floors=False).inconclusive
    assert reason.sentence == "none of 3 ops of 'bad' was ok. 2 of them ended with this error: KeyError: 'bad'."
    assert "--time-limit" not in reason.advice


@pytest.mark.parametrize(
    ("judges", "answer", "reason"),
    [
        ([], 0, "no checker of this test judges the ops"),
        (["stats", "crashes", "election-safety"], 0, "no checker of this test judges the ops"),
        (["stats", "quorum-progress"], 0, None),
        (["stats", "quorum-progress"], 7, "judges the values that 1 of the ok ops of 'write' returned"),
        (["splitbrain.checkers.set_checker:SetChecker"], 7, None),
        (["linearizable"], 7, None),
        (None, 7, None),
    ],
)
def test_what_no_checker_judges_is_no_pass(judges: list[str] | None, answer: int, reason: str | None) -> None:
    script = run()
    script.event(2, "invoke", "write", 0, time_s=6.5)
    script.event(2, "ok", "write", answer, time_s=6.6)
    found = judge(script, judges=judges).inconclusive
    assert [each.sentence for each in found if each.code == "not-judged"] == [
        each.sentence for each in found if reason is not None and reason in each.sentence
    ]
    assert bool(found) is (reason is not None)


def test_what_a_checker_reads_in_telemetry_is_no_judgement_of_ops() -> None:
    """A checker that moves from telemetry to whole runs would else let a workload pass that nothing judges."""
    of_telemetry = {name for name in CHECKERS if getattr(checker(name), "needs_telemetry", False)}
    assert of_telemetry == {"durability", "candidacy", "links", "votes"}
    assert of_telemetry <= OF_THE_RUN


@pytest.mark.parametrize("answer", [None, "info", "fail", "ok"])
@pytest.mark.parametrize(("begun_s", "ended_s"), [(0.5, 3.5), (2.0, 3.5), (0.5, 2.0)])
def test_a_window_has_tested_something_if_an_op_under_way_in_it_ended(
    answer: OpType | None, begun_s: float, ended_s: float
) -> None:
    """The window is that of 1 s to 3 s; the end may come after it, as it does from the next leader."""
    script = run(during=False)
    script.event(1, "invoke", "write", 9, time_s=begun_s)
    if answer is not None:
        script.event(1, answer, "write", 9, time_s=ended_s)
    script.ops.sort(key=lambda op: op.time)
    reasons = judge(script).inconclusive
    endless = [
        reason for reason in reasons if "no client op that was under way ended during the partition" in reason.sentence
    ]
    assert bool(endless) == (answer is None)
    assert reasons == tuple(endless)


@pytest.mark.parametrize(("begun_s", "ended_s"), [(0.5, 0.8), (3.5, 3.6)])
def test_ops_before_and_after_a_window_do_not_count(begun_s: float, ended_s: float) -> None:
    script = run(during=False)
    script.event(1, "invoke", "write", 9, time_s=begun_s)
    script.event(1, "ok", "write", 9, time_s=ended_s)
    script.ops.sort(key=lambda op: op.time)
    assert any(
        "no client op was under way during the partition" in reason.sentence for reason in judge(script).inconclusive
    )


def test_a_short_stall_and_an_imported_history_without_phases_are_no_reasons() -> None:
    assert judge(run(stall_ms=200)).inconclusive == ()
    script = Script()
    for number in range(3):
        script.call(0, "write", number)
    assert judge(script, faults=False).inconclusive == ()


def test_a_fault_that_nobody_stopped_is_in_force_until_recovery() -> None:
    script = run()
    script.ops = [op for op in script.ops if op.f != "stop-partition"]
    assert judge(script).figures["windows"][0]["end_s"] == 5.5


def test_unknown_options_are_refused() -> None:
    with pytest.raises(UsageError, match="min_okay"):
        judge(run(), min_okay=3)


def test_a_node_that_ended_by_itself_is_a_reason_with_its_name_and_last_words() -> None:
    script = run()
    script.event(HARNESS, "info", "crash", {"node": "n3", "exit": "exit code 1", "log": "No space left"}, time_s=6.1)
    verdict = judge(script)
    assert outcome([verdict]) is Outcome.INCONCLUSIVE
    [reason] = verdict.inconclusive
    assert reason.sentence == "node n3 ended by itself before 6.100 s (exit code 1); its log ends with: No space left."


def test_a_strike_that_found_nobody_to_hit_is_no_fault_window() -> None:
    script = run(fault=None)
    request = {"fault": "pause", "action": "start", "spec": "one"}
    script.event(NEMESIS, "invoke", "pause", request, time_s=7.0)
    script.event(NEMESIS, "ok", "pause", {**request, "target": "none: no node was running"}, time_s=7.1)
    verdict = judge(script, faults=["pause"])
    assert verdict.figures["windows"] == []
    [reason] = verdict.inconclusive
    assert reason.sentence == "no fault took place although the test asks for faults."


@pytest.mark.parametrize(
    ("counted", "inconclusive"),
    [
        ([{"bit": False}, {"bit": False}], True),
        ([{"bit": False}, {"bit": True}], False),
        ([{"bit": False}, {}], False),
        ([{"n1": {"bit": False}}, {"n1": {"bit": False}, "n2": {"bit": True}}], False),
    ],
)
def test_faults_that_all_did_nothing_are_a_reason(counted: list[dict[str, Any]], inconclusive: bool) -> None:
    script = run(fault=None)
    for number, evidence in enumerate(counted):
        at_s = 1.0 + number
        start = {"fault": "packet", "action": "start"}
        stop = {"fault": "packet", "action": "stop"}
        script.event(NEMESIS, "invoke", "start-packet", start, time_s=at_s)
        script.event(NEMESIS, "ok", "start-packet", {**start, "links": [["n1", "n2"]]}, time_s=at_s + 0.05)
        script.event(NEMESIS, "invoke", "stop-packet", stop, time_s=at_s + 0.7)
        script.event(NEMESIS, "ok", "stop-packet", {**stop, "evidence": evidence}, time_s=at_s + 0.75)
    reasons = [reason for reason in judge(script, faults=["packet"]).inconclusive if "had an effect" in reason.sentence]
    assert bool(reasons) == inconclusive
    assert all("in all 2 windows" in reason.sentence for reason in reasons)


def test_a_run_in_which_no_client_asked_anything_is_inconclusive() -> None:
    """Such a run comes from a plan whose ops were deleted."""
    script = Script()
    script.event(HARNESS, "info", "phase", {"phase": "faults"}, time_s=0)
    script.event(HARNESS, "info", "phase", {"phase": "heal"}, time_s=4.0)
    script.event(HARNESS, "info", "recovered", {"seconds": 0.1}, time_s=5.0)
    verdict = Coverage().check(to_table(script.ops), {"fs": []})
    assert [reason.code for reason in verdict.inconclusive] == ["not-exercised"]
    assert outcome([verdict]) is Outcome.INCONCLUSIVE


@pytest.mark.parametrize(
    ("times_s", "ok"), [([0.5, 0.6, 0.7], False), ([0.5, 1.5, 2.5], False), ([1.1, 2.0, 3.5], True)]
)
def test_reads_that_may_be_stale_under_faults_must_have_been_ok_after_one_began(times_s: list[float], ok: bool) -> None:
    script = run(recovery=None)
    script.ops = [op for op in script.ops if op.process != HARNESS]
    for time_s in times_s:
        script.event(7, "invoke", "read-local", time_s=time_s)
        script.event(7, "ok", "read-local", 1, time_s=time_s + 0.01)
    reasons = [found.sentence for found in judge(script, under_faults=["read-local"]).inconclusive]
    assert any("of 'read-local' after the first fault began, at 1.000 s" in reason for reason in reasons) == (not ok)
    assert not any("read-local" in found.sentence for found in judge(script).inconclusive)


def final_reads(*ends: tuple[str, OpType, str | None]) -> Script:
    """A run whose final phase has these reads: by node, how each ended, and its error."""
    script = run(fault=None)
    script.event(HARNESS, "info", "phase", {"phase": "final"}, time_s=7.0)
    for number, (node, kind, error) in enumerate(ends):
        script.event(0, "invoke", "read", time_s=8.0 + number, node=node)
        script.event(0, kind, "read", [number] if kind == "ok" else None, time_s=8.5 + number, node=node, error=error)
    return script


STANDBY: tuple[OpType, str] = ("fail", "standby: READONLY")
DOWN: tuple[OpType, str] = ("fail", "connection refused")


@pytest.mark.parametrize(
    ("ends", "reason"),
    [
        ([("n1", "ok", None), *[(node, *STANDBY) for node in ("n2", "n3") for _ in range(4)]], None),
        (
            [(node, *STANDBY) for node in ("n1", "n2") for _ in range(4)],
            "only 0 of 8 ops of 'read' were answered after all faults",
        ),
        ([("n1", "ok", None), *[("n2", *DOWN)] * 3, *[("n3", *STANDBY)] * 9], "n2 answered none of the 3 ops"),
        ([("n1", "ok", None), *[("n2", *DOWN)] * 4], "only 1 of 5 ops of 'read' were answered after all faults"),
    ],
    ids=["one leads", "none leads", "one is down", "most failed"],
)
def test_after_all_faults_standbys_may_refuse_and_no_others(ends: Any, reason: str | None) -> None:
    verdict = judge(final_reads(*ends), fs=["write", "read"], faults=False, min_ok={"write": 1, "read": 0})
    found = [str(each) for each in verdict.inconclusive]
    if reason is None:
        assert found == []
    else:
        assert any(reason in each for each in found), found


def test_a_history_that_does_not_show_the_end_of_its_run_has_lost_rows() -> None:
    (reason,) = judge(run(), ended=True).inconclusive
    assert str(reason) == (
        "the history stops at 6.000 s, before the end of the run: its last rows are lost. "
        "Run it again, or bring back the whole history: only what is left of it could be judged."
    )
    whole = run()
    whole.event(HARNESS, "info", "ended", {}, time_s=6.0)
    assert judge(whole, ended=True).inconclusive == ()
    (reason,) = judge(run(), ended=True, cut_short="recovered 19 rows").inconclusive
    assert "was killed or crashed" in str(reason)
