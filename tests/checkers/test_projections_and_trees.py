"""The checkers `projections` and `tree`: what they find, what they leave alone, and when they cannot say."""

from __future__ import annotations

from time import process_time
from typing import Any

import msgspec
import pytest

from splitbrain.checkers.projections import Projections
from splitbrain.checkers.tree import OUTCOMES, TreeOutcomes
from splitbrain.checkers.verdict import Verdict
from splitbrain.results.arrow import to_table
from splitbrain.results.errors import HistoryFormatError, UsageError
from splitbrain.results.history import Op
from tests.checkers.telemetry import row, told

Call = tuple[str, str, str | None, Any, Any]
"""Node, function, key, value and result of an op that was ok.

A result of `...` is one that was not, "lost" one of unknown outcome.
"""


def history(*calls: Call, terms: dict[int, int] | None = None) -> Any:
    """The calls one after the other, a second each from 0.5 s on; the terms of some answers, by number of the call."""
    ops: list[Op] = []
    for number, (node, f, key, value, result) in enumerate(calls):
        at = 2 * number
        invoked = Op(index=at, time=at, process=0, type="invoke", f=f, key=key, value=value, node=node)
        ended = invoked.complete("ok", result)
        if result is ... or result == "lost":
            ended = invoked.complete("fail" if result is ... else "info", error="unavailable")
        term = None if terms is None else terms.get(number)
        ops += [msgspec.structs.replace(invoked, time=ns(number + 0.5)), ended_at(ended, at + 1, number + 0.9, term)]
    return to_table(ops)


def ended_at(op: Op, index: int, time_s: float, term: int | None) -> Op:
    return msgspec.structs.replace(op, index=index, time=ns(time_s), term=term)


def ns(time_s: float) -> int:
    return round(time_s * 1e9)


WRITE: Call = ("n1", "write", "k", 1, 1)
LOOK: Call = ("n1", "read-projected", "k", None, 1)
GO: Call = ("n1", "come-and-go", "7", 7, [7, None])
REST: Call = ("n1", "compare", None, None, [])
WHOLE = (WRITE, LOOK, GO, REST)


def judged(*calls: Call) -> Verdict:
    return Projections().check(history(*calls), told(), {})


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


# Two values one after the other, each in a term of its own; then a node that did neither is asked for it.
ACKNOWLEDGED: tuple[Call, ...] = (("n1", "write", "k", 1, 1), ("n1", "write", "k", 2, 2))
STARTED: list[dict[str, Any]] = [
    row(0.1, "n2", "start"),
    row(0.2, "n2", "role", term=1, leader="n1"),
    row(2.1, "n2", "start", life=2),
    row(2.2, "n2", "role", life=2, term=3),
    row(2.3, "n2", "role", life=2, term=4, leader="n1"),
    row(2.4, "n2", "role", life=2, term=9, leader="n3"),
]


def asked(result: int | None, *, of: str = "n2", terms: dict[int, int], started: list[dict[str, Any]]) -> Verdict:
    look: Call = (of, "read-projected", "k", None, result)
    calls = history(*ACKNOWLEDGED, look, GO, REST, terms=terms)
    return Projections().check(calls, told(*started), {})


@pytest.mark.parametrize(("result", "valid"), [(None, "false"), (1, "false"), (2, "true"), (7, "true")])
def test_kh15_a_node_that_answers_has_what_was_acknowledged_before_the_term_of_its_first_leader(
    result: int | None, valid: str
) -> None:
    """Of 7 it is not known when it was written."""
    found = asked(result, terms={0: 2, 1: 3}, started=STARTED)
    assert found.valid == valid
    assert found.anomalies == (("caught-up-early",) if valid == "false" else ())


@pytest.mark.parametrize(
    ("terms", "started"),
    [
        ({0: 4, 1: 4}, STARTED),  # by the leader of which it heard
        ({}, STARTED),  # in terms that are not known
        ({0: 2, 1: 3}, []),
        ({0: 2, 1: 3}, STARTED[:4]),  # it heard of no leader
        ({0: 2, 1: 3}, STARTED[:2]),  # it heard of one of an earlier term, in its only life
        ({0: 2, 1: 3}, [*STARTED, row(2.45, "n2", "start", life=3)]),
        ({0: 2, 1: 3}, [*STARTED[:2], *({**each, "time": each["time"] + ns(0.5)} for each in STARTED[2:])]),
        ({0: 2, 1: 3}, [*STARTED, row(2.4, "n2", "role", life=2, term=1, leader="n1", group="other")]),
        ({0: 2, 1: 3}, [{**each, "node": "n3"} for each in STARTED]),
    ],
)
def test_kh15_a_node_may_lack_what_it_cannot_be_known_to_have_applied(
    terms: dict[int, int], started: list[dict[str, Any]]
) -> None:
    assert asked(1, terms=terms, started=started).valid == "true"


