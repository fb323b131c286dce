from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from splitbrain.checkers.declare import Declare
from splitbrain.checkers.verdict import Verdict
from splitbrain.results.arrow import to_table
from splitbrain.results.errors import UsageError
from splitbrain.results.history import Op, OpType
from splitbrain.results.reasons import Code
from tests.checkers.brute_force import linearizable
from tests.checkers.support import Call, Script, interleavings

ABSENT = 0


def judge(ops: list[Op]) -> Verdict:
    return Declare().check(to_table(ops), {})


def create_once(state: Any, f: str, value: Any, result: Any) -> Hashable | None:
    """The specification; state 0 is "absent". A creation of unknown fate may also have lost."""
    if f == "create":
        return value if state == ABSENT else None
    return state if result == (None if state == ABSENT else state) else None


@st.composite
def small_histories(draw: st.DrawFn) -> list[Op]:
    values = st.integers(1, 3)
    ends: list[OpType | Literal["open"]] = ["ok", "info", "fail", "open"]
    creates = draw(st.lists(st.tuples(values, st.sampled_from(ends)), max_size=3))
    reads = draw(st.lists(st.one_of(st.none(), values), min_size=1, max_size=4))
    calls: list[Call] = [("create", value, value, how) for value, how in creates]
    calls.extend(("read", None, value, "ok") for value in reads)
    return draw(interleavings(draw(st.permutations(calls))))


@pytest.mark.slow
@settings(max_examples=300)
@given(small_histories())
def test_the_verdict_is_that_of_trying_every_order(history: list[Op]) -> None:
    assert (judge(history).valid == "true") == linearizable(history, ABSENT, create_once)


def test_two_winners_are_named_with_nodes_and_times() -> None:
    script = Script()
    script.call(0, "create", "a", key="q")
    script.call(3, "create", "b", key="q")
    script.call(1, "read", result="b", key="q")
    verdict = judge(script.ops)
    assert verdict.sentence == (
        'Two winners: key \'q\' was created as "a" by n1 at 0.100 s, and as "b" by n4 at 0.300 s.'
    )
    assert verdict.anomalies == ("two-winners", "wrong-value")
    assert verdict.evidence["ops"] == [1, 3]


def test_a_key_that_is_gone_after_it_was_created_has_vanished() -> None:
    script = Script()
    script.call(0, "create", 1)
    script.call(1, "read")
    verdict = judge(script.ops)
    assert verdict.anomalies == ("vanished",)
    assert "n2 at 0.300 s" in verdict.sentence


@pytest.mark.parametrize("steps", [["create"], []])
def test_a_key_that_nobody_read_proves_nothing(steps: list[str]) -> None:
    script = Script()
    for _ in steps:
        script.call(0, "create", 1)
    verdict = judge(script.ops)
    assert verdict.valid == "unknown"
    assert Declare().merge([verdict], {}).valid == "unknown"


def test_one_broken_key_breaks_the_run_and_is_named() -> None:
    good, bad, unread = Script(), Script(), Script()
    good.call(0, "create", 1, key="good")
    good.call(0, "read", result=1, key="good")
    bad.call(0, "create", 1, key="bad")
    bad.call(0, "read", result=2, key="bad")
    unread.call(0, "create", 1, key="unread")
    merged = Declare().merge([judge(script.ops) for script in (bad, good, unread)], {})
    assert merged.valid == "false"
    assert "key 'bad'" in merged.sentence
    assert merged.evidence["keys"] == ["bad"]
    assert merged.figures["keys"] == 3
    assert merged.figures["broken"] == 1
    assert Declare().merge([judge(script.ops) for script in (good, unread)], {}).valid == "true"


def test_a_key_that_was_read_and_whose_creation_was_not_acknowledged_has_vanished_too() -> None:
    script = Script()
    script.call(0, "create", 1, how="info", key="q")
    script.call(1, "read", result=1, key="q")
    script.call(2, "read", key="q")
    verdict = judge(script.ops)
    assert verdict.anomalies == ("vanished",)
    assert verdict.sentence.startswith("Vanished: key 'q' was read as 1 by n2 at 0.300 s, but the read that began at")


