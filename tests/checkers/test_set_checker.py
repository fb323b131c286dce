from __future__ import annotations

import time
from collections.abc import Hashable
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from splitbrain.checkers.set_checker import SetChecker
from splitbrain.checkers.verdict import Verdict
from splitbrain.results.arrow import to_table
from splitbrain.results.errors import HistoryFormatError, UsageError
from splitbrain.results.history import Op, OpType
from splitbrain.results.reasons import Code
from tests.checkers.brute_force import linearizable
from tests.checkers.support import Call, Script, interleavings


def judge(ops: list[Op], **options: Any) -> Verdict:
    return SetChecker().check(to_table(ops), options)


def grow(state: Any, f: str, value: Any, result: Any) -> Hashable | None:
    """The specification: a set that grows, and reads that return all of it, each element once."""
    if f == "add":
        return state | {value}
    if result is None:
        return state
    return state if len(set(result)) == len(result) and set(result) == state else None


@st.composite
def small_histories(draw: st.DrawFn) -> list[Op]:
    """Up to four adds, some of the same element, and up to four reads of anything, overlapping at random."""
    elements = st.integers(0, 3)
    ends: list[OpType | Literal["open"]] = ["ok", "ok", "ok", "info", "fail", "open"]
    adds = draw(st.lists(st.tuples(elements, st.sampled_from(ends)), max_size=4))
    unique = draw(st.sampled_from([True, True, False]))
    plausible = st.lists(st.sampled_from([e for e, _ in adds] or [0]), max_size=4, unique=unique)
    reads = draw(st.lists(st.tuples(plausible, st.sampled_from(ends[:4])), min_size=1, max_size=4))
    calls: list[Call] = [("add", element, element, how) for element, how in adds]
    calls.extend(("read", None, listed, how) for listed, how in reads)
    return draw(interleavings(draw(st.permutations(calls))))


@pytest.mark.slow
@settings(max_examples=300)
@given(small_histories())
def test_the_verdict_is_that_of_trying_every_order(history: list[Op]) -> None:
    verdict = judge(history)
    if verdict.valid == "unknown":
        assert not any(op.f == "read" and op.type == "ok" for op in history)
    else:
        assert verdict.valid == ("true" if linearizable(history, frozenset[int](), grow) else "false")
        assert bool(verdict.anomalies) == (verdict.valid == "false")


@pytest.mark.slow
@settings(max_examples=300)
@given(small_histories())
def test_the_leading_evidence_alone_is_already_illegal(history: list[Op]) -> None:
    verdict = judge(history)
    if verdict.valid == "false":
        named = set(verdict.evidence["ops"])
        processes = {op.process for op in history if op.index in named}
        elements = {op.value for op in history if op.f == "add" and op.process in processes}
        witness = [op for op in history if op.process in processes or (op.f == "add" and op.value not in elements)]
        assert not linearizable(witness, frozenset[int](), grow)


def test_a_lost_element_is_named_with_node_term_and_times() -> None:
    script = Script()
    script.call(2, "add", 811)
    script.call(2, "add", 812, term=4)
    for process in range(5):
        script.call(process, "read", result=[811])
    verdict = judge(script.ops)
    assert verdict.valid == "false"
    assert verdict.anomalies == ("lost",)
    assert verdict.sentence == (
        "Lost: element 812 was acknowledged by n3 at 0.300 s (term 4) and is missing from every one of the 5 reads "
        "that began later, first from n1 at 0.500 s."
    )
    assert verdict.evidence["ops"] == [3, 5]
    assert [op["node"] for op in verdict.evidence["witness"]] == ["n3", "n1"]


def test_an_element_that_vanishes_after_it_was_read_is_lost_though_its_add_was_never_acknowledged() -> None:
    script = Script()
    script.event(0, "invoke", "add", 1)
    script.call(1, "read", result=[1])
    script.call(2, "read", result=[])
    verdict = judge(script.ops)
    assert verdict.anomalies == ("lost",)
    assert "element 1 was read from n2 at 0.200 s" in verdict.sentence


def test_an_element_that_is_missing_once_and_comes_back_is_stale_not_lost() -> None:
    script = Script()
    script.call(0, "add", 7)
    script.call(1, "read", result=[])
    script.call(2, "read", result=[7])
    verdict = judge(script.ops)
    assert verdict.anomalies == ("stale",)
    assert "n2 at 0.300 s misses it" in verdict.sentence
    assert "there again at 0.500 s" in verdict.sentence


def test_a_read_that_began_before_the_acknowledgement_may_miss_the_element() -> None:
    script = Script()
    script.event(0, "invoke", "add", 7)
    script.event(1, "invoke", "read")
    script.event(0, "ok", "add", 7)
    script.event(1, "ok", "read", [])
    verdict = judge(script.ops)
    assert verdict.valid == "true"
    assert verdict.figures["unread"] == 1


@pytest.mark.parametrize(
    ("steps", "reason"),
    [
        (["read"], "no op added it"),
        (["fail", "read"], "every add of it failed"),
        (["read", "ok"], "its add was invoked only at 0.200 s"),
    ],
)
def test_an_element_out_of_nowhere_is_unexpected(steps: list[Literal["read", "ok", "fail"]], reason: str) -> None:
    script = Script()
    for step in steps:
        if step == "read":
            script.call(0, "read", result=[9])
        else:
            script.call(0, "add", 9, how=step)
    verdict = judge(script.ops)
    assert verdict.anomalies == ("unexpected",)
    assert reason in verdict.sentence


