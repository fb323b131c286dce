"""The checker `closed-predicate`: what it finds, what it says, and that it agrees with all serial orders."""

from __future__ import annotations

import copy
import json
import random
from time import process_time
from typing import Any

import pyarrow as pa
import pytest

from splitbrain.checkers import engine
from splitbrain.checkers.transactions.predicates import predicate_problems
from splitbrain.checkers.verdict import CheckerSpec, Verdict
from splitbrain.results.arrow import to_table
from splitbrain.results.errors import HistoryFormatError
from splitbrain.results.history import Op, OpType
from tests.checkers.transactions.predicate_brute_force import compare

INIT = ("init", {"x": 0, "y": 0})
NOTHING: dict[str, int] = {}


def history(*transactions: tuple[str, Any] | tuple[str, Any, OpType], at_once: bool = True) -> pa.Table:
    """Transactions, each of its own process: all but the first at the same time, or one after the other."""
    asked: list[tuple[int, OpType, str, Any]] = []
    answered: list[tuple[int, OpType, str, Any]] = []
    rows: list[tuple[int, OpType, str, Any]] = []
    for process, (f, value, *kind) in enumerate(transactions):
        blank = value if f == "init" else [[*mop[:2], None] if mop[0] in ("r", "rp") else mop for mop in value]
        end: OpType = kind[0] if kind else "ok"
        asked.append((process, "invoke", f, blank))
        answered.append((process, end, f, value if end == "ok" else blank))
        if f == "init" or not at_once:
            rows += [asked.pop(), answered.pop()]
    return to_table(
        [
            Op(index=index, time=index, process=process, type=kind, f=f, value=json.loads(json.dumps(value)))
            for index, (process, kind, f, value) in enumerate([*rows, *asked, *answered])
        ]
    )


def judge(table: pa.Table, *models: str) -> Verdict:
    options = {"consistency_models": list(models or ("serializable",))}
    [verdict] = engine.judge(table, [CheckerSpec("closed-predicate", options)])
    return verdict


SKEW = (
    INIT,
    ("txn", [["rp", ["=", 1], NOTHING], ["w", "x", 1]]),
    ("txn", [["rp", ["=", 1], NOTHING], ["w", "y", 1]]),
)


def test_a_write_skew_between_predicates_is_g2_and_allowed_by_repeatable_read() -> None:
    found = judge(history(*SKEW))
    assert (found.valid, found.anomalies) == ("false", ("G2",))
    assert "did not see y in a predicate read of = 1" in found.sentence
    assert "wrote y as 1, which changes whether it matches" in found.sentence
    assert judge(history(*SKEW), "repeatable-read").valid == "true"
    assert judge(history(*SKEW), "snapshot-isolation").valid == "true"


def test_what_a_predicate_read_saw_and_another_overwrote_without_a_change_of_the_match_is_an_item() -> None:
    table = history(
        INIT,
        ("txn", [["rp", "true", {"x": 0, "y": 0}], ["w", "x", 1]]),
        ("txn", [["rp", "true", {"x": 0, "y": 0}], ["w", "y", 1]]),
    )
    found = judge(table)
    assert found.anomalies == ("G2-item",)
    assert judge(table, "repeatable-read").valid == "false"
    text = json.dumps(found.evidence["anomalies"]["G2-item"][0])
    forged = json.loads(text.replace('"kind": "rw"', '"kind": "rwp"').replace('"G2-item"', '"G2"'))
    assert all("it does not follow" in problem for problem in predicate_problems(forged, table))
    assert len(predicate_problems(forged, table)) == 2


def test_half_of_a_transaction_seen_by_a_predicate_is_g_single() -> None:
    found = judge(
        history(INIT, ("txn", [["delete", "x"], ["delete", "y"]]), ("txn", [["rp", "true", {"x": 0}]])),
        "consistent-view",
    )
    assert found.anomalies == ("G-single",)
    assert "by then no longer, or not yet, matched" in found.sentence


@pytest.mark.parametrize(
    ("transactions", "anomaly"),
    [
        ([("txn", [["w", "x", 1]], "fail"), ("txn", [["rp", "true", {"x": 1, "y": 0}]])], "G1a"),
        ([("txn", [["delete", "x"]], "fail"), ("txn", [["r", "x", None]])], "G1a"),
        ([("txn", [["w", "x", 1], ["w", "x", 2]]), ("txn", [["rp", ["=", 1], {"x": 1}]])], "G1b"),
        ([("txn", [["rp", "true", {"x": 7, "y": 0}]])], "garbage-read"),
        ([("txn", [["r", "x", 1], ["w", "x", 1]])], "future-read"),
        ([("txn", [["w", "x", 1], ["rp", "true", {"x": 0, "y": 0}]])], "internal"),
        ([("txn", [["r", "x", 0], ["r", "x", 1]]), ("txn", [["w", "x", 1]])], "internal"),
        ([("txn", [["rp", ["=", 0], {"x": 0}]])], "predicate-read-miss"),
        ([("txn", [["insert", "z", 1], ["rp", "true", {"x": 0, "y": 0}]])], "predicate-read-miss"),
        ([("txn", [["rp", ["mod", 2, 1], {"x": 0}]])], "predicate-read-miss"),
    ],
)
def test_reads_that_are_wrong_by_themselves(transactions: list[Any], anomaly: str) -> None:
    found = judge(history(INIT, *transactions))
    assert anomaly in found.anomalies
    assert not found.inconclusive


