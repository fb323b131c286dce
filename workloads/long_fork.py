"""Long fork: two writes that do not know of each other, and reads of both; all reads see them in one order.

Each of two registers is written once. If one read sees the first write only and another one the second only, there is
no single order of both: a long fork, which parallel snapshot isolation allows and snapshot isolation does not (Sovran,
Power, Aguilera and Li, SOSP 2011; Jepsen's `long-fork`).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Annotated, Final

import msgspec

from splitbrain.checkers.verdict import CheckerSpec
from splitbrain.harness.contract.nodes import NodeId
from splitbrain.harness.contract.operations import TRANSACTIONS
from splitbrain.harness.contract.sessions import Transactions
from splitbrain.harness.contract.test import OpShape, Test, Workload
from splitbrain.harness.generators import Generator, concurrent_keys, each, invoke, limit, mix
from splitbrain.results.errors import ProtocolError
from splitbrain.results.history import Op
from splitbrain.workloads.groups import final_reads, keys_used, threads_per_key
from splitbrain.workloads.sessions import ANY, SessionClient

REGISTERS: Final = 2
OPS_PER_KEY: Final = 12
"""Reads and both writes of one pair; most reads should come between the writes."""


class LongForkClient(SessionClient[Transactions]):
    """Writes one register of a pair, and reads both; registers by number."""

    operations = TRANSACTIONS
    shared_by = ANY

    async def invoke(self, test: Test, op: Op) -> Op:
        """Carry out one op; an exception of the session goes through to the runner, which knows what it means."""
        names = [f"{op.key}.{number}" for number in range(REGISTERS)]
        if op.f == "write":
            answer = await self.session.transact([["w", names[op.value], 1]])
            return op.complete("ok", op.value, term=answer.term)
        if op.f == "read":
            order = names if op.process % 2 else names[::-1]  # what is not at one moment may show in one order only
            answer = await self.session.transact([["r", name, None] for name in order])
            found = {key: value for _, key, value in answer.value}
            return op.complete("ok", [found[name] for name in names], term=answer.term)
        raise ProtocolError(f"the long-fork workload knows no op {op.f!r}, only write and read.")


def long_fork(
    *, nodes: Sequence[NodeId], concurrency: int, rate: float = 100.0, time_limit_s: float = 30.0
) -> Workload:
    """The workload for this number of clients of these nodes, at `rate` ops per second for `time_limit_s`."""
    threads = threads_per_key(concurrency, len(nodes))

    def of_key(_: str) -> Generator:
        reads = each(lambda _: invoke("read"))
        writes = [invoke("write", number) for number in range(REGISTERS)]
        return limit(OPS_PER_KEY, mix(*writes, reads, weights=[1, 1, 2]))

    return Workload(
        name="long-fork",
        client=LongForkClient(),
        generator=concurrent_keys(threads, itertools.count(), of_key),
        final_generator=final_reads(keys_used(rate, time_limit_s, OPS_PER_KEY)),
        checkers=(
            CheckerSpec("long-fork"),
            CheckerSpec("stats"),
            CheckerSpec("coverage", {"fs": ["write", "read"]}),
        ),
        fs=("write", "read"),
        needs=frozenset({TRANSACTIONS.name}),
        shapes={
            "write": OpShape(keyed=True, value=Annotated[int, msgspec.Meta(ge=0, lt=REGISTERS)]),
            "read": OpShape(keyed=True),
        },
    )
