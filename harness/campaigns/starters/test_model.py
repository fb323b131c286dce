"""Histories that the model allows, and one that it does not."""

from __future__ import annotations

import pytest

from splitbrain import Op
from splitbrain.checkers.linearizable import Linearizable
from splitbrain.results.arrow import to_table

MODEL = "splitbrain.harness.campaigns.starters.model:Starter"


@pytest.mark.parametrize(("read", "valid"), [(7, "true"), (3, "false")])
def test_a_read_gives_the_largest_value_written(read: int, valid: str) -> None:
    done = [("write", 7, 7), ("write", 3, 3), ("read", None, read)]
    ops: list[Op] = []
    for f, value, result in done:
        ops.append(Op(index=len(ops), time=len(ops), process=0, type="invoke", f=f, value=value))
        ops.append(Op(index=len(ops), time=len(ops), process=0, type="ok", f=f, value=result))
    assert Linearizable().check(to_table(ops), {"model": MODEL}).valid == valid
