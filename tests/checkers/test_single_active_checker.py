"""The verdict on single active consumers: against every possible course of small histories, and by hand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, TypeAlias

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from splitbrain.checkers.queues import SingleActive
from splitbrain.checkers.registry import checker
from splitbrain.checkers.verdict import Verdict
from splitbrain.results.arrow import to_table
from splitbrain.results.errors import UsageError
from splitbrain.results.history import HARNESS, NEMESIS, Op, OpType, pairs
from splitbrain.results.reasons import Code
from tests.checkers.support import Script


def judge(script: Script, **options: Any) -> Verdict:
    return SingleActive().check(to_table(script.ops), options)


def again(value: int) -> dict[str, Any]:
    """A delivery that is said to be a repetition."""
    return {"value": value, "redelivered": True}


def put(script: Script, publisher: int, *values: int, how: OpType = "ok") -> None:
    for value in values:
        script.call(publisher, "enqueue", value, how=how, key="q")


def consumed(script: Script, consumer: int, *values: Any) -> None:
    for value in values:
        script.call(consumer, "consume", None, value, key="q")


# --- against every possible course -----------------------------------------------------------------------------------

Event: TypeAlias = tuple[int, float, str, int, tuple[int, int], bool, float]
"""First and last row at which it can happen, "put" or "given", the value, the publisher or consumer, the mark, and the
row until which a consumer has it for certain.
"""


def events_of(history: Sequence[Op]) -> tuple[list[Event], int]:
    """Puts and deliveries; and how many of the events, which come first, need not happen."""
    unsure: list[Event] = []
    certain: list[Event] = []
    ended: dict[int, int] = {}
    before: dict[int, int] = {}
    failed_at: dict[int, int] = {}
    for pair in sorted(pairs(history), key=lambda pair: pair.invoke.index):
        begin, end, process = pair.invoke.index, pair.completion, pair.invoke.process
        ok = end is not None and end.type == "ok"
        if pair.invoke.f == "enqueue":
            if end is not None and end.type != "fail":
                last = float(end.index) if ok else float("inf")
                event: Event = (begin, last, "put", pair.invoke.value, (process, 0), False, -1)
                (certain if ok else unsure).append(event)
        elif ok and end is not None and pair.invoke.f == "consume" and end.value is not None:
            flagged = isinstance(end.value, dict)
            value = int(end.value["value"] if flagged else end.value)
            consumer = (process, ended.get(process, 0))
            begin, last = before.get(process, -1), float(end.index)
            certain.append(
                (begin, last, "given", value, consumer, flagged, last if failed_at.get(process, -2) < begin else -1)
            )
            before[process] = end.index + 1  # it is acknowledged only then
        if pair.invoke.f == "leave" or not ok:
            ended[process] = ended.get(process, 0) + 1
            failed_at[process] = begin if end is None else end.index
    return unsure + certain, len(unsure)


def having(events: Sequence[Event], done: frozenset[int], first_end: float) -> frozenset[Any]:
    """Those who have something that they were given, by the row at which the next event has to be at the latest."""
    return frozenset(events[at][4] for at in done if events[at][2] == "given" and events[at][6] >= first_end)


def possible(history: Sequence[Op]) -> bool:
    """Whether a queue that keeps its promises can have given so, by trying every course of events. Slow, and plain.

    A value is given once it is in. A consumer that another one followed is not given anything any more, and has nothing
    by then. What is not
    marked comes, where it was never given before, after all that its publisher had put in earlier and that is in;
    unless the queue had given that to a client that never learned of it, so that it will be marked when it comes.
    """
    events, optional = events_of(history)
    certain = frozenset(range(optional, len(events)))
    puts = {event[3]: event for event in events if event[2] == "put"}
    seen: set[Any] = set()

    def search(done: frozenset[int], marked: frozenset[int], active: Any, past: frozenset[Any]) -> bool:
        if certain <= done:
            return True
        if (done, marked, active, past) in seen:
            return False
        seen.add((done, marked, active, past))
        inside = {events[at][3] for at in done if events[at][2] == "put"}
        came = {events[at][3] for at in done if events[at][2] == "given"}
        if any(search(done, marked | {value}, active, past) for value in sorted(inside - marked - came)):
            return True
        first_end = min(events[at][1] for at in certain - done)
        for at, (begin, _, what, value, who, flagged, _) in enumerate(events):
            if at in done or begin > first_end:
                continue
            if what == "put":
                if search(done | {at}, marked, active, past):
                    return True
                continue
            cannot = value not in inside or who in past or bool(having(events, done, first_end) - {who})
            if cannot or (value not in came and (value in marked) != flagged):
                continue
            own = puts[value]
            if value not in came and any(
                other[4] == own[4] and other[0] < own[0] and earlier in inside - marked - came
                for earlier, other in puts.items()
            ):
                continue
            gone = past | {active} if active not in (None, who) else past
            if search(done | {at}, marked, who, gone):
                return True
        return False

    return search(frozenset(), frozenset(), None, frozenset())


@st.composite
def small_histories(draw: st.DrawFn) -> Script:
    """Two publishers, and two consumers that report what may be anything, and leave now and then."""
    script = Script()
    programs: list[list[tuple[str, Any, OpType]]] = []
    values: list[int] = []
    for publisher in range(2):
        program: list[tuple[str, Any, OpType]] = []
        for number in range(draw(st.integers(0, 3))):
            how: OpType = draw(st.sampled_from(["ok", "ok", "ok", "ok", "fail", "info"]))
            program.append(("enqueue", 10 * publisher + number, how))
            values.append(10 * publisher + number)
            if how == "info":
                break
        programs.append(program)
    pool = sorted(values, key=lambda value: value % 10) if draw(st.booleans()) else draw(st.permutations(values))
    consumers: list[list[tuple[str, Any, OpType]]] = [[], []]
    for value in pool:
        mine = consumers[draw(st.integers(0, 1))]
        mine.append(("consume", again(value) if draw(st.integers(0, 4)) == 0 else value, "ok"))
        if draw(st.integers(0, 4)) == 0:
            mine.append(draw(st.sampled_from([("leave", None, "ok"), ("consume", None, "fail")])))
    if pool and draw(st.integers(0, 4)) == 0:
        consumers[draw(st.integers(0, 1))].append(("consume", again(pool[0]), "ok"))
    programs += consumers
    under_way: dict[int, tuple[str, Any, OpType]] = {}
    while any(programs) or under_way:
        choices = [at for at, program in enumerate(programs) if program and at not in under_way] + [*under_way]
        at = draw(st.sampled_from(sorted(set(choices))))
        if at in under_way:
            f, value, how = under_way.pop(at)
            script.event(at, how, f, value, key="q")
        else:
            f, value, how = under_way[at] = programs[at].pop(0)
            script.event(at, "invoke", f, value if f == "enqueue" else None, key="q")
    return script


def test_what_an_honest_queue_can_have_given_is_never_a_violation() -> None:
    seen = Counter[str]()

    @settings(max_examples=150, deadline=None)
    @given(small_histories())
    def judged(script: Script) -> None:
        verdict, honest = judge(script), possible(script.ops)
        seen[f"{verdict.valid == 'false'} {honest}"] += 1
        assert not (honest and verdict.valid == "false"), verdict.sentence

    judged()
    assert seen["True False"] > 5  # violations, and honest courses, were both among them
    assert seen["False True"] > 5


# --- by hand ----------------------------------------------------------------------------------------------------------


def test_a_consumer_that_took_over_from_one_that_left_or_failed_passes() -> None:
    endings: list[tuple[str, OpType]] = [("leave", "ok"), ("consume", "fail"), ("enqueue", "fail")]
    for f, how in endings:
        script = Script()
        put(script, 0, 1, 2, 3)
        consumed(script, 1, 1)
        script.call(1, f, 9 if f == "enqueue" else None, how=how, key="q")
        consumed(script, 2, 2)
        script.call(2, "leave", key="q")
        consumed(script, 1, 3)
        verdict = judge(script)
        assert verdict.valid == "true", verdict.sentence
        assert verdict.figures["handovers"] == 2


def test_two_consumers_that_take_turns_share_the_queue() -> None:
    script = Script()
    put(script, 0, 1, 2, 3)
    consumed(script, 1, 1)
    consumed(script, 2, 2)
    consumed(script, 1, 3)
    verdict = judge(script)
    assert verdict.valid == "false"
    assert verdict.anomalies == ("shared",)
    assert verdict.sentence.startswith("Shared: process 0 put value 1 of queue 'q', then 2, then 3 in. Process 1 was")


def taking_turns(script: Script) -> None:
    for publisher, consumer, value in ((0, 1, 1), (9, 2, 2), (0, 1, 3)):
        put(script, publisher, value)
        consumed(script, consumer, value)


def test_consumers_of_two_publishers_that_take_turns_one_after_the_other_share_the_queue() -> None:
    script = Script()
    taking_turns(script)
    assert not possible(script.ops)
    verdict = judge(script)
    assert verdict.anomalies == ("shared",)
    assert verdict.sentence == (
        "Shared: process 1 was given value 1 of queue 'q', at n2 at 0.300 s, later process 2 2, at n3 at 0.700 s, and "
        "later process 1 3, at n2 at 1.100 s, although the first consumer neither left nor failed, and no fault was in "
        "force."
    )


def test_what_was_given_at_any_time_since_it_was_put_in_has_no_order() -> None:
    script = Script()
    for publisher, value in ((0, 1), (9, 2), (0, 3)):
        put(script, publisher, value)
    for consumer, value in ((1, 1), (2, 2), (1, 3)):
        consumed(script, consumer, value)
    assert judge(script).valid != "false"  # between publishers, 2 was given last, or first, for all that is judged
    faulty = Script()
    fault(faulty, "partition", "start")
    taking_turns(faulty)
    assert judge(faulty, settle_s=0).valid != "false"


def test_leaving_another_queue_does_not_excuse_it() -> None:
    script = Script()
    put(script, 0, 1, 2, 3)
    consumed(script, 1, 1)
    script.call(1, "leave", key="other")
    consumed(script, 2, 2)
    consumed(script, 1, 3)
    assert judge(script).anomalies == ("shared",)


def fault(script: Script, f: str, action: str) -> None:
    value = {"fault": "partition", "action": action, "target": "n1", "cut": [["n1", "n2"]] if action == "start" else []}
    script.event(NEMESIS, "invoke", f, value)
    script.event(NEMESIS, "info" if f == "never" else "ok", f, {**value, "down": [], "paused": []})


@pytest.mark.parametrize(
    ("ends", "left", "anomalies"),
    [
        ("ok", [], ("shared",)),
        ("info", [["n1", "n2"]], ()),
        ("info", [], ()),
        ("ok", [["n1", "n2"]], ()),
        (None, [], ()),
    ],
)
def test_a_fault_lasts_until_a_stop_is_verified_and_nothing_is_cut(
    ends: OpType | None, left: list[list[str]], anomalies: tuple[str, ...]
) -> None:
    script = Script()
    fault(script, "partition", "start")
    heal = {"fault": "partition", "action": "stop", "target": "n1"}
    script.event(NEMESIS, "invoke", "heal", heal)
    if ends is not None:
        script.event(NEMESIS, ends, "heal", {**heal, "cut": left, "down": [], "paused": []})
    put(script, 0, 1, 2, 3)
    for consumer, value in ((1, 1), (2, 2), (1, 3)):
        consumed(script, consumer, value)
    verdict = judge(script, settle_s=0)
    assert verdict.anomalies == anomalies
    assert verdict.figures["unexplained"] == (0 if anomalies else 1)


@pytest.mark.parametrize("how", ["another stop", "note"])
def test_calm_begins_once_a_later_stop_is_verified_or_the_harness_has_healed_all(how: str) -> None:
    script = Script()
    fault(script, "partition", "start")
    heal = {"fault": "partition", "action": "stop", "target": "n1"}
    script.event(NEMESIS, "invoke", "heal", heal)
    script.event(NEMESIS, "info", "heal", {**heal, "cut": [["n1", "n2"]]})
    if how == "note":
        script.event(HARNESS, "info", "healed", {})
    else:
        fault(script, "heal", "stop")
    put(script, 0, 1, 2, 3)
    for consumer, value in ((1, 1), (2, 2), (1, 3)):
        consumed(script, consumer, value)
    assert judge(script, settle_s=0).anomalies == ("shared",)


@pytest.mark.parametrize(
    ("f", "in_force", "anomalies"), [("halt", True, ("shared",)), ("halt", False, ()), ("crash", True, ())]
)
def test_a_node_that_gives_up_over_a_fault_of_its_disk_is_back_once_that_is_healed(
    f: str, in_force: bool, anomalies: tuple[str, ...]
) -> None:
    script = Script()
    if in_force:
        fault(script, "disk", "start")
    script.event(HARNESS, "info", f, {"node": "n1"})
    fault(script, "heal", "stop")
    put(script, 0, 1, 2, 3)
    for consumer, value in ((1, 1), (2, 2), (1, 3)):
        consumed(script, consumer, value)
    assert judge(script, settle_s=0).anomalies == anomalies


def test_a_node_that_gives_up_while_the_fault_of_its_disk_is_injected_is_back_once_that_is_healed() -> None:
    script = Script()
    disk: dict[str, Any] = {"fault": "disk", "action": "start", "target": "n1", "cut": [], "down": [], "paused": []}
    script.event(NEMESIS, "invoke", "start-disk", disk)
    script.event(HARNESS, "info", "halt", {"node": "n1"})
    script.event(NEMESIS, "ok", "start-disk", disk)
    script.event(NEMESIS, "invoke", "stop-disk", {**disk, "action": "stop"})
    script.event(NEMESIS, "ok", "stop-disk", {**disk, "action": "stop"})
    put(script, 0, 1, 2, 3)
    for consumer, value in ((1, 1), (2, 2), (1, 3)):
        consumed(script, consumer, value)
    assert judge(script, settle_s=0).anomalies == ("shared",)


def test_a_consumer_that_a_fault_may_have_hidden_is_not_convicted_but_counted() -> None:
    script = Script()
    put(script, 0, 1, 2, 3)
    consumed(script, 1, 1)
    fault(script, "partition", "start")
    consumed(script, 2, 2)
    fault(script, "heal", "stop")
    consumed(script, 1, 3)
    verdict = judge(script, settle_s=0)
    assert (verdict.valid, verdict.inconclusive[0].code) == ("unknown", Code.NO_OCCASION)
    assert "while no fault was in force" in verdict.sentence
    assert verdict.figures["unexplained"] == 1
    put(script, 0, 4, 5)
    consumed(script, 1, 4)
    script.call(1, "leave", key="q")
    consumed(script, 3, 5)
    verdict = judge(script, settle_s=0)
    assert verdict.valid == "true"
    assert verdict.figures["compared_handovers"] == 1
    assert "1 delivery is unexplained" in verdict.sentence


@pytest.mark.parametrize(("f", "how", "key"), [("leave", "ok", "q"), ("enqueue", "fail", "other")])
def test_a_single_consumer_that_comes_again_hands_nothing_over(f: str, how: OpType, key: str) -> None:
    script = Script()
    put(script, 0, *range(4))
    consumed(script, 1, 0, 1)
    script.call(1, f, 99 if f == "enqueue" else None, how=how, key=key)
    consumed(script, 1, 2, 3)
    verdict = judge(script)
    assert (verdict.valid, verdict.inconclusive[0].code) == ("unknown", Code.NO_OCCASION)
    assert verdict.figures["handovers"] == 0


def test_after_a_fault_the_time_to_settle_decides() -> None:
    script = Script()
    fault(script, "partition", "start")
    fault(script, "heal", "stop")
    put(script, 0, 1, 2, 3)
    for consumer, value in ((1, 1), (2, 2), (1, 3)):
        consumed(script, consumer, value)
    assert judge(script, settle_s=0).anomalies == ("shared",)
    verdict = judge(script)
    assert (verdict.valid, verdict.inconclusive[0].code) == ("unknown", Code.NO_OCCASION)


def test_a_later_value_that_comes_first_is_out_of_order_unless_the_earlier_one_is_marked() -> None:
    for first, valid in ((1, "false"), (again(1), "true")):
        script = Script()
        put(script, 0, 1, 2, 3)
        consumed(script, 1, 2, first)
        script.call(1, "leave", key="q")
        consumed(script, 2, 3)
        verdict = judge(script)
        assert verdict.valid == valid
    script = Script()
    put(script, 0, 1, 2)
    consumed(script, 1, 2)
    script.call(1, "leave", key="q")
    consumed(script, 1, 1)
    verdict = judge(script)
    assert verdict.anomalies == ("order",)
    assert "2 came out first" in verdict.sentence


def waited_at_its_consumer(script: Script) -> None:
    """Process 1 was given the value 1 before process 2 was given the value 2, and looked after that."""
    put(script, 0, 1, 2)
    script.call(1, "consume", None, None, key="q")
    consumed(script, 2, 2)
    consumed(script, 1, 1)


def test_a_message_that_waits_at_its_consumer_is_not_out_of_order_but_that_consumer_is_the_active_one() -> None:
    script = Script()
    waited_at_its_consumer(script)
    assert not possible(script.ops)
    verdict = judge(script)
    assert verdict.anomalies == ("shared",)
    assert verdict.sentence == (
        "Shared: process 0 put value 1 of queue 'q' in before 2. Process 2 was given the later one by n3 at 0.700 s, "
        "while process 1 had the earlier one, which it acknowledged at n2 at 0.900 s: it had neither left nor failed, "
        "and no fault was in force."
    )


def test_a_message_that_waits_at_a_consumer_that_a_fault_may_have_hidden_passes() -> None:
    script = Script()
    put(script, 9, 7, 8)
    consumed(script, 1, 7)
    script.call(1, "leave", key="q")
    consumed(script, 2, 8)
    fault(script, "partition", "start")
    waited_at_its_consumer(script)
    assert judge(script, settle_s=0).valid == "true"


@pytest.mark.parametrize(("f", "how"), [("leave", "ok"), ("consume", "fail")])
def test_what_a_consumer_was_given_after_it_had_begun_anew_waited_nowhere(f: str, how: OpType) -> None:
    script = Script()
    put(script, 0, 1, 2)
    script.call(1, f, None, how=how, key="q")
    consumed(script, 2, 2)
    consumed(script, 1, 1)
    assert judge(script).anomalies == ()


def asked(script: Script, consumer: int, priority: int, *values: Any) -> None:
    """Consumes with a priority."""
    for value in values:
        script.event(consumer, "invoke", "consume", priority, key="q")
        script.event(consumer, "ok", "consume", value, key="q")


@pytest.mark.parametrize(("first", "second", "shared"), [(0, 1, False), (1, 0, True), (1, 1, True), (0, 0, True)])
def test_a_consumer_of_a_higher_priority_may_come_between_and_leave(first: int, second: int, shared: bool) -> None:
    script = Script()
    put(script, 0, 1, 2, 3)
    asked(script, 1, first, 1)
    asked(script, 2, second, 2)
    asked(script, 1, first, 3)
    assert judge(script).anomalies == (("shared",) if shared else ())
    script = Script()
    for publisher, consumer, priority, value in ((0, 1, first, 1), (9, 2, second, 2), (0, 1, first, 3)):
        put(script, publisher, value)
        asked(script, consumer, priority, value)
    assert judge(script).anomalies == (("shared",) if shared else ())


def test_a_consumer_of_a_higher_priority_may_come_between_although_it_is_given_nothing() -> None:
    """Process 3 takes over from process 1, and leaves; process 2 follows it, and leaves; then it is process 1 again."""
    script = Script()
    put(script, 0, 1, 2, 3)
    asked(script, 1, 0, 1)
    asked(script, 3, 1, None)
    asked(script, 2, 0, 2)
    asked(script, 1, 0, 3)
    assert judge(script).anomalies == ()


def test_a_consumer_of_a_higher_priority_waits_until_the_one_before_has_settled_what_it_has() -> None:
    script = Script()
    put(script, 0, 1, 2)
    asked(script, 1, 0, None)
    asked(script, 2, 1, 2)
    asked(script, 1, 0, 1)
    assert judge(script).anomalies == ("shared",)


def test_what_nobody_put_in_or_was_refused_is_unexpected() -> None:
    script = Script()
    put(script, 0, 1)
    put(script, 0, 2, how="fail")
    consumed(script, 1, 1, 2, 7)
    verdict = judge(script)
    assert verdict.anomalies == ("unexpected",)
    assert verdict.figures["unexpected"] == 2


@pytest.mark.parametrize(
    ("puts", "takes", "code"),
    [
        ([], [], Code.NEVER_OK),
        ([1], [], Code.READS_SAW_NOTHING),
        ([1, 2], [(1, 1), (1, 2)], Code.NO_OCCASION),
    ],
)
def test_what_was_not_tested_is_inconclusive(puts: list[int], takes: list[tuple[int, int]], code: Code) -> None:
    script = Script()
    put(script, 0, *puts)
    for consumer, value in takes:
        consumed(script, consumer, value)
    verdict = judge(script)
    assert (verdict.valid, verdict.inconclusive[0].code) == ("unknown", code)


def test_options_are_checked_and_functions_may_have_other_names() -> None:
    with pytest.raises(UsageError, match="settle_s"):
        judge(Script(), settle_s=-1)
    script = Script()
    for value in (1, 2, 3):
        script.call(0, "send", value, key="q")
    for consumer, value in ((1, 1), (2, 2), (1, 3)):
        script.call(consumer, "receive", None, value, key="q")
    names = {"enqueue": "send", "consume": "receive", "leave": "cancel"}
    assert judge(script, **names).anomalies == ("shared",)
    assert checker("single-active").name == "single-active"


@pytest.mark.slow
def test_many_subscriptions_of_one_process_are_judged_in_their_own_seconds() -> None:
    script = Script()
    for value in range(10_000):
        put(script, value % 2, value)
        consumed(script, 2 + value % 3, value)
        script.call(2 + value % 3, "leave", key="q")
    verdict = judge(script)
    assert verdict.valid == "true"
    assert verdict.figures["consumers"] == 10_000
    assert verdict.seconds < 3


# --- queues that give nothing -----------------------------------------------------------------------------------------


def waits(script: Script, seconds: float) -> None:
    """Time passes: an op takes 0.2 s."""
    for _ in range(round(5 * seconds)):
        script.call(9, "consume", None, None, key="other")


def nothing(script: Script, *consumers: int) -> None:
    for consumer in consumers:
        script.call(consumer, "consume", None, None, key="q")


def starving(script: Script, *, wait_s: float = 6.0) -> None:
    """Two consumers are given what is put in at first, and later nothing."""
    nothing(script, 1, 2)
    put(script, 0, 1)
    consumed(script, 1, 1)
    put(script, 0, 2)
    waits(script, wait_s)
    nothing(script, 1, 2)


def test_a_queue_that_gives_nothing_to_consumers_that_wait_starves_them() -> None:
    script = Script()
    starving(script)
    verdict = judge(script)
    assert verdict.anomalies == ("starved",)
    assert verdict.sentence == (
        "Starved: value 2 of queue 'q' was acknowledged by n1 at 0.900 s, and never came out: 2 consumers of the queue "
        "waited for more than 5 s, the last one until n3 at 7.300 s. None came, left or failed meanwhile, and no fault "
        "was in force."
    )


def test_where_something_may_come_late_no_time_is_without_a_fault() -> None:
    script = Script()
    starving(script)
    assert judge(script, late_s=0).anomalies == ("starved",)
    assert judge(script, late_s=30.0).anomalies == ()
    with pytest.raises(UsageError, match=r"'late_s' must be a number of seconds .*, not 'much'"):
        judge(script, late_s="much")


def test_a_queue_that_gives_nothing_for_a_while_only_or_has_nothing_starves_none() -> None:
    script = Script()
    starving(script, wait_s=4.0)
    assert judge(script).anomalies == ()
    script = Script()
    starving(script)
    consumed(script, 1, 2)
    assert judge(script).anomalies == ()
    script = Script()
    nothing(script, 1)
    put(script, 0, 1, how="info")
    waits(script, 6.0)
    nothing(script, 1)
    assert judge(script).anomalies == ()


@pytest.mark.parametrize(("f", "how"), [("leave", "ok"), ("consume", "fail"), ("consume", "info"), ("enqueue", "fail")])
@pytest.mark.parametrize("again", [False, True])
def test_a_consumer_that_ends_may_have_had_what_another_one_is_given_only_now(f: str, how: OpType, again: bool) -> None:
    script = Script()
    starving(script)
    script.call(1, f, 99 if f == "enqueue" else None, how=how, key="q")
    nothing(script, 2, *([1] if again and how != "info" else []))
    assert judge(script).anomalies == ()
    waits(script, 6.0)
    nothing(script, 2, *([1] if again and how != "info" else []))
    assert judge(script).anomalies == (("starved",) if how == "info" or f == "leave" or again else ())


def test_a_consumer_that_was_not_asked_again_may_have_it_and_one_that_began_late_may_get_it() -> None:
    script = Script()
    starving(script)
    nothing(script, 3)
    assert judge(script).anomalies == ()
    script = Script()
    nothing(script, 3)
    starving(script)
    assert judge(script).anomalies == ()
    waits(script, 1.0)
    nothing(script, 3)
    assert judge(script).anomalies == ("starved",)


def test_a_fault_excuses_it() -> None:
    script = Script()
    nothing(script, 1, 2)
    put(script, 0, 1)
    fault(script, "partition", "start")
    fault(script, "heal", "stop")
    waits(script, 6.0)
    nothing(script, 1, 2)
    assert judge(script, settle_s=2).anomalies == ()
