"""What could not have been wrong proves nothing: a history of writes alone is no pass."""

from __future__ import annotations

from typing import Any

import pytest

from splitbrain.checkers.engine import judge
from splitbrain.checkers.models import IMPOSSIBLE, Model, names
from splitbrain.checkers.verdict import CheckerSpec, Verdict
from splitbrain.results.reasons import Code
from tests.checkers.support import Script

Ops = list[tuple[str, Any, Any]]
"""Function, argument and answer."""

GET: Ops = [("get", "a", None)]

UNTESTED: dict[str, Ops] = {
    "register": [("write", 1, 1), ("write", 2, None)],
    "cas-register": [("write", 1, 1), ("write", 1, 1)],
    "multi-register": [("write", {"x": 1}, {"x": 1}), ("write", {"y": 1}, None)],
    "read-modes": [("write", 1, 1), ("read-local", None, 7)],
    "create-once": [("create", 1, 1)],
    "kv": [("put", "a", "a"), ("append", "b", "b")],
    "mutex": [("acquire", None, None)],
    "owner-mutex": [("acquire", None, None)],
    "reentrant-mutex": [("acquire", 1, None), ("acquire", 1, None)],
    "semaphore(3)": [("acquire", None, None), ("acquire", None, None)],
    "set": [("add", 1, 1), ("remove", 2, None), ("add", 1, None)],
    "grow-set": [("add", 1, 1), ("add", 2, 2)],
    "fifo-queue": [("enqueue", 1, 1), ("enqueue", 2, None)],
    "unordered-queue": [("enqueue", 1, 1)],
    "priority-queue": [("enqueue", 1, 1)],
    "stack": [("push", 1, 1)],
    "counter": [("add", 1, 1), ("add", 1, None)],
    "unique-ids": [("generate", None, 1)],
}
"""By model acknowledged ops of which none could have been wrong."""

TESTED: dict[str, Ops] = {
    "register": [("write", 1, 1), ("read", None, 1)],
    "cas-register": [("write", 1, 1), ("cas", [1, 2], [1, 2])],
    "multi-register": [("write", {"x": 1}, None), ("read", None, {"x": 1})],
    'read-modes(["read-local"])': [("read-local", None, None)],
    "create-once": [("create", 1, 1), ("read", None, 1)],
    "kv": [("get", None, None)],
    "mutex": [("acquire", None, None), ("release", None, None)],
    "owner-mutex": [("acquire", None, None), ("hold", None, None)],
    "reentrant-mutex": [("acquire", 1, None), ("release", 1, None)],
    "fenced-mutex": [("acquire", 1, 7)],
    "semaphore(2)": [("acquire", None, None), ("release", None, None)],
    "set": [("add", 1, 1), ("remove", 1, True), ("contains", 1, False)],
    "grow-set": [("read", None, [])],
    "fifo-queue": [("dequeue", None, None)],
    "unordered-queue": [("enqueue", 1, 1), ("dequeue", None, 1)],
    "priority-queue": [("enqueue", 1, 1), ("dequeue", None, 1)],
    "stack": [("push", 1, 1), ("pop", None, 1)],
    "counter": [("increment", 1, 1)],
    "unique-ids": [("generate", None, 1), ("generate", None, 2)],
    "tree": [("get", "a", None)],
}


def judged(model: str, *keys: Ops) -> Verdict:
    script = Script()
    for number, ops in enumerate(keys):
        for f, value, result in ops:
            script.event(0, "invoke", f, value, key=f"k{number}")
            script.event(0, "ok", f, result, key=f"k{number}")
    [found] = judge(script.table(), [CheckerSpec("linearizable", {"model": model})])
    return found


def base(model: str) -> str:
    return model.partition("(")[0]


def test_every_model_is_here() -> None:
    assert {base(model) for model in TESTED} == set(names())


@pytest.mark.parametrize("model", UNTESTED)
def test_ops_of_which_none_could_have_been_wrong_are_inconclusive(model: str) -> None:
    found = judged(model, UNTESTED[model], UNTESTED[model])
    assert (found.valid, [reason.code for reason in found.inconclusive]) == ("true", [Code.NOT_EXERCISED])
    assert "No acknowledged op could have been wrong" in found.inconclusive[0].sentence


@pytest.mark.parametrize("model", TESTED)
def test_one_op_that_could_have_been_wrong_is_enough(model: str) -> None:
    assert (judged(model, TESTED[model]).valid, judged(model, TESTED[model]).inconclusive) == ("true", ())


@pytest.mark.parametrize(("f", "wrong"), [("add", False), ("remove", True)])
def test_an_answer_of_which_the_other_one_is_impossible_could_have_been_wrong(f: str, wrong: bool) -> None:
    assert judged("set", [(f, 1, wrong)]).valid == "false"
    found = judged("set", [(f, 1, not wrong)])
    assert (found.valid, found.inconclusive) == ("true", ())


@pytest.mark.parametrize("model", sorted({*UNTESTED} & {*TESTED}))
def test_one_key_of_which_something_was_read_is_enough(model: str) -> None:
    for keys in ([UNTESTED[model], TESTED[model]], [TESTED[model], UNTESTED[model]]):
        assert judged(model, *keys).inconclusive == ()


def test_a_read_behind_thousands_of_writes_is_found_and_a_failed_one_is_none() -> None:
    writes: Ops = [("write", number, number) for number in range(3000)]
    assert judged("register", [*writes, ("read", None, 2999)]).inconclusive == ()
    script = Script()
    for number in range(10):
        script.call(0, "write", number)
        script.call(1, "read", how="fail")
        script.call(2 + number, "read", how="info")
    [found] = judge(script.table(), [CheckerSpec("linearizable", {"model": "register"})])
    assert [reason.code for reason in found.inconclusive] == [Code.NOT_EXERCISED]


def test_a_violation_has_no_such_reason() -> None:
    assert (judged("mutex", [("release", None, None)]).valid) == "false"


class Fussy:
    """Fails on an answer that it does not expect, and on nothing else."""

    name = "fussy"
    fs = frozenset({"write", "read"})

    def init(self) -> int:
        return 0

    def step(self, state: Any, f: str, value: Any, result: Any) -> Any:
        if f == "write":
            return value
        return state if result + 0 == state else IMPOSSIBLE

    def observes(self, f: str, value: Any, result: Any) -> bool:
        return False


def test_a_model_that_fails_on_another_answer_looks_at_answers() -> None:
    model: Model = Fussy()
    from splitbrain.checkers.linearizable.occasions import could_be_wrong
    from splitbrain.checkers.linearizable.ops import read_ops

    for ops, expected in (([("write", 1, 1), ("read", None, 1)], True), ([("write", 1, 1)], False)):
        script = Script()
        for f, value, result in ops:
            script.call(0, f, value, result)
        assert could_be_wrong(read_ops(script.table(), model), model) is expected
