"""The whole runner under virtual time: a history is a function of the seed, times included, and takes no real time."""

from __future__ import annotations

import asyncio

import pytest
from virtual import VirtualClock
from worlds import FakeClient, FakeNemesis, MemoryDeployment, MemoryRecorder, make_test

from splitbrain import run_test
from splitbrain.harness.contract.clock import Runtime
from splitbrain.harness.contract.rng import Streams
from splitbrain.harness.contract.sessions import DefiniteError, IndefiniteError
from splitbrain.harness.generators import (
    concurrent_keys,
    each,
    final,
    invoke,
    limit,
    mix,
    repeat,
    sequence,
    sleep,
    stagger,
)
from splitbrain.results.history import NEMESIS, Op


def history(seed: int) -> list[Op]:
    """30 s of a run in which clients answer late, refuse, crash or time out, and nodes are killed."""
    clock, streams, recorder = VirtualClock(), Streams(seed), MemoryRecorder()
    network = streams["network"]

    async def respond(op: Op) -> Op:
        await clock.sleep_ns(network.between(1_000_000, 600_000_000 if network.random() < 0.05 else 20_000_000))
        fate = network.random()
        if fate < 0.05:
            raise DefiniteError("refused")
        if fate < 0.1:
            raise IndefiniteError("lost")
        return op.complete("ok", op.value)

    work = concurrent_keys(
        3,
        range(10**6),
        lambda key: limit(50, mix(repeat(invoke("read")), each(lambda ctx: invoke("write", ctx.rng.below(5))))),
    )
    test = make_test(
        FakeClient(respond),
        seed=seed,
        concurrency=8,
        generator=stagger(0.01, work),
        rate=100.0,
        time_limit_s=30.0,
        nemesis=FakeNemesis(),
        faults=repeat(sequence(sleep(1), invoke("kill"), sleep(2), invoke("start"))),
        heal=sequence(invoke("start")),
        final=final(invoke("read")),
    )

    async def simulated() -> None:
        pump = asyncio.ensure_future(clock.advance())
        summary = await run_test(test, MemoryDeployment(), Runtime(clock=clock, streams=streams), recorder)
        pump.cancel()
        assert summary.failure is None
        assert min(summary.ok, summary.fail, summary.info) > 20

    asyncio.run(simulated())
    return recorder.ops


@pytest.mark.slow
def test_the_same_seed_gives_the_same_history_to_the_nanosecond() -> None:
    first, second, other = history(5), history(5), history(6)
    assert first == second
    assert first != other
    assert first[-1].time > 30_000_000_000
    assert len([op for op in first if op.process == NEMESIS]) > 30
    assert any(op.error == "timeout: no answer within 0.5 s" for op in first)
    assert not any(op.f == "stall" for op in first)
