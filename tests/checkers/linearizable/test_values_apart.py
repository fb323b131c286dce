"""1, 1.0 and true are three values to an object that only stores them, though Python takes them for equal."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from splitbrain.checkers import models
from splitbrain.checkers.linearizable import check_ops
from splitbrain.checkers.linearizable.ops import Transition
from splitbrain.checkers.models import apart, frozen
from splitbrain.results.errors import HarnessError, HistoryFormatError, UsageError
from splitbrain.results.history import Op
from splitbrain.results.values import canonical_json
from splitbrain.results.wal import HistoryWriter

Step = tuple[str, Any, Any]
"""A function, its argument, its result."""

VALUES = (1, 1.0, True, 0, False, 2)


def stored_and_seen(stored: Any, seen: Any) -> list[tuple[str, list[Step]]]:
    """For each model that only stores values: ops one after the other that store one value and see another."""
    return [
        ("register", [("write", stored, stored), ("read", None, seen)]),
        ("cas-register", [("write", stored, stored), ("cas", [seen, 5], True)]),
        ("create-once", [("create", stored, True), ("read", None, seen)]),
        ("multi-register", [("write", {"x": stored}, None), ("read", {"x": None}, {"x": seen})]),
        ("multi-register", [("txn", [["w", "x", stored]], None), ("txn", [["r", "x", None]], [["r", "x", seen]])]),
        ("fifo-queue", [("enqueue", stored, None), ("dequeue", None, seen)]),
        ("unordered-queue", [("enqueue", stored, None), ("dequeue", None, seen)]),
        ("stack", [("push", stored, None), ("pop", None, seen)]),
        ("set", [("add", stored, True), ("read", None, [seen])]),
        ("grow-set", [("add", stored, None), ("read", None, [seen])]),
        ("owner-mutex", [("acquire", stored, None), ("release", seen, None)]),
        ("reentrant-mutex", [("acquire", stored, None), ("release", seen, None)]),
        ("fenced-mutex", [("acquire", stored, 1), ("release", seen, None)]),
    ]


def one_after_the_other(steps: list[Step]) -> list[Op]:
    history: list[Op] = []
    for f, value, result in steps:
        invocation = Op(index=len(history), time=len(history), process=0, type="invoke", f=f, value=value)
        history += [
            invocation,
            Op(index=len(history) + 1, time=len(history) + 1, process=0, type="ok", f=f, value=result),
        ]
    return history


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seen", VALUES, ids=repr)
@pytest.mark.parametrize("stored", VALUES, ids=repr)
def test_a_value_is_seen_as_it_was_stored(stored: Any, seen: Any) -> None:
    same = repr(stored) == repr(seen)
    for model, steps in stored_and_seen(stored, seen):
        verdict = check_ops(one_after_the_other(steps), models.model(model))
        assert verdict.valid == ("true" if same else "false"), (model, verdict.sentence)


def test_a_read_of_another_kind_is_told_as_it_was_written() -> None:
    verdict = check_ops(one_after_the_other([("write", 1, 1), ("read", None, True)]), models.model("register"))
    assert "read -> true" in verdict.sentence
    assert "set it to true" in verdict.sentence


@pytest.mark.parametrize(
    ("value", "result", "told"),
    [
        (1, 1, "hold 1"),
        (1, True, "hold 1 -> true"),
        (0, False, "hold 0 -> false"),
        (1, 1.0, "hold 1 -> 1.0"),
        (True, True, "hold true"),
        ((1, 2), (1, 2.0), "hold [1,2] -> [1,2.0]"),
        ((1, 2), (1, 2), "hold [1,2]"),
    ],
)
def test_a_result_is_left_out_of_an_op_only_where_it_repeats_the_argument(value: Any, result: Any, told: str) -> None:
    assert str(Transition("hold", value, result)) == told
    assert str(Transition("hold", apart(value), result)) == told


def test_answers_stay_answers() -> None:
    steps: list[Step] = [("add", 1, True), ("contains", 1, True), ("remove", 1, True), ("contains", 1, False)]
    assert check_ops(one_after_the_other(steps), models.model("set")).valid == "true"
    assert check_ops(one_after_the_other([*steps, ("contains", 1, True)]), models.model("set")).valid == "false"


def test_a_parameter_is_a_value_too() -> None:
    read_true: list[Step] = [("read", None, True)]
    assert check_ops(one_after_the_other(read_true), models.model("register(true)")).valid == "true"
    assert check_ops(one_after_the_other(read_true), models.model("register(1)")).valid == "false"


@pytest.mark.parametrize("second", VALUES, ids=repr)
@pytest.mark.parametrize("first", VALUES, ids=repr)
def test_ids_are_given_twice_only_if_they_are_the_same(first: Any, second: Any) -> None:
    verdict = check_ops(one_after_the_other([("generate", None, first), ("generate", None, second)]), "unique-ids")
    assert verdict.valid == ("false" if repr(first) == repr(second) else "true"), verdict.sentence


@pytest.mark.parametrize(
    ("stored", "seen"), [(0.0, -0.0), (-0.0, 0.0), ([-0.0], [0.0]), ({"a": [1, -0.0]}, {"a": [1, 0.0]})]
)
def test_the_negative_zero_is_zero(stored: Any, seen: Any) -> None:
    for model, steps in stored_and_seen(stored, seen):
        assert check_ops(one_after_the_other(steps), models.model(model)).valid == "true", model


@pytest.mark.parametrize("value", [float("nan"), float("inf"), [1, float("-inf")], {"a": (float("nan"),)}], ids=repr)
def test_a_number_that_is_not_finite_is_refused(value: Any) -> None:
    with pytest.raises(HistoryFormatError, match=r"op [01]: .* has no JSON form"):
        check_ops(one_after_the_other([("write", value, value), ("read", None, None)]), "register")


def test_a_write_ahead_file_refuses_a_number_that_is_not_finite(tmp_path: Path) -> None:
    writer = HistoryWriter(tmp_path / "history.wal")
    with pytest.raises(HarnessError, match="has no JSON form"):
        writer.record(Op(process=0, type="invoke", f="write", value=[float("nan")]))
    writer.record(Op(process=0, type="invoke", f="write", value=[1.5]))
    writer.close()
    assert writer.recorded == 1


def test_a_priority_queue_refuses_what_has_no_order() -> None:
    with pytest.raises(UsageError, match="true and false have no order"):
        check_ops(one_after_the_other([("enqueue", 1, None), ("dequeue", None, True)]), "priority-queue")
    assert (
        check_ops(one_after_the_other([("enqueue", 1, None), ("dequeue", None, 1.0)]), "priority-queue").valid == "true"
    )


SCALARS = st.sampled_from([0, 1, 0.0, -0.0, 1.0, 1.5, True, False, None, "", "1", "null", "-0.0"])
NESTED = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner))


@pytest.mark.slow
@given(NESTED, NESTED)
def test_values_are_equal_if_their_canonical_texts_are(one: Any, other: Any) -> None:
    same = canonical_json(one) == canonical_json(other)
    assert (apart(frozen(one)) == apart(frozen(other))) == same
    if same:
        assert hash(apart(frozen(one))) == hash(apart(frozen(other)))


def test_zero_keeps_its_sign_out_of_the_canonical_text() -> None:
    assert canonical_json([-0.0, {"-0.0": -0.05}]) == '[0.0,{"-0.0":-0.05}]'
    assert math.copysign(1, msgspec.json.decode(canonical_json(-0.0))) == 1
