"""Until it worked: generators that look at how their ops ended."""

from __future__ import annotations

from typing import Final

import msgspec

from splitbrain.harness.contract.generator import PENDING, UNASSIGNED, Context, Generator, Pending, Result
from splitbrain.harness.generators.leaves import Source, assign, generator
from splitbrain.harness.generators.order import repeat
from splitbrain.harness.generators.threads import clients, each_thread
from splitbrain.harness.generators.timing import spaced, time_limit
from splitbrain.results.history import Op
from splitbrain.results.standbys import is_declined


class _UntilOk(msgspec.Struct, frozen=True):
    source: Generator
    under_way: int = 0
    done: bool = False
    or_declined: bool = False

    def op(self, ctx: Context) -> Result:
        if self.done:
            return None
        result = self.source.op(ctx)
        if result is None:
            return None
        op, after = result
        if isinstance(op, Pending):
            return op, self if after is self.source else _replace(self, source=after)
        return op, _replace(self, source=after, under_way=self.under_way | 1 << ctx.thread_of(op.process))

    def update(self, ctx: Context, event: Op) -> Generator:
        source = self.source.update(ctx, event)
        bit = 1 << ctx.thread_of(event.process)
        if event.type == "invoke" or not self.under_way & bit:
            return self if source is self.source else _replace(self, source=source)
        done = event.type == "ok" or (self.or_declined and is_declined(event.error))
        return _replace(self, source=source, under_way=self.under_way & ~bit, done=self.done or done)


def until_ok(source: Source) -> Generator:
    """Ops of `source` until one of them completed `ok`. Give something that repeats: `until_ok(repeat(op))`."""
    return _UntilOk(generator(source))


def final(source: Source, *, retry_s: float = 0.2, timeout_s: float = 20.0) -> Generator:
    """For the final phase: every client thread repeats `source` until it was ok once, for at most `timeout_s`.

    As many client threads as nodes, or more, reach every node, so `final(invoke("read"))` reads everywhere once the
    faults were healed. A thread waits `retry_s` between its attempts, and makes none after a standby refused it: that
    is the answer of its node.
    """
    attempts = _UntilOk(generator(spaced(retry_s, repeat(source))), or_declined=True)
    return clients(time_limit(timeout_s, each_thread(attempts)))


ATTEMPTS_MAX: Final = 20
"""So often an op that standbys refuse is given to a client, each time to one of those that are free."""


class _Elsewhere(msgspec.Struct, frozen=True):
    source: Generator
    under_way: tuple[tuple[int, Op, int], ...] = ()
    declined: tuple[tuple[Op, int], ...] = ()

    def op(self, ctx: Context) -> Result:
        if self.declined:
            (template, attempt), *rest = self.declined
            op = assign(template, ctx)
            if op is None:
                return PENDING, self
            taken = (*self.under_way, (op.process, template, attempt + 1))
            return op, _Elsewhere(self.source, taken, tuple(rest))
        result = self.source.op(ctx)
        if result is None:
            return (PENDING, self) if self.under_way else None
        op, after = result
        if isinstance(op, Pending):
            return op, self if after is self.source else _replace(self, source=after)
        template = msgspec.structs.replace(op, process=UNASSIGNED)
        return op, _replace(self, source=after, under_way=(*self.under_way, (op.process, template, 1)))

    def update(self, ctx: Context, event: Op) -> Generator:
        source = self.source.update(ctx, event)
        mine = [each for each in self.under_way if each[0] == event.process]
        if event.type == "invoke" or not mine:
            return self if source is self.source else _replace(self, source=source)
        _, template, attempt = mine[0]
        again = is_declined(event.error) and attempt < ATTEMPTS_MAX
        return _Elsewhere(
            source,
            tuple(each for each in self.under_way if each[0] != event.process),
            (*self.declined, (template, attempt)) if again else self.declined,
        )


def elsewhere(source: Source) -> Generator:
    """Ops of `source`, and each that a standby refused again by any free client, up to `ATTEMPTS_MAX` times.

    For the final phase of a system with standbys: each client has one node, and only the one that leads answers.
    """
    return _Elsewhere(generator(source))


_replace = msgspec.structs.replace

__all__ = ["elsewhere", "final", "until_ok"]
