"""Building small histories by hand and at random, as tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import pyarrow as pa
from hypothesis import strategies as st

from splitbrain.results.arrow import to_table
from splitbrain.results.history import Op, OpType

SECOND = 1_000_000_000

Call: TypeAlias = tuple[str, Any, Any, OpType | Literal["open"]]
"""Function, argument, result, and how it ends; "open": never."""


class Script:
    """A history, written op by op: each event happens one tenth of a second after the one before it."""

    def __init__(self, nodes: int = 5) -> None:
        self.ops: list[Op] = []
        self.nodes = nodes

    def event(
        self,
        process: int,
        how: OpType,
        f: str,
        value: Any = None,
        *,
        key: str | None = None,
        node: str | None = None,
        term: int | None = None,
        error: str | None = None,
        time_s: float | None = None,
    ) -> Op:
        """Append one event."""
        index = len(self.ops)
        time = index * SECOND // 10 if time_s is None else round(time_s * SECOND)
        if node is None and process >= 0:
            node = f"n{process % self.nodes + 1}"
        op = Op(
            index=index,
            time=time,
            process=process,
            type=how,
            f=f,
            value=value,
            key=key,
            node=node,
            term=term,
            error=error,
        )
        self.ops.append(op)
        return op

    def call(
        self,
        process: int,
        f: str,
        value: Any = None,
        result: Any = None,
        *,
        how: OpType = "ok",
        key: str | None = None,
        term: int | None = None,
        error: str | None = None,
    ) -> None:
        """Append an invocation and, at once, its completion."""
        self.event(process, "invoke", f, value, key=key)
        self.event(process, how, f, value if result is None else result, key=key, term=term, error=error)

    def table(self) -> pa.Table:
        """The history as a table."""
        return to_table(self.ops)


@st.composite
def interleavings(draw: st.DrawFn, calls: Sequence[Call]) -> list[Op]:
    """A history in which the calls overlap at random.

    Each call is a process of its own: real time alone orders them.
    """
    script = Script()
    crowded = draw(st.booleans())  # everything begins before anything ends: what only shows between elements
    waiting, running = list(range(len(calls))), list[int]()
    while waiting or running:
        start = bool(waiting) and (not running or crowded or draw(st.booleans()))
        pool = waiting if start else running
        call = pool.pop(draw(st.integers(0, len(pool) - 1)))
        f, value, result, how = calls[call]
        if start:
            script.event(call, "invoke", f, value)
            if how != "open":
                running.append(call)
        elif how != "open":
            script.event(call, how, f, result if how == "ok" else value)
    return script.ops
