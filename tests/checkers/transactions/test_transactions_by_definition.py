"""The checkers of transactions against the definitions of isolation, on small random histories."""

from __future__ import annotations

import random

import pytest

from splitbrain.checkers.transactions.assumptions import Assumptions
from splitbrain.checkers.transactions.judging import Expected, Workload
from splitbrain.checkers.transactions.report import judged
from splitbrain.results.arrow import to_table
from tests.checkers.transactions.brute_force import (
    LEVELS,
    Figures,
    Txn,
    compare,
    is_serial,
    ops_of,
    random_history,
    satisfied,
)


@pytest.mark.parametrize("workload", ["list-append", "rw-register"])
def test_random_histories_are_judged_as_the_definitions_say(workload: Workload) -> None:
    figures = Figures()
    for seed in range(120):
        assert compare(random.Random(f"sample {seed}"), workload, figures) is None
    assert figures.broken > 30


def test_registers_say_nothing_false_of_a_history_that_ran_serially() -> None:
    for seed in range(60):
        history = random_history(random.Random(seed), "rw-register")
        if is_serial(history, "strict-serializable"):
            found = judged(to_table(ops_of(history)), "rw-register", Expected(), Assumptions())
            assert found.findings.valid != "false"


def test_the_definition_tells_the_levels_apart() -> None:
    skew = [
        Txn(0, 0, 2, "ok", (("r", "x", ()), ("append", "y", 1))),
        Txn(1, 1, 3, "ok", (("r", "y", ()), ("append", "x", 2))),
    ]
    assert satisfied(skew) == {level: level != "repeatable-read" for level in LEVELS}
    lost = [
        Txn(0, 0, 2, "ok", (("r", "x", ()), ("append", "x", 1))),
        Txn(1, 1, 3, "ok", (("r", "x", ()), ("append", "x", 2))),
    ]
    kept = satisfied(lost)
    assert not kept["consistent-view"]
    assert kept["read-committed"]
