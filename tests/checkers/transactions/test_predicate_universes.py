"""The checker `predicates`: each universe is judged by itself, and the run by the worst of them."""

from __future__ import annotations

from typing import Any

import pytest

from splitbrain.checkers import engine
from splitbrain.checkers.verdict import CheckerSpec, Verdict
from splitbrain.results.arrow import to_table
from splitbrain.results.history import Op

GOOD: tuple[Any, ...] = (
    ([["rp", "true", {"x": 1}], ["w", "x", 2]], [["rp", ["=", 2], {}]]),
    ([["rp", "true", {"x": 2}]], [["rp", "true", {"x": 2}]]),
)
"""Transactions of two processes, that are one at a time."""

SKEW = (([["rp", "true", {"x": 1}], ["insert", "a", 3]], [["rp", "true", {"x": 1}], ["insert", "b", 3]]),)
"""Each of both reads all objects, sees none of the other's, and inserts one."""


def history(**universes: Any) -> list[Op]:
    """Universes one after the other; the transactions of a pair are at once if they both insert."""
    ops: list[Op] = []

    def add(kind: Any, process: int, f: str, key: str, value: Any) -> None:
        ops.append(Op(index=len(ops), time=len(ops), process=process, type=kind, f=f, key=key, value=value))

    for key, pairs in universes.items():
        add("invoke", 0, "init", key, {"x": 1})
        add("ok", 0, "init", key, {"x": 1})
        for pair in pairs:
            at_once = all(steps[-1][0] == "insert" for steps in pair)
            for process, steps in enumerate(pair):
                add("invoke", process, "txn", key, [[f, k, None if f == "rp" else v] for f, k, v in steps])
                if not at_once:
                    add("ok", process, "txn", key, steps)
            for process, steps in enumerate(pair if at_once else ()):
                add("ok", process, "txn", key, steps)
    return ops


def judged(model: str = "serializable", **universes: Any) -> Verdict:
    [verdict] = engine.judge(
        to_table(history(**universes)), [CheckerSpec("predicates", {"consistency_models": [model]})]
    )
    return verdict


def test_a_run_of_sound_universes_passes() -> None:
    verdict = judged(u=GOOD, v=GOOD)
    assert (verdict.valid, verdict.inconclusive) == ("true", ()), verdict.sentence
    assert (verdict.figures["universes"], verdict.figures["transactions"]) == (2, 10)


def test_one_broken_universe_breaks_the_run_and_is_named_with_its_witness() -> None:
    verdict = judged(u=GOOD, v=SKEW)
    assert (verdict.valid, verdict.anomalies) == ("false", ("G2",))
    assert verdict.sentence.startswith("Universe v: Not serializable: G2.")
    assert (verdict.evidence["key"], verdict.evidence["keys"]) == ("v", ["v"])
    [witness] = verdict.evidence["anomalies"]["G2"]
    cited = {each["invoked"] for each in witness["transactions"]}
    assert {op.key for op in history(u=GOOD, v=SKEW) if op.index in cited} == {"v"}
    assert "serializable" in [*verdict.evidence["not"], *verdict.evidence["also_not"]]


def test_a_universe_that_proves_too_little_does_not_matter_beside_one_that_proves_enough() -> None:
    assert judged(u=()).valid == "unknown"
    assert judged(u=()).inconclusive
    beside = judged(u=(), v=GOOD)
    assert (beside.valid, beside.inconclusive) == ("true", ())


@pytest.mark.parametrize(
    ("model", "is_judged"),
    [("serializable", True), ("strict-serializable", True), ("strong-session-serializable", False)],
)
def test_the_order_of_processes_between_universes_is_said_not_to_be_judged(model: str, is_judged: bool) -> None:
    verdict = judged(model, u=GOOD, v=GOOD)
    assert [reason.code.value for reason in verdict.inconclusive] == ([] if is_judged else ["not-judged"])


def test_a_history_without_a_universe_is_unknown() -> None:
    [verdict] = engine.judge(to_table([]), [CheckerSpec("predicates", {})])
    assert (verdict.valid, bool(verdict.inconclusive)) == ("unknown", True)
