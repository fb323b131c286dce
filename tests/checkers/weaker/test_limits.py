"""Asking for weaker models costs a fixed number of steps, whatever the history, and never changes a verdict."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from splitbrain.checkers import engine
from splitbrain.checkers.linearizable.limits import Budget
from splitbrain.checkers.models import model
from splitbrain.checkers.registry import checker
from splitbrain.checkers.verdict import CheckerSpec, Outcome, Verdict
from splitbrain.checkers.weaker import models
from splitbrain.checkers.weaker.calls import read_calls
from splitbrain.checkers.weaker.work import STEPS, OutOfWorkError, Work
from splitbrain.results.arrow import to_table
from splitbrain.results.columns import array
from splitbrain.results.history import Op
from tests.checkers.weaker.support import NAMES, decided, history, numbered

CAS = CheckerSpec("linearizable", {"model": "cas-register"})


def judged(ops: list[Op], spec: CheckerSpec = CAS, **options: Any) -> Verdict:
    [verdict] = engine.judge(to_table(ops), [spec], **options)
    return verdict


def stale(count: int, *, clients: int = 10, values: int = 5) -> list[Op]:
    """So many ops of clients that write and read by turns; every thousandth read is stale."""
    ops: list[Op] = []
    held = before = 0
    for number in range(count):
        process = number % clients
        if number % 2 == 0:
            before, held = held, (held + 1) % values
            call = Op(process=process, type="invoke", f="write", key="k", value=held)
            ops += [call, call.complete("ok", held)]
        else:
            call = Op(process=process, type="invoke", f="read", key="k")
            ops += [call, call.complete("ok", before if number % 1000 == 999 else held)]
    return numbered(ops)


def hard(processes: int, ops: int) -> list[Op]:
    """Processes that each write the same few values in another order, and one that reads what none of it leads to."""
    lines = [" ".join(f"x={(number * (each + 1)) % 3 + 1}" for number in range(ops)) for each in range(processes)]
    return history(*lines, "x=4 " + "x=1 x:4 " * 6)


@pytest.mark.slow
def test_a_huge_violated_history_does_not_take_more_than_its_steps() -> None:
    part = to_table(stale(1_000))
    table = pa.concat_tables([part] * 100)
    rows = array(np.arange(table.num_rows))
    for name in ("index", "time"):
        table = table.set_column(table.column_names.index(name), name, rows)
    calls = read_calls(table, model("cas-register"))
    assert len(calls.chain) == 100_000
    work = Work(Budget(float("inf")))
    answer = models.decide(calls, model("cas-register"), work)
    assert 100_000 < work.steps <= STEPS
    assert answer.why_not or NAMES["SC"] in answer.holds


def test_what_took_too_many_steps_is_not_decided_and_a_true_answer_never_turns_with_fewer() -> None:
    ops = hard(4, 7)
    fewer = {steps: decided(ops, steps=steps).holds for steps in (50, 500, 5_000, 50_000)}
    known = decided(ops, steps=10_000_000).holds
    assert fewer[50] == {}
    for holds in fewer.values():
        assert holds.items() <= known.items()


def test_work_ends_at_its_steps_and_at_its_time() -> None:
    work = Work(Budget(float("inf")), 10)
    work.spend(10)
    with pytest.raises(OutOfWorkError, match="steps"):
        work.spend(1)
    assert work.steps == 10
    over = Work(Budget(0.0))
    with pytest.raises(OutOfWorkError, match="long"):
        over.spend(100_000)


def test_a_history_of_too_many_rows_is_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models, "ROWS_MAX", 5)
    told = judged(history("x=1 x=2", "x:1"))
    assert told.evidence["models"]["undecided"] == [NAMES[name] for name in ("SC", "CM", "CCv", "CC")]
    assert "a history of more than 5 rows is not searched again" in told.sentence


def test_a_verdict_keeps_all_that_it_is_and_says_more() -> None:
    ops = history("x=1 x=2", "x:1")
    plain, more = judged(ops, weaker=False), judged(ops)
    assert (plain.valid, more.valid) == ("false", "false")
    assert more.sentence == f"{plain.sentence} {more.evidence['models']['sentence']}"
    assert {name: each for name, each in more.evidence.items() if name != "models"} == plain.evidence
    assert (more.anomalies, more.figures, more.inconclusive) == (plain.anomalies, plain.figures, plain.inconclusive)


def test_only_a_violation_of_linearizability_is_asked() -> None:
    assert "models" not in judged(history("x=1 x:1")).evidence
    lost = numbered([call for op in ("add", "read") for call in _set_op(op)])
    verdict = judged(lost, CheckerSpec("set"))
    assert verdict.valid == "false"
    assert "models" not in verdict.evidence


def _set_op(f: str) -> list[Op]:
    call = Op(process=0, type="invoke", f=f, value=1 if f == "add" else None)
    return [call, call.complete("ok", 1 if f == "add" else [])]


def test_a_process_with_two_ops_at_once_has_no_session() -> None:
    one = Op(process=0, type="invoke", f="write", key="x", value=1)
    other = Op(process=0, type="invoke", f="read", key="y")
    ops = numbered([one, other, one.complete("ok", 1), other.complete("ok", 7)])
    verdict = judged(ops)
    assert verdict.valid == "false"
    assert "the processes of the run are no sessions" in verdict.sentence


def test_where_asking_breaks_the_violation_stays_and_the_crash_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def broke(*_: Any) -> Verdict:
        raise RuntimeError("a defect")

    monkeypatch.setattr("splitbrain.checkers.weaker.with_models", broke)
    verdict = judged(history("x=1 x=2", "x:1"))
    assert verdict.valid == "false"
    assert engine.judged_outcome([verdict])[0] is Outcome.VIOLATION
    assert "a defect" in str(engine.crashed([verdict]))


def test_the_order_that_proves_a_run_sequential_can_be_followed_by_hand() -> None:
    ops = history("x=1 x=2 y=1", "y:1 x:2", "x:1 y:")
    verdict = judged(ops)
    found = verdict.evidence["models"]
    by_index = {op.index: op for op in ops}
    held: dict[str | None, Any] = {}
    last: dict[int, int] = {}
    assert sorted(found["order"]) == [op.index for op in ops if op.type == "ok"]
    for index in found["order"]:
        op = by_index[index]
        assert last.get(op.process, -1) < index
        last[op.process] = index
        if op.f == "write":
            held[op.key] = op.value
        else:
            assert held.get(op.key) == op.value


@pytest.mark.parametrize("name", ["mutex", "fifo-queue"])
def test_of_a_model_that_is_no_register_sequential_consistency_is_decided(name: str) -> None:
    first, second = ("acquire", "release") if name == "mutex" else ("enqueue", "dequeue")
    calls = [(0, first, 1), (0, first, 2), (1, second, 1)]
    ops: list[Op] = []
    for process, f, value in calls:
        call = Op(process=process, type="invoke", f=f, value=value if f == "enqueue" else None)
        ops += [call, call.complete("ok", value if name == "fifo-queue" else None)]
    late = Op(process=1, type="invoke", f=second)
    ops += [late, late.complete("ok", 2 if name == "fifo-queue" else None)]
    early = decided(numbered(ops), name)
    assert early.holds[NAMES["SC"]] is True
    twice = decided(numbered([*ops, late, late.complete("ok", 9 if name == "fifo-queue" else None)]), name)
    assert twice.holds == {NAMES["SC"]: False}
    assert name in twice.why_not


def test_an_answer_that_a_compare_and_set_did_not_match_counts_for_sequential_consistency() -> None:
    write = Op(process=0, type="invoke", f="write", key="x", value=1)
    miss = Op(process=1, type="invoke", f="cas", key="x", value=[1, 2])
    read = Op(process=1, type="invoke", f="read", key="x")
    before = numbered([read, read.complete("ok", 1), miss, miss.complete("ok", False), write, write.complete("ok", 1)])
    assert decided(before).holds == {NAMES["SC"]: False}
    after = numbered([miss, miss.complete("ok", False), read, read.complete("ok", 1), write, write.complete("ok", 1)])
    assert decided(after).holds[NAMES["SC"]] is True


def test_the_checker_of_linearizability_is_recognised() -> None:
    assert engine.is_linearizability(checker("linearizable"))
    assert not engine.is_linearizability(checker("stats"))
