"""1, 1.0 and true are three values to an object that only stores them, though Python takes them for equal."""

from __future__ import annotations

from typing import Any

import pytest

from checkers import models
from checkers.linearizable import check_ops
from results.history import Op

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


def test_answers_stay_answers() -> None:
    steps: list[Step] = [("add", 1, True), ("contains", 1, True), ("remove", 1, True), ("contains", 1, False)]
    assert check_ops(one_after_the_other(steps), models.model("set")).valid == "true"
    assert check_ops(one_after_the_other([*steps, ("contains", 1, True)]), models.model("set")).valid == "false"


def test_a_parameter_is_a_value_too() -> None:
    read_true: list[Step] = [("read", None, True)]
    assert check_ops(one_after_the_other(read_true), models.model("register(true)")).valid == "true"
    assert check_ops(one_after_the_other(read_true), models.model("register(1)")).valid == "false"
