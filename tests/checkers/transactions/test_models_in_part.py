"""A model of whose violations some are not looked for is not said to hold where none is found."""

from __future__ import annotations

import random

import pytest

from splitbrain.checkers import engine
from splitbrain.checkers.transactions.models import (
    IN_PART,
    canonical,
    impossible,
    judged_in_part,
    model_names,
    proscribed_by,
)
from splitbrain.checkers.verdict import CheckerSpec, Verdict
from splitbrain.results.arrow import to_table
from tests.checkers.transactions.brute_force import is_sound, loose_history, ops_of
from tests.checkers.transactions.definitions import Mops, Txn, satisfied

LONG_FORK: list[Mops] = [
    (("w", "x", 1),),
    (("w", "y", 2),),
    (("r", "x", 1), ("r", "y", None)),
    (("r", "x", None), ("r", "y", 2)),
]
CURSOR: list[Mops] = [
    (("r", "x", ()), ("append", "x", 2)),
    (("append", "x", 1),),
    (("r", "x", (1, 2)),),
]


def judged(transactions: list[Mops], checker: str, *models: str) -> Verdict:
    history = [Txn(at, at, 100 + at, "ok", mops) for at, mops in enumerate(transactions)]
    return of_history(history, checker, *models)


def of_history(history: list[Txn], checker: str, *models: str) -> Verdict:
    [verdict] = engine.judge(to_table(ops_of(history)), [CheckerSpec(checker, {"consistency_models": list(models)})])
    return verdict


@pytest.mark.parametrize(
    ("transactions", "checker", "model", "missed"),
    [(LONG_FORK, "rw-register", "prefix", "a long fork"), (CURSOR, "list-append", "cursor-stability", "G-cursor")],
)
def test_it_is_inconclusive_and_the_model_that_implies_it_is_violated(
    transactions: list[Mops], checker: str, model: str, missed: str
) -> None:
    found = judged(transactions, checker, model)
    assert found.valid == "true"
    assert any(missed in reason.sentence for reason in found.inconclusive)
    assert judged(transactions, checker, IN_PART[model][1]).valid == "false"


def test_a_stronger_model_that_is_asked_for_too_closes_the_gap() -> None:
    assert judged_in_part(["prefix", "PL-CS", "serializable"]) == []
    assert judged_in_part(["prefix", "PL-CS", "consistent-view"]) == ["prefix"]
    assert judged_in_part(["prefix", "parallel-snapshot-isolation"]) == ["prefix", "parallel-snapshot-isolation"]


def test_what_closes_a_gap_implies_the_model() -> None:
    for model, (_, stronger) in IN_PART.items():
        assert set(proscribed_by([model])) <= set(proscribed_by([stronger]))
        assert stronger not in IN_PART


@pytest.mark.slow
def test_registers_of_which_a_level_is_said_to_hold_keep_it() -> None:
    """Of what says nothing of gaps. Registers whose versions have no known order are inconclusive as well."""
    levels = [name for name in model_names() if canonical(name) == name]
    for seed in range(40):
        history = loose_history(random.Random(seed), "rw-register")
        if not is_sound(history):
            continue
        for level, kept in satisfied(history).items():
            assert level in levels
            verdict = of_history(history, "rw-register", level)
            if verdict.valid == "true" and not verdict.inconclusive and not verdict.evidence.get("open_keys"):
                assert kept, (level, history, impossible([]))
