"""Histories that corpora seldom have, with verdicts that were derived by hand.

Each says why in its name, or in a comment; of lists the order of versions is the longest read.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from splitbrain.checkers import engine
from splitbrain.checkers.transactions.assumptions import Assumptions
from splitbrain.checkers.transactions.columns import transactions_of
from splitbrain.checkers.transactions.graph import NO_G1C, RW, derived
from splitbrain.checkers.transactions.registers import infer_registers
from splitbrain.checkers.verdict import CheckerSpec, Verdict
from splitbrain.results.arrow import to_table
from tests.checkers.transactions.brute_force import is_serial, is_sound, ops_of
from tests.checkers.transactions.definitions import Txn, satisfied
from tests.checkers.transactions.test_closed_predicates import history, judge

SER, STRICT, SESSIONS = "serializable", "strict-serializable", "strong-session-serializable"


class Hard(NamedTuple):
    """A history, what is found by a model, and which models it is then said to violate at the least."""

    txns: tuple[Txn, ...]
    model: str
    anomalies: tuple[str, ...]
    weakest: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    checker: str = "list-append"


def at_once(*mops: tuple[tuple[str, str, Any], ...]) -> tuple[Txn, ...]:
    """Transactions of as many processes, all invoked before any completes."""
    return tuple(Txn(place, place, 100 + place, "ok", each) for place, each in enumerate(mops))


def in_turn(*mops: tuple[tuple[str, str, Any], ...]) -> tuple[Txn, ...]:
    """Transactions of as many processes, one after the other."""
    return tuple(Txn(place, 2 * place, 2 * place + 1, "ok", each) for place, each in enumerate(mops))


def r(key: str, *elements: int) -> tuple[str, str, Any]:
    return ("r", key, elements)


def a(key: str, element: int) -> tuple[str, str, Any]:
    return ("append", key, element)


def w(key: str, value: int) -> tuple[str, str, Any]:
    return ("w", key, value)


def g(key: str, value: int | None) -> tuple[str, str, Any]:
    return ("r", key, value)


HARD: dict[str, Hard] = {
    # The writer of x ends after all others, so that it is tied in by what was read of it, and by one barrier.
    "one antidependency, closed by a barrier": Hard(
        (
            Txn(0, 0, 90, "ok", (a("x", 1),)),
            Txn(1, 1, 10, "ok", (r("x", 1),)),
            Txn(2, 11, 20, "ok", (a("y", 7),)),
            Txn(3, 12, 21, "ok", (r("y", 7),)),
            Txn(4, 30, 40, "ok", (r("x"),)),
        ),
        STRICT,
        ("G-single-item-realtime",),
        ("strong-snapshot-isolation",),
        (SER, SESSIONS),
    ),
    "a long fork has no two antidependencies in a row": Hard(
        at_once((a("x", 1),), (a("y", 2),), (r("x"), r("y", 2)), (r("x", 1), r("y"))),
        SER,
        ("G-nonadjacent-item",),
        ("repeatable-read", "snapshot-isolation"),
        ("consistent-view",),
    ),
    # Fekete, O'Neil and O'Neil (2004): without the third transaction it would be serial.
    "a transaction that only reads makes a snapshot anomaly": Hard(
        at_once((r("y"), a("y", 20)), (r("x"), r("y"), a("x", 3)), (r("x"), r("y", 20))),
        SER,
        ("G2-item",),
        ("repeatable-read",),
        ("snapshot-isolation",),
    ),
    "three antidependencies in a row and nothing else": Hard(
        at_once((r("x"), a("z", 1)), (r("y"), a("x", 2)), (r("z"), a("y", 3))),
        SER,
        ("G2-item",),
        ("repeatable-read",),
        ("snapshot-isolation",),
    ),
    # x=1 is before x=2, as the writer of 2 read what the writer of 1 wrote to y; else there were a G1c.
    "an order of versions that only saturation gives": Hard(
        at_once((w("x", 1), w("y", 1)), (g("y", 1), w("x", 2)), (g("x", 2), w("z", 3)), (g("z", 3), g("x", 1))),
        SER,
        ("G-single-item",),
        ("consistent-view",),
        ("read-committed",),
        "rw-register",
    ),
    # The order of x follows through y, that of z through x: 2 is read after 3 is known to have replaced it.
    "an order of versions that follows from another that followed": Hard(
        at_once(
            (w("x", 1), w("y", 1)),
            (g("y", 1), w("x", 2), w("z", 1)),
            (g("x", 2), w("z", 2), w("v", 1)),
            (g("v", 1), g("z", 1)),
        ),
        SER,
        ("G-single-item",),
        ("consistent-view",),
        ("read-committed",),
        "rw-register",
    ),
    "an aborted append in front of a committed one": Hard(
        (
            Txn(0, 0, 1, "fail", (a("x", 1),)),
            Txn(1, 2, 3, "ok", (a("x", 2),)),
            Txn(2, 4, 5, "ok", (r("x", 1, 2),)),
        ),
        SER,
        ("G1a", "dirty-update"),
        ("read-committed",),
    ),
    "an append that was not the last of its transaction, seen at the end of a list": Hard(
        at_once((a("x", 1), a("x", 2)), (r("x", 1),), (r("x", 1, 2),)),
        "read-committed",
        ("G1b",),
        ("read-committed",),
        ("read-uncommitted",),
    ),
    "the same append in the middle of a list is no G1b": Hard(
        at_once((a("x", 1), a("x", 2)), (r("x", 1, 2), a("y", 1)), (r("y", 1), a("x", 3)), (r("x", 1, 2, 3),)),
        STRICT,
        (),
    ),
    "two of one version wrote, and both committed": Hard(
        at_once((g("x", None), w("x", 1)), (g("x", None), w("x", 2)), (g("x", 1),)),
        SER,
        ("lost-update",),
        ("cursor-stability", "update-atomic"),
        ("read-committed",),
        "rw-register",
    ),
    "a compare-and-set that failed lost nothing": Hard(
        (
            Txn(0, 0, 9, "ok", (g("x", None), w("x", 1))),
            Txn(1, 1, 8, "fail", (g("x", None), w("x", 2))),
            Txn(2, 10, 11, "ok", (g("x", 1), w("x", 3))),
            Txn(3, 12, 13, "ok", (g("x", 3),)),
        ),
        STRICT,
        (),
        checker="rw-register",
    ),
    # The read of it proves that it committed; then the last read is stale by real time, and by nothing else.
    "an unknown outcome that must have happened since it was read": Hard(
        (
            Txn(0, 0, 1, "info", (a("x", 1),)),
            Txn(1, 2, 3, "ok", (r("x", 1), a("y", 2))),
            Txn(2, 4, 5, "ok", (r("x"),)),
        ),
        STRICT,
        ("G-single-item-realtime",),
        ("strong-snapshot-isolation",),
        (SER, SESSIONS),
    ),
    "an unknown outcome that nobody read need not have happened": Hard(
        (
            Txn(0, 0, 1, "info", (a("x", 1),)),
            Txn(1, 2, 3, "ok", (r("x"), a("y", 2))),
            Txn(2, 4, 5, "ok", (r("x"), r("y", 2), a("x", 3))),
            Txn(3, 6, 7, "ok", (r("x", 3),)),
        ),
        STRICT,
        (),
    ),
    "a cycle of reads through an unknown outcome": Hard(
        (
            Txn(0, 0, 1, "info", (a("x", 1),)),
            Txn(1, 2, 20, "ok", (r("x", 9, 1), a("y", 2))),
            Txn(2, 3, 21, "ok", (r("y", 2), a("x", 9))),
        ),
        "read-committed",
        ("G1c",),
        ("read-committed",),
        ("read-uncommitted",),
    ),
    "its own append is missing in what it reads next": Hard(
        at_once((a("x", 5), a("y", 1)), (r("x", 5), a("x", 1), r("x", 5)), (r("x", 5, 1), r("y", 1))),
        SER,
        ("internal",),
        ("read-atomic",),
        ("read-committed",),
    ),
    "its own append comes behind what others appended before": Hard(
        at_once((a("x", 5),), (a("x", 1), r("x", 5, 1), a("y", 2)), (r("y", 2), a("x", 7)), (r("x", 5, 1, 7),)),
        STRICT,
        (),
    ),
    "an old read in a process": Hard(
        (
            Txn(0, 0, 1, "ok", (a("x", 1),)),
            Txn(0, 2, 3, "ok", (r("x"), a("y", 2))),
            Txn(1, 4, 5, "ok", (r("x", 1), r("y", 2))),
        ),
        SESSIONS,
        ("G-single-item-process",),
        ("strong-session-snapshot-isolation",),
        (SER,),
    ),
    # p0 appended to y, then read x before p1 appended to it; p1 had read y before that append.
    "two antidependencies in a row that the order of a process closes": Hard(
        (
            Txn(0, 0, 1, "ok", (a("y", 2),)),
            Txn(1, 2, 30, "ok", (a("x", 1), r("y"))),
            Txn(0, 3, 4, "ok", (r("x"),)),
            Txn(2, 40, 41, "ok", (r("x", 1), r("y", 2))),
        ),
        SESSIONS,
        ("G2-item-process",),
        (SESSIONS,),
        (SER, "strong-session-snapshot-isolation"),
    ),
    "two appends in the order against that of real time": Hard(
        in_turn((a("x", 1),), (a("x", 2),), (r("x", 2, 1),)),
        STRICT,
        ("G0-realtime",),
        ("strong-read-uncommitted",),
        (SER,),
    ),
    # Neither append was ever read, so that their order is open; each comes after what was read last.
    "several appends that no read shows, and a read that comes later": Hard(
        in_turn((a("x", 1),), (a("x", 2),), (a("x", 3),), (r("x", 1),)),
        STRICT,
        ("G-single-item-realtime",),
        ("strong-snapshot-isolation",),
        (SER,),
    ),
    "one append twice in a list": Hard(
        at_once((a("x", 1),), (r("x", 1, 1), a("y", 1)), (r("y", 1), a("x", 2))),
        "read-uncommitted",
        ("duplicate-elements",),
        ("read-uncommitted",),
    ),
    "two reads of which neither is the beginning of the other": Hard(
        at_once((a("x", 1),), (a("x", 2),), (r("x", 1, 2),), (r("x", 2, 1),)),
        "read-committed",
        ("incompatible-order",),
        ("read-committed",),
    ),
    "it read what it wrote only later": Hard(
        at_once((g("x", 1), w("x", 1), w("y", 1)), (g("y", 1), w("y", 2))),
        SER,
        ("future-read",),
        ("read-committed",),
        checker="rw-register",
    ),
}


def judged(hard: Hard, model: str) -> Verdict:
    spec = CheckerSpec(hard.checker, {"consistency_models": [model]})
    [verdict] = engine.judge(to_table(ops_of(hard.txns)), [spec], None, weaker=False)
    return verdict


@pytest.mark.parametrize("name", HARD)
def test_a_hard_history_is_judged_as_derived_by_hand(name: str) -> None:
    hard = HARD[name]
    verdict = judged(hard, hard.model)
    assert verdict.valid == ("false" if hard.anomalies else "true"), verdict.sentence
    assert set(hard.anomalies) <= set(verdict.anomalies), verdict.anomalies
    assert not (hard.anomalies and verdict.inconclusive)
    ruled_out = [*verdict.evidence.get("not", ()), *verdict.evidence.get("also_not", ())]
    assert set(hard.weakest) <= set(verdict.evidence.get("not", ())), verdict.evidence.get("not")
    for model in hard.kept:
        assert model not in ruled_out
        assert judged(hard, model).valid == "true"


@pytest.mark.parametrize("name", [name for name, hard in HARD.items() if is_sound(hard.txns)])
def test_a_hard_history_is_by_the_definitions_as_derived_by_hand(name: str) -> None:
    hard = HARD[name]
    kept = {**satisfied(hard.txns), **{model: is_serial(hard.txns, model) for model in (SER, SESSIONS, STRICT)}}
    named = {STRICT: STRICT, **{model: model for model in kept}}
    assert kept[named[hard.model]] is not bool(hard.anomalies)
    assert not any(kept[model] for model in hard.weakest)
    assert all(kept[model] for model in hard.kept)


def test_a_cycle_that_a_barrier_closes_has_the_fewest_steps_and_names_none() -> None:
    hard = HARD["one antidependency, closed by a barrier"]
    [witness] = judged(hard, STRICT).evidence["anomalies"]["G-single-item-realtime"]
    assert sorted(step["kind"] for step in witness["steps"]) == ["realtime", "rw", "wr"]
    assert len(witness["transactions"]) == 3


NOTHING: dict[str, int] = {}
ONES = ["rp", ["=", 1]]


def test_a_long_fork_of_predicate_reads_is_no_cycle_of_items() -> None:
    table = history(
        ("init", {"x": 0, "y": 0}),
        ("txn", [["w", "x", 1]]),
        ("txn", [["w", "y", 1]]),
        ("txn", [[*ONES, {"x": 1}]]),
        ("txn", [[*ONES, {"y": 1}]]),
    )
    found = judge(table, SER)
    assert found.anomalies == ("G-nonadjacent",)
    assert set(found.evidence["not"]) == {"snapshot-isolation"}
    assert judge(table, "repeatable-read").valid == "true"


def test_a_phantom_that_only_real_time_shows_is_serializable() -> None:
    table = history(
        ("init", {"x": 0, "y": 0}),
        ("txn", [["w", "x", 1]]),
        ("txn", [[*ONES, NOTHING], ["w", "y", 2]]),
        at_once=False,
    )
    found = judge(table, STRICT)
    assert found.anomalies == ("G-single-realtime",)
    assert set(found.evidence["not"]) == {"strong-snapshot-isolation"}
    assert judge(table, SER).valid == "true"


def test_an_antidependency_that_rests_on_no_g1c_is_not_explained_by_a_key_that_was_nil() -> None:
    history = at_once(
        (w("y", 1),),
        (g("x", None), g("y", 1), g("z", 5)),
        (g("x", None), w("x", 2), g("y", 1), w("y", 3), w("z", 5)),
    )
    found = infer_registers(transactions_of(to_table(ops_of(history))), Assumptions())
    because = found.reasons.because(1, 2, derived(RW, NO_G1C, 0))
    assert (because.rule, found.transactions.key_names[because.key]) == ("read-modify-write", "y")
    assert because.shown >= 0
    assert found.reasons.because(1, 2, RW).rule == "initial"
