"""Counters: add amounts to a few numbers, and read them; each increment counts once, and answers the sum.

A client whose request got no answer may send it again. It must not count twice for that, nor not at all: what became of
it shows in the sums that others are answered. So amounts vary: hardly two sets of them have the same sum.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Final

from splitbrain.checkers.verdict import CheckerSpec
from splitbrain.harness.contract.nodes import NodeId
from splitbrain.harness.contract.sessions import COUNTERS, Counters
from splitbrain.harness.contract.test import WHOLE, OpShape, Test, Workload
from splitbrain.harness.generators import Context, Generator, concurrent_keys, each, invoke, limit, mix
from splitbrain.results.errors import ProtocolError
from splitbrain.results.history import Op
from splitbrain.workloads.groups import final_reads, keys_used, readers_apart, threads_per_key
from splitbrain.workloads.sessions import SessionClient

AMOUNTS: Final = 1_000_000
"""The largest amount."""

OPS_PER_KEY: Final = 200


class CounterClient(SessionClient[Counters]):
    """Adds to one counter at a time, and reads it."""

    operations = COUNTERS

    async def invoke(self, test: Test, op: Op) -> Op:
        """Carry out one op; an exception of the session goes through to the runner, which knows what it means."""
        key = op.key or ""
        if op.f == "increment":
            answer = await self.session.increment(key, op.value)
            return op.complete("ok", answer.value, term=answer.term)
        if op.f == "read":
            answer = await self.session.read_counter(key)
            return op.complete("ok", answer.value, term=answer.term)
        raise ProtocolError(f"the counter workload knows no op {op.f!r}, only increment and read.")


def _increment(ctx: Context) -> Op:
    return invoke("increment", 1 + ctx.rng.below(AMOUNTS))


def counter(
    *,
    nodes: Sequence[NodeId],
    concurrency: int,
    rate: float = 100.0,
    time_limit_s: float = 30.0,
    ops_per_key: int = OPS_PER_KEY,
) -> Workload:
    """The workload for this number of clients of these nodes.

    Args:
        nodes: names of the nodes.
        concurrency: number of clients.
        rate: their ops per second, for the number of keys that are read at the end.
        time_limit_s: length of the faults phase, likewise.
        ops_per_key: ops on one key before the next one's turn.
    """
    threads = threads_per_key(concurrency, len(nodes))

    def of_key(_: str) -> Generator:
        reads = each(lambda _: invoke("read"))
        return limit(ops_per_key, readers_apart(threads, len(nodes), reads, mix(_increment, _increment, reads)))

    return Workload(
        name="counter",
        client=CounterClient(),
        generator=concurrent_keys(threads, itertools.count(), of_key),
        final_generator=final_reads(keys_used(rate, time_limit_s, ops_per_key)),
        checkers=(
            CheckerSpec("linearizable", {"model": "counter"}),
            CheckerSpec("counter"),
            CheckerSpec("stats"),
            CheckerSpec("coverage", {"fs": ["increment", "read"]}),
        ),
        fs=("increment", "read"),
        needs=frozenset({COUNTERS.name}),
        shapes={"increment": OpShape(keyed=True, value=WHOLE), "read": OpShape(keyed=True)},
    )
