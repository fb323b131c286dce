"""Workloads of transactions: their clients and checkers find each flaw of isolation, and nothing if there is none."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from splitbrain.checkers import engine
from splitbrain.checkers.verdict import Verdict
from splitbrain.harness.contract.test import Workload
from splitbrain.results.arrow import from_table, to_table
from splitbrain.results.history import Op
from splitbrain.workloads.catalogue import WORKLOADS, build, needs
from tests.workloads.support import FIVE, Store, carried_out, invocations

NAMES = [name for name in WORKLOADS if {"transactions", "predicates"} & needs(name)]


def workload(name: str, **options: Any) -> Workload:
    return build(name, nodes=FIVE, concurrency=10, **options)


def judged(name: str, store: Store, **options: Any) -> Verdict:
    """The verdict of the checker that judges isolation."""
    found = workload(name)
    history = to_table(carried_out(found, store, **options))
    [verdict] = engine.judge(history, found.checkers[:1], None, weaker=False)
    return verdict


def test_there_are_nine() -> None:
    assert len(NAMES) == 9


@pytest.mark.parametrize("name", NAMES)
def test_a_system_that_isolates_transactions_passes_and_is_tested_enough(name: str) -> None:
    verdict = judged(name, Store())
    assert (verdict.valid, verdict.inconclusive) == ("true", ()), verdict.sentence


FLAWS = [
    ("list-append", "torn", "G-single-item"),
    ("rw-register", "torn", "G-single-item"),
    ("rw-register", "blind", "lost-update"),
    ("rw-register", "half", "G2-item"),
    ("rw-register", "dirty", "G1a"),
    ("rw-register", "forgotten", "lost-update"),
    ("bank", "torn", "wrong-total"),
    ("bank", "blind", "wrong-total"),
    ("bank", "half", "wrong-total"),
    ("long-fork", "torn", "long-fork"),
    ("g2", "blind", "two-inserted"),
    ("g2", "half", "two-inserted"),
    ("causal", "torn", "causal-violation"),
    ("monotonic", "blind", "duplicate"),
    ("monotonic", "half", "duplicate"),
    ("monotonic", "torn", "not-at-once"),
    ("predicates", "torn", "G-single"),
    ("multi-cas", "torn", "nonlinearizable"),
    ("multi-cas", "blind", "nonlinearizable"),
]


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("name", "flaw", "anomaly"), FLAWS)
def test_a_flaw_of_isolation_is_found_and_named(name: str, flaw: str, anomaly: str) -> None:
    verdict = judged(name, Store(flaw=flaw))
    assert verdict.valid == "false", verdict.sentence
    assert anomaly in {each.removesuffix("-realtime").removesuffix("-process") for each in verdict.anomalies}


@pytest.mark.parametrize("name", NAMES)
def test_transactions_are_recorded_with_what_they_read_and_read_back_the_same(name: str) -> None:
    history = carried_out(workload(name), Store(), ops_max=100)
    assert from_table(to_table(history)) == history
    for op in history:
        assert op.f != "txn" or op.mops or op.value


def test_a_system_promises_an_isolation_and_is_judged_by_that() -> None:
    for name in ("list-append", "rw-register"):
        [spec, *_] = workload(name, isolation="snapshot-isolation,PL-2").checkers
        assert spec.options["consistency_models"] == ["snapshot-isolation", "PL-2"]


def test_values_of_a_key_are_written_once_and_keys_are_replaced() -> None:
    for name in ("list-append", "rw-register", "causal"):
        ops = invocations(carried_out(workload(name), Store(), ops_max=600))
        written = [(mop.key, mop.value) for op in ops for mop in op.mops or () if mop.f != "r"]
        assert len(set(written)) == len(written)
        assert len({key for key, _ in written}) > 5
        assert max(value or 0 for _, value in written) == 32


def quiet(f: str, value: Any, answer: Any = None, key: str | None = None) -> list[Op]:
    """An op that was ok, with no other one beside it."""
    asked = Op(process=0, type="invoke", f=f, key=key, value=value)
    return [asked, asked.complete("ok", value if answer is None else answer)]


IDLE = {str(account): 10 for account in range(8)}
UNTESTED = [
    ("bank", [*quiet("read", None, IDLE)], "no transfer succeeded"),
    (
        "bank",
        [*quiet("transfer", {"from": 0, "to": 1, "amount": 1}), *quiet("read", None, {**IDLE, "0": 9, "1": 11})],
        "saw",
    ),
    ("long-fork", [*quiet("write", 0, key="k"), *quiet("read", None, [None, None], key="k")], "No read saw one of two"),
    ("g2", [*quiet("insert", [1, None], key="k"), *quiet("read", None, [1, None], key="k")], "No two insertions"),
    ("monotonic", [*quiet("increment", 0, [0, 0, 0], key="k")], "No two increments"),
]


@pytest.mark.parametrize(("name", "ops", "reason"), UNTESTED)
def test_what_could_not_have_shown_is_inconclusive(name: str, ops: list[Op], reason: str) -> None:
    history = [msgspec.structs.replace(op, index=place, time=place) for place, op in enumerate(ops)]
    [verdict] = engine.judge(to_table(history), workload(name).checkers[:1], None, weaker=False)
    assert verdict.valid != "false"
    assert any(reason in each.sentence for each in verdict.inconclusive), verdict