@pytest.mark.parametrize("model", ["snapshot-isolation", "strong-session-snapshot-isolation", "serializable"])
def test_no_snapshot_lacks_an_object_of_which_every_version_matches(model: str) -> None:
    table = history(
        INIT, ("txn", [["w", "x", 2]]), ("txn", [["rp", ["mod", 2, 0], {"y": 0}]]), ("txn", [["r", "x", 2]])
    )
    found = judge(table, model)
    assert found.anomalies == ("predicate-read-miss",)
    assert found.evidence["not"] == ["snapshot-isolation"]
    assert judge(table, "repeatable-read").valid != "false"


def test_a_deletion_of_unknown_outcome_happened_if_nothing_else_explains_what_is_missing() -> None:
    table = history(
        INIT,
        ("txn", [["delete", "x"], ["w", "y", 1]], "info"),
        ("txn", [["rp", "true", {"y": 0}]]),
    )
    found = judge(table, "consistent-view")
    assert found.anomalies == ("G-single-item",)
    [deleted] = [
        each for each in found.evidence["anomalies"]["G-single-item"][0]["transactions"] if each["type"] == "info"
    ]
    assert deleted["committed_because_read_by"]


def test_of_an_object_that_changed_twice_only_the_first_version_has_a_place() -> None:
    changes: list[Any] = [("txn", [["w", "x", 1]]), ("txn", [["w", "x", 2]])]
    found = judge(history(INIT, *changes, ("txn", [["r", "x", 1]]), ("txn", [["r", "y", 0]])))
    assert (found.valid, found.evidence["open_keys"]) == ("true", ["x"])
    stale = judge(history(INIT, *changes, ("txn", [["r", "x", 0]]), at_once=False), "strict-serializable")
    assert stale.anomalies == ("G-single-item-realtime",)


def test_a_predicate_of_which_two_versions_fit_says_nothing() -> None:
    table = history(INIT, ("txn", [["w", "x", 3]]), ("txn", [["rp", ["=", 9], NOTHING]]), at_once=False)
    assert judge(table, "strict-serializable").figures["rw"] == 0


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ([["rp", ["<", 1], NOTHING]], "expected a predicate"),
        ([["rp", ["mod", 0, 1], NOTHING]], "expected a predicate"),
        ([["append", "x", 1]], "micro-operations r, rp, w, insert and delete"),
        ([["insert", "x"]], "with a value"),
        ([["rp", "true"]], "what a predicate read found"),
        ("x", "expected a list of micro-operations"),
    ],
)
def test_a_transaction_of_another_form_is_refused(value: Any, said: str) -> None:
    rows: list[tuple[OpType, Any]] = [("invoke", value), ("ok", value)]
    table = to_table(
        [Op(index=at, time=at, process=0, type=kind, f="txn", value=each) for at, (kind, each) in enumerate(rows)]
    )
    with pytest.raises(HistoryFormatError, match=said):
        judge(table)


def test_a_universe_is_made_once_and_first() -> None:
    with pytest.raises(HistoryFormatError, match="a second init"):
        judge(history(INIT, INIT))
    with pytest.raises(HistoryFormatError, match="began before the init op"):
        judge(history(("txn", [["r", "x", None]]), INIT, at_once=False))


def test_a_witness_that_says_something_else_does_not_pass() -> None:
    table = history(*SKEW)
    [witness] = judge(table).evidence["anomalies"]["G2"]
    assert not predicate_problems(witness, table)
    for change in ("kind", "key", "to"):
        forged = copy.deepcopy(witness)
        forged["steps"][0][change] = {"kind": "wrp", "key": "x", "to": witness["steps"][0]["from"]}[change]
        forged["steps"][0]["key"] = forged["steps"][0]["key"] if change != "key" else _other(witness)
        assert predicate_problems(forged, table), change
    unchanged = history(INIT, ("txn", [["rp", ["=", 1], NOTHING], ["w", "x", 5]]), SKEW[2])
    assert any("is (" in problem for problem in predicate_problems(witness, unchanged))
    adapted = json.loads(json.dumps(witness).replace('["w", "x", 1]', '["w", "x", 5]'))
    [problem] = predicate_problems(adapted, unchanged)
    assert "it does not follow" in problem


def _other(witness: dict[str, Any]) -> str:
    return "y" if witness["steps"][0]["key"] == "x" else "x"


def test_closed_universes_agree_with_all_serial_orders() -> None:
    broken = [0, 0]
    for number in range(150):
        assert compare(random.Random(f"suite {number}"), broken) is None
    assert broken[0] > 5


def test_an_object_that_was_changed_thousands_of_times_costs_little() -> None:
    def steps(number: int) -> list[Any]:
        return [["rp", "true", {"x": number, "y": 0}], ["w", "x", number + 1], ["r", "y", 0]]

    table = history(INIT, *(("txn", steps(number)) for number in range(8000)), at_once=False)
    judge(history(INIT, ("txn", steps(0))))
    began_s = process_time()
    assert judge(table).valid == "true"
    assert process_time() - began_s < 5
