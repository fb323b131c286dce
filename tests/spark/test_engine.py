from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from splitbrain.checkers import engine, registry
from splitbrain.checkers.verdict import CheckerSpec, Outcome
from splitbrain.results import arrow
from splitbrain.results.errors import HistoryFormatError, UnknownNameError, UsageError
from splitbrain.results.history import Op

from .support import REGISTER, SET, keyed, numbered, register_history, set_history

FRAGILE = CheckerSpec("misbehaving:Fragile")


def test_each_checker_gives_one_verdict_in_the_order_asked_for() -> None:
    table = arrow.to_table(register_history(1, keys=5, ops_per_key=20, stale=[3]))
    verdicts = engine.judge(table, REGISTER)
    assert [(verdict.checker, verdict.valid) for verdict in verdicts] == [
        ("linearizable", "false"),
        ("stats", "true"),
        ("coverage", "true"),
    ]
    assert verdicts[0].evidence["failing_keys"] == ["3"]
    assert engine.judged_outcome(verdicts)[0] is Outcome.VIOLATION


def test_partitions_by_key_hold_the_clients_ops_of_one_key_each_smallest_first() -> None:
    other = [Op(process=-1, type="info", f="kill", key="a"), Op(process=-2, type="info", f="stall")]
    ops = numbered([*keyed("a", "b", "a"), *other, *keyed(None, "c", "c", "c", None, "b", "b", "b")])
    table = arrow.to_table(ops)
    for history in (table, table.take(list(range(len(ops)))[::-1])):
        parts = [arrow.from_table(part) for part in engine.by_key(history)]
        assert [len(part) for part in parts] == sorted(len(part) for part in parts)
        assert {part[0].key: part for part in parts} == {
            key: [op for op in ops if op.key == key and op.process >= 0] for key in ("a", "b", "c", None)
        }
    assert list(engine.by_key(table.slice(0, 0))) == []


def test_a_checker_that_breaks_hides_neither_itself_nor_what_others_found(misbehaving: None) -> None:
    table = arrow.to_table(numbered([*keyed("good", "bad1", "bad2"), *set_history(3, lost=[1])]))
    fragile, sets = engine.judge(table, [FRAGILE, CheckerSpec("set")])
    assert fragile.valid == "unknown"
    assert fragile.sentence == (
        "Unknown: checker 'misbehaving:Fragile' broke while judging 2 rows of the history of key 'bad1': "
        "ZeroDivisionError: cannot divide bad1 by zero (and 1 more such)"
    )
    assert "ZeroDivisionError" in fragile.evidence["crashes"][0]["traceback"]
    assert sets.valid == "false"
    assert engine.judged_outcome([fragile]) == (Outcome.HARNESS_ERROR, fragile.sentence.removeprefix("Unknown: "))
    assert engine.judged_outcome([fragile, sets])[0] is Outcome.VIOLATION


def test_a_violation_in_one_key_stands_although_the_checker_broke_in_another(misbehaving: None) -> None:
    [verdict] = engine.judge(arrow.to_table(keyed("bad", "wrong", "good")), [FRAGILE])
    assert (verdict.valid, verdict.sentence) == ("false", "merged")
    assert len(verdict.evidence["crashes"]) == 1
    assert engine.judged_outcome([verdict])[0] is Outcome.VIOLATION


@pytest.mark.parametrize(("keys", "valid"), [(("good",), "unknown"), (("good", "wrong"), "false")])
def test_a_checker_that_breaks_while_merging_keeps_a_violation(
    misbehaving: None, keys: tuple[str, ...], valid: str
) -> None:
    [verdict] = engine.judge(arrow.to_table(keyed(*keys)), [CheckerSpec("misbehaving:Unmergeable")])
    assert verdict.valid == valid
    assert "no idea how" in str(engine.crashed([verdict]))


