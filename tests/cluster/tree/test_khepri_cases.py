"""Khepri's own tests as data: every case holds, or differs for a reason that is written down."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.tree.conformance import main, read_cases, run_case
from tests.cluster.tree.differences import DIFFERENCES

CORPORA = os.environ.get("SPLITBRAIN_CORPORA")
FOLDER = Path(CORPORA or ".") / "khepri-cases"
CASES = read_cases(FOLDER) if CORPORA is not None and FOLDER.exists() else []

needs_cases = pytest.mark.skipif(not CASES, reason="SPLITBRAIN_CORPORA is not set: no cases here")


@needs_cases
def test_there_are_as_many_cases_as_the_manifest_says() -> None:
    assert len(CASES) == 252
    assert len({case["id"] for case in CASES}) == 252


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_a_case_holds_or_differs_for_a_reason(case: dict[str, Any]) -> None:
    outcome = run_case(case)
    assert outcome.problem is None or outcome.reason is not None, outcome.problem
    assert not (outcome.problem is None and case["id"] in DIFFERENCES), "the table says that it differs, and it holds"


def broken_case(step: dict[str, Any]) -> dict[str, Any]:
    return {"id": "broken", "steps": [{"op": "put", "path": ["a"], "payload": {"data": 1}}, step]}


@pytest.mark.parametrize(
    "step",
    [
        {"op": "get", "path": ["a"], "expect": {"ok": {"data": 2}}},
        {"op": "get", "path": ["a"], "expect": {"error": {"name": "node_not_found"}}},
        {"op": "get", "adv": True, "path": ["a"], "expect": {"ok": {"nodes": []}}},
        {"op": "get", "adv": True, "path": ["a"], "expect": {"ok": {"nodes": [{"path": ["a"], "data": 1}]}}},
        {"op": "get", "path": ["b"], "expect": {"error": {"name": "node_not_found", "info": {"node_name": "a"}}}},
        {"op": "count", "path": ["a"], "expect": {"ok": 2}},
        {"op": "tree", "expect": {"tree": {"payload_version": 1, "child_list_version": 1, "children": []}}},
        {"op": "no_such_operation", "expect": {"ok": True}},
        {"op": "put", "path": ["b"], "expect": {"ok": True}},
        {"op": "get", "path": 1, "expect": {"ok": True}},
        {"expect": {"ok": True}},
    ],
)
def test_a_case_that_expects_something_else_does_not_hold(step: dict[str, Any]) -> None:
    assert run_case(broken_case(step)).problem is not None


def test_the_command_counts_and_ends_with_one_if_a_case_differs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "some.json").write_text(
        '{"format": 1, "theme": "t", "cases": ['
        '{"id": "good", "steps": [{"op": "is_empty", "expect": {"ok": true}}]},'
        '{"id": "bad", "steps": [{"op": "is_empty", "expect": {"ok": false}}]}]}'
    )
    assert main(tmp_path) == 1
    said = capsys.readouterr().out
    assert said.startswith("1 of 2 cases hold.\nbad: step 1 (is_empty) gave")


@pytest.mark.parametrize(
    ("text", "problem"),
    [("{", "is no JSON"), ('{"format": 2, "cases": []}', "format 2"), ('{"format": 1, "cases": [1]}', "id")],
)
def test_a_file_of_another_format_is_refused_by_name(text: str, problem: str, tmp_path: Path) -> None:
    (tmp_path / "odd.json").write_text(text)
    with pytest.raises(ValueError, match=rf"odd\.json.*{problem}"):
        read_cases(tmp_path)
