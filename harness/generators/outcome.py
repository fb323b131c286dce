"""Until it worked: generators that look at how their ops ended."""

from __future__ import annotations

import msgspec

from splitbrain.harness.contract.generator import Context, Generator, Pending, Result
from splitbrain.harness.generators.leaves import Source, generator
from splitbrain.harness.generators.order import repeat
from splitbrain.harness.generators.threads import clients, each_thread
from splitbrain.harness.generators.timing import spaced, time_limit
from splitbrain.results.history import Op


class _UntilOk(msgspec.Struct, frozen=True):
    source: Generator
    under_way: int = 0
    done: bool = False

    def op(self, ctx: Context) -> Result:
        if self.done:
            return None
        result = self.source.op(ctx)
        if result is None:
            return None
        op, after = result
        if isinstance(op, Pending):
            return op, self if after is self.source else _UntilOk(after, self.under_way)
        return op, _UntilOk(after, self.under_way | 1 << ctx.thread_of(op.process))

    def update(self, ctx: Context, event: Op) -> Generator:
        source = self.source.update(ctx, event)
        bit = 1 << ctx.thread_of(event.process)
        if event.type == "invoke" or not self.under_way & bit:
            return self if source is self.source else _UntilOk(source, self.under_way, self.done)
        return _UntilOk(source, self.under_way & ~bit, self.done or event.type == "ok")


def until_ok(source: Source) -> Generator:
    """Ops of `source` until one of them completed `ok`. Give something that repeats: `until_ok(repeat(op))`."""
    return _UntilOk(generator(source))


def final(source: Source, *, retry_s: float = 0.2, timeout_s: float = 20.0) -> Generator:
    """For the final phase: every client thread repeats `source` until it was ok once, for at most `timeout_s`.

    As many client threads as nodes, or more, reach every node, so `final(invoke("read"))` reads everywhere once the
    faults were healed. A thread waits `retry_s` between its attempts.
    """
    return clients(time_limit(timeout_s, each_thread(until_ok(spaced(retry_s, repeat(source))))))


__all__ = ["final", "until_ok"]
