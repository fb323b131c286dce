"""The events of a search: every call and return once, in the order of their rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from splitbrain.checkers import models
from splitbrain.checkers.linearizable.encoding import SPARSE, events
from splitbrain.checkers.linearizable.frontier import CALL, CALL_OBSERVER, RETURN
from splitbrain.checkers.linearizable.ops import Ops, read_ops
from splitbrain.results.arrow import to_table
from tests.checkers.linearizable.decided import Row, history_of

WRITES = 4


def writes_at_once() -> Ops:
    """Writes that overlap, and end in the order in which they began."""
    rows: list[Row] = [(i, "invoke", "write", i) for i in range(WRITES)]
    rows.extend((i, "ok", "write", None) for i in range(WRITES))
    return read_ops(to_table(history_of(*rows)), models.model("register"))


def told(ops: Ops) -> list[tuple[int, int]]:
    problem = events(ops, np.zeros(len(ops.transitions), np.bool_))
    return [*zip(problem.events.kind.tolist(), problem.op.tolist(), strict=True)]


CALLS = [(CALL, op) for op in range(WRITES)]
RETURNS = [(RETURN, op) for op in range(WRITES)]


def test_ops_that_end_in_one_row_all_end() -> None:
    """Part of a history may be taken up to a row in which several ops are said to end: none of them is lost."""
    ops = writes_at_once()
    ends = int(ops.completed[0])
    assert told(ops) == CALLS + RETURNS
    assert told(replace(ops, completed=np.full(WRITES, ends))) == CALLS + RETURNS
    assert told(replace(ops, completed=np.array([ends, ends + 1, ends, ends]))) == [
        *CALLS,
        *(RETURNS[op] for op in (0, 2, 3, 1)),
    ]


def test_an_op_that_begins_in_the_row_in_which_another_ends_begins_first() -> None:
    ops = writes_at_once()
    invoked, completed = np.array([0, 1, 2, 4]), np.array([4, 5, 6, 7])
    assert told(replace(ops, invoked=invoked, completed=completed)) == [*CALLS, *RETURNS]


@pytest.mark.parametrize("far", [1, SPARSE, 1000 * SPARSE, 1 << 40])
def test_events_far_apart_are_in_order_without_room_for_the_rows_between(far: int) -> None:
    ops = writes_at_once()
    apart = replace(ops, invoked=far + far * ops.invoked, completed=far + far * ops.completed)
    assert told(apart) == CALLS + RETURNS


def test_ops_of_which_none_is_told_make_no_events() -> None:
    ops = writes_at_once()
    none = events(ops, np.ones(len(ops.transitions), np.bool_), obliged=np.zeros(WRITES, np.bool_))
    assert len(none.op) == none.slots == 0
    assert CALL_OBSERVER not in none.events.kind