def test_a_key_that_was_created_vanished_from_its_creation_on() -> None:
    script = Script()
    script.call(0, "create", 1, key="q")
    script.call(1, "read", result=1, key="q")
    script.call(2, "read", key="q")
    assert judge(script.ops).sentence.startswith("Vanished: key 'q' was created as 1 by n1 at 0.100 s")


def test_what_a_creation_asked_for_counts_and_not_its_answer() -> None:
    script = Script()
    script.call(0, "create", 1, result={"created": True})
    script.call(1, "read", result=1)
    assert judge(script.ops).valid == "true"


def test_functions_may_have_other_names() -> None:
    script = Script()
    script.call(0, "declare", 1)
    script.call(1, "get", result=2)
    options = {"create": "declare", "read": "get"}
    assert Declare().check(script.table(), options).anomalies == ("wrong-value",)
    assert judge(script.ops).valid == "unknown"
    with pytest.raises(UsageError, match="option 'read' must be the name of a function, not 3"):
        Declare().check(script.table(), {"read": 3})


def test_the_figures_say_how_much_was_tried_and_what_was_never_read() -> None:
    script = Script()
    script.call(0, "create", 1)
    script.call(1, "create", 2, how="fail")
    script.call(2, "create", 3, how="info")
    unread = judge(script.ops)
    assert unread.figures == {"keys": 1, "winners": 1, "attempted": 3, "reads": 0, "never_read": 1}
    script.call(3, "read", result=1)
    script.call(4, "read", result=1)
    assert judge(script.ops).figures == {"keys": 1, "winners": 1, "attempted": 3, "reads": 2, "never_read": 0}
    assert Declare().merge([unread, judge(script.ops)], {}).figures["never_read"] == 1


def test_a_run_that_proves_nothing_says_why_as_each_of_its_keys_does() -> None:
    script = Script()
    script.call(0, "create", 1, key="q")
    of_key = judge(script.ops)
    assert [reason.sentence for reason in of_key.inconclusive] == ["key 'q' was never read."]
    of_run = Declare().merge([of_key], {})
    assert [reason.sentence for reason in of_run.inconclusive] == ["No key was ever read."]
    script.call(1, "read", result=1, key="q")
    assert Declare().merge([of_key, judge(script.ops)], {}).inconclusive == ()


@pytest.mark.parametrize("how", ["fail", "info"])
def test_reads_of_what_was_never_created_prove_nothing(how: OpType) -> None:
    script = Script()
    script.call(0, "create", 1, how=how, key="q")
    script.call(1, "read", key="q")
    of_key = judge(script.ops)
    of_run = Declare().merge([of_key], {})
    for verdict in (of_key, of_run):
        assert verdict.valid == "true"
        assert [reason.code for reason in verdict.inconclusive] == [Code.NO_OCCASION]
    script.call(2, "create", 1, key="p")
    script.call(2, "read", result=1, key="p")
    other = judge([op for op in script.ops if op.key == "p"])
    assert Declare().merge([of_key, other], {}).inconclusive == ()


def test_of_several_broken_keys_the_one_that_broke_first_speaks_and_all_are_listed() -> None:
    script = Script()
    for key, seen in (("b", 2), ("a", None)):
        script.call(0, "create", 1, key=key)
        script.call(1, "read", result=seen, key=key)
    of_keys = [judge([op for op in script.ops if op.key == key]) for key in ("a", "b")]
    verdict = Declare().merge(of_keys, {})
    assert verdict.sentence.startswith("Wrong value: key 'b' was created as 1")
    assert verdict.sentence.endswith("(2 keys are broken.)")
    assert (verdict.evidence["key"], verdict.evidence["keys"]) == ("b", ["a", "b"])
    assert verdict.anomalies == ("vanished", "wrong-value")
    assert verdict.figures["broken"] == 2
