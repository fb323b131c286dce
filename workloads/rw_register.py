"""Registers in mini-transactions: one or two keys, each read before it is written.

Values alone do not show in which order the versions of a register came. A transaction that reads a key before it writes
it says which version it overwrote, so that the order is known (Tan, Bouajjani, Enea et al., "MTC", 2025).

Half of those that write are carried out as one request, the others as programs do it: read, compute, write (`update`).
Half of the latter give up when they are to be tried again, so that there are transactions that were begun, and aborted
by the system: no read may find what they would have written (G1a).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from splitbrain.harness.contract.capabilities import STRICT_SERIALIZABLE
from splitbrain.harness.contract.nodes import NodeId
from splitbrain.harness.contract.test import Test, Workload
from splitbrain.harness.generators import PENDING, Context, Generator, Result, invoke
from splitbrain.harness.generators.leaves import assign
from splitbrain.results.history import Mop, Op
from splitbrain.workloads.transactions import TXN, Keys, TransactionClient, judged_by, keys_written

READ_ONLY: Final = 0.3
"""The share of transactions that only read, two keys each."""

KEYS_PER_OP: Final = 2
WRITES_PER_OP: Final = 1.2
"""On average: a transaction that writes does so to one or two of the keys that it reads."""


class RegisterTransactions(TransactionClient):
    """Carries out mini-transactions: as one request, or as a program that reads before it writes."""

    async def invoke(self, test: Test, op: Op) -> Op:
        """Carry out one op; an exception of the session goes through to the runner, which knows what it means."""
        mops = op.mops or ()
        writes = {mop.key: mop.value for mop in mops if mop.f == "w"}
        first = next(iter(writes.values()), None)
        if op.f != TXN or first is None or first % 2 == 0 or not _reads_first(mops):
            return await super().invoke(test, op)
        attempts = 0

        def change(_: Mapping[str, Any]) -> Mapping[str, Any] | None:
            nonlocal attempts
            attempts += 1
            return None if attempts > 1 and first % 4 == 1 else writes

        read = [mop.key for mop in mops if mop.f == "r"]
        answer = await self.session.update(read, change)
        done = tuple(Mop("r", mop.key, answer.value[mop.key]) if mop.f == "r" else mop for mop in mops)
        return op.complete("ok", mops=done, term=answer.term)


def _reads_first(mops: Sequence[Mop]) -> bool:
    """Whether no key is read twice, or read after it was written, or written without having been read."""
    read: set[str] = set()
    written: set[str] = set()
    for mop in mops:
        if mop.key in (read if mop.f == "r" else written) or (mop.f == "w") != (mop.key in read):
            return False
        (read if mop.f == "r" else written).add(mop.key)
    return True


class MiniTransactions(msgspec.Struct, frozen=True):
    """Transactions that read two keys, and most of them write one or both, by any free client."""

    keys: Keys = Keys()

    def op(self, ctx: Context) -> Result:
        """The next transaction."""
        if not ctx.free:
            return PENDING, self
        keys, mops = self.keys, list[Mop]()
        reads_only = ctx.rng.random() < READ_ONLY
        both = ctx.rng.random() < 0.5
        places = list(dict.fromkeys(keys.draw(ctx.rng) for _ in range(KEYS_PER_OP)))
        for at, place in enumerate(places):
            mops.append(Mop("r", keys.name(place)))
            if not reads_only and (both or at == 0):
                key = keys.name(place)
                value, keys = keys.write(place)
                mops.append(Mop("w", key, value))
        op = assign(invoke(TXN, mops=tuple(mops)), ctx)
        return (PENDING, self) if op is None else (op, MiniTransactions(keys))

    def update(self, ctx: Context, event: Op) -> Generator:
        """Values do not depend on what became of earlier ones: each is written at most once."""
        return self


def rw_register(
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
    keys = keys_written(rate, time_limit_s, WRITES_PER_OP)
    return judged_by(
        "rw-register", isolation, client=RegisterTransactions(), generator=MiniTransactions(), write="w", keys=keys
    )
