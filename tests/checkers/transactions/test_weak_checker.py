"""The checker rw-register with weak models: against their definition, with verified witnesses, with and without
sessions."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec
import pytest

from splitbrain.checkers import engine
from splitbrain.checkers.transactions.columns import transactions_of
from splitbrain.checkers.transactions.models import boundary, canonical
from splitbrain.checkers.transactions.weak import LEVELS, Level, judge_weak, weak_problems, weak_witness
from splitbrain.checkers.verdict import CheckerSpec, Verdict
from splitbrain.results.arrow import to_table
from splitbrain.results.witness import Witness, witnesses_of
from tests.checkers.transactions.test_weak_levels import Definition, Txn, drawn, history

MODELS: Final[dict[Level, str]] = {
    "read-committed": "strong-session-monotonic-atomic-view",
    "read-atomic": "strong-session-read-atomic",
    "causal": "causal",
}

WITHOUT_SESSIONS: Final[dict[Level, str]] = {
    "read-committed": "monotonic-atomic-view",
    "read-atomic": "read-atomic",
    "causal": "causal-cerone",
}

BY_SESSION: list[Txn] = [
    (0, "ok", [("w", "x", 1)]),
    (0, "ok", [("w", "x", 2)]),
    (1, "ok", [("r", "x", 2), ("w", "y", 1)]),
    (2, "ok", [("r", "y", 1), ("r", "x", 1)]),
]
FRACTURED: list[Txn] = [
    (0, "ok", [("w", "x", 1), ("w", "y", 1)]),
    (1, "ok", [("r", "x", 1), ("w", "x", 2), ("w", "y", 2)]),
    (2, "ok", [("r", "x", 1), ("r", "y", 2)]),
]
BY_SESSION_AND_NOT: list[Txn] = [
    *BY_SESSION,
    (3, "ok", [("w", "a", 1)]),
    (4, "ok", [("r", "a", 1), ("w", "a", 2)]),
    (5, "ok", [("r", "a", 2), ("w", "b", 1)]),
    (6, "ok", [("r", "b", 1), ("w", "c", 1)]),
    (7, "ok", [("r", "c", 1), ("r", "a", 1)]),
]
FROM_NOTHING: list[Txn] = [
    (0, "ok", [("w", "x", 1), ("w", "y", 1)]),
    (1, "ok", [("r", "y", 1), ("r", "x", None)]),
]
STALE_SESSION: list[Txn] = [
    (0, "ok", [("w", "x", 1)]),
    (1, "ok", [("r", "x", 1), ("w", "x", 2)]),
    (1, "ok", [("r", "x", 1)]),
]


def judge(transactions: Sequence[Txn], *models: str) -> Verdict:
    spec = CheckerSpec("rw-register", {"consistency_models": list(models)})
    [verdict] = engine.judge(to_table(history(transactions)), [spec])
    assert "crashes" not in verdict.evidence, verdict.evidence["crashes"]
    return verdict


def test_the_checker_answers_as_the_definition_of_each_level_does() -> None:
    rng = random.Random(5)
    for _ in range(80):
        transactions = drawn(rng)
        definition = Definition(transactions)
        for level, model in MODELS.items():
            found = judge(transactions, model)
            assert "unverified" not in found.evidence, transactions
            if definition.satisfies(level):
                assert found.valid != "false", transactions
            else:
                assert found.valid == "false" or definition.absurd, transactions


def test_models_without_sessions_are_judged_as_if_each_transaction_were_a_session() -> None:
    rng = random.Random(6)
    seen: list[str] = []
    for _ in range(80):
        transactions = drawn(rng)
        apart = Definition([(place, end, mops) for place, (_, end, mops) in enumerate(transactions)])
        if apart.absurd:
            continue
        for level, model in WITHOUT_SESSIONS.items():
            found = judge(transactions, model).valid
            assert (found == "false") == (not apart.satisfies(level)), transactions
            seen.append(found)
    assert seen.count("false") > 5


def test_an_order_of_a_session_rules_out_only_models_that_know_sessions() -> None:
    found = judge(BY_SESSION, "causal")
    assert (found.valid, found.anomalies) == ("false", ("causal-violation-process",))
    assert found.evidence["not"] == ["strong-session-causal"]
    assert "strong-session-snapshot-isolation" in found.evidence["also_not"]
    assert judge(BY_SESSION, "causal-cerone").valid == "true"
    assert judge(BY_SESSION, "causal-cerone").evidence == {
        "tolerated": ["causal-violation-process"],
        "open_keys": ["x"],
    }


def test_a_violation_by_sessions_hides_none_without_them() -> None:
    found = judge(BY_SESSION_AND_NOT, "causal-cerone")
    assert (found.valid, found.anomalies) == ("false", ("causal-violation",))
    assert "causal-cerone" in found.evidence["not"]
    assert "unverified" not in found.evidence


def test_clocks_without_sessions_that_would_take_too_much_work_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("splitbrain.checkers.transactions.weak.shown.WORK", 1)
    found = judge(BY_SESSION, "causal-cerone")
    assert found.valid == "true"
    assert any("causal without sessions" in each.sentence for each in found.inconclusive)


def test_a_violation_without_sessions_rules_out_the_weakest_model_without_sessions() -> None:
    found = judge(FRACTURED, "causal")
    assert found.valid == "false"
    assert "read-atomic" in found.evidence["not"]
    assert {"causal-cerone", "strong-session-causal"} <= set(found.evidence["also_not"])
    assert "unverified" not in found.evidence
    assert {each.anomaly for each in witnesses_of(found.evidence)} >= {"fractured-read", "causal-violation"}


def test_no_read_committed_of_adya_is_ruled_out_by_a_read_that_goes_back() -> None:
    assert judge(FROM_NOTHING, "read-committed").valid == "true"
    found = judge(FROM_NOTHING, "monotonic-atomic-view")
    assert (found.valid, found.anomalies) == ("false", ("non-monotonic-read",))


def test_a_value_that_nobody_wrote_is_no_read_of_any_weak_level() -> None:
    garbage: list[Txn] = [*FROM_NOTHING[:1], (1, "ok", [("r", "x", 1)]), (2, "ok", [("r", "z", 7)])]
    for model in (*MODELS.values(), *WITHOUT_SESSIONS.values(), "causal-cerone", "read-committed"):
        found = judge(garbage, model)
        assert (found.valid, found.anomalies) == ("false", ("garbage-read",)), model
        assert found.sentence.endswith("read z as 7, but no transaction wrote 7.")


def test_what_hides_a_weak_level_makes_the_verdict_inconclusive() -> None:
    hidden: list[Txn] = [*FROM_NOTHING[:1], (1, "ok", [("r", "x", 1)]), (2, "ok", [("w", "z", 7), ("r", "z", None)])]
    found = judge(hidden, "monotonic-atomic-view")
    assert found.valid == "true"
    assert any("internal hides" in each.sentence for each in found.inconclusive)


def test_clocks_that_would_take_too_much_memory_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("splitbrain.checkers.transactions.weak.judging.ROOM", 1)
    found = judge([*FROM_NOTHING[:1], (1, "ok", [("r", "x", 1), ("w", "x", 2)])], "causal")
    assert found.valid == "true"
    assert any("causal: its clocks would take more" in each.sentence for each in found.inconclusive)


def test_causal_names_the_model_with_sessions() -> None:
    assert canonical("causal") == "strong-session-causal"
    assert boundary(["causal-violation"])[0] == ["causal-cerone"]


# --- witnesses --------------------------------------------------------------------------------------------------------


def shown(transactions: Sequence[Txn], level: Level) -> Witness:
    table = to_table(history(transactions))
    columns = transactions_of(table)
    return weak_witness(table, columns, judge_weak(columns, level))


def tampered(witness: Witness) -> Iterator[Witness]:
    replace = msgspec.structs.replace
    for place, edge in enumerate(witness.edges):
        rest = witness.edges[:place], witness.edges[place + 1 :]
        yield replace(witness, edges=(*rest[0], *rest[1]))
        for change in ({"source": edge.target, "target": edge.source}, {"kind": "rw"}, {"key": "z"}):
            if "key" not in change or edge.key is not None:
                yield replace(witness, edges=(*rest[0], replace(edge, **change), *rest[1]))
    for place, edge in enumerate(witness.premises):
        if edge not in witness.edges:
            turned = replace(edge, source=edge.target, target=edge.source)
            yield replace(witness, premises=(*witness.premises[:place], turned, *witness.premises[place + 1 :]))
    for place, each in enumerate(witness.transactions):
        for change in ({"ended": "fail"}, {"process": 9}):
            changed = (*witness.transactions[:place], replace(each, **change), *witness.transactions[place + 1 :])
            yield replace(witness, transactions=changed)


@pytest.mark.parametrize(
    ("transactions", "level"),
    [
        (BY_SESSION, "causal"),
        (FRACTURED, "read-atomic"),
        (FRACTURED, "causal"),
        (FROM_NOTHING, "read-committed"),
        (FROM_NOTHING, "causal"),
        (STALE_SESSION, "read-atomic"),
    ],
)
def test_a_weak_witness_of_which_anything_is_changed_does_not_pass(transactions: list[Txn], level: Level) -> None:
    table = to_table(history(transactions))
    witness = shown(transactions, level)
    assert weak_problems(witness, level, table) == []
    changes = list(tampered(witness))
    assert changes
    for changed in changes:
        assert weak_problems(changed, level, table), changed


def test_a_witness_of_a_stronger_level_proves_nothing_of_a_weaker_one() -> None:
    table = to_table(history(BY_SESSION))
    witness = shown(BY_SESSION, "causal")
    assert all(weak_problems(witness, level, table) for level in LEVELS[:2])
