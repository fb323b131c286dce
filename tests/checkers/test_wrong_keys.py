"""Ops of one key that make no sense hide no violation of another key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from splitbrain.checkers import engine
from splitbrain.checkers.linearizable.checker import check_ops
from splitbrain.checkers.verdict import CheckerSpec, Outcome, Verdict
from splitbrain.results.errors import UsageError

from .support import Script

Calls = Sequence[tuple[str, Any, Any]]
"""Function, argument and answer."""

GOOD, BAD, WRONG = "good", "bad", "wrong"

FIELDS: dict[str, tuple[Mapping[str, Any], Calls, Calls]] = {
    "linearizable": ({"model": "register"}, [("write", 1, 1), ("read", None, 2)], [("swap", 1, 1)]),
    "counter": ({}, [("increment", 1, 7)], [("increment", "x", 1)]),
    "declare": ({}, [("create", 1, 1), ("create", 2, 2)], []),
    "long-fork": ({}, [("write", 0, 0), ("read", None, [7])], [("write", "x", "x")]),
    "monotonic": ({}, [("increment", 0, [5])], [("increment", 0, ["x"])]),
    "g2": ({}, [("insert", [1, None], [1, None]), ("insert", [None, 2], [None, 2])], []),
    "set": ({}, [("add", 1, 1), ("read", None, [])], [("add", 1, 1), ("read", None, ["x"])]),
    "bank": ({"total": 10}, [("read", None, {"0": 9})], [("read", None, {"0": 9.5})]),
}
"""By checker its options, the ops of a key that is violated, and those of one that cannot be judged."""

WITH_WRONG = {name: each for name, each in FIELDS.items() if each[2]}


def script(name: str, order: Sequence[str], *, violated: bool = True) -> Script:
    """A history of a key that is violated and one that is wrong, in that order."""
    _, bad, wrong = FIELDS[name]
    found = Script()
    for key in order:
        calls = bad if key == BAD else wrong
        for f, value, result in calls if violated or key != BAD else ():
            found.call(0, f, value, result, key=key)
    return found


def judge_one(name: str, ops: Script) -> Verdict:
    [found] = engine.judge(ops.table(), [CheckerSpec(name, dict(FIELDS[name][0]))])
    return found


@pytest.mark.parametrize("order", [(BAD, WRONG), (WRONG, BAD)])
@pytest.mark.parametrize("name", WITH_WRONG)
def test_a_violation_stands_beside_a_key_that_cannot_be_judged(name: str, order: tuple[str, str]) -> None:
    found = judge_one(name, script(name, order))
    alone = judge_one(name, script(name, (BAD,)))
    assert (found.valid, found.anomalies) == ("false", alone.anomalies)
    assert "could not be judged" in found.sentence
    if name != "bank":  # which names what is wrong, and not where
        assert f"Key {WRONG!r} could not be judged: " in found.sentence
        outcome, error = engine.judged_outcome([found])
        assert outcome is Outcome.VIOLATION
        assert f"cannot judge key {WRONG!r}: " in str(error)


@pytest.mark.parametrize("order", [(BAD, WRONG), (WRONG, BAD)])
@pytest.mark.parametrize("name", WITH_WRONG)
def test_a_run_says_the_same_as_a_file(name: str, order: tuple[str, str]) -> None:
    table = script(name, order).table()
    [found] = engine.judge_each(table, [CheckerSpec(name, dict(FIELDS[name][0]))])
    alone = judge_one(name, script(name, order))
    assert (found.valid, found.sentence) == (alone.valid, alone.sentence)


@pytest.mark.parametrize("name", WITH_WRONG)
def test_without_a_violation_the_wrong_request_is_raised(name: str) -> None:
    ops = script(name, (BAD, WRONG), violated=False)
    with pytest.raises(UsageError):
        judge_one(name, ops)
    [found] = engine.judge_each(ops.table(), [CheckerSpec(name, dict(FIELDS[name][0]))])
    assert found.valid == "unknown"
    assert f"Unknown: checker {name!r} cannot judge this run: " in found.sentence


@pytest.mark.parametrize("name", FIELDS)
def test_what_is_violated_here_is_violated(name: str) -> None:
    assert judge_one(name, script(name, (BAD,))).valid == "false"


def test_many_wrong_keys_are_counted_and_not_all_of_them_shown() -> None:
    ops = script("counter", (BAD,))
    for number in range(50):
        ops.call(0, "increment", "x", 1, key=f"wrong {number}")
    found = judge_one("counter", ops)
    assert (found.valid, len(found.evidence["crashes"])) == ("false", 20)
    assert "(And 49 more keys.)" in found.sentence
    assert "(and 49 more such)" in str(engine.crashed([found]))


def test_a_wrong_option_is_raised_although_a_key_is_violated() -> None:
    for name, (options, _, _) in FIELDS.items():
        if name in ("g2", "long-fork"):
            continue  # without options
        wrong = {**options, "read": 7, "enqueue": 7, "publish": 7, "model": 7, "total": -1, "sessions": 7}
        with pytest.raises(UsageError):
            engine.judge(script(name, (BAD, WRONG)).table(), [CheckerSpec(name, wrong)])


@pytest.mark.parametrize("order", [(BAD, WRONG), (WRONG, BAD)])
def test_ops_in_memory_are_judged_likewise(order: tuple[str, str]) -> None:
    found = check_ops(script("linearizable", order).ops, "register")
    assert found.valid == "false"
    assert "Not judged: model 'register' does not know 'swap'" in found.sentence
    with pytest.raises(UsageError, match="does not know 'swap'"):
        check_ops(script("linearizable", order, violated=False).ops, "register")


def test_a_queue_is_not_judged_without_the_ops_of_others_which_say_where_nodes_and_consumers_are() -> None:
    """Without queue b, n2 would not be known, which has not found queue a empty; nor that a consumer has left."""
    drained = Script(nodes=2)
    drained.call(0, "enqueue", 1, key="a")
    drained.call(0, "dequeue", key="a")
    drained.call(0, "drain", result=[], key="a")
    taken = Script()
    for value in (1, 2, 3):
        taken.call(0, "enqueue", value, key="a")
    taken.call(1, "consume", result=1, key="a")
    taken.call(1, "consume", how="fail", key="b")
    taken.call(2, "consume", result=2, key="a")
    taken.call(1, "consume", result=3, key="a")
    for name, history in (("queue", drained), ("single-active", taken)):
        for _ in range(2):
            history.call(3, "enqueue", 9, key="b")
        with pytest.raises(UsageError, match="put the same value into one queue"):
            engine.judge(history.table(), [CheckerSpec(name)])


def test_so_many_wrong_keys_are_an_error_at_once() -> None:
    name, found = "set", Script()
    for number in range(200):
        for f, value, result in WITH_WRONG[name][2]:
            found.call(0, f, value, result, key=f"k{number}")
    for f, value, result in WITH_WRONG[name][1]:
        found.call(0, f, value, result, key="z")
    with pytest.raises(UsageError):
        judge_one(name, found)
