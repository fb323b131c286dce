"""One after another: sequences, repetitions, phases."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from splitbrain.harness.contract.generator import PENDING, Context, Generator, Pending, Result, hears
from splitbrain.harness.generators.leaves import NOTHING, Source, generator
from splitbrain.results.errors import UsageError
from splitbrain.results.history import Op


class _Sequence(msgspec.Struct, frozen=True):
    head: Generator
    rest: tuple[Generator, ...]

    def op(self, ctx: Context) -> Result:
        head, rest = self.head, self.rest
        while True:
            result = head.op(ctx)
            if result is not None:
                op, after = result
                return op, self if after is self.head and rest is self.rest else _Sequence(after, rest)
            if not rest:
                return None
            head, rest = rest[0], rest[1:]

    def update(self, ctx: Context, event: Op) -> Generator:
        head = self.head.update(ctx, event)
        return self if head is self.head else _Sequence(head, self.rest)


def sequence(*sources: Source) -> Generator:
    """All ops of the first, then all of the second, and so on. Does not wait between them: see `phases`."""
    generators = tuple(generator(source) for source in sources)
    return _Sequence(generators[0], generators[1:]) if generators else NOTHING


class _Repeat(msgspec.Struct, frozen=True):
    original: Generator
    current: Generator
    rounds_left: int | None

    def op(self, ctx: Context) -> Result:
        result = self.current.op(ctx)
        if result is not None:
            op, after = result
            return op, self if after is self.current else _Repeat(self.original, after, self.rounds_left)
        rounds_left = None if self.rounds_left is None else self.rounds_left - 1
        if rounds_left == 0:
            return None
        result = self.original.op(ctx)
        if result is None:  # it has no op to give: repeating it would never end
            return None
        return result[0], _Repeat(self.original, result[1], rounds_left)

    def update(self, ctx: Context, event: Op) -> Generator:
        current = self.current.update(ctx, event)
        return self if current is self.current else _Repeat(self.original, current, self.rounds_left)


def repeat(source: Source, times: int | None = None) -> Generator:
    """The whole of `source` again and again: `times` rounds, or without end. (Jepsen calls this `cycle`.)"""
    if times is not None and times <= 0:
        return NOTHING
    original = generator(source)
    return _Repeat(original, original, times)


class _Synchronize(msgspec.Struct, frozen=True):
    source: Generator

    def op(self, ctx: Context) -> Result:
        return self.source.op(ctx) if ctx.free == ctx.threads else (PENDING, self)

    def update(self, ctx: Context, event: Op) -> Generator:
        source = self.source.update(ctx, event)
        return self if source is self.source else _Synchronize(source)


def synchronize(source: Source) -> Generator:
    """`source`, which begins only when every thread that it may use is idle."""
    return _Synchronize(generator(source))


def phases(*sources: Source) -> Generator:
    """One after another; each begins only when every thread is idle: ops of two phases never overlap."""
    return sequence(*(synchronize(source) for source in sources))


class _Limit(msgspec.Struct, frozen=True):
    left: int
    source: Generator

    @property
    def deaf(self) -> bool:
        """Whether events change nothing."""
        return not hears(self.source)

    def op(self, ctx: Context) -> Result:
        if self.left <= 0:
            return None
        result = self.source.op(ctx)
        if result is None:
            return None
        op, after = result
        if type(op) is Pending:
            return op, self if after is self.source else _Limit(self.left, after)
        return op, _Limit(self.left - 1, after)

    def update(self, ctx: Context, event: Op) -> Generator:
        source = self.source.update(ctx, event)
        return self if source is self.source else _Limit(self.left, source)


def limit(count: int, source: Source) -> Generator:
    """At most `count` ops of `source`."""
    return _Limit(count, generator(source))


class _Map(msgspec.Struct, frozen=True):
    change: Callable[[Op], Op]
    source: Generator

    def op(self, ctx: Context) -> Result:
        result = self.source.op(ctx)
        if result is None:
            return None
        op, after = result
        following = self if after is self.source else _Map(self.change, after)
        return (op if type(op) is Pending else self.change(op)), following

    def update(self, ctx: Context, event: Op) -> Generator:
        source = self.source.update(ctx, event)
        return self if source is self.source else _Map(self.change, source)


def f_map(names: Mapping[str, str], source: Source) -> Generator:
    """Ops of `source` with other functions, so that two packages with the same names fit into one test.

    Functions that `names` does not hold stay as they are. Events reach `source` under their new names.
    """
    if not names:
        raise UsageError("f_map needs at least one function to rename.")

    def renamed(op: Op) -> Op:
        return msgspec.structs.replace(op, f=names.get(op.f, op.f))

    return _Map(renamed, generator(source))


__all__ = ["f_map", "limit", "phases", "repeat", "sequence", "synchronize"]
