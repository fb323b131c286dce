"""Why a run is inconclusive: codes and classes for machines, root causes first for people."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from splitbrain.checkers import engine
from splitbrain.checkers.spark.verdict_rows import verdict_rows
from splitbrain.checkers.stored import ready
from splitbrain.checkers.verdict import Outcome, Verdict, outcome, reasons
from splitbrain.harness.campaigns.judging import judge_inline, stored_document
from splitbrain.harness.campaigns.words import sentences
from splitbrain.results.history import HARNESS, Op
from splitbrain.results.judgement import plain_verdict
from splitbrain.results.reasons import CAUSES, Cause, Code, Reason, in_order, reason_of, reasons_of
from splitbrain.results.report.page import render
from splitbrain.results.report.run_view import load
from splitbrain.results.rundir import RunDir
from splitbrain.results.store import Store

KILLED: dict[str, Any] = {
    "nodes": ["n1"],
    "options": {"workload": "records"},
    "checkers": [
        {"name": "recovery", "options": {}},
        {"name": "stats", "options": {}},
        {"name": "coverage", "options": {"fs": ["write"]}},
    ],
}


def killed_run(root: Path, document: dict[str, Any] = KILLED) -> RunDir:
    """A run whose controller died in the faults phase: a write-ahead file without its end."""
    run = Store(root).create("killed", 1, document, 1_760_000_000_000_000_000)
    writer = run.history_writer()
    writer.record(Op(index=0, time=0, process=HARNESS, type="info", f="phase", value={"phase": "faults"}))
    for number in range(20):
        for place, how in enumerate(("invoke", "ok")):
            index = 1 + 2 * number + place
            writer.record(Op(index=index, time=index * 10**8, process=0, type=how, f="write", value=number, node="n1"))
    writer.flush()
    run.release()
    return RunDir(run.path)


def test_every_code_has_a_class_and_the_machine_is_never_the_test() -> None:
    assert set(CAUSES) == set(Code)
    assert CAUSES[Code.MACHINE_BUSY] is Cause.MACHINE
    assert {CAUSES[code] for code in (Code.TOO_FEW_OPS, Code.NO_FAULT, Code.READS_SAW_NOTHING)} == {Cause.TEST}


def test_root_causes_come_first_and_no_sentence_twice() -> None:
    told = [
        Reason(Code.RECOVERY_NOT_SEEN, "d"),
        Reason(Code.TOO_FEW_OPS, "b"),
        Reason(Code.TOO_FEW_OPS, "a"),
        Reason(Code.TOO_FEW_OPS, "b"),
        Reason(Code.CONTROLLER_KILLED, "c"),
    ]
    assert [reason.sentence for reason in in_order(told)] == ["c", "d", "b", "a"]


def test_a_verdict_of_an_older_version_is_read() -> None:
    old = {"valid": True, "inconclusive": ["no fault took place although the test asks for faults."]}
    unknown = {"valid": "unknown", "sentence": "Unknown: time ran out."}
    assert [(found.code, found.sentence) for found in reasons_of([unknown, old])] == [
        (Code.UNDECIDED, "Unknown: time ran out."),
        (Code.OTHER, "no fault took place although the test asks for faults."),
    ]


def test_a_code_of_a_newer_version_is_read_as_another_reason() -> None:
    assert reason_of({"code": "moon-phase", "sentence": "It was full."}) == Reason(Code.OTHER, "It was full.")


def test_a_reason_keeps_its_code_on_its_way_back_from_spark_and_into_the_file() -> None:
    verdict = Verdict(checker="c", valid="true", inconclusive=(Reason(Code.NO_FAULT, "none struck.", "Wait."),))
    row = verdict_rows("r", [(0, verdict)]).to_pylist()[0]["verdict"]
    assert engine.decode(row) == verdict
    plain = json.loads(json.dumps(plain_verdict(verdict)))
    assert plain["inconclusive"] == [
        {"code": "no-fault", "sentence": "none struck.", "advice": "Wait.", "class": "test"}
    ]


def test_a_plug_in_may_say_it_in_a_plain_sentence() -> None:
    plain: Any = ("too little",)
    verdict = Verdict(checker="c", valid="true", inconclusive=plain)
    assert [(found.code, found.sentence) for found in verdict.inconclusive] == [(Code.OTHER, "too little")]
    assert engine.decode(engine.encode(verdict)) == verdict


@pytest.mark.parametrize("sentence", ["", "Unknown: it is hard."])
def test_an_unknown_is_always_a_reason(sentence: str) -> None:
    verdict = Verdict(checker="c", valid="unknown", sentence=sentence)
    assert outcome([verdict]) is Outcome.INCONCLUSIVE
    assert [found.code for found in reasons([verdict])] == [Code.UNDECIDED]


def test_a_run_whose_controller_was_killed_says_that_first(tmp_path: Path) -> None:
    run = killed_run(tmp_path)
    concluded = judge_inline(run)
    assert concluded.outcome is Outcome.INCONCLUSIVE
    assert "the controller of this run was killed" in sentences(concluded.verdicts)[0]
    document: Any = stored_document(run)
    first = document["reasons"][0]
    assert (first["code"], first["class"]) == ("controller-killed", "harness")
    assert [found["code"] for found in document["reasons"]][1:] == ["recovery-not-seen", "recovery-not-seen"]
    stored = run.read_verdicts()
    assert stored is not None
    assert stored.reasons == document["reasons"]
    html = render(load(run.path)).html
    assert html.index("The controller of this run was killed") < html.index("before recovery could be checked")


def test_it_says_so_again_when_it_is_judged_again_and_without_a_checker_of_coverage(tmp_path: Path) -> None:
    run = killed_run(tmp_path, {**KILLED, "checkers": [{"name": "stats", "options": {}}]})
    for _ in range(2):
        concluded = judge_inline(RunDir(run.path))
        assert reasons(concluded.verdicts)[0].code is Code.CONTROLLER_KILLED
    assert [spec.name for spec in ready(run.path).specs] == ["stats", "coverage"]
    verdicts = engine.judge_each(run.history(), ready(run.path).specs)
    assert reasons(verdicts)[0].code is Code.CONTROLLER_KILLED
