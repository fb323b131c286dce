"""Where the runner writes down what happens: every op gets its place and its time here, the moment it happens."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from splitbrain.harness.contract.clock import Clock
from splitbrain.results.history import HARNESS, Mop, Op, OpType


class Recorder(Protocol):
    """Keeps ops. `splitbrain.results.wal.HistoryWriter` is one."""

    def record(self, op: Op) -> None:
        """Take an op, in the order of indexes; it is on the hot path and must not wait."""
        ...

    def flush(self) -> None:
        """Make what was recorded survive the death of this process."""
        ...


class Journal:
    """Assigns index and time, passes ops to the recorder and to the observer, and counts client completions.

    Attributes:
        started_ns: what the clock showed when the test began; an op's time counts from there.
        recorded: how many rows the history has so far.
        invoked: how many ops clients began.
        completed: how many client ops ended in each way.
    """

    def __init__(self, clock: Clock, recorder: Recorder, observe: Callable[[Op], None] | None) -> None:
        self._now_ns = clock.now_ns
        self._record = recorder.record
        self._observe = observe
        self.flush = recorder.flush
        self.started_ns = clock.now_ns()
        self.recorded = 0
        self.invoked = 0
        self.completed = {"ok": 0, "fail": 0, "info": 0}

    def time_ns(self) -> int:
        """Nanoseconds since the test began."""
        return self._now_ns() - self.started_ns

    def invoke(self, op: Op, node: str | None) -> Op:
        """Record an invocation that a generator emitted."""
        if op.process >= 0:
            self.invoked += 1
        return self._write(
            Op(
                index=self.recorded,
                time=self._now_ns() - self.started_ns,
                process=op.process,
                type="invoke",
                f=op.f,
                key=op.key,
                value=op.value,
                mops=op.mops,
                node=node,
                due=op.due,
            )
        )

    def complete(
        self,
        invocation: Op,
        outcome: OpType,
        value: Any = None,
        *,
        mops: tuple[Mop, ...] | None = None,
        term: int | None = None,
        error: str | None = None,
    ) -> Op:
        """Record how an invocation ended."""
        if invocation.process >= 0:
            self.completed[outcome] += 1
        return self._write(
            Op(
                index=self.recorded,
                time=self._now_ns() - self.started_ns,
                process=invocation.process,
                type=outcome,
                f=invocation.f,
                key=invocation.key,
                value=value,
                mops=mops,
                node=invocation.node,
                term=term,
                error=error,
            )
        )

    def note(self, f: str, value: dict[str, Any]) -> Op:
        """Record what happened to the harness itself."""
        return self._write(
            Op(
                index=self.recorded,
                time=self._now_ns() - self.started_ns,
                process=HARNESS,
                type="info",
                f=f,
                value=value,
            )
        )

    def _write(self, op: Op) -> Op:
        self._record(op)
        self.recorded += 1
        if self._observe is not None:
            self._observe(op)
        return op
