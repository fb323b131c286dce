"""The verdict on messages that kill their consumers: against every possible course of small histories, and by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from splitbrain.checkers.queues import Poison
from splitbrain.checkers.registry import checker
from splitbrain.checkers.verdict import Verdict
from splitbrain.results.arrow import to_table
from splitbrain.results.errors import HistoryFormatError, UsageError
from splitbrain.results.history import Op, OpType, pairs
from splitbrain.results.reasons import Code
from tests.checkers.support import Script

LIMIT = 1


def judge(script: Script, **options: Any) -> Verdict:
    return Poison().check(to_table(script.ops), {"limit": LIMIT, **options})


def put(script: Script, *values: int, how: OpType = "ok") -> None:
    for value in values:
        script.call(0, "enqueue", value, how=how, key="q")


def consumed(script: Script, *values: int, died: bool = True) -> None:
    for value in values:
        script.call(1, "consume", None, {"value": value, "died": died}, key="q")


def unknown(script: Script) -> None:
    script.call(1, "consume", None, None, how="info", key="q")


def collected(script: Script, *values: int, reason: str = "delivery_limit") -> None:
    for value in values:
        script.call(2, "collect", None, {"value": value, "reason": reason}, key="q")


def emptied(script: Script) -> None:
    """Each node finds the queue empty, and then its dead letters."""
    for f in ("consume", "collect"):
        for process in range(3):
            script.call(process, f, None, None, key="q")


# --- against every possible course ------------------------------------------------------------------------------------


def possible(history: Sequence[Op]) -> bool:
    """Whether a queue that keeps its promises can have answered so, by trying every course of its takes. Slow.

    Each take of unknown outcome had one of the messages, or none. A message is a dead letter after 1 + LIMIT takes that
    were not settled, and is not taken any more; it stays one for ever. One that was settled may come again.
    """
    calls = sorted(pairs(history), key=lambda pair: pair.invoke.index)
    values = sorted({pair.invoke.value for pair in calls if pair.invoke.f == "enqueue"})
    takes: dict[int, list[int]] = {value: [] for value in values}
    read: dict[int, int] = {}
    settled: set[int] = set()
    hidden: list[int] = []
    for pair in calls:
        end = pair.completion
        if pair.invoke.f == "consume" and (end is None or end.type == "info"):
            hidden.append(pair.invoke.index)
        elif end is None or end.type != "ok" or end.value is None:
            continue
        elif pair.invoke.f == "consume":
            takes[end.value["value"]].append(pair.invoke.index)
            settled |= set() if end.value["died"] else {end.value["value"]}
        elif pair.invoke.f == "collect":
            read[end.value["value"]] = min(end.index, read.get(end.value["value"], end.index))

    def fits(left: Sequence[int], guessed: dict[int, list[int]]) -> bool:
        if left:
            return any(fits(left[1:], {**guessed, value: [*guessed[value], left[0]]}) for value in values) or fits(
                left[1:], guessed
            )
        for value, at in guessed.items():
            if len(at) > LIMIT + 1:
                return False
            if value in read and sum(row < read[value] for row in at) < LIMIT + 1:
                return False
            if value not in read and value not in settled:
                return False
        return True

    return fits(hidden, takes)


@st.composite
def histories(draw: st.DrawFn) -> Script:
    """Two messages, takes of them and of unknown outcome, and dead letters, in any order; all is empty in the end."""
    script = Script()
    put(script, 1, 2)
    for step in draw(st.lists(st.sampled_from(["die", "settle", "unknown", "collect"]), max_size=7)):
        value = draw(st.sampled_from([1, 2]))
        match step:
            case "die":
                consumed(script, value)
            case "settle":
                consumed(script, value, died=False)
            case "unknown":
                unknown(script)
            case _:
                collected(script, value)
    emptied(script)
    return script


@settings(max_examples=600, deadline=None)
@given(histories())
def test_a_history_is_convicted_exactly_if_no_course_of_its_takes_explains_it(script: Script) -> None:
    verdict = judge(script)
    assert (verdict.valid != "false") == possible(script.ops), verdict.sentence


# --- by hand ----------------------------------------------------------------------------------------------------------


def test_the_checker_is_registered() -> None:
    assert isinstance(checker("poison"), Poison)


def test_a_message_that_kills_up_to_its_limit_and_is_a_dead_letter_then_passes() -> None:
    script = Script()
    put(script, 4, 5)
    consumed(script, 4, 4)
    consumed(script, 5, died=False)
    collected(script, 4)
    emptied(script)
    verdict = judge(script)
    assert verdict.valid == "true", verdict.sentence
    assert (verdict.figures["deaths"], verdict.figures["dead_letters"], verdict.figures["settled"]) == (2, 1, 1)


def test_one_delivery_more_than_the_limit_allows_is_beyond_it_unless_there_is_slack() -> None:
    script = Script()
    put(script, 4)
    consumed(script, 4, 4, 4)
    collected(script, 4)
    emptied(script)
    assert judge(script).anomalies == ("beyond",)
    assert judge(script, slack=1).valid == "true"


def test_a_delivery_of_what_was_a_dead_letter_by_then_is_beyond_the_limit_also_where_others_were_not_reported() -> None:
    script = Script()
    put(script, 4)
    unknown(script)
    unknown(script)
    collected(script, 4)
    consumed(script, 4)
    emptied(script)
    assert not possible(script.ops)
    verdict = judge(script)
    assert verdict.anomalies == ("beyond",)
    assert "was a dead letter at n3" in verdict.sentence
    assert judge(script, slack=1).valid == "true"


@pytest.mark.slow
def test_every_short_history_is_convicted_exactly_if_no_course_of_its_takes_explains_it() -> None:
    """All of one message with up to five steps, of a limit of 1."""
    steps: dict[str, Callable[[Script], None]] = {
        "die": lambda script: consumed(script, 4),
        "settle": lambda script: consumed(script, 4, died=False),
        "unknown": unknown,
        "collect": lambda script: collected(script, 4),
    }
    for count in range(1, 6):
        for names in product(steps, repeat=count):
            script = Script()
            put(script, 4)
            for name in names:
                steps[name](script)
            emptied(script)
            assert (judge(script).valid != "false") == possible(script.ops), names


def test_consumers_that_were_given_up_explain_one_missing_delivery_each() -> None:
    script = Script()
    put(script, 4, 8)
    unknown(script)
    consumed(script, 4, 8)
    collected(script, 4, 8)
    emptied(script)
    verdict = judge(script)
    assert verdict.anomalies == ("early",)
    assert verdict.figures["early"] == 1


def test_a_consumer_that_began_after_a_dead_letter_was_read_does_not_explain_it() -> None:
    script = Script()
    put(script, 4)
    consumed(script, 4)
    collected(script, 4)
    unknown(script)
    emptied(script)
    assert judge(script).anomalies == ("early",)


def test_a_message_that_nothing_became_of_has_vanished_once_all_is_empty() -> None:
    script = Script()
    put(script, 4)
    put(script, 5, how="info")
    consumed(script, 4, 4)
    consumed(script, 5)
    assert judge(script).valid == "unknown"
    emptied(script)
    verdict = judge(script)
    assert (verdict.valid, verdict.figures["vanished"]) == ("false", 2), "5 was put in: a consumer died of it"


def test_nothing_has_vanished_before_what_consumers_died_of_can_be_back() -> None:
    script = Script()
    put(script, 4)
    consumed(script, 4)
    emptied(script)
    assert judge(script, settle_s=0).anomalies == ("vanished",)
    verdict = judge(script, settle_s=3600)
    assert verdict.valid == "unknown"
    assert "did not find queue 'q' empty" in verdict.sentence


def test_nothing_has_vanished_that_a_read_of_unknown_outcome_may_have_among_the_dead_letters() -> None:
    """It goes back to the queue for dead letters once the system has noticed that the reader is gone."""

    def emptied_at(time_s: float) -> Verdict:
        script = Script()
        put(script, 4, 5)
        consumed(script, 4, 4)
        consumed(script, 5, died=False)
        for asked_s, f in ((60.0, "consume"), (time_s, "collect")):
            if f == "collect":
                script.event(2, "invoke", "collect", key="q", time_s=70.0)
                script.event(2, "info", "collect", key="q", time_s=75.0)
            for process in range(3):
                script.event(process, "invoke", f, key="q", time_s=asked_s)
                script.event(process, "ok", f, key="q", time_s=asked_s)
        return judge(script, settle_s=10)

    early = emptied_at(76.0)
    assert early.valid == "unknown", early.sentence
    assert "did not find the dead letters of queue 'q' empty" in early.sentence
    assert emptied_at(86.0).anomalies == ("vanished",)


@pytest.mark.parametrize("f", ["consume", "collect"])
def test_nothing_has_vanished_that_an_op_without_an_end_may_have(f: str) -> None:
    script = Script()
    put(script, 4, 5)
    consumed(script, 4, 4)
    consumed(script, 5, died=False)
    script.event(6, "invoke", f, key="q")
    emptied(script)
    verdict = judge(script)
    assert verdict.valid == "unknown", verdict.sentence


def test_a_dead_letter_has_its_reason() -> None:
    script = Script()
    put(script, 4)
    consumed(script, 4, 4)
    collected(script, 4, reason="expired")
    emptied(script)
    assert judge(script).anomalies == ("reason",)


def test_what_no_client_put_in_is_unexpected() -> None:
    script = Script()
    put(script, 4)
    put(script, 5, how="fail")
    consumed(script, 4, 4, 6)
    consumed(script, 5, died=False)
    collected(script, 4)
    emptied(script)
    verdict = judge(script)
    assert verdict.figures["unexpected"] == 2


@pytest.mark.parametrize(
    ("steps", "code"),
    [
        ([], Code.NEVER_OK),
        (["put"], Code.NO_OCCASION),
        (["put", "die", "empty"], Code.READS_SAW_NOTHING),
        (["put", "die", "die", "collect"], Code.NEVER_OK),
    ],
)
def test_what_was_not_tested_is_no_pass(steps: list[str], code: Code) -> None:
    script = Script()
    for step in steps:
        match step:
            case "put":
                put(script, 4)
            case "die":
                consumed(script, 4)
            case "collect":
                collected(script, 4)
            case _:
                emptied(script)
    verdict = judge(script, settle_s=3600 if "empty" in steps else 0)
    assert verdict.valid == "unknown"
    assert code in [reason.code for reason in verdict.inconclusive]


@pytest.mark.parametrize(
    "options", [{"limit": None}, {"limit": -1}, {"limit": True}, {"slack": 0.5}, {"settle_s": -1}, {"collect": 3}]
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="checker poison"):
        judge(Script(), **options)


def test_answers_that_make_no_sense_and_values_that_come_twice_are_errors_of_the_history() -> None:
    for f, value in (("consume", 7), ("collect", "x")):
        script = Script()
        script.call(1, f, None, value, key="q")
        with pytest.raises(HistoryFormatError, match="no answer of a queue"):
            judge(script)
    script = Script()
    put(script, 4, 4)
    with pytest.raises(HistoryFormatError, match="twice"):
        judge(script)
    script = Script()
    script.call(0, "enqueue", "four", key="q")
    with pytest.raises(HistoryFormatError, match="whole number"):
        judge(script)


@pytest.mark.slow
def test_many_dead_letters_and_takes_of_unknown_outcome_are_judged_in_their_own_seconds() -> None:
    script = Script()
    for value in range(10_000):
        put(script, value)
        consumed(script, value)
        unknown(script)
        collected(script, value)
    emptied(script)
    verdict = judge(script)
    assert verdict.valid == "true"
    assert verdict.seconds < 2
