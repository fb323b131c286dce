"""Histories of many kinds of anomalies, with what each shows by hand: from lines, and once more from a stored file.

Unknown outcomes, aborted reads, reads inside a transaction, elements twice, empty reads, and keys never read.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from splitbrain.checkers import engine
from splitbrain.checkers.verdict import CheckerSpec, Outcome, Verdict, outcome
from splitbrain.results.arrow import write_parquet
from splitbrain.results.summarized import summarized
from tests.checkers.transactions.test_isolation_checkers import history

LISTS, REGISTERS = "list-append", "rw-register"
OPEN = "open"


class Case(NamedTuple):
    """A history, the model that it is judged by, and what is found at the least; None: it is inconclusive."""

    checker: str
    model: str
    text: str
    anomalies: frozenset[str] | None


def at_once(*transactions: tuple[str, str]) -> str:
    """Transactions of as many processes, all invoked before any completes; what is OPEN never does."""
    lines = [
        (f"{process} invoke {_asked(mops)}", f"{process} {end} {_done(end, mops)}", end)
        for process, (end, mops) in enumerate(transactions)
    ]
    return "\n".join([*(line for line, _, _ in lines), *(line for _, line, end in lines if end != OPEN)])


def in_turn(*transactions: tuple[str, str]) -> str:
    """Transactions of as many processes, one after the other."""
    return "\n".join(
        f"{process} invoke {_asked(mops)}\n{process} {end} {_done(end, mops)}"
        for process, (end, mops) in enumerate(transactions)
    )


def _asked(mops: str) -> str:
    return re.sub(r"(\[:r \S+) (\[[^\]]*\]|\S+?)\]", r"\1 nil]", mops)


def _done(end: str, mops: str) -> str:
    return mops if end == "ok" else _asked(mops)


def lists(model: str, text: str, *anomalies: str) -> Case:
    return Case(LISTS, model, text, frozenset(anomalies))


def registers(model: str, text: str, *anomalies: str) -> Case:
    return Case(REGISTERS, model, text, frozenset(anomalies))


CASES: dict[str, Case] = {
    "G1a via middle element": lists(
        "serializable",
        at_once(("fail", "[[:append x 1]]"), ("ok", "[[:append x 2]]"), ("ok", "[[:r x [1 2]]]")),
        "G1a",
        "dirty-update",
    ),
    "aborted read only in one reader, other reader w/o it": lists(
        "serializable",
        at_once(("fail", "[[:append x 1]]"), ("ok", "[[:append x 2]]"), ("ok", "[[:r x [1]]]"), ("ok", "[[:r x [2]]]")),
        "G1a",
        "incompatible-order",
    ),
    "appended once by one that failed and once by one of unknown outcome": lists(
        "serializable",
        at_once(("fail", "[[:append x 1] [:append x 2]]"), ("info", "[[:append x 1]]"), ("ok", "[[:r x [1 2]]]")),
        "G1a",
    ),
    "info read then proven; second unread info": lists(
        "strict-serializable",
        at_once(("info", "[[:append x 1] [:append y 9]]"), ("ok", "[[:r x [1]] [:r y []]]")),
        "G-single-item",
    ),
    "info txn partially visible (x yes, y no) sequential": lists(
        "read-committed", at_once(("info", "[[:append x 1] [:append y 9]]"), ("ok", "[[:r x [1]] [:r y []]]"))
    ),
    "open txn read": lists(
        "strict-serializable",
        at_once(("open", "[[:append x 1]]"), ("ok", "[[:r x [1]] [:append x 2]]"), ("ok", "[[:r x [1 2]]]")),
    ),
    "intermediate read G1b by last elt": lists(
        "read-committed",
        at_once(("ok", "[[:append x 1] [:append x 2]]"), ("ok", "[[:r x [1]]]"), ("ok", "[[:r x [1 2]]]")),
        "G1b",
    ),
    "G0 two keys lists": lists(
        "read-uncommitted",
        at_once(
            ("ok", "[[:append x 1] [:append y 1]]"),
            ("ok", "[[:append x 2] [:append y 2]]"),
            ("ok", "[[:r x [1 2]] [:r y [2 1]]]"),
        ),
        "G0",
    ),
    "a write without a read beside one that read that there was nothing": registers(
        "snapshot-isolation",
        at_once(("ok", "[[:r x nil] [:w x 1] [:w y 5]]"), ("ok", "[[:w x 2] [:r y nil]]"), ("ok", "[[:r y 5]]")),
        "G-single-item",
    ),
    "first of two appends of one transaction lost": lists(
        "read-committed",
        in_turn(("ok", "[[:append x 1] [:append x 2]]"), ("ok", "[[:r x [2]]]"), ("ok", "[[:append x 3]]")),
        "incompatible-order",
    ),
    "two appends of an unknown outcome in the wrong order, behind them another one": lists(
        "serializable",
        at_once(("info", "[[:append x 1] [:r y nil] [:append x 2]]"), ("ok", "[[:append x 3] [:r x [2 1 3]]]")),
        "incompatible-order",
    ),
    "interleaved appends of one key": lists(
        "read-uncommitted",
        at_once(("ok", "[[:append x 1] [:append x 3]]"), ("ok", "[[:append x 2]]"), ("ok", "[[:r x [1 2 3]]]")),
        "G0",
    ),
    "internal: own read wrong then other own": lists(
        "read-atomic", at_once(("ok", "[[:append x 1] [:r x [2]]]"), ("ok", "[[:append x 2]]")), "internal"
    ),
    "internal: read, read different": lists(
        "serializable", at_once(("ok", "[[:r x []] [:r x [1]]]"), ("ok", "[[:append x 1]]")), "internal"
    ),
    "internal: nonrepeatable shrink": lists(
        "serializable",
        at_once(("ok", "[[:r x [1 2]] [:r x [1]]]"), ("ok", "[[:append x 1]]"), ("ok", "[[:append x 2]]")),
        "internal",
    ),
    "future read in list": lists(
        "serializable", at_once(("ok", "[[:r x [1]] [:append x 1]]"), ("ok", "[[:r x [1]]]")), "future-read"
    ),
    "own append missing at end": lists(
        "serializable", at_once(("ok", "[[:append x 1] [:r x [1 2]]]"), ("ok", "[[:append x 2]]")), "internal"
    ),
    "dup in longer list of one": lists(
        "serializable",
        at_once(("ok", "[[:append x 1]]"), ("ok", "[[:append x 2]]"), ("ok", "[[:r x [1 2 1]]]")),
        "duplicate-elements",
    ),
    "same value appended by two txns": Case(
        LISTS,
        "serializable",
        at_once(("ok", "[[:append x 1]]"), ("ok", "[[:append x 1]]"), ("ok", "[[:r x [1]]]")),
        None,
    ),
    "same txn appends value twice": Case(
        LISTS, "serializable", at_once(("ok", "[[:append x 1] [:append x 1]]"), ("ok", "[[:r x [1 1]]]")), None
    ),
    "fail wrote value, ok wrote same value later": lists(
        "serializable", at_once(("fail", "[[:append x 1]]"), ("ok", "[[:append x 1]]"), ("ok", "[[:r x [1]]]"))
    ),
    "write skew 3-cycle": lists(
        "serializable",
        at_once(
            ("ok", "[[:r x []] [:append y 1]]"),
            ("ok", "[[:r y []] [:append z 1]]"),
            ("ok", "[[:r z []] [:append x 1]]"),
        ),
        "G2-item",
    ),
    "write skew under SI ok": lists(
        "snapshot-isolation",
        at_once(
            ("ok", "[[:r x []] [:append y 1]]"), ("ok", "[[:r y []] [:append x 1]]"), ("ok", "[[:r x [1]] [:r y [1]]]")
        ),
    ),
    "write skew RR not ok": lists(
        "repeatable-read", at_once(("ok", "[[:r x []] [:append y 1]]"), ("ok", "[[:r y []] [:append x 1]]")), "G2-item"
    ),
    "long fork PSI fine": lists(
        "snapshot-isolation",
        at_once(
            ("ok", "[[:append x 1]]"),
            ("ok", "[[:append y 1]]"),
            ("ok", "[[:r x [1]] [:r y []]]"),
            ("ok", "[[:r x []] [:r y [1]]]"),
        ),
        "G-nonadjacent-item",
    ),
    "lost update lists": lists(
        "snapshot-isolation",
        at_once(("ok", "[[:r x []] [:append x 1]]"), ("ok", "[[:r x []] [:append x 2]]"), ("ok", "[[:r x [1 2]]]")),
        "G-single-item",
    ),
    "lost update, unread both": lists(
        "serializable",
        at_once(("ok", "[[:r x []] [:append x 1]]"), ("ok", "[[:r x []] [:append x 2]]")),
        "G-single-item",
        "lost-update",
    ),
    "lost update with info unread ok": lists(
        "strict-serializable",
        at_once(("ok", "[[:r x []] [:append x 1]]"), ("info", "[[:r x []] [:append x 2]]"), ("ok", "[[:r x [1]]]")),
    ),
    "stale empty read": lists(
        "strict-serializable", in_turn(("ok", "[[:append x 1]]"), ("ok", "[[:r x []]]")), "G-single-item-realtime"
    ),
    "stale nil read for list": lists(
        "strict-serializable", in_turn(("ok", "[[:append x 1]]"), ("ok", "[[:r x nil]]")), "G-single-item-realtime"
    ),
    "garbage": lists("serializable", in_turn(("ok", "[[:append x 1]]"), ("ok", "[[:r x [1 7]]]")), "garbage-read"),
    "empty txns": Case(LISTS, "serializable", in_turn(("ok", "[]"), ("ok", "[]")), None),
    "reads only": Case(LISTS, "serializable", in_turn(("ok", "[[:r x []]]"), ("ok", "[[:r x []]]")), None),
    "string vs int key": lists(
        "serializable",
        at_once(("ok", "[[:append 1 1]]"), ("ok", '[[:append "1" 2]]'), ("ok", '[[:r 1 [1]] [:r "1" [2]]]')),
    ),
    "G1c two txns": lists(
        "read-committed", at_once(("ok", "[[:append x 1] [:r y [1]]]"), ("ok", "[[:append y 1] [:r x [1]]]")), "G1c"
    ),
    "G1c ww wr": lists(
        "read-committed",
        at_once(
            ("ok", "[[:append x 1] [:append y 1]]"), ("ok", "[[:append x 2] [:r y [1]]]"), ("ok", "[[:r x [2 1]]]")
        ),
        "G1c",
    ),
    "realtime G1c": lists(
        "strict-serializable", in_turn(("ok", "[[:r x [1]]]"), ("ok", "[[:append x 1]]")), "G1c-realtime"
    ),
    "prefix incompat w/ fail": lists(
        "read-committed",
        at_once(
            ("ok", "[[:append x 1]]"),
            ("ok", "[[:append x 2]]"),
            ("fail", "[[:append x 3]]"),
            ("ok", "[[:r x [1 2]]]"),
            ("ok", "[[:r x [1 3]]]"),
        ),
        "G1a",
        "incompatible-order",
    ),
    "rw lost update": registers(
        "snapshot-isolation",
        at_once(("ok", "[[:r x nil] [:w x 1]]"), ("ok", "[[:r x nil] [:w x 2]]"), ("ok", "[[:r x 1]]")),
        "lost-update",
    ),
    "rw G1b": registers("read-committed", at_once(("ok", "[[:w x 1] [:w x 2]]"), ("ok", "[[:r x 1]]")), "G1b"),
    "rw internal": registers("serializable", at_once(("ok", "[[:w x 1] [:r x 2]]"), ("ok", "[[:w x 2]]")), "internal"),
    "rw internal rr": registers(
        "serializable", at_once(("ok", "[[:r x 1] [:r x 2]]"), ("ok", "[[:w x 2]]"), ("ok", "[[:w x 1]]")), "internal"
    ),
    "rw G-single via nil": registers(
        "serializable", at_once(("ok", "[[:w x 1] [:w y 1]]"), ("ok", "[[:r x 1] [:r y nil]]")), "G-single-item"
    ),
    "rw skew": registers(
        "serializable", at_once(("ok", "[[:r x nil] [:w y 1]]"), ("ok", "[[:r y nil] [:w x 1]]")), "G2-item"
    ),
    "rw aborted rmw chain": registers(
        "serializable", at_once(("fail", "[[:w x 1]]"), ("ok", "[[:r x 1] [:w x 2]]"), ("ok", "[[:r x 2]]")), "G1a"
    ),
    "rw write-write cycle by reads": registers(
        "serializable",
        at_once(("ok", "[[:w x 1] [:w y 1]]"), ("ok", "[[:w x 2] [:w y 2]]"), ("ok", "[[:r x 1] [:r y 2]]")),
        "G-single-item",
    ),
    "rw final fork": registers(
        "serializable",
        at_once(
            ("ok", "[[:w x 1] [:w y 1]]"),
            ("ok", "[[:w x 2] [:w y 2]]"),
            ("ok", "[[:r x 1] [:w z 1]]"),
            ("ok", "[[:r x 1] [:r y 2]]"),
            ("ok", "[[:r x 2] [:r y 1]]"),
        ),
        "G-single-item",
    ),
    "rw nil after value in session": registers(
        "strong-session-serializable",
        "0 invoke [[:w x 1]]\n"
        "0 ok [[:w x 1]]\n"
        "0 invoke [[:r x nil]]\n"
        "0 ok [[:r x nil]]\n"
        "1 invoke [[:r x nil]]\n"
        "1 ok [[:r x 1]]",
        "G-single-item-process",
    ),
    "rw info writes, then two reads go back": registers(
        "strict-serializable",
        "0 invoke [[:w x 1]]\n"
        "0 info [[:w x 1]]\n"
        "1 invoke [[:r x nil]]\n"
        "1 ok [[:r x 1]]\n"
        "1 invoke [[:r x nil]]\n"
        "1 ok [[:r x nil]]",
        "G-single-item-realtime",
    ),
    "rw non-monotonic RC Awdit": registers(
        "strong-session-monotonic-atomic-view",
        at_once(("ok", "[[:w x 1] [:w y 1]]"), ("ok", "[[:r x 1] [:w x 2] [:w y 2]]"), ("ok", "[[:r x 2] [:r y 1]]")),
        "non-monotonic-read",
    ),
    "rw fractured": registers(
        "read-atomic", at_once(("ok", "[[:w x 1] [:w y 1]]"), ("ok", "[[:r x 1] [:r y nil]]")), "fractured-read"
    ),
    "rw causal": registers(
        "causal",
        "0 invoke [[:w x 1]]\n"
        "0 ok [[:w x 1]]\n"
        "1 invoke [[:r x nil] [:w y 1]]\n"
        "1 ok [[:r x 1] [:w y 1]]\n"
        "2 invoke [[:r y nil]]\n"
        "2 ok [[:r y 1]]\n"
        "2 invoke [[:r x nil]]\n"
        "2 ok [[:r x nil]]",
        "causal-violation-process",
    ),
    "rw dup write read": Case(
        REGISTERS, "serializable", at_once(("ok", "[[:w x 1]]"), ("ok", "[[:w x 1]]"), ("ok", "[[:r x 1]]")), None
    ),
    "rw write null-ish false": registers(
        "serializable",
        at_once(("ok", "[[:w x false]]"), ("ok", "[[:r x false] [:w y 1]]"), ("ok", "[[:r y 1] [:r x nil]]")),
        "G-single-item",
    ),
}


def judged(case: Case, history: Any) -> Verdict:
    spec = CheckerSpec(case.checker, {"consistency_models": [case.model]})
    [verdict] = engine.judge(history, [spec])
    assert "crashes" not in verdict.evidence, verdict.evidence["crashes"]
    return verdict


@pytest.mark.parametrize("name", CASES)
def test_a_history_shows_what_it_shows_by_hand(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    table = history(case.text)
    found = judged(case, table)
    if case.anomalies is None:
        assert outcome([found]) is Outcome.INCONCLUSIVE
    else:
        assert case.anomalies <= set(found.anomalies), found.anomalies
        assert found.valid == ("false" if case.anomalies else "true"), found.sentence
    write_parquet(table, tmp_path / "history.parquet")
    stored = summarized(tmp_path / "history.parquet")
    assert stored is not None
    again = judged(case, stored)
    assert (again.valid, again.anomalies) == (found.valid, found.anomalies)
