"""What has an unknown outcome may take effect after what its process did next: no order of the process begins there.

Jepsen and Elle give the process another name then. Other histories go on under the old one.
"""

from __future__ import annotations

from typing import Any

import pytest

from splitbrain.checkers import engine
from splitbrain.checkers.transactions.columns import transactions_of
from splitbrain.checkers.transactions.weak import judge_weak_all
from splitbrain.checkers.verdict import CheckerSpec, Verdict
from splitbrain.results.arrow import to_table
from tests.checkers.transactions.brute_force import Txn, is_serial, ops_of
from tests.checkers.transactions.definitions import satisfied

SESSIONS = "strong-session-serializable"

LATE = [
    Txn(0, 0, 1, "info", (("append", "x", 1),)),
    Txn(0, 2, 3, "ok", (("append", "y", 2), ("r", "x", ()))),
    Txn(1, 4, 5, "ok", (("r", "x", (1,)), ("r", "y", (2,)))),
]
"""The first one took effect between the others."""

BEFORE = [
    Txn(0, 0, 1, "ok", (("append", "x", 1),)),
    Txn(0, 2, 3, "info", (("append", "y", 2),)),
    Txn(0, 4, 5, "ok", (("r", "x", ()), ("append", "z", 3))),
    Txn(1, 6, 7, "ok", (("r", "x", (1,)), ("r", "y", (2,)), ("r", "z", (3,)))),
]
"""The third one does not see what its process had done two transactions before."""

INTO = [
    Txn(0, 0, 1, "ok", (("append", "x", 1),)),
    Txn(0, 2, 3, "info", (("append", "y", 2),)),
    Txn(1, 4, 5, "ok", (("r", "y", (2,)), ("r", "x", ()))),
    Txn(2, 6, 7, "ok", (("r", "x", (1,)),)),
]
"""Who sees the second one sees the first one."""

GOES_ON = [
    *INTO[:2],
    Txn(0, 4, 5, "ok", (("append", "z", 3),)),
    Txn(1, 6, 7, "ok", (("r", "y", (2,)), ("r", "x", ()))),
    Txn(2, 8, 9, "ok", (("r", "x", (1,)),)),
]
"""The same, though the process went on: what precedes an unknown outcome precedes who read it."""

AT_SECOND_HAND = [
    *GOES_ON[:3],
    Txn(1, 6, 7, "ok", (("r", "y", (2,)), ("append", "v", 4))),
    Txn(2, 8, 9, "ok", (("r", "v", (4,)), ("r", "x", ()))),
    Txn(3, 10, 11, "ok", (("r", "x", (1,)),)),
]
"""Who read who read it."""


def lists(history: list[Txn]) -> Verdict:
    spec = CheckerSpec("list-append", {"consistency_models": [SESSIONS]})
    [verdict] = engine.judge(to_table(ops_of(history)), [spec])
    return verdict


def registers(history: list[Txn], **options: Any) -> Verdict:
    [verdict] = engine.judge(to_table(ops_of(as_registers(history))), [CheckerSpec("rw-register", options)])
    return verdict


def as_registers(history: list[Txn]) -> list[Txn]:
    return [
        Txn(each.process, each.invoked, each.completed, each.type, tuple(_register(*mop) for mop in each.mops))
        for each in history
    ]


def _register(f: str, key: str, value: Any) -> tuple[str, str, Any]:
    return ("w", key, value) if f == "append" else ("r", key, value[-1] if value else None)


ALL = [(LATE, True), (BEFORE, False), (INTO, False), (GOES_ON, False), (AT_SECOND_HAND, False)]


@pytest.mark.parametrize(("history", "kept"), ALL)
def test_no_order_of_a_process_begins_at_what_may_come_later(history: list[Txn], kept: bool) -> None:
    assert is_serial(history, SESSIONS) is kept
    for verdict in (lists(history), registers(history, consistency_models=[SESSIONS])):
        assert verdict.valid == ("true" if kept else "false"), verdict.sentence
    if not kept:
        assert "G-single-item-process" in lists(history).anomalies


@pytest.mark.parametrize(("history", "kept"), ALL)
def test_the_weak_levels_know_that_too(history: list[Txn], kept: bool) -> None:
    found = judge_weak_all(transactions_of(to_table(ops_of(as_registers(history)))))
    assert found["causal"].valid == ("true" if kept else "false")
    verdict = registers(history, consistency_models=["causal"])
    assert verdict.valid == ("true" if kept else "false"), verdict.sentence


def test_weak_levels_know_what_precedes_an_unknown_outcome_after_which_its_process_goes_on() -> None:
    """Found by `brute_force`, history 3679 of seed 9005: it read the first write, though the second came behind."""
    history = [
        Txn(0, 0, 1, "ok", (("append", "y", 1),)),
        Txn(0, 2, 3, "info", (("append", "x", 2), ("append", "y", 3))),
        Txn(0, 4, 5, "ok", (("r", "x", (2,)), ("r", "y", (1,)))),
    ]
    assert not satisfied(as_registers(history))["strong-session-monotonic-atomic-view"]
    found = judge_weak_all(transactions_of(to_table(ops_of(as_registers(history)))))
    assert {level: each.valid for level, each in found.items()} == dict.fromkeys(found, "false")
    for model in ("causal", "strong-session-monotonic-atomic-view"):
        verdict = registers(history, consistency_models=[model])
        assert verdict.valid == "false", (model, verdict.sentence)


def test_sequential_keys_know_that_too() -> None:
    late = [
        Txn(0, 0, 1, "info", (("append", "x", 1),)),
        Txn(0, 2, 3, "ok", (("append", "x", 2),)),
        Txn(1, 4, 5, "ok", (("r", "x", (2,)), ("append", "y", 3))),
        Txn(1, 6, 7, "ok", (("r", "x", (1,)), ("r", "y", (3,)))),
    ]
    options = {"sequential_keys": True, "consistency_models": ["serializable"]}
    assert registers(late, **options).valid == "true"
    certain = [Txn(0, 0, 1, "ok", late[0].mops), *late[1:]]
    assert registers(certain, **options).valid == "false"
