"""Whether an order of ops is a linearization of a history, by the definition."""

from __future__ import annotations

from collections.abc import Sequence

from splitbrain.checkers.linearizable.ops import Ops
from splitbrain.checkers.models import IMPOSSIBLE, Model


def assert_linearization(ops: Ops, model: Model, order: Sequence[int]) -> None:
    """Every op that completed is there once, none before an op that returned before its call; the model agrees."""
    assert len(set(order)) == len(order)
    assert set(range(len(ops.crashed))) - set(order) <= {op for op in range(len(ops.crashed)) if ops.crashed[op]}
    latest_call = -1
    for op in order:
        latest_call = max(latest_call, int(ops.invoked[op]))
        assert ops.crashed[op] or latest_call < ops.completed[op], f"op {op} returned before an earlier one was called"
    state = model.init()
    for op in order:
        what = ops.transitions[int(ops.transition[op])]
        state = model.step(state, what.f, what.value, what.result)
        assert state is not IMPOSSIBLE, f"op {op}: {what}"
