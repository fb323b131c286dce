"""Generators that no event changes say so, and those of a key are not told of events then."""

from __future__ import annotations

import itertools

import pytest

from splitbrain.harness.contract.generator import Context, Generator, Result, hears
from splitbrain.harness.contract.rng import Rng
from splitbrain.harness.generators import concurrent_keys, each, invoke, limit, mix, reserve, sequence
from splitbrain.harness.generators.leaves import NOTHING, generator
from splitbrain.results.history import Op

LEAF = each(lambda _: invoke("read"))


class Told:
    """A generator that hears, and counts what it hears."""

    def __init__(self) -> None:
        self.events = 0

    def op(self, ctx: Context) -> Result:
        """An op."""
        return Op(process=ctx.processes[ctx.pick(ctx.free)], type="invoke", f="read"), self

    def update(self, ctx: Context, event: Op) -> Generator:
        """One more."""
        self.events += 1
        return self


@pytest.mark.parametrize(
    "deaf", [LEAF, generator(invoke("read")), NOTHING, limit(3, LEAF), mix(LEAF, LEAF), reserve((1, LEAF), rest=LEAF)]
)
def test_what_is_made_of_leaves_is_deaf_and_so_is_what_remains_of_it(deaf: Generator) -> None:
    ctx = Context.initial(4, ("n1", "n2"), Rng(1), Rng(2)).of_clients()
    for _ in range(10):
        assert not hears(deaf)
        assert deaf.update(ctx, Op(process=0, type="ok", f="read")) is deaf
        result = deaf.op(ctx)
        if result is None:
            return
        deaf = result[1]


def test_what_has_a_part_that_hears_hears() -> None:
    told = Told()
    for hearing in (told, limit(3, told), mix(LEAF, told), reserve((1, LEAF), rest=told), sequence(LEAF)):
        assert hears(hearing)


def test_the_generator_of_a_key_is_told_of_events_only_if_it_hears() -> None:
    told = Told()
    ctx = Context.initial(2, ("n1", "n2"), Rng(1), Rng(2))
    for source, events in ((told, 1), (LEAF, 1)):
        keys = concurrent_keys(2, itertools.count(), lambda _, source=source: source)
        result = keys.op(ctx)
        assert result is not None
        op, remaining = result
        assert isinstance(op, Op)
        after = remaining.update(ctx, op)
        assert told.events == events
        if source is LEAF:
            assert after is remaining


def test_the_context_of_clients_is_the_restricted_one() -> None:
    ctx = Context.initial(3, ("n1", "n2"), Rng(1), Rng(2))
    assert ctx.of_clients() == ctx.restrict(~ctx.nemesis_bit)
    assert ctx.of_clients().threads == 0b111
