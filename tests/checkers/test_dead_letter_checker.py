"""The verdict on dead letters and their reasons: against every possible course of small histories, and by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from splitbrain.checkers.queues import DeadLetters
from splitbrain.checkers.registry import checker
from splitbrain.checkers.verdict import Verdict
from splitbrain.results.arrow import to_table
from splitbrain.results.errors import HistoryFormatError, UsageError
from splitbrain.results.history import HARNESS, NEMESIS, Op, OpType, pairs
from tests.checkers.support import Script

LIMIT = 1


def judge(script: Script, **options: Any) -> Verdict:
    return DeadLetters().check(to_table(script.ops), {"limit": LIMIT, **options})


def put(script: Script, *values: int, how: OpType = "ok") -> None:
    for value in values:
        script.call(0, "enqueue", value, how=how, key="q")


def consumed(script: Script, value: int, *deeds: str) -> None:
    for did in deeds:
        script.call(1, "consume", None, {"value": value, "did": did}, key="q")


def unknown(script: Script) -> None:
    script.call(1, "consume", None, None, how="info", key="q")


def collected(script: Script, value: int, reason: str) -> None:
    script.call(2, "collect", None, {"value": value, "reason": reason}, key="q")


def emptied(script: Script) -> None:
    """Each node finds the queue empty, and then its dead letters."""
    for f in ("consume", "collect"):
        for process in range(3):
            script.call(process, f, None, None, key="q")


# --- against every possible course ------------------------------------------------------------------------------------


def possible(history: Sequence[Op]) -> bool:
    """Whether a queue without a time can have answered so, by trying every course of its takes. Slow.

    What a consumer did may be lost, and a take of unknown outcome may have had a message. So a message becomes a dead
    letter with a rejection of it, or once it was taken 1 + LIMIT times; then it is not taken any more. At the end each
    was acknowledged, or came out as a dead letter.
    """
    values = sorted({op.value for op in history if op.f == "enqueue"})
    steps: list[tuple[str, int | None, str]] = []
    for pair in sorted(pairs(history), key=lambda each: each.invoke.index):
        end = pair.completion
        answered: Any = None if end is None or end.type != "ok" else end.value
        if pair.invoke.f == "consume" and (end is None or end.type == "info"):
            steps.append(("take", None, "unknown"))
        elif pair.invoke.f == "consume" and answered is not None:
            steps.append(("take", answered["value"], answered["did"]))
        elif pair.invoke.f == "collect" and answered is not None:
            steps.append(("letter", answered["value"], answered["reason"]))

    def fits(left: Sequence[tuple[str, int | None, str]], taken: dict[int, list[str]], dead: frozenset[int]) -> bool:
        if not left:
            return all(value in dead or "ack" in taken[value] for value in values)
        (what, value, how), rest = left[0], left[1:]
        if what == "letter":
            assert value is not None
            can = "reject" in taken[value] if how == "rejected" else len(taken[value]) > LIMIT
            return how in ("rejected", "delivery_limit") and can and fits(rest, taken, dead | {value})
        for one in values if value is None else [value]:
            is_there = one not in dead and len(taken[one]) <= LIMIT
            if is_there and fits(rest, {**taken, one: [*taken[one], how]}, dead):
                return True
        return value is None and fits(rest, taken, dead)

    return fits(steps, {value: [] for value in values}, frozenset())


@st.composite
def histories(draw: st.DrawFn) -> Script:
    """Two messages, takes of them and of unknown outcome, and dead letters, in any order; all is empty in the end."""
    script = Script()
    put(script, 1, 2)
    kinds = ["ack", "reject", "return", "unknown", "rejected", "delivery_limit"]
    for step in draw(st.lists(st.sampled_from(kinds), max_size=7)):
        value = draw(st.sampled_from([1, 2]))
        match step:
            case "unknown":
                unknown(script)
            case "rejected" | "delivery_limit":
                collected(script, value, step)
            case _:
                consumed(script, value, step)
    emptied(script)
    return script


@settings(max_examples=600, deadline=None)
@given(histories())
def test_a_history_is_convicted_exactly_if_no_course_of_its_takes_explains_it(script: Script) -> None:
    verdict = judge(script)
    assert (verdict.valid != "false") == possible(script.ops), verdict.sentence


# --- by hand ----------------------------------------------------------------------------------------------------------


def test_the_checker_is_registered() -> None:
    assert isinstance(checker("dead-letter"), DeadLetters)


def test_each_reason_passes_where_it_can_be() -> None:
    script = Script()
    put(script, 0, 1, 2, 3)
    consumed(script, 0, "ack")
    consumed(script, 1, "reject")
    consumed(script, 2, "return", "return")
    collected(script, 1, "rejected")
    collected(script, 2, "delivery_limit")
    collected(script, 3, "expired")
    emptied(script)
    verdict = judge(script, ttl_s={"q": 0.0})
    assert verdict.valid == "true", verdict.sentence
    assert {name: verdict.figures[name] for name in ("dead_letters", "letters_expired", "did_ack")} == {
        "dead_letters": 3,
        "letters_expired": 1,
        "did_ack": 1,
    }


def convicted(script: Script, anomaly: str, sentence: str, **options: Any) -> None:
    verdict = judge(script, **options)
    assert verdict.anomalies == (anomaly,), verdict.sentence
    assert verdict.sentence.startswith(sentence), verdict.sentence


@pytest.mark.parametrize(
    ("reason", "ttl_s", "sentence"),
    [
        ("rejected", {}, "Wrong reason: message 1 of queue 'q' is a dead letter for the reason 'rejected'"),
        ("expired", {}, "Wrong reason: message 1 of queue 'q' is a dead letter for the reason 'expired'"),
        ("maxlen", {}, "Wrong reason: message 1 of queue 'q' is a dead letter for the reason 'maxlen'"),
        ("delivery_limit", {}, "Wrong reason: message 1 of queue 'q' is a dead letter for the reason 'delivery_limit'"),
    ],
)
def test_a_reason_that_cannot_be_is_wrong(reason: str, ttl_s: dict[str, float], sentence: str) -> None:
    script = Script()
    put(script, 1)
    consumed(script, 1, "return")
    collected(script, 1, reason)
    emptied(script)
    convicted(script, "reason", sentence, ttl_s=ttl_s)


def aged(script: Script, *, taken_s: float, put_term: int | None = 1, taken_term: int = 1, slow_s: float = 0.1) -> None:
    """A message that is put in at 1 s, and is delivered to a take that begins at another time."""
    script.event(0, "invoke", "enqueue", 1, key="q", time_s=1)
    script.event(0, "ok", "enqueue", 1, key="q", term=put_term, time_s=1 + slow_s)
    script.event(1, "invoke", "consume", None, key="q", time_s=taken_s)
    script.event(1, "ok", "consume", {"value": 1, "did": "ack"}, key="q", term=taken_term, time_s=taken_s + 0.1)


def test_a_message_that_is_delivered_when_its_time_is_over_is_late() -> None:
    script = Script()
    aged(script, taken_s=3.4)
    convicted(script, "late", "Late: message 1 of queue 'q' may wait 2 s, was acknowledged by n1", ttl_s={"q": 2})


@pytest.mark.parametrize(
    "course",
    [
        {"taken_s": 3.3},  # no later than clocks may differ
        {"taken_s": 9, "taken_term": 2},  # another leader took it, by another clock
        {"taken_s": 9, "put_term": None},
        {"taken_s": 9, "slow_s": 0.5},  # the put may have been sent twice, and the first one taken by another leader
    ],
)
def test_a_message_that_may_have_been_young_enough_is_not_late(course: dict[str, Any]) -> None:
    script = Script()
    aged(script, **course)
    assert "late" not in judge(script, ttl_s={"q": 2}).anomalies


def test_no_message_is_late_where_messages_have_all_the_time_or_clocks_were_wrong() -> None:
    script = Script()
    aged(script, taken_s=9)
    assert "late" in judge(script, ttl_s={"q": 2}).anomalies
    assert "late" not in judge(script, ttl_s={}).anomalies
    script.event(NEMESIS, "info", "bump-clock")
    assert "late" not in judge(script, ttl_s={"q": 2}).anomalies


def expired_at_once(script: Script, *, put_term: int = 1, later_term: int = 1) -> None:
    """A message that is expired shortly after it was put in; the queue is led on."""
    script.call(0, "enqueue", 1, key="q", term=put_term)
    collected(script, 1, "expired")
    script.call(0, "enqueue", 2, key="q", term=later_term)
    consumed(script, 2, "ack")
    emptied(script)


def test_a_message_that_expires_too_early_has_a_wrong_reason() -> None:
    script = Script()
    expired_at_once(script)
    sentence = "Wrong reason: message 1 of queue 'q' is a dead letter for the reason 'expired'"
    convicted(script, "reason", sentence, ttl_s={"q": 3600})


@pytest.mark.parametrize("terms", [{"later_term": 2}, {"put_term": 1, "later_term": 3}])
def test_another_leader_may_let_a_message_expire_by_its_own_clock(terms: dict[str, int]) -> None:
    script = Script()
    expired_at_once(script, **terms)
    assert judge(script, ttl_s={"q": 3600}).valid == "true"


def test_no_time_is_judged_where_clocks_were_wrong() -> None:
    script = Script()
    expired_at_once(script)
    assert judge(script, ttl_s={"q": 3600}).valid == "false"
    script.ops.append(Op(process=HARNESS, type="info", f="clocks", index=len(script.ops), time=script.ops[-1].time))
    assert judge(script, ttl_s={"q": 3600}).valid == "false"
    script.ops.append(Op(process=NEMESIS, type="info", f="bump-clock", index=len(script.ops), time=script.ops[-1].time))
    assert judge(script, ttl_s={"q": 3600}).valid == "true"


def test_no_time_is_judged_where_another_fault_changed_a_clock() -> None:
    script = Script()
    expired_at_once(script)
    for value, valid in (
        ({"fault": "moment", "inject": "kill"}, "false"),
        ({"fault": "moment", "inject": "clock"}, "true"),
    ):
        request = {"action": "start", **value}
        op = Op(process=NEMESIS, type="invoke", f="await-moment", value=request, index=len(script.ops))
        op = msgspec.structs.replace(op, time=script.ops[-1].time)
        assert DeadLetters().check(to_table([*script.ops, op]), {"limit": LIMIT, "ttl_s": {"q": 3600}}).valid == valid


def test_a_dead_letter_that_comes_twice_is_a_violation_only_where_that_is_refused() -> None:
    script = Script()
    put(script, 1)
    consumed(script, 1, "reject")
    collected(script, 1, "rejected")
    collected(script, 1, "rejected")
    emptied(script)
    assert judge(script).valid == "true"
    convicted(script, "duplicated", "Duplicated: message 1 of queue 'q' was a dead letter at", duplicates="refused")


def test_what_no_client_had_put_in_or_whose_put_failed_is_unexpected() -> None:
    script = Script()
    put(script, 1)
    put(script, 2, how="fail")
    consumed(script, 1, "ack")
    consumed(script, 2, "ack")
    emptied(script)
    convicted(script, "unexpected", "Unexpected: message 2 of queue 'q' came out at")


def test_a_queue_that_was_not_drained_convicts_nothing_of_having_vanished() -> None:
    script = Script()
    put(script, 1, 3)
    consumed(script, 1, "reject")
    collected(script, 1, "rejected")
    assert judge(script).valid == "unknown"
    emptied(script)
    convicted(script, "vanished", "Vanished: message 3 of queue 'q' was acknowledged by")
    assert judge(script, settle_s=3600).valid == "unknown"


def test_dead_letters_that_were_asked_for_before_the_queue_was_empty_may_have_come_later() -> None:
    script = Script()
    put(script, 1, 2)
    consumed(script, 2, "reject")
    collected(script, 2, "rejected")
    for process in range(3):
        script.call(process, "collect", None, None, key="q")
    for process in range(3):  # 1 has expired, and is a dead letter now
        script.call(process, "consume", None, None, key="q")
    verdict = judge(script, ttl_s={"q": 0.5})
    assert verdict.valid == "unknown", verdict.sentence
    assert "did not find the dead letters of queue 'q' empty" in verdict.sentence
    for process in range(3):
        script.call(process, "collect", None, None, key="q")
    assert judge(script, ttl_s={"q": 0.5}).anomalies == ("vanished",)
    assert judge(script, ttl_s={"q": 0.5}, settle_s=1.0).valid == "unknown"  # it may be on its way


def test_wrong_options_and_answers_are_errors() -> None:
    script = Script()
    wrong: list[dict[str, Any]] = [{}, {"limit": -1}, {"limit": 1, "ttl_s": {"q": "long"}}]
    for options in [*wrong, {"limit": 1, "duplicates": "twice"}]:
        with pytest.raises(UsageError, match="dead-letter"):
            DeadLetters().check(to_table(script.ops), options)
    script.call(1, "consume", None, {"value": 1, "did": "nothing"}, key="q")
    with pytest.raises(HistoryFormatError, match="no answer of a queue"):
        judge(script)
