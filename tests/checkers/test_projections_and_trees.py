"""The checkers `projections` and `tree`: what they find, what they leave alone, and when they cannot say."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from splitbrain.checkers.projections import Projections
from splitbrain.checkers.tree import OUTCOMES, TreeOutcomes
from splitbrain.checkers.verdict import Verdict
from splitbrain.results.arrow import to_table
from splitbrain.results.history import Op

Call = tuple[str, str, str | None, Any, Any]
"""Node, function, key, value and result of an op that was ok; a result of `...` is one that was not."""


def history(*calls: Call) -> Any:
    ops: list[Op] = []
    for number, (node, f, key, value, result) in enumerate(calls):
        at = 2 * number
        invoked = Op(index=at, time=at, process=0, type="invoke", f=f, key=key, value=value, node=node)
        ended = invoked.complete("fail", error="unavailable") if result is ... else invoked.complete("ok", result)
        ops += [invoked, ended_at(ended, at + 1)]
    return to_table(ops)


def ended_at(op: Op, at: int) -> Op:
    return msgspec.structs.replace(op, index=at, time=at)


WRITE: Call = ("n1", "write", "k", 1, 1)
LOOK: Call = ("n1", "read-projected", "k", None, 1)
GO: Call = ("n1", "come-and-go", "7", 7, [7, None])
REST: Call = ("n1", "compare", None, None, [])
WHOLE = (WRITE, LOOK, GO, REST)


def judged(*calls: Call) -> Verdict:
    return Projections().check(history(*calls), {})


def test_a_run_in_which_all_was_as_it_should_be_is_true() -> None:
    found = judged(*WHOLE, ("n2", "read-projected", "k", None, None), ("n1", "read-projected", "k", None, ...))
    assert found.valid == "true"
    assert (found.figures["look_up"], found.figures["come_and_go"], found.figures["compare"]) == (2, 1, 1)


@pytest.mark.parametrize(
    ("call", "anomaly"),
    [
        (("n1", "come-and-go", "8", 8, [-8, None]), "wrong-record"),
        (("n1", "come-and-go", "8", 8, [None, None]), "wrong-record"),
        (("n1", "come-and-go", "8", 8, [8, 8]), "kept-record"),
        (("n2", "compare", None, None, ["k"]), "differs"),
        (("n1", "read-projected", "k", None, None), "wrong-negative"),
    ],
)
def test_each_wrong_answer_is_found_by_its_name(call: Call, anomaly: str) -> None:
    found = judged(*WHOLE, call)
    assert (found.valid, found.anomalies) == ("false", (anomaly,))
    assert found.sentence.startswith(anomaly.replace("-", " ").capitalize())
    assert found.evidence["ops"]


def test_a_node_that_did_not_know_yet_may_say_that_there_is_nothing() -> None:
    assert judged(("n1", "read-projected", "k", None, None), *WHOLE).valid == "true"


@pytest.mark.parametrize("missing", range(4))
def test_a_run_without_some_kind_of_answer_is_unknown(missing: int) -> None:
    found = judged(*(call for place, call in enumerate(WHOLE) if place != missing))
    assert found.valid == "unknown"
    assert found.inconclusive


TREE: list[Call] = [
    ("n1", "put", "0", ["a", 1, None, None], ["ok", [["a", None, 1, 1, None]]]),
    ("n1", "put", "0", ["a", 1, None, None], ["ok", [["a", 1, 1, 1, None]]]),
    ("n1", "put", "0", ["a", 1, ["create"], None], ["mismatching_node", 1]),
    ("n1", "put", "0", ["b", 1, None, ["c", True]], ["keep_while_conditions_not_met"]),
    ("n1", "delete", "0", ["a", None], ["ok", [["a", 1, 1, 1, "explicit"], ["b", 1, 1, 1, "keep_while"]]]),
    ("n1", "txn", "0", [["put", "a", 1]], ["ok", []]),
    ("n1", "txn", "0", [["update", "b", 1]], ["aborted", 0]),
    ("n1", "get", "0", "a", [1, 1, 1, 0]),
]


def test_each_outcome_of_ops_on_trees_is_counted_and_twice_each_is_enough() -> None:
    once, twice = (TreeOutcomes().check(history(*TREE * times), {}) for times in (1, 2))
    assert [once.figures[outcome] for outcome in OUTCOMES] == [1] * len(OUTCOMES)
    assert (once.valid, twice.valid) == ("unknown", "true")


@pytest.mark.parametrize("missing", range(len(TREE)))
def test_a_run_on_trees_that_lacks_an_outcome_is_unknown(missing: int) -> None:
    calls = [call for place, call in enumerate(TREE) if place != missing] * 3
    assert TreeOutcomes().check(history(*calls), {}).valid == "unknown"
