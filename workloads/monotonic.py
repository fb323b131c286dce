"""Monotonic: each increment reads several registers, and writes one more than their maximum to one of them.

So all increments are in one order, that of the numbers which they wrote, and later ones find all earlier ones
(Jepsen's `monotonic`, of the analysis of CockroachDB, 2017; there timestamps are compared with that order).
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, cast

import msgspec

from splitbrain.checkers.verdict import CheckerSpec
from splitbrain.harness.contract.nodes import NodeId
from splitbrain.harness.contract.operations import TRANSACTIONS
from splitbrain.harness.contract.sessions import Transactions
from splitbrain.harness.contract.test import OpShape, Test, Workload
from splitbrain.harness.generators import Context, Generator, concurrent_keys, each, invoke, limit
from splitbrain.results.errors import ProtocolError
from splitbrain.results.history import Op
from splitbrain.workloads.groups import final_reads, keys_used, readers_apart, threads_per_key
from splitbrain.workloads.sessions import ANY, SessionClient

REGISTERS: Final = 3
OPS_PER_KEY: Final = 200


class MonotonicClient(SessionClient[Transactions]):
    """Increments the maximum of some registers, and reads them; registers by number."""

    operations = TRANSACTIONS
    shared_by = ANY

    async def invoke(self, test: Test, op: Op) -> Op:
        """Carry out one op; an exception of the session goes through to the runner, which knows what it means."""
        names = [f"{op.key}.{number}" for number in range(REGISTERS)]
        if op.f == "increment":
            where = names[cast("int", op.value)]

            def change(read: Mapping[str, Any]) -> Mapping[str, Any]:
                return {where: 1 + max(_held(read[name]) for name in names)}

            answer = await self.session.update(names, change)
            return op.complete("ok", [_held(answer.value[name]) for name in names], term=answer.term)
        if op.f == "read":
            answer = await self.session.transact([["r", name, None] for name in names])
            return op.complete("ok", [_held(mop[2]) for mop in answer.value], term=answer.term)
        raise ProtocolError(f"the monotonic workload knows no op {op.f!r}, only increment and read.")


def _held(value: Any) -> int:
    return 0 if value is None else value


def _increment(ctx: Context) -> Op:
    return invoke("increment", ctx.rng.below(REGISTERS))


def monotonic(
    *, nodes: Sequence[NodeId], concurrency: int, rate: float = 100.0, time_limit_s: float = 30.0
) -> Workload:
    """The workload for this number of clients of these nodes, at `rate` ops per second for `time_limit_s`."""
    threads = threads_per_key(concurrency, len(nodes))

    def of_key(_: str) -> Generator:
        reads = each(lambda _: invoke("read"))
        return limit(OPS_PER_KEY, readers_apart(threads, len(nodes), reads, _increment))

    return Workload(
        name="monotonic",
        client=MonotonicClient(),
        generator=concurrent_keys(threads, itertools.count(), of_key),
        final_generator=final_reads(keys_used(rate, time_limit_s, OPS_PER_KEY)),
        checkers=(
            CheckerSpec("monotonic"),
            CheckerSpec("stats"),
            CheckerSpec("coverage", {"fs": ["increment", "read"], "reads": []}),
        ),
        fs=("increment", "read"),
        needs=frozenset({TRANSACTIONS.name}),
        shapes={
            "increment": OpShape(keyed=True, value=Annotated[int, msgspec.Meta(ge=0, lt=REGISTERS)]),
            "read": OpShape(keyed=True),
        },
    )
