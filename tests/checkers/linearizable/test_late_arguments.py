"""A write whose invocation has no value, and whose completion says what was written, as some recorders have it."""

from __future__ import annotations

import pytest

from splitbrain.checkers import models
from splitbrain.checkers.linearizable.ops import read_ops
from splitbrain.results.arrow import to_table
from splitbrain.results.history import OpType
from tests.checkers.linearizable.decided import Row, history_of
from tests.checkers.linearizable.support import search


def rows(completed: int | None, read: int | None, end: OpType = "ok") -> list[Row]:
    return [
        (0, "invoke", "write", None),
        (0, end, "write", completed),
        (1, "invoke", "read", None),
        (1, "ok", "read", read),
    ]


@pytest.mark.parametrize("model", ["register", "cas-register"])
@pytest.mark.parametrize(
    ("completed", "read", "valid"),
    [(1, 1, True), (1, None, False), (1, 2, False), (None, None, True), (None, 1, False)],
)
def test_what_a_write_wrote_its_completion_may_say(
    model: str, completed: int | None, read: int | None, valid: bool
) -> None:
    history = history_of(*rows(completed, read))
    assert (search(models.model(model), history)[0].answer == "linearizable") is valid


def test_what_a_completion_of_unknown_outcome_says_does_not_count() -> None:
    ops = read_ops(to_table(history_of(*rows(1, None, "info"))), models.model("register"))
    assert ops.transitions[ops.transition[0]].value is None
