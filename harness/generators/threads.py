"""Who: clients or nemesis, shares of the threads, a generator for each thread or process."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from itertools import accumulate, pairwise

import msgspec

from splitbrain.harness.contract.generator import (
    PENDING,
    Context,
    Generator,
    Pending,
    Result,
    bits,
    earlier,
    hears,
    idle_until,
    swapped,
)
from splitbrain.harness.generators.leaves import NOTHING, Source, generator
from splitbrain.results.errors import UsageError
from splitbrain.results.history import NEMESIS, Op


class _Clients(msgspec.Struct, frozen=True):
    source: Generator

    def op(self, ctx: Context) -> Result:
        result = self.source.op(ctx.of_clients())
        if result is None:
            return None
        op, after = result
        return op, self if after is self.source else _Clients(after)

    def update(self, ctx: Context, event: Op) -> Generator:
        if event.process < 0:
            return self
        source = self.source.update(ctx.of_clients(), event)
        return self if source is self.source else _Clients(source)

    def idle_until(self) -> int:
        """The source's."""
        return idle_until(self.source)


def clients(source: Source) -> Generator:
    """`source` for client processes only; it neither sees nor hears of the nemesis."""
    return _Clients(generator(source))


class _Nemesis(msgspec.Struct, frozen=True):
    source: Generator

    def op(self, ctx: Context) -> Result:
        result = self.source.op(ctx.restrict(ctx.nemesis_bit, ctx.nemesis_rng))
        if result is None:
            return None
        op, after = result
        return op, self if after is self.source else _Nemesis(after)

    def update(self, ctx: Context, event: Op) -> Generator:
        if event.process != NEMESIS:
            return self
        source = self.source.update(ctx.restrict(ctx.nemesis_bit, ctx.nemesis_rng), event)
        return self if source is self.source else _Nemesis(source)

    def idle_until(self) -> int:
        """The source's."""
        return idle_until(self.source)


def nemesis(source: Source) -> Generator:
    """`source` for the nemesis only; it draws from the nemesis's own stream and hears of nemesis ops alone."""
    return _Nemesis(generator(source))


class _Reserve(msgspec.Struct, frozen=True):
    counts: tuple[int, ...]
    children: tuple[Generator | None, ...]
    turn: int = 0

    @property
    def deaf(self) -> bool:
        """Whether events change nothing."""
        return not any(hears(child) for child in self.children if child is not None)

    def _masks(self, ctx: Context) -> Sequence[int]:
        clients = ctx.threads & ~ctx.nemesis_bit
        if clients.bit_count() < sum(self.counts):
            raise UsageError(
                f"reserve asks for {sum(self.counts)} threads, but the test has only {ctx.concurrency}: raise "
                f"--concurrency."
            )
        return _shares(self.counts, clients)

    def op(self, ctx: Context) -> Result:
        masks, children, waiting, turn = self._masks(ctx), list(self.children), PENDING, self.turn
        for step in range(len(children)):
            i = (self.turn + step) % len(children)
            child = children[i]
            if child is None:
                continue
            result = child.op(ctx.restrict(masks[i]))
            if result is None:
                children[i] = None
                continue
            op, children[i] = result
            if type(op) is not Pending:
                return op, _Reserve(self.counts, tuple(children), i + 1)
            waiting = earlier(waiting, op)
        if all(child is None for child in children):
            return None
        return waiting, _Reserve(self.counts, tuple(children), turn)

    def update(self, ctx: Context, event: Op) -> Generator:
        bit = 1 << ctx.thread_of(event.process)
        for i, mask in enumerate(self._masks(ctx)):
            child = self.children[i]
            if mask & bit and child is not None:
                after = child.update(ctx.restrict(mask), event)
                if after is not child:
                    return _Reserve(self.counts, (*self.children[:i], after, *self.children[i + 1 :]), self.turn)
        return self


@functools.lru_cache(maxsize=1024)
def _shares(counts: tuple[int, ...], clients: int) -> Sequence[int]:
    """Masks of the first threads of a mask, as many as each count says, and of the rest; asked for every op."""
    threads = bits(clients)
    ends = tuple(accumulate(counts, initial=0))
    parts = [threads[begin:end] for begin, end in pairwise(ends)]
    return tuple(sum(1 << thread for thread in part) for part in (*parts, threads[ends[-1] :]))


def reserve(*shares: tuple[int, Source], rest: Source = NOTHING) -> Generator:
    """Threads of their own for some generators: `reserve((2, writes), (3, reads), rest=cas)`.

    The first 2 client threads carry out writes, the next 3 reads, all others `rest`.

    Raises:
        UsageError: (when first asked) the test has fewer client threads than are reserved.
    """
    return _Reserve(
        tuple(count for count, _ in shares),
        (*(generator(source) for _, source in shares), generator(rest)),
    )


class _EachThread(msgspec.Struct, frozen=True):
    original: Generator
    by_process: bool
    children: tuple[Generator, ...] = ()
    processes: tuple[int, ...] = ()
    ended: int = 0

    def op(self, ctx: Context) -> Result:
        each = self._refreshed(ctx)
        children, ended, waiting = each.children, each.ended, PENDING
        candidates = ctx.free & ~ended
        while candidates:
            thread = ctx.pick(candidates)
            candidates &= ~(1 << thread)
            result = children[thread].op(ctx.restrict(1 << thread))
            if result is None:
                ended |= 1 << thread
                continue
            op, after = result
            children = swapped(children, thread, after)
            if type(op) is not Pending:
                return op, _EachThread(self.original, self.by_process, children, each.processes, ended)
            waiting = earlier(waiting, op)
        over = not ctx.threads & ~ended and (not self.by_process or ctx.free == ctx.threads)
        return None if over else (waiting, _EachThread(self.original, self.by_process, children, each.processes, ended))

    def update(self, ctx: Context, event: Op) -> Generator:
        if not self.children:
            return self
        thread = ctx.thread_of(event.process)
        after = self.children[thread].update(ctx.restrict(1 << thread), event)
        children = swapped(self.children, thread, after)
        if children is self.children:
            return self
        return _EachThread(self.original, self.by_process, children, self.processes, self.ended)

    def _refreshed(self, ctx: Context) -> _EachThread:
        """With a copy of the original for every thread, and a fresh one for every process that is new."""
        if not self.children:
            count = len(ctx.processes)
            return _EachThread(self.original, self.by_process, (self.original,) * count, tuple(ctx.processes))
        if not self.by_process or self.processes == tuple(ctx.processes):
            return self
        children, ended = self.children, self.ended
        for thread, process in enumerate(ctx.processes):
            if process != self.processes[thread]:
                children = swapped(children, thread, self.original)
                ended &= ~(1 << thread)
        return _EachThread(self.original, True, children, tuple(ctx.processes), ended)


def each_thread(source: Source) -> Generator:
    """A copy of `source` for every thread, independent of the others; each sees its own thread only."""
    return _EachThread(generator(source), by_process=False)


def each_process(source: Source) -> Generator:
    """A copy of `source` for every process: like `each_thread`, but the successor of a crashed process starts with a
    new copy.
    """
    return _EachThread(generator(source), by_process=True)


__all__ = ["clients", "each_process", "each_thread", "nemesis", "reserve"]