def test_an_element_listed_twice_is_a_duplicate() -> None:
    script = Script()
    script.call(0, "add", 3)
    script.call(0, "read", result=[3, 3])
    assert judge(script.ops).anomalies == ("duplicate",)


def test_reads_that_each_miss_what_the_other_holds_are_a_long_fork() -> None:
    script = Script()
    for process, element in ((0, 1), (1, 2)):
        script.event(process, "invoke", "add", element)
    for process in (2, 3):
        script.event(process, "invoke", "read")
    script.event(2, "ok", "read", [1])
    script.event(3, "ok", "read", [2])
    assert judge(script.ops).anomalies == ("long-fork",)


def test_a_read_that_holds_the_later_add_and_misses_the_earlier_one_reverses_real_time() -> None:
    script = Script()
    script.event(2, "invoke", "read")
    script.call(0, "add", 1)
    script.call(1, "add", 2)
    script.event(2, "ok", "read", [2])
    verdict = judge(script.ops)
    assert verdict.anomalies == ("causal-reverse",)
    assert "holds 2 and misses 1" in verdict.sentence


@pytest.mark.parametrize("how", ["info", "fail", None])
def test_a_set_without_an_answered_read_is_unknown_never_true(how: OpType | None) -> None:
    script = Script()
    script.call(0, "add", 1)
    if how:
        script.call(0, "read", how=how)
    verdict = judge(script.ops)
    assert verdict.valid == "unknown"
    assert "never read" in verdict.sentence


def test_adds_of_unknown_fate_that_were_read_count_as_recovered() -> None:
    script = Script()
    script.call(0, "add", 1)
    script.call(1, "add", 2, how="info")
    script.call(2, "add", 3, how="info")
    script.call(3, "read", result=[1, 2])
    verdict = judge(script.ops)
    assert verdict.valid == "true"
    assert verdict.figures["recovered"] == 1
    assert verdict.figures["unknown"] == 2


def test_sets_under_different_keys_do_not_mix() -> None:
    script = Script()
    script.call(0, "add", 1, key="a")
    script.call(0, "read", result=[1], key="a")
    script.call(0, "read", result=[], key="b")
    assert judge(script.ops).valid == "true"
    script.call(0, "read", result=[1], key="b")
    verdict = judge(script.ops)
    assert verdict.valid == "false"
    assert verdict.anomalies == ("unexpected",)
    assert verdict.figures["reads"] == 3


def test_other_ops_and_the_nemesis_do_not_matter() -> None:
    script = Script()
    script.event(-2, "info", "phase", {"phase": "faults"})
    script.event(-1, "invoke", "read", "not a read of the set")
    script.event(-1, "ok", "read", "not a read of the set")
    script.call(0, "insert", 1)
    script.call(0, "members", result=[1])
    verdict = judge(script.ops, add="insert", read="members")
    assert verdict.valid == "true"
    assert verdict.figures["acknowledged"] == 1


def test_bad_values_and_options_are_refused_with_their_place() -> None:
    script = Script()
    script.call(0, "add", "x")
    with pytest.raises(HistoryFormatError, match="whole number"):
        judge(script.ops)
    script = Script()
    script.call(0, "read", result={"not": "a list"})
    with pytest.raises(HistoryFormatError, match="op 1: a read of a set"):
        judge(script.ops)
    with pytest.raises(UsageError, match="option 'add'"):
        judge([], add=3)


@pytest.mark.slow
def test_a_quarter_million_adds_with_many_lost_are_told_in_their_own_seconds() -> None:
    script = Script()
    size = 125_000
    for element in range(size):
        script.call(element % 10, "add", element)
    for node in range(5):
        script.call(node, "read", result=list(range(100, size)))
    table = script.table()
    start = time.process_time()
    verdict = SetChecker().check(table, {})
    assert verdict.figures["lost"] == 100
    assert 0 < verdict.seconds < time.process_time() - start


@pytest.mark.parametrize("order", [["read"], ["read", "add"], ["fail", "read"], ["info", "read"]])
def test_a_set_of_which_no_read_could_miss_an_element_tests_nothing(order: list[str]) -> None:
    script = Script()
    for step in order:
        if step == "read":
            script.call(0, "read", None, [])
        else:
            script.call(0, "add", 1, how="ok" if step == "add" else step)  # pyright: ignore[reportArgumentType]
    verdict = SetChecker().check(script.table(), {})
    assert (verdict.valid, [reason.code for reason in verdict.inconclusive]) == ("true", [Code.NO_OCCASION])
    script.call(0, "read", None, [], key="other")
    assert [reason.code for reason in SetChecker().check(script.table(), {}).inconclusive] == [Code.NO_OCCASION]
    script.call(0, "add", 2, key="other")
    script.call(0, "read", None, [2], key="other")
    assert SetChecker().check(script.table(), {}).inconclusive == ()


@pytest.mark.slow
def test_many_reads_that_miss_many_elements_are_told_in_their_own_seconds() -> None:
    script = Script()
    for element in range(30_000):
        script.call(0, "add", element)
    for _ in range(30_000):
        script.call(1, "read", None, [])
    verdict = SetChecker().check(script.table(), {})
    assert verdict.figures["lost"] == 30_000
    assert verdict.seconds < 4
