"""RabbitMQ's own tests of quorum queues as data: every case holds, or differs for a reason that is written down."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.queues.conformance import main, read_cases, run_case
from tests.cluster.queues.differences import DIFFERENCES

CORPORA = os.environ.get("SPLITBRAIN_CORPORA")
FOLDER = Path(CORPORA or ".") / "rabbit-fifo-cases"
CASES = read_cases(FOLDER) if CORPORA is not None and FOLDER.exists() else []

needs_cases = pytest.mark.skipif(not CASES, reason="SPLITBRAIN_CORPORA is not set: no cases here")


@needs_cases
def test_there_are_as_many_cases_as_the_manifest_says() -> None:
    assert len(CASES) == 110
    assert len({case["id"] for case in CASES}) == 110


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_a_case_holds_or_differs_for_a_reason(case: dict[str, Any]) -> None:
    outcome = run_case(case)
    assert outcome.problem is None or outcome.reason is not None, outcome.problem
    assert not (outcome.problem is None and case["id"] in DIFFERENCES), "the table says that it differs, and it holds"


@needs_cases
def test_qq_6_every_case_holds_when_the_queue_is_written_down_and_read_again_after_each_step() -> None:
    assert [case["id"] for case in CASES if run_case(case, restores=True) != run_case(case)] == []


ENQUEUED = {"index": 1, "op": "enqueue", "pid": "p@n", "seq": 1, "msg": "a"}
ATTACHED = {"index": 2, "op": "attach", "consumer": "c", "life": "auto", "mode": {"prefetch": 1}}


def case(*steps: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"id": "some", "config": {}, "consumers": {"c": "p@n"}, "steps": list(steps), **more}


@pytest.mark.parametrize(
    "expected",
    [
        {"reply": "not_enqueued"},
        {"deliveries": {"c": [{"msg": "b"}]}},
        {"sends": [{"to": "p@n", "queue_status": "go"}]},
        {"sends_include": [{"to": "p@n", "queue_status": "go"}]},
        {"cancelled": ["c"]},
        {"monitors": []},
        {"activity": [{"consumer": "c"}]},
        {"dead_letters": [{"reason": "maxlen", "strategy": "disabled", "count": 1}]},
        {"dlx_deliveries": [{"id": 0}]},
        {"dlx_confirmed": 1},
        {"state": {"total": 2}},
        {"state": {"ready": []}},
        {"state": {"returned": ["a"]}},
        {"state": {"enqueuers": {}}},
        {"state": {"consumers": {"c": {}}}},
        {"state": {"num_ready": 0}},
        {"state": {"active": "c"}},
        {"state": {"config": {"limit": 1}}},
    ],
)
def test_a_case_that_expects_something_else_does_not_hold(expected: dict[str, Any]) -> None:
    for weight in ("expect", "also"):
        outcome = run_case(case(ENQUEUED | {weight: expected}))
        assert outcome.problem is not None
        assert weight in outcome.problem
        assert outcome.reason is None


def test_a_case_with_other_messages_with_a_consumer_does_not_hold() -> None:
    held = {"consumers": {"c": {"checked_out": {"0": {"msg": "a"}}}}}
    assert run_case(case(ENQUEUED, ATTACHED | {"expect": {"state": held}})).problem is None
    for wrong in ({}, {"1": {"msg": "a"}}, {"0": {"msg": "b"}}, {"0": {"failed": 1}}):
        step = ATTACHED | {"expect": {"state": {"consumers": {"c": {"checked_out": wrong}}}}}
        assert run_case(case(ENQUEUED, step)).problem is not None


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        (case({"op": "no_such_operation"}), "no operation 'no_such_operation'"),
        (case(ENQUEUED | {"colour": 1}), "has colour"),
        (case(ENQUEUED | {"expect": {"colour": 1}}), "has 'colour'"),
        (case(ENQUEUED | {"expect": {"state": {"colour": 1}}}), "has 'colour'"),
        (case(ENQUEUED, colour=1), "has colour"),
        (case(config={"colour": 1}), "has colour"),
        (case({"op": "enqueue", "index": 1, "pid": "p@n", "seq": 1}), "lacks 'msg'"),
        (case({"op": "purge"}), "lacks its index"),
        (case(ENQUEUED | {"pid": "p"}), "'p' is no process"),
        (case(ATTACHED | {"consumer": "d"}), "no consumer 'd'"),
        (case(ATTACHED | {"mode": {"colour": 1}}), "no mode"),
        (case(ATTACHED | {"life": "short"}), "makes no command"),
        (case(ENQUEUED, ENQUEUED), "index 1 comes after 1"),
    ],
)
def test_what_is_not_of_the_format_is_one_clear_error(broken: dict[str, Any], words: str) -> None:
    outcome = run_case(broken)
    assert outcome.problem is not None
    assert "not understood" in outcome.problem
    assert words in outcome.problem
    assert outcome.reason is None


@pytest.mark.parametrize("flag", ["upstream_defect", "order_dependent"])
def test_a_case_that_shows_a_defect_or_an_order_that_is_free_need_not_hold(flag: str) -> None:
    outcome = run_case(case(ENQUEUED | {"expect": {"reply": "not_enqueued"}}, **{flag: True}))
    assert outcome.problem is not None
    assert outcome.reason is not None


@pytest.mark.parametrize("flag", ["check_requirement", "later", "derived", "adapted"])
def test_a_case_with_another_flag_must_hold(flag: str) -> None:
    assert run_case(case(ENQUEUED | {"expect": {"reply": "not_enqueued"}}, **{flag: True})).reason is None


def test_the_command_counts_and_ends_with_one_if_a_case_differs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(tmp_path) == 1
    (tmp_path / "some.json").write_text(
        '{"format": 1, "theme": "t", "cases": ['
        '{"id": "good", "config": {}, "consumers": {}, "steps": [{"op": "purge", "index": 1, "expect":'
        ' {"reply": {"purged": 0}}}]},'
        '{"id": "bad", "config": {}, "consumers": {}, "steps": [{"op": "purge", "index": 1, "expect":'
        ' {"reply": {"purged": 1}}}]}]}'
    )
    assert main(tmp_path) == 1
    printed = capsys.readouterr().out
    assert "1 of 2 cases hold." in printed
    assert "bad: step 1 (purge), expect: reply" in printed
    (tmp_path / "other.json").write_text('{"format": 2, "cases": []}')
    with pytest.raises(ValueError):
        main(tmp_path)
