"""Choices between generators: mixes, alternations, the first that is ready."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from splitbrain.harness.contract.generator import (
    PENDING,
    Context,
    Generator,
    Pending,
    Result,
    earlier,
    hears,
    idle_until,
    swapped,
    updated,
)
from splitbrain.harness.generators.leaves import NOTHING, Source, generator
from splitbrain.results.errors import UsageError
from splitbrain.results.history import Op


class _Mix(msgspec.Struct, frozen=True):
    children: tuple[Generator, ...]
    weights: tuple[float, ...]
    total: float

    @property
    def deaf(self) -> bool:
        """Whether events change nothing."""
        return not any(map(hears, self.children))

    def op(self, ctx: Context) -> Result:
        if not ctx.free:
            return PENDING, self
        mix, waiting = self, PENDING
        drawn = mix._draw(ctx)
        tried = 0
        while tried < len(mix.children):
            i = (drawn + tried) % len(mix.children)
            result = mix.children[i].op(ctx)
            if result is None:
                mix = mix._without(i)
                if mix.children and tried == 0:
                    drawn = mix._draw(ctx)
                continue
            op, after = result
            if mix.children[i] is not after:
                mix = _Mix(swapped(mix.children, i, after), mix.weights, mix.total)
            if type(op) is not Pending:
                return op, mix
            waiting = earlier(waiting, op)
            tried += 1
        return (waiting, mix) if mix.children else None

    def update(self, ctx: Context, event: Op) -> Generator:
        children = updated(self.children, ctx, event)
        return self if children is self.children else _Mix(children, self.weights, self.total)

    def _draw(self, ctx: Context) -> int:
        point = ctx.rng.random() * self.total
        for i, weight in enumerate(self.weights):
            point -= weight
            if point < 0:
                return i
        return len(self.weights) - 1

    def _without(self, i: int) -> _Mix:
        weights = self.weights[:i] + self.weights[i + 1 :]
        return _Mix(self.children[:i] + self.children[i + 1 :], weights, sum(weights))


def mix(*sources: Source, weights: Sequence[float] | None = None) -> Generator:
    """Ops of `sources`, each drawn at random, evenly or by `weights`; ends when all of them have ended.

    If the one that was drawn must wait, the next one that is ready takes its place.
    """
    shares = tuple(weights) if weights is not None else (1.0,) * len(sources)
    if len(shares) != len(sources) or any(share <= 0 for share in shares):
        raise UsageError(f"mix needs one positive weight for each of its {len(sources)} generators, not {shares}.")
    return _Mix(tuple(generator(source) for source in sources), shares, sum(shares)) if sources else NOTHING


class _AnyOf(msgspec.Struct, frozen=True):
    children: tuple[Generator, ...]
    turn: int

    def op(self, ctx: Context) -> Result:
        children, waiting, tried, i = self.children, PENDING, 0, self.turn
        while tried < len(children):
            i %= len(children)
            result = children[i].op(ctx)
            if result is None:
                children = children[:i] + children[i + 1 :]
                continue
            op, after = result
            children = swapped(children, i, after)
            i += 1
            if type(op) is not Pending:
                return op, _AnyOf(children, i)
            waiting = earlier(waiting, op)
            tried += 1
        if not children:
            return None
        return waiting, self if children is self.children else _AnyOf(children, i)

    def update(self, ctx: Context, event: Op) -> Generator:
        children = updated(self.children, ctx, event)
        return self if children is self.children else _AnyOf(children, self.turn)


def any_of(*sources: Source) -> Generator:
    """An op of whichever is ready, taking turns; ends when all of them have ended."""
    return _AnyOf(tuple(generator(source) for source in sources), 0) if sources else NOTHING


class _Beside(msgspec.Struct, frozen=True):
    main: Generator
    other: Generator

    def op(self, ctx: Context) -> Result:
        other, waiting = self.other, PENDING
        result = other.op(ctx)
        if result is None:
            other = NOTHING
        else:
            op, other = result
            if type(op) is not Pending:
                return op, _Beside(self.main, other)
            waiting = op
        result = self.main.op(ctx)
        if result is None:
            return None
        op, main = result
        following = self if main is self.main and other is self.other else _Beside(main, other)
        return earlier(op, waiting) if type(op) is Pending else op, following

    def update(self, ctx: Context, event: Op) -> Generator:
        main, other = self.main.update(ctx, event), self.other.update(ctx, event)
        return self if main is self.main and other is self.other else _Beside(main, other)

    def idle_until(self) -> int:
        """Until one of the two has something to do; an end of the first, which ends both, is something to do."""
        main = idle_until(self.main)
        return main if self.other is NOTHING else min(main, idle_until(self.other))


def beside(main: Source, other: Source) -> Generator:
    """`main`, with ops of `other` in between when it is ready; ends with `main`.

    For faults beside a workload: faults after the last client op would have no effect on clients.
    """
    return _Beside(generator(main), generator(other))


class _FlipFlop(msgspec.Struct, frozen=True):
    children: tuple[Generator, ...]
    turn: int

    def op(self, ctx: Context) -> Result:
        result = self.children[self.turn].op(ctx)
        if result is None:
            return None
        op, after = result
        children = swapped(self.children, self.turn, after)
        if type(op) is Pending:
            return op, self if children is self.children else _FlipFlop(children, self.turn)
        return op, _FlipFlop(children, (self.turn + 1) % len(children))

    def update(self, ctx: Context, event: Op) -> Generator:
        children = updated(self.children, ctx, event)
        return self if children is self.children else _FlipFlop(children, self.turn)


def flip_flop(*sources: Source) -> Generator:
    """An op of the first, one of the second, and around again; ends when the one whose turn it is has ended."""
    return _FlipFlop(tuple(generator(source) for source in sources), 0) if sources else NOTHING


__all__ = ["any_of", "beside", "flip_flop", "mix"]
