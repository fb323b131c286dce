"""List-append: transactions of one to four reads of lists and appends to them; isolation shows in their order.

A list that is read shows all appends before it in their order. So nearly all dependencies of transactions are seen, and
the checker names what isolation lacks (Kingsbury and Alvaro, "Elle", VLDB 2020).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from splitbrain.harness.contract.capabilities import STRICT_SERIALIZABLE
from splitbrain.harness.contract.nodes import NodeId
from splitbrain.harness.contract.test import Workload
from splitbrain.harness.generators import PENDING, Context, Generator, Result, invoke
from splitbrain.harness.generators.leaves import assign
from splitbrain.results.history import Mop, Op
from splitbrain.workloads.transactions import TXN, Keys, TransactionClient, judged_by, keys_written

LENGTH_MAX: Final = 4
APPENDS_PER_OP: Final = (1 + LENGTH_MAX) / 2 / 2
"""On average: every other micro-operation appends."""


class Appends(msgspec.Struct, frozen=True):
    """Transactions of one to `LENGTH_MAX` micro-operations, by any free client; each appends or reads, evenly."""

    keys: Keys = Keys()

    def op(self, ctx: Context) -> Result:
        """The next transaction."""
        if not ctx.free:
            return PENDING, self
        mops: list[Mop] = []
        keys = self.keys
        for _ in range(ctx.rng.between(1, LENGTH_MAX)):
            place, appends = keys.draw(ctx.rng), ctx.rng.random() < 0.5
            key = keys.name(place)
            if appends:
                value, keys = keys.write(place)
                mops.append(Mop("append", key, value))
            else:
                mops.append(Mop("r", key))
        op = assign(invoke(TXN, mops=tuple(mops)), ctx)
        return (PENDING, self) if op is None else (op, Appends(keys))

    def update(self, ctx: Context, event: Op) -> Generator:
        """Values do not depend on what became of earlier ones: each is appended at most once."""
        return self


def list_append(
    *,
    nodes: Sequence[NodeId],  # noqa: ARG001 - as every builder
    concurrency: int,  # noqa: ARG001
    rate: float = 100.0,
    time_limit_s: float = 30.0,
    isolation: str = STRICT_SERIALIZABLE,
) -> Workload:
    """The workload, the same for any number of nodes and clients.

    Args:
        nodes: names of the nodes.
        concurrency: number of clients.
        rate: ops per second, for the number of keys that are read at the end.
        time_limit_s: length of the faults phase, likewise.
        isolation: the consistency models that transactions must satisfy, separated by commas.
    """
    keys = keys_written(rate, time_limit_s, APPENDS_PER_OP)
    return judged_by(
        "list-append", isolation, client=TransactionClient(), generator=Appends(), write="append", keys=keys
    )
