"""What a generator is, and what it sees.

A generator is a pure value, as in Jepsen's `jepsen.generator`: asked for an op it returns the op and the following
generator; given an event it returns the generator after that event. Nothing is mutated, so a workload's generator can
be tested without a cluster and used again for the next run.

Two things differ from Jepsen. An op is always meant for *now*: a generator that wants to wait answers `Pending`, with
the time at which it wants to be asked again. And an op that was answered is always carried out: no answer is thrown
away, so the draws from `ctx.rng` are those of the ops that took place, in their order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol, TypeAlias, final

import msgspec

from splitbrain.harness.contract.rng import Rng
from splitbrain.results.history import NEMESIS, Op

UNASSIGNED: Final = -99
"""The process of an invocation that any free process may carry out."""


@final
class Pending(msgspec.Struct, frozen=True):
    """There is no op now. Ask again after the next event, and at `until_ns` at the latest if that is given."""

    until_ns: int | None = None


PENDING: Final = Pending()

Result: TypeAlias = "tuple[Op | Pending, Generator] | None"


class Generator(Protocol):
    """What clients or the nemesis shall do next."""

    def op(self, ctx: Context) -> Result:
        """The next op and the generator that remains, or `Pending` and what remains, or None at the end.

        The op is an invocation for a process that `ctx` shows as free.
        """
        ...

    def update(self, ctx: Context, event: Op) -> Generator:
        """The generator after an invocation or a completion took place. `ctx` already shows its effect."""
        ...


class Context(msgspec.Struct, gc=False):
    """What a generator sees. Threads are bits of a mask, so that looking at a part of them costs nothing.

    Thread i < concurrency carries a client process and contacts `node_of(i)`; thread `concurrency` carries the nemesis.

    Attributes:
        time_ns: nanoseconds since the test began.
        free: mask of the threads that are idle.
        threads: mask of the threads that this generator may use.
        processes: the process that each thread carries now.
        concurrency: number of client threads.
        nodes: names of the nodes.
        rng: the stream from which this generator draws.
        nemesis_rng: the stream from which generators of nemesis ops draw.
        placement: the node of each client thread; None if thread i contacts node i modulo their number.
    """

    time_ns: int
    free: int
    threads: int
    processes: Sequence[int]
    concurrency: int
    nodes: Sequence[str]
    rng: Rng
    nemesis_rng: Rng
    placement: Sequence[str] | None = None

    @classmethod
    def initial(cls, concurrency: int, nodes: Sequence[str], rng: Rng, nemesis_rng: Rng) -> Context:
        """The context at time 0: every thread is free and carries the process of its own number."""
        everything = (2 << concurrency) - 1
        return cls(
            time_ns=0,
            free=everything,
            threads=everything,
            processes=[*range(concurrency), NEMESIS],
            concurrency=concurrency,
            nodes=nodes,
            rng=rng,
            nemesis_rng=nemesis_rng,
        )

    @property
    def nemesis_bit(self) -> int:
        """The nemesis thread, as a mask."""
        return 1 << self.concurrency

    @property
    def free_threads(self) -> list[int]:
        """Numbers of the idle threads, ascending."""
        return bits(self.free)

    def of_clients(self) -> Context:
        """The same without the nemesis thread: `restrict`, for what most generators are asked through."""
        clients = ~(1 << self.concurrency)
        return Context(
            self.time_ns,
            self.free & clients,
            self.threads & clients,
            self.processes,
            self.concurrency,
            self.nodes,
            self.rng,
            self.nemesis_rng,
            self.placement,
        )

    def restrict(self, threads: int, rng: Rng | None = None) -> Context:
        """The same with only some of the threads; with another stream of randomness if one is given."""
        return Context(
            self.time_ns,
            self.free & threads,
            self.threads & threads,
            self.processes,
            self.concurrency,
            self.nodes,
            rng or self.rng,
            self.nemesis_rng,
            self.placement,
        )

    def pick(self, among: int) -> int:
        """A thread of the mask `among`, each with the same probability; the mask must not be empty.

        At random, not the first one: at a low rate the first thread would do all the work, on one node.
        """
        count = among.bit_count()
        if count == 1:
            return among.bit_length() - 1
        width = among.bit_length()
        if 4 * count >= width:
            while True:
                thread = self.rng.below(width)
                if among >> thread & 1:
                    return thread
        for _ in range(self.rng.below(count)):
            among &= among - 1
        return (among & -among).bit_length() - 1

    def thread_of(self, process: int) -> int:
        """The thread that carries a process, or carried it before it crashed."""
        return self.concurrency if process == NEMESIS else process % self.concurrency

    def node_of(self, thread: int) -> str | None:
        """The node that a client thread contacts; None for the nemesis."""
        if thread == self.concurrency:
            return None
        return self.nodes[thread % len(self.nodes)] if self.placement is None else self.placement[thread]


def bits(mask: int) -> list[int]:
    """Numbers of the bits that are set in a mask, ascending."""
    found: list[int] = []
    while mask:
        found.append((mask & -mask).bit_length() - 1)
        mask &= mask - 1
    return found


def earlier(a: Pending, b: Pending) -> Pending:
    """The one of two that wants to be asked first."""
    if a.until_ns is None:
        return b
    if b.until_ns is None or a.until_ns <= b.until_ns:
        return a
    return b


def idle_until(generator: Generator) -> int:
    """Before this time of the test there is no op, and no end, whatever ops of clients end; 0 if that is not known.

    A generator knows it if it has a method `idle_until`, of no arguments. One that answers `Pending` need not be asked
    again before, and hears of all events nevertheless.
    """
    says = getattr(generator, "idle_until", None)
    return 0 if says is None else says()


def hears(generator: Generator) -> bool:
    """Whether events may change a generator, or one that remains of it.

    If they never do, it says so itself by an attribute `deaf`, which is true; its `update` need not be called then.
    """
    return not getattr(generator, "deaf", False)


def swapped(children: tuple[Generator, ...], i: int, child: Generator) -> tuple[Generator, ...]:
    """The children with another one in place i; the very same tuple if it is the same one."""
    if children[i] is child:
        return children
    return (*children[:i], child, *children[i + 1 :])


def updated(children: tuple[Generator, ...], ctx: Context, event: Op) -> tuple[Generator, ...]:
    """Every child, updated with an event; the same tuple if none of them changed."""
    for i, child in enumerate(children):
        after = child.update(ctx, event)
        if after is not child:
            children = swapped(children, i, after)
    return children
