"""Deciders call a partition linearizable in which no op took effect."""

from __future__ import annotations

from typing import Final

import pytest

from splitbrain.checkers import models
from splitbrain.checkers.linearizable.deciders import DECIDERS, decide
from splitbrain.checkers.linearizable.ops import read_ops
from splitbrain.results.arrow import to_table
from tests.checkers.linearizable.decided import Row, history_of

CALLED: Final = {
    "register": "write",
    "cas-register": "cas",
    "read-modes": "write",
    "kv": "put",
    "create-once": "create",
    "set": "add",
    "grow-set": "add",
    "counter": "add",
    "unique-ids": "generate",
    "fifo-queue": "enqueue",
    "unordered-queue": "enqueue",
    "stack": "push",
    "priority-queue": "enqueue",
}
"""A function of each model that has deciders."""


def failing(f: str) -> list[Row]:
    return [(0, "invoke", f, 1), (0, "fail", f, 1)]


def test_every_model_with_deciders_is_tried() -> None:
    assert set(CALLED) == set(DECIDERS)


@pytest.mark.parametrize("failed", [0, 1, 3])
@pytest.mark.parametrize("name", sorted(DECIDERS))
def test_no_op_or_only_failed_ops_are_linearizable(name: str, failed: int) -> None:
    f, model = CALLED[name], models.model(name)
    history = history_of(*(row for _ in range(failed) for row in failing(f)))
    found = decide(read_ops(to_table(history), model), model)
    assert found is None or found[1].valid