def of_other_group(*rows: tuple[float, str, int, int | None]) -> list[dict[str, Any]]:
    """Rows of n2 about another group: time, event, life, and the term of a leader."""
    leads = {"leader": "n5"}
    return [
        row(at, "n2", event, life=life, group="other", **({} if term is None else {"term": term, **leads}))
        for at, event, life, term in rows
    ]


def test_each_group_counts_lives_by_itself() -> None:
    """A group that was made anew in the second process of its node is in a life that the records' group never had."""
    anew = of_other_group((2.35, "start", 3, None), (2.45, "role", 3, 30))
    assert asked(1, terms={0: 4, 1: 4}, started=sorted([*STARTED, *anew], key=at)).valid == "true"
    assert asked(1, terms={0: 2, 1: 3}, started=sorted([*STARTED, *anew], key=at)).valid == "false"
    in_first_life = of_other_group((2.35, "start", 1, None), (2.45, "role", 1, 30))
    assert asked(1, terms={0: 2, 1: 3}, started=sorted([*STARTED, *in_first_life], key=at)).valid == "false"
    no_leader_yet = of_other_group((2.35, "start", 3, None))
    assert asked(1, terms={0: 2, 1: 3}, started=sorted([*STARTED, *no_leader_yet], key=at)).valid == "true"


def test_a_group_that_the_node_deleted_says_nothing_of_records() -> None:
    gone = of_other_group((0.3, "start", 1, None), (0.4, "role", 1, 1), (2.25, "delete", 1, None))
    assert asked(1, terms={0: 2, 1: 3}, started=sorted([*STARTED, *gone], key=at)).valid == "false"
    assert asked(1, terms={0: 2, 1: 3}, started=sorted([*STARTED, *gone[:2]], key=at)).valid == "true"


def at(each: dict[str, Any]) -> int:
    return each["time"]


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


def test_kh15_a_value_that_was_or_may_have_been_written_again_is_not_taken_for_an_old_one() -> None:
    again: Call = ("n1", "write", "k", 1, 1)
    look: Call = ("n2", "read-projected", "k", None, 1)
    calls = history(*ACKNOWLEDGED, again, look, GO, REST, terms={0: 2, 1: 3})
    assert Projections().check(calls, told(*STARTED), {}).valid == "true"
    lost: Call = ("n1", "write", "k", 1, "lost")
    for between, valid in (((lost,), "true"), ((), "false")):
        calls = history(*ACKNOWLEDGED, *between, look, GO, REST, terms={0: 2, 1: 3})
        assert Projections().check(calls, told(*STARTED), {}).valid == valid


def test_answers_that_name_no_node_are_not_taken_for_those_of_one() -> None:
    nowhere = [(None, *call[1:]) for call in (*WHOLE, ("n1", "read-projected", "k", None, None))]
    assert judged(*nowhere).valid == "true"  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("f", "result"), [("come-and-go", 7), ("come-and-go", [7]), ("compare", "k"), ("compare", None)]
)
def test_an_answer_that_is_none_of_its_op_is_refused_in_words(f: str, result: Any) -> None:
    with pytest.raises(HistoryFormatError, match=f"the value of '{f}'"):
        judged(*WHOLE, ("n1", f, "8", 8, result))


@pytest.mark.parametrize(
    ("f", "value", "result"),
    [
        ("put", ["a", 1], ["ok", 5]),
        ("put", ["a", 1], ["ok", [["a", 1]]]),
        ("put", None, ["ok", [["a", 1, 1, 1, None]]]),
        ("delete", "a", ["ok", 5]),
    ],
)
def test_an_answer_of_a_tree_that_has_no_nodes_is_refused_in_words(f: str, value: Any, result: Any) -> None:
    with pytest.raises(HistoryFormatError, match=r"op \d"):
        TreeOutcomes().check(history(("n1", f, None, value, result)), {})


def test_looking_up_a_key_that_was_written_often_costs_little() -> None:
    many: list[Call] = [("n1", "write", "k", number, number) for number in range(4000)]
    looks: list[Call] = [("n2", "read-projected", "k", None, 3999)] * 4000
    calls = history(*many, *looks, terms=dict.fromkeys(range(4000), 2))
    began_s = process_time()
    found = Projections().check(calls, told(*[{**each, "time": ns(4000)} for each in STARTED[-2:]]), {})
    assert found.figures["look_up"] == 4000
    assert process_time() - began_s < 4


def test_an_option_for_trees_is_refused_as_there_is_none() -> None:
    with pytest.raises(UsageError, match="floor"):
        TreeOutcomes().check(history(*TREE), {"floor": 3})
