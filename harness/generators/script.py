"""Ops that are known beforehand: each at its time, on its thread.

What replays and shrunk schedules run on (`splitbrain.harness.running.plan`). Ops name threads, not processes: after a
process crashed, its thread continues with the next one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from splitbrain.harness.contract.generator import PENDING, Context, Generator, Pending, Result
from splitbrain.results.errors import UsageError
from splitbrain.results.history import NEMESIS, Mop, Op


class ScriptedOp(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """An invocation of a client.

    Attributes:
        at_ns: when, in nanoseconds since the test (or, of a final op, the final phase) began; later if its thread is
            busy then, or an earlier op of the thread was late.
        thread: on which client thread.
        due_ns: when the schedule of the recorded run had it due, on the same scale, where that was another time.
        f, key, value, mops: as in `splitbrain.results.history.Op`.
    """

    at_ns: int
    thread: int
    f: str
    key: str | None = None
    value: Any = None
    mops: tuple[Mop, ...] | None = None
    due_ns: int | None = None

    def moved(self, at_ns: int) -> ScriptedOp:
        """The same op at another time: what it was late by is no longer known then."""
        return self if at_ns == self.at_ns else msgspec.structs.replace(self, at_ns=at_ns, due_ns=None)


class ScriptedFault(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """An invocation of the nemesis: `value` is the request that its op carries; times as in `ScriptedOp`."""

    at_ns: int
    f: str
    value: Any = None

    def moved(self, at_ns: int) -> ScriptedFault:
        """The same at another time."""
        return msgspec.structs.replace(self, at_ns=at_ns)


class _Script(msgspec.Struct, frozen=True):
    """`queues[t]` are the ops of thread t, in order, each with its place in the script; `done[t]` of them are out.

    Times count from `zero_ns` of the test; None stands for the moment in which the script is first asked. If `timed`,
    an op is due at its time; if not, only where it says when.
    """

    queues: tuple[tuple[tuple[int, ScriptedOp], ...], ...]
    done: tuple[int, ...]
    end_ns: int | None
    zero_ns: int | None
    timed: bool

    def op(self, ctx: Context) -> Result:
        if len(self.queues) > ctx.concurrency:
            raise UsageError(
                f"the script has ops for {len(self.queues)} client threads, but the test has only {ctx.concurrency}."
            )
        if self.zero_ns is None:
            return msgspec.structs.replace(self, zero_ns=ctx.time_ns).op(ctx)
        found: tuple[int, int, int] | None = None
        left = False
        for thread, (queue, done) in enumerate(zip(self.queues, self.done, strict=True)):
            if done == len(queue):
                continue
            left = True
            place, op = queue[done]
            if ctx.free >> thread & 1 and (found is None or (op.at_ns, place) < found[:2]):
                found = (op.at_ns, place, thread)
        if not left:
            over = self.end_ns is None or ctx.time_ns >= self.end_ns
            return None if over else (Pending(self.end_ns), self)
        if found is None:
            return PENDING, self
        due_ns, thread = self.zero_ns + found[0], found[2]
        return (Pending(due_ns), self) if ctx.time_ns < due_ns else self._emit(ctx, thread)

    def update(self, ctx: Context, event: Op) -> Generator:
        return self

    def _emit(self, ctx: Context, thread: int) -> Result:
        done = self.done[thread]
        _, op = self.queues[thread][done]
        due_ns = op.at_ns if op.due_ns is None and self.timed else op.due_ns
        invocation = Op(
            process=ctx.processes[thread],
            type="invoke",
            f=op.f,
            key=op.key,
            value=op.value,
            mops=op.mops,
            due=None if due_ns is None else (self.zero_ns or 0) + due_ns,
        )
        return invocation, msgspec.structs.replace(self, done=(*self.done[:thread], done + 1, *self.done[thread + 1 :]))


def script(ops: Iterable[ScriptedOp], end_ns: int | None = None, *, from_now: bool = False) -> Generator:
    """Client ops at their times on their threads.

    A thread that is busy holds back its own ops only, and they stay in order. Ops of the same time begin in the order
    in which they are given.

    Args:
        ops: what to do.
        end_ns: the generator does not end before that time of the test; None: it ends with its last op.
        from_now: times count from the moment in which the generator is first asked, not from the test's beginning.

    Raises:
        UsageError: (when first asked) an op is for a thread that the test does not have.
    """
    queues: dict[int, list[tuple[int, ScriptedOp]]] = {}
    for place, op in enumerate(sorted(ops, key=lambda op: op.at_ns)):
        queues.setdefault(op.thread, []).append((place, op))
    count = max(queues, default=-1) + 1
    listed = tuple(tuple(queues.get(thread, ())) for thread in range(count))
    return _Script(listed, (0,) * count, end_ns, None if from_now else 0, not from_now)


class _FaultScript(msgspec.Struct, frozen=True):
    faults: tuple[ScriptedFault, ...]
    done: int = 0

    def op(self, ctx: Context) -> Result:
        if self.done == len(self.faults):
            return None
        if not ctx.free & ctx.nemesis_bit:
            return PENDING, self
        fault = self.faults[self.done]
        if ctx.time_ns < fault.at_ns:
            return Pending(fault.at_ns), self
        op = Op(process=NEMESIS, type="invoke", f=fault.f, value=fault.value)
        return op, _FaultScript(self.faults, self.done + 1)

    def update(self, ctx: Context, event: Op) -> Generator:
        return self


def script_faults(faults: Iterable[ScriptedFault]) -> Generator:
    """Nemesis ops at their times, one after the other; ends with the last."""
    return _FaultScript(tuple(sorted(faults, key=lambda fault: fault.at_ns)))


__all__ = ["ScriptedFault", "ScriptedOp", "script", "script_faults"]
