"""The checkers of transactions against the definitions of isolation, on small random histories."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest

from splitbrain.checkers.transactions.assumptions import Assumptions
from splitbrain.checkers.transactions.judging import Expected, Workload
from splitbrain.checkers.transactions.models import IMPLIED_MODELS
from splitbrain.checkers.transactions.report import judged
from splitbrain.results.arrow import to_table
from tests.checkers.transactions.brute_force import (
    EXACT,
    Figures,
    compare,
    is_serial,
    is_sound,
    loose_history,
    ops_of,
    random_history,
)
from tests.checkers.transactions.definitions import DEFINITIONS, Txn, satisfied


@pytest.mark.sampled(2)
@pytest.mark.parametrize("workload", ["list-append", "rw-register"])
def test_random_histories_are_judged_as_the_definitions_say(workload: Workload) -> None:
    figures = Figures()
    for seed in range(120):
        assert compare(random.Random(f"sample {seed}"), workload, figures) is None
    assert figures.broken > 30
    assert figures.levels > 80
    assert sum(figures.violated[level] > 0 for level in DEFINITIONS) > 20
    assert all(figures.found[level] for level in EXACT[workload] if figures.violated[level])


def torn(rng: random.Random, history: list[Txn]) -> list[Txn]:
    """The history as a store has it that lost one append, or put it in another place."""
    written = [value for txn in history for f, _, value in txn.mops if f == "append"]
    chosen, at = rng.choice(written or [0]), rng.randrange(3)
    lose = rng.random() < 0.5

    def found(f: str, value: Any) -> Any:
        known: list[int] = list(value or ()) if f == "r" else []
        if chosen not in known:
            return value
        known.remove(chosen)
        return tuple(known if lose else [*known[:at], chosen, *known[at:]])

    return [replace(txn, mops=tuple((f, k, found(f, v)) for f, k, v in txn.mops)) for txn in history]


def test_lists_that_lost_an_append_or_have_it_elsewhere_are_judged_as_serial_orders_say() -> None:
    broken = 0
    for seed in range(150):
        rng = random.Random(f"torn {seed}")
        history = torn(rng, random_history(rng, "list-append"))
        found = judged(to_table(ops_of(history)), "list-append", Expected(), Assumptions())
        right = is_serial(history, "strict-serializable")
        broken += not right
        assert (found.findings.valid == "false") != right, history
        assert not found.unverified
    assert 40 < broken < 110


def test_registers_say_nothing_false_of_a_history_that_ran_serially() -> None:
    for seed in range(60):
        history = random_history(random.Random(seed), "rw-register")
        if is_serial(history, "strict-serializable"):
            found = judged(to_table(ops_of(history)), "rw-register", Expected(), Assumptions())
            assert found.findings.valid != "false"


def levels_kept(*mops: tuple[tuple[str, str, Any], ...]) -> dict[str, bool]:
    """The levels that transactions keep which all ran at once."""
    return satisfied([Txn(place, place, 100 + place, "ok", each) for place, each in enumerate(mops)])


BROKEN_BY: dict[str, tuple[list[Any], tuple[str, ...]]] = {
    "write skew": (
        [(("r", "x", ()), ("append", "y", 1)), (("r", "y", ()), ("append", "x", 2))],
        ("repeatable-read", "serializable", "update-serializable"),
    ),
    "a lost update": (
        [(("r", "x", ()), ("append", "x", 1)), (("r", "x", ()), ("append", "x", 2))],
        (
            *("cursor-stability", "consistent-view", "forward-consistent-view", "update-serializable"),
            *("repeatable-read", "serializable", "snapshot-isolation", "strong-session-snapshot-isolation"),
            *("strong-snapshot-isolation", "update-atomic", "parallel-snapshot-isolation"),
        ),
    ),
    "a long fork": (
        [(("w", "x", 1),), (("w", "y", 2),), (("r", "x", 1), ("r", "y", None)), (("r", "x", None), ("r", "y", 2))],
        (
            *("repeatable-read", "serializable", "snapshot-isolation", "strong-session-snapshot-isolation"),
            *("strong-snapshot-isolation", "prefix"),
        ),
    ),
    "a cycle of one transaction that reads": (
        [(("w", "x", 1),), (("r", "x", 1), ("w", "y", 2)), (("r", "x", None), ("r", "y", 2))],
        (
            *("consistent-view", "forward-consistent-view", "update-serializable", "repeatable-read", "serializable"),
            *("snapshot-isolation", "strong-session-snapshot-isolation", "strong-snapshot-isolation", "causal-cerone"),
            *("strong-session-causal", "parallel-snapshot-isolation", "prefix"),
        ),
    ),
    "a fractured read": (
        [(("w", "x", 1), ("w", "y", 2)), (("r", "x", None), ("r", "y", 2))],
        tuple(
            level
            for level in DEFINITIONS
            if "committed" not in level
            and level not in ("monotonic-view", "cursor-stability")
            and not level.endswith(("monotonic-atomic-view", "uncommitted"))
        ),
    ),
    "a read that goes back": (
        [(("w", "x", 1), ("w", "y", 2)), (("r", "y", 2), ("r", "x", None))],
        tuple(
            level
            for level in DEFINITIONS
            if "committed" not in level and level != "cursor-stability" and not level.endswith("uncommitted")
        ),
    ),
    "a read of what was not final": (
        [(("w", "x", 1), ("w", "x", 2)), (("r", "x", 1),)],
        tuple(level for level in DEFINITIONS if not level.endswith("uncommitted")),
    ),
    "writes in two orders": (
        [(("append", "x", 1), ("append", "x", 3)), (("append", "x", 2),), (("r", "x", (1, 2, 3)),)],
        tuple(DEFINITIONS),
    ),
}


@pytest.mark.parametrize("name", BROKEN_BY)
def test_the_definitions_tell_the_levels_apart(name: str) -> None:
    history, broken = BROKEN_BY[name]
    assert {level for level, kept in levels_kept(*history).items() if not kept} == set(broken)


def test_the_levels_imply_each_other_by_their_definitions() -> None:
    for seed in range(150):
        history = loose_history(random.Random(seed), "rw-register")
        if is_sound(history):
            kept = satisfied(history)
            for stronger, weaker in IMPLIED_MODELS.items():
                if kept.get(stronger):
                    assert all(kept.get(each, True) for each in weaker), (stronger, history)
