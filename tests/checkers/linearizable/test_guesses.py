"""In which order the depth-first arm tries ops: one guess at a time."""

from __future__ import annotations

import numpy as np

from splitbrain.checkers import models
from splitbrain.checkers.linearizable.guesses import ranks
from splitbrain.checkers.linearizable.ops import read_ops
from splitbrain.results.arrow import to_table
from splitbrain.results.history import Op
from tests.checkers.linearizable.decided import history_of


def tried(model: str, history: list[Op], f: str) -> list[str]:
    """Ops of one function in the order in which they are tried; none of the ops crashed."""
    chosen = models.model(model)
    ops = read_ops(to_table(history), chosen)
    observer = np.array([chosen.observes(t.f, t.value, t.result) for t in ops.transitions], np.bool_)
    live = np.arange(len(ops.invoked))
    rank = ranks(ops, chosen.init(), observer, live, ops.completed.astype(np.int32))
    order = np.argsort(rank, kind="stable")
    what = [ops.transitions[int(ops.transition[op])] for op in order]
    return [str(transition.value) for transition in what if transition.f == f]


def test_ops_are_tried_by_return() -> None:
    history = history_of(
        (0, "invoke", "write", 1),
        (1, "invoke", "write", 2),
        (1, "ok", "write", 2),
        (0, "ok", "write", 1),
    )
    assert tried("register", history, "write") == ["2", "1"]


def test_values_are_put_in_the_order_in_which_they_are_taken() -> None:
    history = history_of(
        (0, "invoke", "enqueue", 1),
        (1, "invoke", "enqueue", 2),
        (2, "invoke", "enqueue", 3),
        (0, "ok", "enqueue", 1),
        (1, "ok", "enqueue", 2),
        (2, "ok", "enqueue", 3),
        (0, "invoke", "dequeue", None),
        (0, "ok", "dequeue", 3),
        (0, "invoke", "dequeue", None),
        (0, "ok", "dequeue", 2),
        (0, "invoke", "dequeue", None),
        (0, "ok", "dequeue", 1),
    )
    assert tried("fifo-queue", history, "enqueue") == ["3", "2", "1"]


def test_pieces_are_appended_in_the_order_in_which_they_are_shown_and_others_at_last() -> None:
    history = history_of(
        (0, "invoke", "append", "1"),
        (1, "invoke", "append", "11"),
        (2, "invoke", "append", "2"),
        (3, "invoke", "append", "3"),
        (3, "ok", "append", "3"),
        (0, "ok", "append", "1"),
        (4, "invoke", "get", None),
        (1, "ok", "append", "11"),
        (2, "ok", "append", "2"),
        (4, "ok", "get", "2111"),
    )
    assert tried("kv", history, "append") == ["2", "1", "11", "3"]


def test_pieces_that_nobody_saw_come_before_the_put_that_hid_them() -> None:
    history = history_of(
        (0, "invoke", "append", "a"),
        (1, "invoke", "append", "b"),
        (2, "invoke", "put", "x"),
        (1, "ok", "append", "b"),
        (2, "ok", "put", "x"),
        (0, "ok", "append", "a"),
        (3, "invoke", "get", None),
        (3, "ok", "get", "xa"),
        (3, "invoke", "append", "c"),
        (3, "ok", "append", "c"),
    )
    assert tried("kv", history, "append") == ["b", "a", "c"]
