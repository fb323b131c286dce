"""The checker proves, refutes, and says when it saw nothing."""

from __future__ import annotations

import pytest

from splitbrain import Op
from splitbrain.harness.campaigns.starters.checker import Starter
from splitbrain.results.arrow import to_table


@pytest.mark.parametrize(("read", "valid"), [(1, "true"), (2, "false"), ("nothing", "unknown")])
def test_what_is_read_was_written(read: object, valid: str) -> None:
    ops = [
        Op(index=0, time=0, process=0, type="invoke", f="write", value=1),
        Op(index=1, time=1, process=0, type="ok", f="write", value=1),
    ]
    if read != "nothing":
        ops.append(Op(index=2, time=2, process=0, type="invoke", f="read"))
        ops.append(Op(index=3, time=3, process=0, type="ok", f="read", value=read))
    assert Starter().check(to_table(ops), {}).valid == valid