@pytest.mark.parametrize(("forgets", "where"), [("check", ""), ("merge", "merge of ")])
def test_a_checker_that_returns_no_verdict_is_broken_and_named(misbehaving: None, forgets: str, where: str) -> None:
    spec = CheckerSpec("misbehaving:Forgetful", {"forgets": forgets})
    [verdict] = engine.judge(arrow.to_table(keyed("a")), [spec])
    assert verdict.valid == "unknown"
    assert f"{where}checker 'misbehaving:Forgetful' returned None; it must return a Verdict" in verdict.sentence


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("Nameless", "is not a checker: name is missing or wrong"),
        ("Partless", "is not a checker: partition is missing or wrong"),
        ("Mergeless", "is not a checker: merge is missing or wrong"),
        ("Wanting", "missing a required argument: 'what'"),
    ],
)
def test_what_lacks_a_part_of_a_checker_is_refused_before_a_run(misbehaving: None, name: str, problem: str) -> None:
    with pytest.raises(UsageError, match=f"misbehaving:{name}.*{problem}"):
        registry.check_spec(f"misbehaving:{name}", {})


def test_a_verdict_that_cannot_be_stored_is_a_broken_checker(misbehaving: None) -> None:
    [verdict] = engine.judge(arrow.to_table(keyed("a")), [CheckerSpec("misbehaving:Unspeakable")])
    assert verdict.valid == "unknown"
    assert "a verdict cannot hold a object" in verdict.sentence


def test_figures_may_be_numpys(misbehaving: None) -> None:
    [verdict] = engine.judge(arrow.to_table(keyed("a")), [CheckerSpec("misbehaving:Numeric")])
    assert verdict.figures == {"ops": 2, "all": [0, 1]}


def test_wrong_requests_are_refused_before_anything_is_judged(misbehaving: None) -> None:
    table = arrow.to_table(keyed("a"))
    with pytest.raises(UnknownNameError, match=r"no checker 'linearisable'\. Did you mean 'linearizable'"):
        engine.judge(table, [CheckerSpec("linearisable")])
    with pytest.raises(UsageError, match="cannot be imported"):
        engine.judge(table, [CheckerSpec("misbehaving:Absent")])
    with pytest.raises(UsageError, match="is not a checker"):
        engine.judge(table, [CheckerSpec("splitbrain.checkers.verdict:worst")])
    with pytest.raises(UsageError):
        engine.judge(table, [CheckerSpec("linearizable", {"model": "no such model"})])
    with pytest.raises(HistoryFormatError):
        engine.judge(table.drop_columns(["process"]), [CheckerSpec("stats")])


def test_specs_come_from_a_test_document_or_are_missed() -> None:
    document = {"checkers": [{"name": "linearizable", "options": {"model": "register"}}, {"name": "stats"}]}
    assert engine.specs_of(document, "run") == (
        CheckerSpec("linearizable", {"model": "register"}),
        CheckerSpec("stats"),
    )
    wrongs: list[dict[str, Any]] = [{}, {"checkers": "stats"}, {"checkers": [{"options": {}}]}]
    wrongs.append({"checkers": [{"name": "stats", "kptions": {}}]})  # a flipped bit must not take the options away
    for wrong in wrongs:
        with pytest.raises(HistoryFormatError, match=r"run: test\.json does not say"):
            engine.specs_of(wrong, "run")


@pytest.mark.parametrize("name", registry.CHECKERS)
def test_every_checker_that_is_listed_exists_under_its_name(name: str) -> None:
    assert registry.checker(name).name == name


def test_listing_checkers_imports_none_of_the_heavy_libraries() -> None:
    heavy = "{'numba', 'pyarrow', 'numpy', 'pyspark'}"
    script = f"import sys, splitbrain.checkers.registry; print(sorted({heavy} & sys.modules.keys()))"
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, check=True).stdout == b"[]\n"


def test_rows_of_a_file_in_any_order_are_judged_by_their_index() -> None:
    history = arrow.to_table(set_history(20, lost=[17]))
    backwards = history.take(list(range(history.num_rows))[::-1])
    for specs in (SET, [CheckerSpec("quorum-progress")]):
        one, other = engine.judge(backwards, specs)[0], engine.judge(history, specs)[0]
        assert (one.valid, one.sentence, one.evidence) == (other.valid, other.sentence, other.evidence)
        assert "crashes" not in one.evidence
