"""When: rates, staggering, time limits, waiting.

Times are counted from the moment at which a generator is first asked.
"""

from __future__ import annotations

import msgspec

from harness.generators.context import PENDING, Context, Generator, Pending, Result, earlier
from harness.generators.leaves import Source, generator
from results.errors import UsageError
from results.history import Op

_SECOND_NS = 1_000_000_000

CATCH_UP_NS = 100_000_000
"""How far `rate` and `stagger` may fall behind and still catch up. More than that (every process was waiting for a dead
node, the controller stalled) is forgotten: the ops would all come at once."""


def _nanoseconds(seconds: float, what: str) -> int:
    if not 0 <= seconds < 10**9:
        raise UsageError(f"{what} must be a number of seconds from 0 up, not {seconds}.")
    return round(seconds * _SECOND_NS)


class _Paced(msgspec.Struct, frozen=True):
    interval_ns: int
    random: bool
    next_ns: int | None
    source: Generator

    def op(self, ctx: Context) -> Result:
        now = ctx.time_ns
        due = now if self.next_ns is None else self.next_ns
        if now < due:
            return Pending(due), self
        result = self.source.op(ctx)
        if result is None:
            return None
        op, after = result
        if isinstance(op, Pending):
            return op, self if after is self.source else _Paced(self.interval_ns, self.random, self.next_ns, after)
        step = int(ctx.rng.random() * 2 * self.interval_ns) if self.random else self.interval_ns
        return op, _Paced(self.interval_ns, self.random, max(due, now - CATCH_UP_NS) + step, after)

    def update(self, ctx: Context, event: Op) -> Generator:
        source = self.source.update(ctx, event)
        return self if source is self.source else _Paced(self.interval_ns, self.random, self.next_ns, source)


def rate(hz: float, source: Source) -> Generator:
    """Ops of `source` at a fixed rate, `hz` a second over all threads together, as long as one of them is free."""
    if not 0 < hz <= _SECOND_NS:
        raise UsageError(f"a rate must be a positive number of ops per second, not {hz}.")
    return _Paced(round(_SECOND_NS / hz), False, None, generator(source))


def stagger(seconds: float, source: Source) -> Generator:
    """Ops of `source` at random distances between 0 and twice `seconds`, over all threads together.

    The first comes at once. Use it where a fixed rate could fall into step with something in the system under test.
    """
    return _Paced(_nanoseconds(seconds, "stagger"), True, None, generator(source))


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
        if isinstance(op, Pending):
            op = earlier(op, Pending(end))
        if after is self.source and end == self.end_ns:
            return op, self
        return op, _TimeLimit(self.length_ns, end, after)

    def update(self, ctx: Context, event: Op) -> Generator:
        source = self.source.update(ctx, event)
        return self if source is self.source else _TimeLimit(self.length_ns, self.end_ns, source)


def time_limit(seconds: float, source: Source) -> Generator:
    """Ops of `source` that begin within `seconds`; those under way at the end are not interrupted."""
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


__all__ = ["CATCH_UP_NS", "rate", "sleep", "stagger", "time_limit"]
