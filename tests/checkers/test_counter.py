from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from splitbrain.checkers.counter import CounterChecker
from splitbrain.checkers.verdict import Verdict
from splitbrain.results.arrow import to_table
from splitbrain.results.errors import UsageError
from splitbrain.results.history import Op, OpType
from splitbrain.results.reasons import Code
from tests.checkers.brute_force import linearizable
from tests.checkers.support import Call, Script, interleavings


def judge(ops: list[Op], **options: Any) -> Verdict:
    return CounterChecker().check(to_table(ops), options)


def counting(state: Any, f: str, value: Any, result: Any) -> Hashable | None:
    """The specification; a result of null is not known, or a read of nothing."""
    if f == "increment":
        return state + value if result in (None, state + value) else None
    return state if (result or 0) == state else None


ENDS: list[OpType | Literal["open"]] = ["ok", "ok", "info", "fail", "open"]


@st.composite
def small_histories(draw: st.DrawFn, amounts: st.SearchStrategy[int]) -> list[Op]:
    added = draw(st.lists(st.tuples(amounts, st.sampled_from(ENDS)), max_size=4))
    most = sum(abs(by) for by, _ in added)
    sums = st.one_of(st.none(), st.integers(-1, most + 1))
    calls: list[Call] = [("increment", by, draw(sums) if how == "ok" else by, how) for by, how in added]
    calls.extend(("read", None, draw(sums), "ok") for _ in range(draw(st.integers(0, 3))))
    return draw(interleavings(draw(st.permutations(calls))))


@settings(max_examples=400)
@given(st.one_of(small_histories(st.integers(1, 4)), small_histories(st.integers(-3, 3))))
def test_what_it_refutes_no_order_of_the_ops_explains(history: list[Op]) -> None:
    if judge(history).valid == "false":
        assert not linearizable(history, 0, counting)


@st.composite
def alone(draw: st.DrawFn) -> list[Op]:
    """Ops one after the other, each with a known outcome."""
    script, total = Script(), 0
    for process in range(draw(st.integers(1, 5))):
        lie = draw(st.sampled_from([0, 0, 0, -1, 1, 2]))
        if draw(st.booleans()):
            by = draw(st.integers(1, 4))
            total += by
            script.call(process, "increment", by, total + lie)
        else:
            script.call(process, "read", result=total + lie)
    return script.ops


@given(alone())
def test_where_ops_do_not_overlap_and_all_are_answered_it_is_exact(history: list[Op]) -> None:
    assert (judge(history).valid == "true") == linearizable(history, 0, counting)


@st.composite
def around_a_read(draw: st.DrawFn) -> list[Op]:
    """Increments that say no sum, and one read, which answers nothing yet."""
    added = draw(st.lists(st.tuples(st.integers(1, 4), st.sampled_from(ENDS)), max_size=4))
    calls: list[Call] = [("increment", by, None, how) for by, how in added]
    calls.append(("read", None, 0, "ok"))
    return draw(interleavings(draw(st.permutations(calls))))


@settings(max_examples=80)
@given(around_a_read())
def test_the_bounds_of_a_read_are_the_least_and_the_most_that_any_order_gives(history: list[Op]) -> None:
    def reading(value: int) -> list[Op]:
        return [op if (op.f, op.type) != ("read", "ok") else op.complete("ok", value) for op in history]

    def numbered(ops: list[Op]) -> list[Op]:
        script = Script()
        for op in ops:
            script.event(op.process, op.type, op.f, op.value)
        return script.ops

    values = [numbered(reading(value)) for value in range(-1, 18)]
    possible = [value for value, ops in enumerate(values, -1) if linearizable(ops, 0, counting)]
    within = [value for value, ops in enumerate(values, -1) if judge(ops).valid == "true"]
    assert within == list(range(min(possible), max(possible) + 1))


def test_a_sum_below_what_was_certainly_added_is_lost() -> None:
    script = Script()
    script.call(0, "increment", 5, 5, key="c")
    script.call(1, "read", result=3, key="c")
    verdict = judge(script.ops)
    assert verdict.sentence == (
        "Lost: n2 at 0.300 s answered 3 for counter 'c', but 5 had certainly been added by then."
    )
    assert verdict.anomalies == ("lost", "went-back", "same-sum")
    assert verdict.evidence["ops"] == [3]


def test_an_increment_that_counts_twice_is_more_than_was_ever_added() -> None:
    script = Script()
    script.call(0, "increment", 5, how="info", key="c")
    script.call(1, "read", result=10, key="c")
    verdict = judge(script.ops)
    assert verdict.sentence == (
        "Counted twice: n2 at 0.300 s answered 10 for counter 'c', but no more than 5 can have been added by then."
    )
    assert verdict.anomalies == ("counted-twice",)
    assert verdict.evidence["ops"] == [3]


def test_an_increment_of_unknown_outcome_may_count_once_and_a_failed_one_may_not() -> None:
    possible: dict[OpType, dict[int, bool]] = {"info": {0: True, 5: True, 6: False}, "fail": {0: True, 5: False}}
    for how, sums in possible.items():
        for value, fine in sums.items():
            script = Script()
            script.call(0, "increment", 5, how=how)
            script.call(1, "read", result=value)
            assert (judge(script.ops).valid == "true") == fine


