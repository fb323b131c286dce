"""Answers of a wrong shape: which they are, how such an op ends, and what the run comes to."""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import pytest
from worlds import FakeClient, make_test

from splitbrain.checkers.answers import Answers
from splitbrain.checkers.coverage import Coverage
from splitbrain.harness.backends.sim import SimBackend
from splitbrain.harness.campaigns.judges import with_judges
from splitbrain.harness.contract.answers import ANSWERS, ANYTHING, misfit
from splitbrain.harness.contract.operations import GROUPS, calls
from splitbrain.harness.contract.sessions import NonsenseError
from splitbrain.results.arrow import to_table
from splitbrain.results.history import Op
from splitbrain.results.reasons import Code


def test_every_built_in_operation_says_what_it_may_answer() -> None:
    awaited = {name for group in GROUPS.values() for name, waits in calls(group.protocol).items() if waits}
    assert awaited == set(ANSWERS) | ANYTHING
    assert not set(ANSWERS) & ANYTHING


DELIVERY = {"value": 1, "tag": 2, "redelivered": False}


Case: TypeAlias = tuple[str, tuple[Any, ...], list[Any], list[Any]]

CASES: Final[list[Case]] = [
    ("create", ("a", 1), [True, False], [None, 1, "yes"]),
    ("elements", ("s",), [[], [1, 2], (1,)], [None, 3, [True], ["1"]]),
    ("increment", ("c", 1), [0, -1, 7], [None, True, 1.0, "1"]),
    ("read_counter", ("c",), [None, 3], [[1], {"value": 1}]),
    ("read_runs", ("c", False), [{"changes": 1, "runs": [[1, "first", 1]]}], [3, {"changes": 1}, {"runs": []}]),
    ("in_tree", ("t", "get", "a"), [None, [3, 1, 1, 0]], [4, ["ok", []]]),
    ("in_tree", ("t", "list", None), [[], [["a", None, 1, 1, 0]]], [None, {"a": 1}, [3]]),
    ("in_tree", ("t", "put", []), [["ok", []], ["node_not_found"]], [None, [], [1], 3]),
    ("lock", ("l", 1), [None, 5], [False, "5"]),
    (
        "transact",
        ([["r", "a", None], ["w", "b", 2]],),
        [[["r", "a", [1]], ["w", "b", 2]]],
        [[], 5, [["r", "b", 1]], [["r", "a", [1]], ["w", "b", 3]]],
    ),
    ("transact", ([["r", "a", None]],), [[["r", "a", None]], [("r", "a", 4)]], [[["r", "a", {"x": 1}]]]),
    ("update", (["a"], None), [{"a": 1}, {"a": None}], [None, ["a"], {"a": "b"}]),
    ("in_universe", ("u", [["rp", "true", None]]), [[["rp", "true", {"a": 1}]]], [[["rp", "true", 3]], None]),
    ("in_universe", ("u", [["rp", ["=", 1], None]]), [[["rp", ["=", 1], {}]]], [[["rp", ["=", 2], {}]]]),
    ("entities", (), [[], [["vhost", "v"]]], [None, [3], [[]]]),
    ("projected", ([],), [{"tree": [], "tables": [], "routes": []}], [{"tree": []}, 3]),
    ("take", ("q",), [None, DELIVERY, {**DELIVERY, "reason": "delivery_limit"}], [5, {"value": 1}, []]),
    ("purge", ("q",), [0], [None]),
    ("read", ("a",), [None, 1, [1], {"a": 1}], []),
    (
        "in_universe",
        ("u", [["insert", "a", 1]]),
        [[["insert", "a", 1]]],
        [[["insert", "a", None]], [["insert", "a", 2]]],
    ),
]


@pytest.mark.parametrize(("operation", "arguments", "right", "wrong"), CASES)
def test_answers_are_told_from_what_is_none(
    operation: str, arguments: tuple[Any, ...], right: list[Any], wrong: list[Any]
) -> None:
    for value in right:
        assert misfit(operation, arguments, value) is None, value
    for value in wrong:
        assert misfit(operation, arguments, value), value


def _history(*errors: str | None) -> list[Op]:
    ops: list[Op] = []
    for number, error in enumerate(errors):
        begun = Op(index=2 * number, time=number * 10**9, process=number, type="invoke", f="read", node="n1")
        ended = "ok" if error is None else "info"
        ops += [
            begun,
            Op(
                index=2 * number + 1,
                time=number * 10**9 + 5,
                process=number,
                type=ended,
                f="read",
                node="n1",
                error=error,
            ),
        ]
    return ops


def test_one_such_answer_is_a_violation_that_says_what_came_and_what_was_expected() -> None:
    error = str(NonsenseError("increment was answered with [1]; expected was the sum afterwards, a whole number"))
    verdict = Answers().check(to_table(_history(None, "lost", error, error)), {})
    assert (verdict.valid, verdict.anomalies, verdict.figures) == ("false", ("nonsense-answer",), {"nonsense": 2})
    assert verdict.sentence == (
        "Node n1 did not answer what was asked: op 5 ('read' of process 2, at 2.000 s): increment was answered with "
        "[1]; expected was the sum afterwards, a whole number (1 more op alike)."
    )
    assert [op["index"] for op in verdict.evidence["ops"]] == [5, 7]


def test_other_errors_are_none() -> None:
    verdict = Answers().check(to_table(_history(None, "lost", "client failed: KeyError: 'x'")), {})
    assert (verdict.valid, verdict.figures) == ("true", {"nonsense": 0})
    assert Answers().check(to_table([]), {}).valid == "true"


def test_a_client_that_fails_in_its_own_code_makes_the_run_inconclusive() -> None:
    verdict = Coverage().check(to_table(_history(None, "client failed: KeyError: 'x'")), {})
    reason = next(reason for reason in verdict.inconclusive if reason.code is Code.CLIENT_FAILED)
    assert reason.sentence == "a client failed in its own code at 1.000 s, in 'read' on node n1 (op 3): KeyError: 'x'."


def test_every_test_is_judged_by_it() -> None:
    judged = with_judges(make_test(FakeClient()), SimBackend())
    assert "answers" in [spec.name for spec in judged.workload.checkers]
