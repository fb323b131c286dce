"""The models of the documentation judge as their docstrings say, by the command that is given there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from splitbrain.checkers import models
from splitbrain.checkers.linearizable import check_ops
from splitbrain.results.history import Op
from tests.cli.support import splitbrain

Call = tuple[str, Any, Any]


def sequential(*calls: Call) -> list[Op]:
    """A history of ops that follow one another; a result of ... is one that nobody knows."""
    ops: list[Op] = []
    for process, (f, value, result) in enumerate(calls):
        invocation = Op(process=process, type="invoke", f=f, value=value)
        ops += [invocation, invocation.complete("info") if result is ... else invocation.complete("ok", result)]
    return ops


@pytest.mark.parametrize(
    ("calls", "valid"),
    [
        ([("deposit", 50, None), ("withdraw", 120, True), ("balance", None, -70)], "true"),
        ([("deposit", 50, None), ("withdraw", 151, False), ("balance", None, 50)], "true"),
        ([("deposit", 50, None), ("withdraw", 151, True)], "false"),
        ([("deposit", 50, None), ("withdraw", 120, False)], "false"),
        ([("withdraw", 60, ...), ("withdraw", 60, ...), ("balance", None, -60)], "true"),
        ([("withdraw", 60, ...), ("withdraw", 60, ...), ("balance", None, -120)], "false"),
    ],
)
def test_an_account_pays_what_its_overdraft_allows(calls: list[Call], valid: str) -> None:
    assert check_ops(sequential(*calls), models.model("examples.own_model:Account(100)")).valid == valid


@pytest.mark.parametrize(
    ("calls", "valid"),
    [
        ([("acquire", None, 1), ("holds", 1, True), ("holds", 1, False), ("acquire", None, 2)], "true"),
        ([("acquire", None, 1), ("acquire", None, 2), ("holds", 2, True)], "true"),
        ([("acquire", None, 1), ("acquire", None, 2), ("holds", 1, True)], "false"),
        ([("acquire", None, 1), ("holds", 1, False), ("holds", 1, True)], "false"),
        ([("acquire", None, 1), ("release", 1, True), ("holds", 1, True)], "false"),
        ([("acquire", None, 1), ("acquire", None, ...), ("holds", 1, True)], "true"),
        ([("acquire", None, 1), ("acquire", None, ...), ("acquire", None, 3), ("holds", 1, True)], "false"),
        ([("acquire", None, 1), ("acquire", None, 3)], "false"),
    ],
)
def test_a_lease_may_run_out_but_no_token_holds_beside_a_later_one(calls: list[Call], valid: str) -> None:
    assert check_ops(sequential(*calls), models.model("examples.own_model:Lease")).valid == valid


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "calls", "code"),
    [
        ("examples.own_model:Account(100)", [("withdraw", 100, True)], 0),
        ("examples.own_model:Lease", [("acquire", None, 1), ("acquire", None, 2), ("holds", 1, True)], 1),
    ],
)
def test_the_command_line_takes_a_model_of_ones_own(tmp_path: Path, model: str, calls: list[Call], code: int) -> None:
    history = tmp_path / "history.jsonl"
    lines = [{"process": op.process, "type": op.type, "f": op.f, "value": op.value} for op in sequential(*calls)]
    history.write_text("".join(json.dumps(line) + "\n" for line in lines))
    done = splitbrain("check", "--model", model, str(history), cwd=tmp_path)
    assert done.returncode == code, done.stdout + done.stderr
