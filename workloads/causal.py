"""Causal: each transaction writes one key, or reads two. A client that sees a write sees what led to it.

What led to it is all that the session of the write had seen and written before.

The checker follows sessions and reads with vector clocks. A key is read in the transaction that writes it, so that it
is known which version is older: else the newer one might be. (Jepsen's `causal` has one session for each key, and so
sees only what a session does to itself.)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from splitbrain.checkers.verdict import CheckerSpec
from splitbrain.harness.contract.nodes import NodeId
from splitbrain.harness.contract.operations import TRANSACTIONS
from splitbrain.harness.contract.test import OpShape, Workload
from splitbrain.harness.generators import PENDING, Context, Generator, Result, invoke
from splitbrain.harness.generators.leaves import assign
from splitbrain.results.history import Mop, Op
from splitbrain.workloads.transactions import TXN, Keys, TransactionClient, final_transactions, keys_written

MODEL: Final = "causal"
WRITE_SHARE: Final = 0.4


class Caused(msgspec.Struct, frozen=True):
    """Writes of one key, and reads of two, by any free client."""

    keys: Keys = Keys()

    def op(self, ctx: Context) -> Result:
        """The next transaction."""
        if not ctx.free:
            return PENDING, self
        keys, place, writes = self.keys, self.keys.draw(ctx.rng), ctx.rng.random() < WRITE_SHARE
        if writes:
            value, after = keys.write(place)
            mops = (Mop("r", keys.name(place)), Mop("w", keys.name(place), value))
        else:
            after, places = keys, dict.fromkeys((place, keys.draw(ctx.rng)))
            mops = tuple(Mop("r", keys.name(each)) for each in places)
        op = assign(invoke(TXN, mops=mops), ctx)
        return (PENDING, self) if op is None else (op, Caused(after))

    def update(self, ctx: Context, event: Op) -> Generator:
        """Values do not depend on what became of earlier ones: each is written at most once."""
        return self


def causal(
    *,
    nodes: Sequence[NodeId],  # noqa: ARG001 - as every builder
    concurrency: int,  # noqa: ARG001
    rate: float = 100.0,
    time_limit_s: float = 30.0,
) -> Workload:
    """The workload, the same for any number of nodes and clients, at `rate` ops per second for `time_limit_s`."""
    return Workload(
        name="causal",
        client=TransactionClient(),
        generator=Caused(),
        final_generator=final_transactions(keys_written(rate, time_limit_s, WRITE_SHARE)),
        checkers=(
            CheckerSpec("rw-register", {"consistency_models": [MODEL]}),
            CheckerSpec("stats"),
            CheckerSpec("coverage", {"fs": [TXN]}),
        ),
        fs=(TXN,),
        needs=frozenset({TRANSACTIONS.name}),
        shapes={TXN: OpShape(writes=frozenset({"w"}))},
    )
