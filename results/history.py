"""The history format that everything shares: one `Op` for every invocation and every completion.

A history is a list of ops in the order in which they happened. A client's op is an `invoke` followed by at most one
completion of the same process: `ok` (it happened), `fail` (it certainly did not), `info` (unknown). A process
whose op ended in `info` never acts again: its successor takes the id `process + concurrency`, on the same node. The
nemesis and the harness itself are processes with negative ids; they may overlap client ops at will.

On disk (`splitbrain.results.arrow`) the columns have the fields' names. `value` is canonical JSON there; here it is any
value that JSON can carry (`splitbrain.results.values` says which are equal).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final, Literal

import msgspec

from splitbrain.results.errors import HistoryFormatError

OpType = Literal["invoke", "ok", "fail", "info"]

FORMAT_VERSION: Final = 2
"""Of `history.parquet` and `telemetry.parquet`. 1: micro-operations without summaries of the lists that they read."""

NEMESIS: Final = -1
"""The process of the fault injector."""

HARNESS: Final = -2
"""The process under which the harness records what happened to itself (a stall of the controller, a phase change)."""


class Mop(msgspec.Struct, frozen=True):
    """One micro-operation of a transaction: a read (`r`), a write (`w`) or an append (`append`) of one key."""

    f: str
    key: str
    value: int | None = None
    values: tuple[int, ...] | None = None


class Op(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One event of a history.

    Attributes:
        index: position in the history, from 0 without gaps.
        time: nanoseconds since the test began.
        due: of a client's invocation that a schedule asked for: when it should have begun, on the same scale. It began
            later if no client was free. None where there is no schedule.
        process: the logical single-threaded actor; negative ones are not clients.
        type: invoke, ok, fail or info.
        f: the function, e.g. "read".
        key: the independent key that the op is about, or None.
        value: argument of an invocation, result of a completion; what JSON can carry.
        mops: micro-operations, for transactions.
        node: the node that the client contacted.
        term: the consensus term in which the answer was given, where the system reports it.
        error: why a `fail` or an `info` came about, in the client's words.
    """

    index: int = -1
    time: int = -1
    process: int
    type: OpType
    f: str
    key: str | None = None
    value: Any = None
    mops: tuple[Mop, ...] | None = None
    node: str | None = None
    term: int | None = None
    error: str | None = None
    due: int | None = None

    def complete(
        self,
        type: OpType,
        value: Any = None,
        *,
        mops: tuple[Mop, ...] | None = None,
        term: int | None = None,
        error: str | None = None,
    ) -> Op:
        """The completion of this invocation, with its process, function, key and node; its mops if none are given."""
        return Op(
            process=self.process,
            type=type,
            f=self.f,
            key=self.key,
            value=value,
            mops=self.mops if mops is None else mops,
            node=self.node,
            term=term,
            error=error,
        )


class Pair(msgspec.Struct, frozen=True):
    """An invocation with its completion; None where the history ends before it."""

    invoke: Op
    completion: Op | None


def pairs(history: Iterable[Op], source: str = "history") -> Iterator[Pair]:
    """Client ops as (invocation, completion), in the order of their completions, the open ones last by invocation.

    Raises:
        HistoryFormatError: a completion without an invocation, or two invocations of one process at once.
    """
    open_by_process: dict[int, Op] = {}
    for op in history:
        if op.process < 0:
            continue
        if op.type == "invoke":
            if op.process in open_by_process:
                raise HistoryFormatError(
                    source,
                    f"op {op.index}: process {op.process} invokes while its op "
                    f"{open_by_process[op.process].index} is still open",
                )
            open_by_process[op.process] = op
        else:
            invoke = open_by_process.pop(op.process, None)
            if invoke is None:
                raise HistoryFormatError(
                    source, f"op {op.index}: process {op.process} completes an op that it never invoked"
                )
            yield Pair(invoke, op)
    for invoke in sorted(open_by_process.values(), key=lambda op: op.index):
        yield Pair(invoke, None)
