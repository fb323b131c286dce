"""G2: two clients each see that neither of two rows exists, and each inserts one of them; only one may.

A transaction reads both rows of a pair, and inserts its own if there is none. If two succeed, each overwrote what the
other one had read: write skew, an anti-dependency cycle (G2-item; Adya, 1999; Jepsen's `adya`, there with predicates).
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, Final

from splitbrain.checkers.verdict import CheckerSpec
from splitbrain.harness.contract.nodes import NodeId
from splitbrain.harness.contract.operations import TRANSACTIONS
from splitbrain.harness.contract.sessions import Transactions
from splitbrain.harness.contract.test import WHOLE, OpShape, Test, Workload
from splitbrain.harness.generators import (
    Context,
    Generator,
    concurrent_keys,
    each,
    each_thread,
    invoke,
    limit,
    sequence,
)
from splitbrain.results.errors import ProtocolError
from splitbrain.results.history import Op
from splitbrain.workloads.groups import final_reads, keys_used, threads_per_key
from splitbrain.workloads.sessions import ANY, SessionClient

ROWS: Final = 2


class G2Client(SessionClient[Transactions]):
    """Inserts one row of a pair if there is none, and reads both."""

    operations = TRANSACTIONS
    shared_by = ANY

    async def invoke(self, test: Test, op: Op) -> Op:
        """Carry out one op; an exception of the session goes through to the runner, which knows what it means."""
        names = [f"{op.key}.{row}" for row in range(ROWS)]
        if op.f == "insert":
            wanted = {name: number for name, number in zip(names, op.value, strict=True) if number is not None}

            def change(read: Mapping[str, Any]) -> Mapping[str, Any] | None:
                return wanted if all(held is None for held in read.values()) else None

            answer = await self.session.update(names, change)
            return op.complete("ok", op.value, term=answer.term)
        if op.f == "read":
            answer = await self.session.transact([["r", name, None] for name in names])
            return op.complete("ok", [mop[2] for mop in answer.value], term=answer.term)
        raise ProtocolError(f"the g2 workload knows no op {op.f!r}, only insert and read.")


def _insertion(ctx: Context) -> Op:
    """A row with the client's own number; clients take turns between the two rows of a pair."""
    (thread,) = ctx.free_threads
    process = ctx.processes[thread]
    return invoke("insert", [process, None] if thread % ROWS else [None, process])


def g2(*, nodes: Sequence[NodeId], concurrency: int, rate: float = 100.0, time_limit_s: float = 30.0) -> Workload:
    """The workload for this number of clients of these nodes, at `rate` ops per second for `time_limit_s`."""
    threads = threads_per_key(concurrency, len(nodes))

    def of_pair(_: str) -> Generator:
        return each_thread(sequence(limit(1, each(_insertion)), limit(1, each(lambda _: invoke("read")))))

    return Workload(
        name="g2",
        client=G2Client(),
        generator=concurrent_keys(threads, itertools.count(), of_pair),
        final_generator=final_reads(keys_used(rate, time_limit_s, 2 * threads)),
        checkers=(
            CheckerSpec("g2"),
            CheckerSpec("stats"),
            CheckerSpec("coverage", {"fs": ["insert", "read"], "reads": []}),
        ),
        fs=("insert", "read"),
        needs=frozenset({TRANSACTIONS.name}),
        shapes={
            "insert": OpShape(keyed=True, value=tuple[WHOLE | None, WHOLE | None]),
            "read": OpShape(keyed=True),
        },
    )