def test_sums_that_overlap_in_time_and_in_value_have_no_order() -> None:
    script = Script()
    for process in (0, 1):
        script.event(process, "invoke", "increment", 3)
    script.event(0, "ok", "increment", 3)
    script.event(1, "ok", "increment", 3)
    verdict = judge(script.ops)
    assert verdict.anomalies == ("same-sum",)
    assert verdict.sentence == (
        "Same sum: for the counter n1 at 0.200 s answered 3 after adding 3, and n2 at 0.300 s answered 3 after "
        "adding 3; there is no order of both."
    )


def test_a_read_of_half_an_increment_has_no_order() -> None:
    script = Script()
    script.event(0, "invoke", "increment", 3)
    script.event(1, "invoke", "read")
    script.event(1, "ok", "read", 2)
    script.event(0, "ok", "increment", 3)
    assert judge(script.ops).anomalies == ("same-sum",)


def test_it_says_how_much_was_certain_and_that_nothing_unknown_was_tested() -> None:
    script = Script()
    script.call(0, "increment", 5, 5)
    script.call(1, "read", result=5)
    verdict = judge(script.ops)
    assert verdict.sentence == (
        "All 2 sums are possible; for 2 of them one value only was. No increment had an unknown outcome: what became "
        "of such was not tested."
    )
    script.call(0, "increment", 5, how="info")
    script.call(1, "read", result=5)
    verdict = judge(script.ops)
    assert verdict.sentence == (
        "All 3 sums are possible; for 2 of them one value only was. 1 increment of unknown outcome may have counted, "
        "and none is seen twice."
    )
    assert verdict.figures == {"keys": 1, "sums": 3, "increments": 1, "unknown": 1, "exact": 2}


def test_without_any_sum_nothing_is_known() -> None:
    script = Script()
    script.call(0, "increment", 5, how="info")
    verdict = CounterChecker().merge([judge(script.ops)], {})
    assert (verdict.valid, verdict.sentence) == ("unknown", "No sum was ever answered.")
    assert verdict.inconclusive


def test_a_run_is_as_good_as_its_worst_key() -> None:
    good, bad = Script(), Script()
    good.call(0, "increment", 5, 5, key="a")
    bad.call(0, "increment", 5, 5, key="b")
    bad.call(0, "read", result=4, key="b")
    verdict = CounterChecker().merge([judge(good.ops), judge(bad.ops)], {})
    assert (verdict.valid, verdict.evidence["keys"], verdict.figures["broken"]) == ("false", ["b"], 1)
    assert CounterChecker().merge([judge(good.ops)], {}).valid == "true"


def test_functions_and_the_number_at_first_may_be_others() -> None:
    script = Script()
    script.call(0, "bump", 2, 12)
    script.call(1, "get", result=None)
    options = {"increment": "bump", "read": "get", "initial": 10}
    assert judge(script.ops, **options).anomalies == ("lost", "went-back")
    assert judge(script.ops[:2], **options).valid == "true"


@pytest.mark.parametrize(
    ("options", "value"), [({"increment": 1}, 1), ({"initial": "0"}, 1), ({}, 1.5), ({}, "1"), ({}, None)]
)
def test_what_is_no_counter_is_refused(options: dict[str, Any], value: Any) -> None:
    script = Script()
    script.event(0, "invoke", "increment", value)
    script.event(0, "ok", "increment", 1)
    with pytest.raises(UsageError, match="checker counter"):
        judge(script.ops, **options)


def test_a_run_without_any_increment_that_may_have_counted_tests_nothing() -> None:
    script = Script()
    script.call(0, "increment", 1, how="fail")
    script.call(0, "read", None, 0)
    verdict = judge(script.ops)
    for found in (verdict, CounterChecker().merge([verdict, verdict], {})):
        assert (found.valid, [reason.code for reason in found.inconclusive]) == ("true", [Code.NO_OCCASION])
    script.call(0, "increment", 1, how="info")
    tested = judge(script.ops)
    assert CounterChecker().merge([verdict, tested], {}).inconclusive == tested.inconclusive == ()
    script.call(0, "read", None, 2)
    assert judge(script.ops).anomalies == ("counted-twice",)


def test_an_add_counts_and_answers_no_sum() -> None:
    script = Script()
    script.call(0, "add", 5)
    script.call(1, "add", 2, how="info")
    script.call(2, "add", 1, how="fail")
    script.call(3, "read", None, 7)
    verdict = judge(script.ops)
    assert verdict.valid == "true"
    assert verdict.figures["increments"] == 1
    assert verdict.figures["unknown"] == 1
    script.call(4, "read", None, 8)
    assert judge(script.ops).anomalies == ("counted-twice",)


def test_an_add_may_be_the_increment_that_answers_the_sum() -> None:
    script = Script()
    script.call(0, "add", 5, 6)
    assert judge(script.ops, increment="add").anomalies == ("counted-twice",)


def test_an_op_without_a_time_is_at_zero_and_not_at_minus_zero() -> None:
    invoke = Op(index=0, time=-1, process=0, type="invoke", f="read")
    verdict = judge([invoke, Op(index=1, time=-1, process=0, type="ok", f="read", value=3)])
    assert "process 0 at 0.000 s" in verdict.sentence
