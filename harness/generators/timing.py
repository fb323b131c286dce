"""When: rates, staggering, time limits, waiting.

Times are counted from the moment at which a generator is first asked.
"""

from __future__ import annotations

import msgspec

from splitbrain.harness.contract.generator import PENDING, Context, Generator, Pending, Result, earlier, idle_until
from splitbrain.harness.generators.leaves import Source, generator
from splitbrain.results.errors import UsageError
from splitbrain.results.history import NEMESIS, Op

_SECOND_NS = 1_000_000_000

CATCH_UP_NS = 100_000_000
"""How far what keeps no schedule (ops of the nemesis, `spaced`) may fall behind and still catch up."""


def _nanoseconds(seconds: float, what: str) -> int:
    if not 0 <= seconds < 10**9:
        raise UsageError(f"{what} must be a number of seconds from 0 up, not {seconds}.")
    return round(seconds * _SECOND_NS)


class _Paced(msgspec.Struct, frozen=True):
    """Ops of `source` at distances.

    Attributes:
        interval_ns: between two ops; their mean if `random`.
        random: whether distances are random.
        scheduled: whether ops of clients keep a schedule, however late one of them begins.
        next_ns: when the next one is due; None for the moment at which this is first asked.
        idle: whether the source had nothing to do although a client was free, so that nothing was due.
        source: what to do.
        burst: how many ops are due at once; the distance to the next ones is as many intervals.
        begun: how many of them have begun.
    """

    interval_ns: int
    random: bool
    scheduled: bool
    next_ns: int | None
    idle: bool
    source: Generator
    burst: int = 1
    begun: int = 0

    def op(self, ctx: Context) -> Result:
        now = ctx.time_ns
        due = now if self.next_ns is None else self.next_ns
        if now < due:
            return Pending(due), self
        result = self.source.op(ctx)
        if result is None:
            return None
        op, after = result
        if type(op) is Pending:
            return op, self._waiting(ctx, op, due, after)
        step = int(ctx.rng.random() * 2 * self.interval_ns) if self.random else self._step_ns()
        if not self.scheduled or op.process == NEMESIS:
            return op, self._after(max(due, now - CATCH_UP_NS) + step, after, begun=self.begun)
        if self.idle:
            due = now
        emitted = op if op.due is not None else msgspec.structs.replace(op, due=due)
        return emitted, self._after(due + step, after, begun=(self.begun + 1) % self.burst)

    def _step_ns(self) -> int:
        """From an op to the next one: nothing within a burst."""
        return self.interval_ns * self.burst if self.begun + 1 == self.burst else 0

    def _waiting(self, ctx: Context, pending: Pending, due: int, source: Generator) -> Generator:
        """What remains while the source waits: for a client the schedule goes on, for a time of its own it stands."""
        if not self.scheduled:
            return self if source is self.source else self._after(self.next_ns, source, begun=self.begun)
        if pending.until_ns is not None and ctx.free & ~ctx.nemesis_bit:
            next_ns, idle = due, True
        else:
            next_ns, idle = (ctx.time_ns if self.idle else due), False
        if source is self.source and (next_ns, idle) == (self.next_ns, self.idle):
            return self
        return self._after(next_ns, source, idle=idle, begun=self.begun)

    def _after(self, next_ns: int | None, source: Generator, *, idle: bool = False, begun: int = 0) -> Generator:
        return _Paced(self.interval_ns, self.random, self.scheduled, next_ns, idle, source, self.burst, begun)

    def update(self, ctx: Context, event: Op) -> Generator:
        source = self.source.update(ctx, event)
        if source is self.source:
            return self
        return self._after(self.next_ns, source, idle=self.idle, begun=self.begun)

    def idle_until(self) -> int:
        """The next op's time, once that is known."""
        return self.next_ns or 0


def rate(hz: float, source: Source, *, burst: int = 1) -> Generator:
    """Ops of `source` by a schedule of `hz` a second over all threads together.

    An op that finds no client free begins late, and those that follow it come as soon as clients are free until the
    schedule is met again: what clients do must not depend on how slow the system is. Every op says when it was `due`
    (without that, the wait for a client would be in no latency: Tene's coordinated omission; wrk2 and YCSB do the
    same). While the source itself waits for a time of its own, nothing is due. Ops of the nemesis are as in `spaced`.

    With a `burst` so many ops are due at once, and the next ones as many intervals later: their mean rate is the same.
    """
    if not 0 < hz <= _SECOND_NS:
        raise UsageError(f"a rate must be a positive number of ops per second, not {hz}.")
    if burst < 1:
        raise UsageError(f"a burst must be a positive number of ops, not {burst}.")
    return _Paced(round(_SECOND_NS / hz), False, True, None, False, generator(source), burst)


def stagger(seconds: float, source: Source) -> Generator:
    """Ops of `source` at random distances between 0 and twice `seconds`, over all threads together.

    The first comes at once. Use it where a fixed rate could fall into step with something in the system under test.
    The distances make a schedule, which is kept as that of `rate`.
    """
    return _Paced(_nanoseconds(seconds, "stagger"), True, True, None, False, generator(source))


def spaced(seconds: float, source: Source) -> Generator:
    """Ops of `source`, `seconds` apart, without a schedule: time that was lost is not made up, and no op is `due`."""
    return _Paced(_nanoseconds(seconds, "a distance"), False, False, None, False, generator(source))


class _TimeLimit(msgspec.Struct, frozen=True):
    length_ns: int
    end_ns: int | None
    source: Generator

    def op(self, ctx: Context) -> Result:
        end = ctx.time_ns + self.length_ns if self.end_ns is None else self.end_ns
        if ctx.time_ns >= end:
            return None
        result = self.source.op(ctx)
        if result is None:
            return None
        op, after = result
        if type(op) is Pending:
            op = earlier(op, Pending(end))
        if after is self.source and end == self.end_ns:
            return op, self
        return op, _TimeLimit(self.length_ns, end, after)

    def update(self, ctx: Context, event: Op) -> Generator:
        source = self.source.update(ctx, event)
        return self if source is self.source else _TimeLimit(self.length_ns, self.end_ns, source)

    def idle_until(self) -> int:
        """The source's, or the end."""
        return 0 if self.end_ns is None else min(self.end_ns, idle_until(self.source))


def time_limit(seconds: float, source: Source) -> Generator:
    """Ops of `source` that begin within `seconds`; ops in progress at the end are not interrupted."""
    return _TimeLimit(_nanoseconds(seconds, "a time limit"), None, generator(source))


class _Sleep(msgspec.Struct, frozen=True):
    length_ns: int
    end_ns: int | None = None

    def op(self, ctx: Context) -> Result:
        if self.end_ns is None:
            if not ctx.free:
                return PENDING, self
            end = ctx.time_ns + self.length_ns
            return None if self.length_ns == 0 else (Pending(end), _Sleep(self.length_ns, end))
        return None if ctx.time_ns >= self.end_ns else (Pending(self.end_ns), self)

    def update(self, ctx: Context, event: Op) -> Generator:
        return self


def sleep(seconds: float) -> Generator:
    """No op for that long, then the end. Begins when a thread is free: after a nemesis op, not beside it."""
    return _Sleep(_nanoseconds(seconds, "sleep"))


__all__ = ["CATCH_UP_NS", "rate", "sleep", "spaced", "stagger", "time_limit"]
