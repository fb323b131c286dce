"""The verdict on streams: against logs that keep their promises, logs that do not, and by hand."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from splitbrain.checkers.streams import StreamChecker
from splitbrain.checkers.verdict import Verdict
from splitbrain.results.arrow import to_table
from splitbrain.results.errors import HistoryFormatError, UsageError
from splitbrain.results.history import OpType, pairs
from splitbrain.results.reasons import Code
from tests.checkers.support import Script


def judge(script: Script, **options: Any) -> Verdict:
    return StreamChecker().check(to_table(script.ops), options)


def published(script: Script, process: int, value: int, offset: int | None, *, how: OpType = "ok") -> None:
    script.event(process, "invoke", "publish", value, key="s")
    script.event(process, how, "publish", offset if how == "ok" else value, key="s")


def ended(script: Script, process: int, value: int, offset: int | None) -> None:
    """A publish ends: acknowledged at an offset, or it is not known how."""
    if offset is None:
        script.event(process, "info", "publish", value, key="s")
    else:
        script.event(process, "ok", "publish", offset, key="s")


def fetched(script: Script, process: int, first: int, *values: int, end: int | None = None) -> None:
    script.event(process, "invoke", "fetch", first, key="s")
    answer = {"values": list(values), "end": first + len(values) if end is None else end}
    script.event(process, "ok", "fetch", answer, key="s")


def read_by_all(script: Script, *values: int, nodes: int = 2) -> None:
    for process in range(nodes):
        fetched(script, process, 0, *values)


def repeated(script: Script, process: int, value: int, offset: int | None, *, how: OpType = "ok") -> None:
    script.event(process, "invoke", "repeat", value, key="s")
    script.event(process, how, "repeat", offset if how == "ok" else value, key="s")


def test_a_message_that_is_published_again_stays_at_its_offset() -> None:
    script = Script(nodes=2)
    published(script, 0, 7, 0)
    published(script, 0, 8, None, how="info")
    repeated(script, 1, 7, 0)
    repeated(script, 1, 8, 1)
    repeated(script, 1, 7, 9, how="info")
    read_by_all(script, 7, 8)
    verdict = judge(script)
    assert (verdict.valid, verdict.figures["repeated"]) == ("true", 2)


def test_a_message_that_is_published_again_and_is_there_twice_is_duplicated() -> None:
    script = Script(nodes=2)
    published(script, 0, 7, 0)
    published(script, 0, 8, 1)
    repeated(script, 1, 7, 2)
    script.event(0, "invoke", "fetch", 0, key="s")
    script.event(0, "ok", "fetch", {"values": [7], "first": 2, "end": 3}, key="s")
    verdict = judge(script, drops=True)
    assert (verdict.valid, verdict.anomalies) == ("false", ("duplicated",))
    assert verdict.sentence.startswith("Duplicated: 7 of stream 's' is at offset 0 by n1")


@pytest.mark.parametrize("how", ["ok", "info"])
def test_a_message_that_only_a_repeat_published_is_there_though_the_first_op_failed(how: OpType) -> None:
    script = Script(nodes=2)
    published(script, 0, 7, 0)
    published(script, 0, 8, None, how="fail")
    repeated(script, 1, 8, 1, how=how)
    repeated(script, 1, 9, 2)
    read_by_all(script, 7, 8, 9)
    verdict = judge(script)
    assert (verdict.valid, verdict.figures["failed"]) == ("true", 0), verdict.sentence


def test_a_message_may_not_be_read_before_the_repeat_that_published_it() -> None:
    script = Script(nodes=2)
    published(script, 0, 8, None, how="fail")
    fetched(script, 1, 0, 8)
    repeated(script, 1, 8, 0)
    read_by_all(script, 8)
    verdict = judge(script)
    assert verdict.anomalies == ("unexpected",)
    assert "before it was published at 0.400 s" in verdict.sentence


def test_a_message_that_only_a_repeat_was_acknowledged_for_is_judged_like_any_other() -> None:
    lost = Script(nodes=2)
    published(lost, 0, 8, None, how="info")
    repeated(lost, 1, 8, None)
    published(lost, 0, 9, 0)
    read_by_all(lost, 9)
    assert judge(lost).anomalies == ("lost",)
    behind = Script(nodes=2)
    published(behind, 0, 8, None, how="info")
    repeated(behind, 1, 8, 1)
    published(behind, 0, 9, 0)
    read_by_all(behind, 9, 8)
    verdict = judge(behind)
    assert verdict.anomalies == ("order",)
    assert "8 of stream 's' was acknowledged by n2 at 0.300 s, before 9 was published at 0.400 s" in verdict.sentence


# --- against logs -----------------------------------------------------------------------------------------------------


def run_of(draw: random.Random, damage: Callable[[list[int], random.Random], None] | None) -> Script:
    """A history of one log, with ops that overlap; `damage` changes the log halfway."""
    script = Script(nodes=2)
    log: list[int] = []
    waiting: dict[int, tuple[int, int | None]] = {}  # by process: the value, and where it stands
    value = 0
    for step in range(40):
        process = draw.randrange(3)
        if process in waiting:
            mine, offset = waiting.pop(process)
            script.event(
                process,
                "ok" if offset is not None else "info",
                "publish",
                offset or (0 if offset == 0 else mine),
                key="s",
            )
        elif draw.random() < 0.6:
            script.event(process, "invoke", "publish", value, key="s")
            if draw.random() < 0.9:
                log.append(value)
                waiting[process] = (value, len(log) - 1)
            else:
                waiting[process] = (value, None)
            value += 1
        else:
            lag = draw.randrange(len(log) + 1)
            first = draw.randrange(lag + 1)
            fetched(script, process, first, *log[first:lag], end=lag)
        if step == 20 and damage is not None:
            damage(log, draw)
    for process, (mine, offset) in waiting.items():
        script.event(
            process, "ok" if offset is not None else "info", "publish", mine if offset is None else offset, key="s"
        )
    published(script, 4, 1000, len(log))
    read_by_all(script, *log, 1000)
    return script


def wrong(script: Script) -> bool:
    """Whether a history contradicts every log, by looking at each pair of answers. Slow, and plain."""
    calls = [(pair.invoke, pair.completion) for pair in pairs(script.ops)]
    sights: list[tuple[int, int, int]] = []  # offset, value, row
    begun: dict[int, int] = {}
    done: dict[int, int] = {}
    for invoke, end in calls:
        if invoke.f == "publish":
            begun[invoke.value] = invoke.index
            if end is not None and end.type == "ok":
                done[invoke.value] = end.index
                sights.append((end.value, invoke.value, end.index))
        elif end is not None:
            sights += [(invoke.value + at, value, end.index) for at, value in enumerate(end.value["values"])]
    for offset, value, row in sights:
        if begun.get(value, 10**6) > row:
            return True
        for other_offset, other, _ in sights:
            if (offset == other_offset) != (value == other):
                return True
            if value in done and done[value] < begun.get(other, -1) and other_offset < offset:
                return True
    return False


@given(st.integers(0, 10**6))
def test_a_log_that_keeps_its_promises_is_never_convicted(seed: int) -> None:
    script = run_of(random.Random(seed), None)
    assert not wrong(script)
    assert judge(script).valid == "true"


def swap(log: list[int], draw: random.Random) -> None:
    if len(log) > 1:
        at = draw.randrange(len(log) - 1)
        log[at], log[at + 1] = log[at + 1], log[at]


def cut(log: list[int], draw: random.Random) -> None:
    del log[draw.randrange(len(log) + 1) :]


def double(log: list[int], draw: random.Random) -> None:
    if log:
        log.append(draw.choice(log))


@given(st.integers(0, 10**6), st.sampled_from([swap, cut, double]))
def test_a_damaged_log_is_convicted_exactly_where_two_answers_contradict_each_other(
    seed: int, damage: Callable[[list[int], random.Random], None]
) -> None:
    script = run_of(random.Random(seed), damage)
    assert (judge(script).valid == "false") == wrong(script)


# --- by hand ----------------------------------------------------------------------------------------------------------


def test_nothing_lost_is_said_with_figures() -> None:
    script = Script(nodes=2)
    published(script, 0, 7, 0)
    read_by_all(script, 7)
    verdict = judge(script)
    assert verdict.valid == "true"
    assert verdict.sentence == (
        "Nothing was lost: all of 1 acknowledged message of 1 stream stand where they were acknowledged, once and in "
        "order, as 2 nodes read them in the end."
    )
    assert (verdict.figures["acknowledged"], verdict.figures["read"], verdict.figures["unread"]) == (1, 1, 0)


def test_a_message_whose_offset_is_not_known_is_lost_if_every_node_gives_all_but_it() -> None:
    script = Script(nodes=2)
    published(script, 0, 1, None)
    published(script, 0, 2, 0)
    read_by_all(script, 2)
    verdict = judge(script)
    assert (verdict.valid, verdict.anomalies) == ("false", ("lost",))


@pytest.mark.parametrize(
    ("anomaly", "first", "value"), [("changed", 0, 9), ("duplicated", 3, 1), ("unexpected", 5, 77)]
)
def test_each_rule_by_hand(anomaly: str, first: int, value: int) -> None:
    script = Script(nodes=2)
    published(script, 0, 1, 0)
    published(script, 1, 9, 8, how="info")
    fetched(script, 1, first, value)
    verdict = judge(script)
    assert verdict.valid == "false"
    assert anomaly in verdict.anomalies


def test_what_is_published_after_an_acknowledgement_stands_behind_it() -> None:
    script = Script(nodes=2)
    published(script, 0, 1, 5)
    published(script, 1, 2, 4)
    verdict = judge(script)
    assert verdict.anomalies == ("order",)
    assert "1 of stream 's' was acknowledged by n1 at 0.100 s, before 2 was published at 0.200 s" in verdict.sentence


def test_messages_that_were_published_at_the_same_time_stand_in_any_order() -> None:
    script = Script(nodes=2)
    for process, value in ((0, 1), (1, 2)):
        script.event(process, "invoke", "publish", value, key="s")
    ended(script, 0, 1, 1)
    ended(script, 1, 2, 0)
    read_by_all(script, 2, 1)
    assert judge(script).valid == "true"


def test_a_message_may_not_be_read_before_it_is_published() -> None:
    script = Script(nodes=2)
    fetched(script, 1, 0, 1)
    published(script, 0, 1, 0)
    read_by_all(script, 1)
    verdict = judge(script)
    assert verdict.anomalies == ("unexpected",)
    assert "before it was published" in verdict.sentence


def test_a_message_that_certainly_was_not_published_may_not_be_read() -> None:
    script = Script(nodes=2)
    published(script, 0, 1, None, how="fail")
    fetched(script, 1, 0, 1)
    assert judge(script).anomalies == ("unexpected",)


def test_a_node_that_does_not_give_all_in_the_end_leaves_the_run_undecided() -> None:
    script = Script(nodes=2)
    published(script, 0, 1, 0)
    published(script, 1, 2, 1)
    fetched(script, 0, 0, 1, 2)
    fetched(script, 1, 0, 1)
    verdict = judge(script)
    assert verdict.valid == "unknown"
    assert [reason.code for reason in verdict.inconclusive] == [Code.NEVER_OK]
    assert "n2 did not give stream 's' up to offset 2" in verdict.sentence


def test_what_nodes_gave_before_the_last_acknowledgement_does_not_show_what_is_there_in_the_end() -> None:
    script = Script(nodes=2)
    script.event(0, "invoke", "publish", 1, key="s")
    for process in (1, 2):
        fetched(script, process, 0, 1)
    ended(script, 0, 1, 0)
    assert [reason.code for reason in judge(script).inconclusive] == [Code.NEVER_OK]


def test_a_node_that_leaves_out_an_offset_has_not_given_all_and_what_is_not_given_is_not_lost() -> None:
    script = Script(nodes=2)
    for value, offset in ((1, 0), (2, 1), (3, 2), (4, None)):
        published(script, 0, value, offset)
    fetched(script, 0, 0, 1, 2, 3)
    fetched(script, 1, 0, 1)
    fetched(script, 1, 2, 3)
    verdict = judge(script)
    assert (verdict.valid, verdict.figures["unread"]) == ("unknown", 1)
    assert "n2 did not give stream 's' up to offset 3" in verdict.sentence


def test_a_message_may_stand_where_nodes_knew_of_more_than_they_gave() -> None:
    script = Script(nodes=2)
    published(script, 0, 1, None)
    published(script, 0, 2, 0)
    published(script, 0, 3, None)
    for process in range(2):
        fetched(script, process, 0, 2, end=2)
    verdict = judge(script)
    assert verdict.anomalies == ("lost",)
    assert verdict.figures["lost"] == 1  # 1 cannot stand behind 2, which was published later; 3 can
    fetched(script, 0, 0, 2, 3)
    fetched(script, 1, 0, 2, 3)
    assert judge(script).figures["lost"] == 1


def test_where_what_is_missing_may_stand_where_nodes_knew_of_more_nothing_is_decided() -> None:
    script = Script(nodes=2)
    published(script, 0, 1, 0)
    published(script, 0, 2, None)
    for process in range(2):
        fetched(script, process, 0, 1, end=2)
    verdict = judge(script)
    assert (verdict.valid, [reason.code for reason in verdict.inconclusive]) == ("unknown", [Code.NEVER_OK])
    assert "although n1 at 0.500 s knew of messages up to 2: 2 may be there" in verdict.sentence


@pytest.mark.parametrize("asks", [True, False])
def test_a_run_in_which_no_message_was_read_proves_nothing(asks: bool) -> None:
    script = Script(nodes=2)
    published(script, 0, 1, 0)
    if asks:
        fetched(script, 0, 0)
    expected = Code.NEVER_OK if asks else Code.NOT_EXERCISED
    assert [reason.code for reason in judge(script).inconclusive] == [expected, Code.READS_SAW_NOTHING]


@pytest.mark.parametrize("how", ["fail", "info"])
def test_a_run_in_which_nothing_was_acknowledged_proves_nothing(how: OpType) -> None:
    script = Script(nodes=2)
    published(script, 0, 1, None, how=how)
    assert [reason.code for reason in judge(script).inconclusive] == [Code.NEVER_OK]
    assert [reason.code for reason in judge(Script()).inconclusive] == [Code.NOT_EXERCISED]


def test_answers_that_make_no_sense_are_refused() -> None:
    for value in ("x", {"values": ["y"], "end": 1}, None):
        script = Script(nodes=2)
        script.event(0, "invoke", "fetch", 0, key="s")
        script.event(0, "ok", "fetch", value, key="s")
        with pytest.raises(HistoryFormatError):
            judge(script)
    again = Script(nodes=2)
    published(again, 0, 1, 0)
    published(again, 0, 1, 1)
    with pytest.raises(HistoryFormatError, match="publishes a value to its stream again"):
        judge(again)


# --- what was dropped -------------------------------------------------------------------------------------------------


def dropped(script: Script, process: int, wanted: int, first: int, *values: int) -> None:
    """A fetch whose node has dropped what was before `first`."""
    script.event(process, "invoke", "fetch", wanted, key="s")
    script.event(
        process, "ok", "fetch", {"values": list(values), "end": first + len(values), "first": first}, key="s"
    )  # fmt: skip


def three_of_which_two_went() -> Script:
    script = Script(nodes=2)
    for value in range(3):
        published(script, 0, value + 10, value)
    fetched(script, 0, 0, 10)
    for process in range(2):
        dropped(script, process, 0, 2, 12)
    return script


def test_the_beginning_of_a_stream_that_keeps_all_is_lost_where_a_node_says_that_it_dropped_it() -> None:
    verdict = judge(three_of_which_two_went())
    assert (verdict.valid, verdict.anomalies) == ("false", ("lost",))
    assert "from offset 2 on only" in verdict.sentence


def test_what_nodes_may_drop_is_not_lost_and_what_is_left_is_judged_as_ever() -> None:
    verdict = judge(three_of_which_two_went(), drops=True)
    assert verdict.valid == "true", verdict.sentence
    assert verdict.figures["dropped"] == 2
    script = three_of_which_two_went()
    dropped(script, 0, 0, 1, 12)
    verdict = judge(script, drops=True)
    assert (verdict.valid, set(verdict.anomalies)) == ("false", {"changed", "duplicated"})


def test_a_message_of_which_no_offset_is_known_may_have_been_dropped() -> None:
    script = Script(nodes=1)
    published(script, 0, 10, None)
    published(script, 0, 11, None)
    dropped(script, 0, 0, 1, 11)
    assert judge(script, drops=True).valid == "true"


def test_whether_nodes_may_drop_is_said_by_true_or_false() -> None:
    with pytest.raises(UsageError, match="drops"):
        judge(three_of_which_two_went(), drops="yes")


@pytest.mark.slow
def test_many_streams_are_judged_in_their_own_seconds() -> None:
    script = Script(nodes=2)
    streams, messages = 4000, 5
    for value in range(streams * messages):
        script.call(0, "publish", value, value // streams, key=f"s{value % streams}")
    for stream in range(streams):
        values = list(range(stream, streams * messages, streams))
        for process in range(2):
            script.call(process, "fetch", 0, {"values": values, "end": messages}, key=f"s{stream}")
    verdict = judge(script)
    assert verdict.valid == "true"
    assert verdict.seconds < 6
