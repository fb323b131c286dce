"""The verdict on queues: by every possible course of small histories, and by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from splitbrain.checkers.models import model
from splitbrain.checkers.queues import TotalQueue
from splitbrain.checkers.registry import checker
from splitbrain.checkers.verdict import Verdict
from splitbrain.results.arrow import to_table
from splitbrain.results.errors import HistoryFormatError, UsageError
from splitbrain.results.history import Op, OpType, pairs
from splitbrain.results.reasons import Code
from tests.checkers.brute_force import linearizable
from tests.checkers.support import Script


def judge(script: Script, **options: Any) -> Verdict:
    return TotalQueue().check(to_table(script.ops), options)


def again(value: int) -> dict[str, Any]:
    """A delivery that is said to be a repetition."""
    return {"value": value, "redelivered": True}


# --- against every possible course -----------------------------------------------------------------------------------

Event: TypeAlias = tuple[int, float, str, int, bool]
"""First and last row at which it can happen, what it is ("put" or "out"), of which value, and whether flagged."""


def listing(answer: Any) -> list[Any]:
    """The deliveries of an answer to a take or to a drain."""
    if answer is None:
        return []
    return cast("list[Any]", answer) if isinstance(answer, list) else [answer]


def read_events(history: Sequence[Op]) -> tuple[list[tuple[Event, int, bool]], list[Event], dict[int, int]]:
    """Puts that may have happened, with publisher and whether they did; deliveries; and which follows which in one."""
    puts: list[tuple[Event, int, bool]] = []
    outs: list[Event] = []
    follows: dict[int, int] = {}
    for pair in pairs(history):
        begin, end = pair.invoke.index, pair.completion
        ok = end is not None and end.type == "ok"
        last = float(end.index) if end is not None and ok else float("inf")
        if pair.invoke.f == "enqueue":
            if end is None or end.type != "fail":
                puts.append(((begin, last, "put", pair.invoke.value, False), pair.invoke.process, ok))
        elif end is not None and ok:
            listed: list[Any] = listing(end.value)
            for place, each in enumerate(listed):
                if place:
                    follows[len(outs)] = len(outs) - 1
                flagged = isinstance(each, dict)
                value = int(cast(Any, each)["value"] if flagged else each)
                outs.append((begin, last, "out", value, flagged))
    return puts, outs, follows


def possible(history: Sequence[Op], *, refused: bool) -> bool:
    """Whether a queue that keeps its promises can have answered so, by trying every course of events. Slow, and plain.

    A message is put in between invocation and end of its op, if that did not fail; never, or later, if its outcome is
    unknown. Unseen, the queue may mark a message as delivered at any time: it was, to a client that never learned of
    it. A message comes out as new only if it is not marked, or came out before; as repeated only if it is marked, or
    came out before. None comes out while an earlier one of its publisher is in, not marked, and never came out.
    """
    puts, outs, follows = read_events(history)
    events = [put for put, _, _ in puts] + outs
    certain = frozenset([i for i, (_, _, ok) in enumerate(puts) if ok] + list(range(len(puts), len(events))))
    publisher = {put[3]: (process, put[0]) for put, process, _ in puts}
    earlier = {
        value: [v for v, (p, b) in publisher.items() if p == process and b < begin]
        for value, (process, begin) in publisher.items()
    }
    seen: set[tuple[frozenset[int], frozenset[int]]] = set()

    def comes_out(value: int, flagged: bool, inside: set[int], marked: frozenset[int], came: set[int]) -> bool:
        fits = value in came or (value in marked) == flagged
        held = any(v in inside and v not in marked and v not in came for v in earlier.get(value, ()))
        return value in inside and fits and not held and not (refused and value in came)

    def search(done: frozenset[int], marked: frozenset[int]) -> bool:
        if certain <= done:
            came = {events[i][3] for i in done if events[i][2] == "out"}
            return all(put[3] in came for put, _, ok in puts if ok)
        if (done, marked) in seen:
            return False
        seen.add((done, marked))
        inside = {events[i][3] for i in done if events[i][2] == "put"}
        came = {events[i][3] for i in done if events[i][2] == "out"}
        if any(search(done, marked | {value}) for value in sorted(inside - marked - came)):
            return True
        first_end = min(events[i][1] for i in certain - done)
        for i in range(len(events)):
            begin, _, kind, value, flagged = events[i]
            if i in done or begin > first_end:
                continue
            before = follows.get(i - len(puts))
            if before is not None and before + len(puts) not in done:
                continue
            if kind == "out" and not comes_out(value, flagged, inside, marked, came):
                continue
            if search(done | {i}, marked):
                return True
        return False

    return search(frozenset(), frozenset())


@st.composite
def small_histories(draw: st.DrawFn, repeats: bool = True) -> Script:
    """Two publishers of up to three values each, two clients that take what may be anything, and a last look."""
    programs: list[list[tuple[str, Any, Any, OpType]]] = []
    put: list[int] = []
    for publisher in range(2):
        program: list[tuple[str, Any, Any, OpType]] = []
        for number in range(draw(st.integers(0, 3))):
            value = 10 * publisher + number
            how: OpType = draw(st.sampled_from(["ok", "ok", "ok", "ok", "fail", "info"]))
            program.append(("enqueue", value, value, how))
            put.append(value)
            if how == "info":
                break
        programs.append(program)
    pool: list[int] = draw(st.permutations(put + ([99] if draw(st.integers(0, 9)) == 0 else [])))
    if repeats and pool and draw(st.booleans()):
        pool = [*pool, draw(st.sampled_from(pool))]
    # Mostly nearly all in the order of the puts: what a queue that works answers.
    if draw(st.booleans()):
        pool = sorted(pool, key=lambda value: value % 10)
    pool = pool[: len(pool) - draw(st.sampled_from([0, 0, 0, 1]))]
    takers: list[list[tuple[str, Any, Any, OpType]]] = [[], []]
    while pool:
        taker = takers[draw(st.integers(0, 1))]
        count = draw(st.sampled_from([1, 1, 2, 3]))
        batch, pool = pool[:count], pool[count:]
        answers = [again(value) if draw(st.integers(0, 3)) == 0 else value for value in batch]
        if count == 1:
            taker.append(("dequeue", None, answers[0], "ok"))
        else:
            taker.append(("drain", None, answers, "ok"))
        if draw(st.integers(0, 5)) == 0:
            taker.append(("dequeue", None, None, "ok"))
    programs += takers
    script = Script(nodes=1)
    at = [0] * len(programs)
    running: dict[int, bool] = {}
    while True:
        able = [i for i, program in enumerate(programs) if at[i] < len(program) or i in running]
        if not able:
            break
        i = draw(st.sampled_from(able))
        f, value, result, how = programs[i][min(at[i], len(programs[i]) - 1)]
        if i in running:
            script.event(i, how, f, result if how == "ok" else value)
            del running[i]
            at[i] += 1
        else:
            script.event(i, "invoke", f, value)
            running[i] = True
    script.call(7, "drain", None, [])
    return script


def came_once(ops: Sequence[Op]) -> bool:
    out: list[int] = []
    for op in ops:
        if op.type == "ok" and op.f != "enqueue" and op.value is not None:
            out += [each["value"] if isinstance(each, dict) else each for each in listing(op.value)]
    return len(out) == len(set(out))


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(small_histories(), st.booleans())
def test_the_verdict_is_that_of_trying_every_course(script: Script, refused: bool) -> None:
    """Never a false alarm; and where no value came twice, no violation is missed either."""
    verdict = judge(script, redelivery="refused" if refused else "allowed")
    can_be = possible(script.ops, refused=refused)
    if verdict.valid == "false":
        assert not can_be
    elif verdict.valid == "true" and came_once(script.ops):
        assert can_be
    if verdict.valid == "unknown":
        assert not verdict.figures["acknowledged"] or not verdict.figures["delivered"]


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(small_histories())
def test_the_findings_of_each_kind_are_counted_and_the_leading_one_has_its_ops(script: Script) -> None:
    verdict = judge(script)
    counted = {name for name in ("lost", "unexpected", "duplicated", "order") if verdict.figures[name]}
    assert set(verdict.anomalies) == counted
    assert (verdict.valid == "false") == bool(counted)
    if counted:
        assert verdict.evidence["ops"] == verdict.evidence["findings"][0]["ops"]
        assert verdict.evidence["findings"][0]["sentence"] == verdict.sentence


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(small_histories(repeats=False))
def test_what_a_linearizable_queue_allows_is_allowed_here(script: Script) -> None:
    """Total queues are weaker than the model of a queue that is first in, first out, as the harness has it."""
    fifo = model("fifo-queue")
    plain: list[Op] = []
    for pair in pairs(script.ops):
        if pair.invoke.f != "drain" and pair.completion is not None and not isinstance(pair.completion.value, dict):
            plain += [pair.invoke, pair.completion]
    plain.sort(key=lambda op: op.index)

    def step(state: Any, f: str, value: Any, result: Any) -> Any:
        after: Any = fifo.step(state, f, value, result)
        return cast(Any, after) if isinstance(after, tuple) else None

    emptied = {op.value for op in plain if op.type == "ok" and op.f == "dequeue"}
    left = any(op.type == "ok" and op.f == "enqueue" and op.value not in emptied for op in plain)
    if linearizable(plain, fifo.init(), step):
        only = Script(nodes=1)
        only.ops = plain
        verdict = TotalQueue().check(to_table(plain), {})
        assert verdict.valid != "false"  # not drained, so that what is left in it is not lost
        assert verdict.valid == "unknown" or not left


# --- by hand ----------------------------------------------------------------------------------------------------------


def drained(script: Script, *, key: str | None = None) -> Script:
    """With every node finding the queue empty in the end."""
    for process in range(script.nodes):
        script.call(process, "drain", None, [], key=key)
    return script


def test_a_value_that_was_acknowledged_and_never_came_out_is_lost_with_node_and_times() -> None:
    script = Script(nodes=3)
    script.call(0, "enqueue", 1, key="q")
    script.call(1, "enqueue", 2, key="q")
    script.call(2, "dequeue", None, 1, key="q")
    verdict = judge(drained(script, key="q"))
    assert verdict.valid == "false"
    assert verdict.anomalies == ("lost",)
    assert verdict.sentence == (
        "Lost: value 2 of queue 'q' was acknowledged by n2 at 0.300 s and never came out, although every node found "
        "queue 'q' empty in the end, the last one at 1.100 s."
    )
    assert verdict.evidence["ops"] == [3, 11]
    assert verdict.figures["missing"] == 1


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("fail", "not drained: n3 did not find it empty when asked after 0.500 s"),
        ("info", "not drained: n1, n2, n3 did not find it empty when asked after 1.100 s"),
    ],
)
def test_a_drain_that_one_node_did_not_answer_proves_no_loss(how: OpType, words: str) -> None:
    script = Script(nodes=3)
    script.call(0, "enqueue", 1)
    script.call(0, "enqueue", 2)
    script.call(1, "dequeue", None, 2)
    script.call(0, "drain", None, [])
    script.call(1, "drain", None, [])
    script.event(2, "invoke", "drain")
    script.event(2, how, "drain", error="no answer")
    verdict = judge(script, order="none")
    assert verdict.valid == "unknown"
    assert [reason.code for reason in verdict.inconclusive] == [Code.NEVER_OK]
    assert words in verdict.sentence
    assert verdict.figures["missing"] == 1
    assert verdict.figures["drained"] == 0


def test_without_a_drain_nothing_is_judged_as_lost() -> None:
    script = Script(nodes=1)
    script.call(0, "enqueue", 1)
    script.call(0, "enqueue", 2)
    script.call(0, "dequeue", None, 1)
    verdict = judge(script)
    assert verdict.valid == "unknown"
    assert verdict.inconclusive[0].code == Code.NOT_EXERCISED
    assert "never drained" in verdict.sentence


def test_a_queue_that_gave_something_after_a_node_found_it_empty_must_be_asked_there_again() -> None:
    script = Script(nodes=2)
    script.call(0, "enqueue", 1)
    script.call(0, "enqueue", 2)
    script.call(0, "drain", None, [])  # n1: empty, while n2 still has them
    script.call(1, "drain", None, [1])
    script.call(1, "drain", None, [])
    assert judge(script).valid == "unknown"
    script.call(0, "drain", None, [])
    assert judge(script).anomalies == ("lost",)


def test_what_a_take_of_unknown_outcome_took_may_be_away_for_a_while() -> None:
    script = Script(nodes=1)
    script.call(0, "enqueue", 1)
    script.call(0, "enqueue", 2)
    script.call(0, "dequeue", None, 1)
    script.event(1, "invoke", "dequeue")
    script.event(1, "info", "dequeue", error="timeout")
    script.call(0, "drain", None, [])  # begun at 0.8 s, 0.1 s after that
    assert judge(script, settle_s=0.5).valid == "unknown"
    assert judge(script, settle_s=0.1).anomalies == ("lost",)
    script.call(0, "drain", None, [again(2)])
    script.event(0, "invoke", "drain", time_s=2.0)
    script.event(0, "ok", "drain", [], time_s=2.1)
    assert judge(script, settle_s=0.5).valid == "true"


def test_without_a_time_to_settle_a_take_of_unknown_outcome_may_have_kept_what_it_took() -> None:
    script = Script(nodes=1)
    for value in (1, 2, 3):
        script.call(0, "enqueue", value)
    script.call(1, "dequeue", how="info", error="timeout")
    script.call(0, "dequeue", None, 2)
    script.call(0, "dequeue", None, 3)
    script.call(0, "drain", None, [])
    verdict = judge(script)  # a queue that hands messages over for good, and whose second answer did not arrive
    assert (verdict.valid, verdict.anomalies) == ("unknown", ())
    assert verdict.sentence == "The queue lacks 1 acknowledged value, which takes of unknown outcome can have kept."
    assert judge(script, settle_s=0).anomalies == ("lost",)


def test_a_take_of_unknown_outcome_keeps_one_value_and_a_drain_any_number() -> None:
    script = Script(nodes=1)
    for value in (1, 2, 3):
        script.call(0, "enqueue", value)
    script.call(1, "dequeue", how="info", error="timeout")
    script.call(0, "dequeue", None, 3)
    script.call(0, "drain", None, [])
    verdict = judge(script, order="none")
    assert verdict.anomalies == ("lost",)
    assert verdict.sentence.endswith(
        " 2 values are missing there, of which 1 take of unknown outcome can have kept one each."
    )
    script.call(2, "drain", how="info", error="timeout")
    script.call(0, "drain", None, [])
    assert judge(script, order="none").valid == "unknown"


@pytest.mark.parametrize("f", ["dequeue", "drain"])
def test_a_take_that_has_not_ended_may_be_given_something_later_and_keep_it(f: str) -> None:
    script = Script(nodes=1)
    script.call(0, "enqueue", 1)
    script.call(0, "enqueue", 2)
    script.call(0, "dequeue", None, 1)
    script.event(1, "invoke", f)
    script.call(0, "drain", None, [])
    verdict = judge(script)
    assert (verdict.valid, verdict.figures["missing"], verdict.figures["drained"]) == ("unknown", 1, 0)
    assert "not drained: n1 did not find it empty" in verdict.sentence
    script.event(1, "ok", f, 2 if f == "dequeue" else [2])
    script.call(0, "drain", None, [])
    assert judge(script).valid == "true"


@pytest.mark.parametrize(
    ("how", "sentence"),
    [
        (None, "Unexpected: value 7 came out at n1 at 0.500 s, and no client put it in."),
        (
            "fail",
            (
                "Unexpected: value 7 came out at n1 at 0.500 s, although n1 at 0.300 s refused to put it in (no reason "
                "given)."
            ),
        ),
    ],
)
def test_a_value_that_nobody_put_in_or_whose_put_failed_is_unexpected(how: OpType | None, sentence: str) -> None:
    script = Script(nodes=1)
    script.call(0, "enqueue", 1)
    if how:
        script.call(0, "enqueue", 7, how=how)
    else:
        script.call(0, "enqueue", 2)
    script.call(0, "drain", None, [1, 7, *([] if how else [2])])
    verdict = judge(drained(script))
    assert verdict.anomalies == ("unexpected",)
    assert verdict.sentence == sentence


def test_a_value_that_came_out_before_it_was_put_in_is_unexpected() -> None:
    script = Script(nodes=1)
    script.call(0, "dequeue", None, 1)
    script.call(0, "enqueue", 1)
    verdict = judge(drained(script))
    assert verdict.anomalies == ("unexpected",)
    assert verdict.sentence.endswith("came out at n1 at 0.100 s, before it was put in at 0.200 s.")


def test_a_value_of_another_queue_is_unexpected_and_the_same_value_may_be_in_both() -> None:
    script = Script(nodes=1)
    for queue in ("a", "b"):
        script.call(0, "enqueue", 1, key=queue)
        script.call(0, "enqueue", 2, key=queue)
        script.call(0, "drain", None, [1, 2], key=queue)
    both = judge(drained(drained(script, key="a"), key="b"))
    assert both.valid == "true"
    assert both.figures["queues"] == both.figures["drained"] == 2
    assert "2 queues were drained" in both.sentence
    script.call(0, "enqueue", 3, key="a")
    script.call(0, "dequeue", None, 3, key="b")
    verdict = judge(drained(drained(script, key="a"), key="b"))
    assert verdict.anomalies == ("lost", "unexpected")


def test_what_came_out_though_its_put_has_an_unknown_outcome_is_recovered() -> None:
    script = Script(nodes=1)
    script.call(0, "enqueue", 1)
    script.call(0, "enqueue", 2)
    script.call(0, "enqueue", 3, how="info")
    script.call(1, "enqueue", 4, how="info")
    script.call(1 + 2, "drain", None, [1, 2, 3])
    verdict = judge(drained(script))
    assert verdict.valid == "true"
    assert verdict.figures["recovered"] == 1
    assert verdict.figures["unknown"] == 2
    assert verdict.sentence == (
        "Nothing was lost: all of 2 acknowledged values came out, and 1 with unknown outcome. 1 queue was drained, and "
        "no value overtook an earlier one of its publisher."
    )


def test_a_value_may_come_twice_unless_that_is_refused_or_has_to_be_said() -> None:
    script = Script(nodes=1)
    script.call(0, "enqueue", 1)
    script.call(0, "enqueue", 2)
    script.call(0, "drain", None, [1, 2])
    script.call(0, "dequeue", None, again(2))
    said = drained(script)
    assert judge(said).valid == judge(said, redelivery="flagged").valid == "true"
    assert judge(said).figures["repeated"] == 1
    refused = judge(said, redelivery="refused")
    assert refused.anomalies == ("duplicated",)
    assert refused.sentence == "Duplicated: value 2 came out 2 times: at n1 at 0.500 s and n1 at 0.700 s."
    script.call(0, "dequeue", None, 1)
    silent = drained(script)
    assert judge(silent).valid == "true"
    assert judge(silent, redelivery="flagged").sentence == (
        "Duplicated: value 1 came out 2 times: at n1 at 0.500 s and n1 at 1.100 s, the second time not said to be a "
        "repetition."
    )


def test_a_value_that_overtakes_an_earlier_one_of_its_publisher_is_out_of_order() -> None:
    script = Script(nodes=2)
    script.call(0, "enqueue", 1)
    script.call(0, "enqueue", 2)
    script.call(1, "dequeue", None, 2)
    script.call(1, "dequeue", None, 1)
    verdict = judge(drained(script))
    assert verdict.anomalies == ("order",)
    assert verdict.sentence == (
        "Out of order: process 0 put value 1 in (acknowledged at 0.100 s) before 2 (begun at 0.200 s), but 2 came out "
        "first, at n2 at 0.500 s, and 1 only at n2 at 0.700 s, as delivered for the first time."
    )
    assert verdict.evidence["ops"] == [1, 2, 5, 7]
    assert judge(drained(script), order="none").valid == "true"


def test_within_one_answer_places_show_the_order() -> None:
    script = Script(nodes=1)
    for value in (1, 2, 3):
        script.call(0, "enqueue", value)
    script.call(0, "drain", None, [1, 3, 2])
    verdict = judge(drained(script))
    assert verdict.anomalies == ("order",)
    assert "put value 2 in" in verdict.sentence
    assert "but 3 came out first" in verdict.sentence


@pytest.mark.parametrize(
    "takes",
    [
        [("dequeue", 2), ("dequeue", again(1))],  # it had been taken by a client that never learned of it
        [("drain", [2, again(1)])],
        [("dequeue", 1), ("dequeue", 2), ("dequeue", 1)],
    ],
)
def test_a_value_that_went_back_may_come_later(takes: list[tuple[str, Any]]) -> None:
    script = Script(nodes=1)
    script.call(0, "enqueue", 1)
    script.call(0, "enqueue", 2)
    for f, answer in takes:
        script.call(0, f, None, answer)
    assert judge(drained(script)).valid == "true"


def test_two_publishers_and_takes_at_once_have_no_order() -> None:
    script = Script(nodes=2)
    script.call(0, "enqueue", 1)
    script.call(1, "enqueue", 2)
    script.call(0, "enqueue", 3)
    script.call(1, "dequeue", None, 2)
    script.event(0, "invoke", "dequeue")
    script.event(1, "invoke", "dequeue")
    script.event(0, "ok", "dequeue", 3)
    script.event(1, "ok", "dequeue", 1)
    assert judge(drained(script)).valid == "true"


def test_where_no_order_could_be_seen_the_run_is_inconclusive() -> None:
    script = Script(nodes=1)
    script.call(0, "enqueue", 1)
    script.call(0, "dequeue", None, 1)
    verdict = judge(drained(script))
    assert verdict.valid == "true"
    assert [reason.code for reason in verdict.inconclusive] == [Code.NO_OCCASION]
    assert not judge(drained(script), order="none").inconclusive


def test_a_run_in_which_nothing_was_acknowledged_or_nothing_came_out_is_inconclusive() -> None:
    assert judge(Script()).inconclusive[0].code == Code.NOT_EXERCISED
    refused = Script(nodes=1)
    refused.call(0, "enqueue", 1, how="fail")
    assert judge(drained(refused)).inconclusive[0].code == Code.NEVER_OK
    unread = Script(nodes=1)
    unread.call(0, "enqueue", 1)
    unread.call(0, "dequeue", how="fail")
    assert Code.READS_SAW_NOTHING in {reason.code for reason in judge(unread).inconclusive}


def test_a_value_that_is_put_in_twice_is_refused_with_both_ops() -> None:
    script = Script(nodes=1)
    script.call(0, "enqueue", 1)
    script.call(0, "enqueue", 1)
    with pytest.raises(HistoryFormatError, match="ops 0 and 2 put the same value into one queue"):
        judge(script)


@pytest.mark.parametrize(
    ("f", "answer"),
    [
        ("dequeue", "x"),
        ("dequeue", [1]),
        ("dequeue", 2**70),
        ("drain", 3),
        ("drain", ["x"]),
        ("drain", [2**70]),
        ("drain", [{"value": 1, "held": 2**70}]),
        ("dequeue", {"no": 1}),
    ],
)
def test_an_answer_that_is_no_value_is_refused(f: str, answer: Any) -> None:
    script = Script(nodes=1)
    script.call(0, "enqueue", 1)
    script.call(0, f, None, answer)
    with pytest.raises(HistoryFormatError):
        judge(script)


@pytest.mark.parametrize("options", [{"redelivery": "maybe"}, {"order": "total"}, {"settle_s": -1}, {"drain": 3}])
def test_a_wrong_option_is_refused_by_name(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=next(iter(options))):
        judge(Script(), **options)


def test_functions_may_have_other_names() -> None:
    script = Script(nodes=1)
    script.call(0, "send", 1)
    script.call(0, "send", 2)
    script.call(0, "all", None, [2])
    script.call(0, "all", None, [])
    assert judge(script, enqueue="send", drain="all").anomalies == ("lost",)


def test_the_checker_is_in_the_registry() -> None:
    assert isinstance(checker("queue"), TotalQueue)


# --- a million ops ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_long_history_that_is_all_out_of_order_is_counted_whole_and_shown_in_part() -> None:
    """Each finding that is shown takes time that is linear in the history: not every one of them may be."""
    script = Script(nodes=1)
    count = 3000
    for value in range(count):
        script.call(0, "enqueue", value)
    for value in reversed(range(count)):
        script.call(1, "dequeue", None, value)
    verdict = judge(drained(script))
    assert verdict.figures["order"] == count - 1
    assert len(verdict.evidence["findings"]) == 20


@pytest.mark.slow
def test_many_queues_are_judged_in_their_own_seconds() -> None:
    script = Script(nodes=2)
    for queue in range(20_000):
        script.call(0, "enqueue", 1, key=f"q{queue}")
        script.call(0, "dequeue", None, 1, key=f"q{queue}")
        drained(script, key=f"q{queue}")
    verdict = judge(script)
    assert verdict.valid == "true"
    assert verdict.seconds < 2.5
