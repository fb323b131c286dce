"""Create if absent: several clients race for each key; exactly one wins, and all read the winner.

Declaring a queue is such an operation. Each creation has its own id, so a read shows the winner. A creation
that lost is a `fail` (it did not happen), and proves nothing by itself: the reads carry the proof.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Final

import msgspec

from splitbrain.checkers.verdict import CheckerSpec
from splitbrain.harness.contract.nodes import NodeId
from splitbrain.harness.contract.operations import CREATIONS
from splitbrain.harness.contract.sessions import CreatedKeys
from splitbrain.harness.contract.test import WHOLE, OpShape, Test, Workload
from splitbrain.harness.generators import (
    PENDING,
    Context,
    Generator,
    Result,
    concurrent_keys,
    each,
    invoke,
    limit,
    sequence,
)
from splitbrain.harness.generators.leaves import assign
from splitbrain.results.errors import ProtocolError
from splitbrain.results.history import Op
from splitbrain.workloads.groups import final_reads, keys_used, readers_apart, threads_per_key
from splitbrain.workloads.sessions import ANY, SessionClient

OPS_PER_THREAD: Final = 3
"""Ops on one key, for each thread that works on it: a creation or a first look, and reads after the race."""


class DeclareClient(SessionClient[CreatedKeys]):
    """Creates keys, and reads them."""

    operations = CREATIONS
    shared_by = ANY

    async def invoke(self, test: Test, op: Op) -> Op:
        """Carry out one op; an exception of the session goes through to the runner, which knows what it means."""
        key = op.key or ""
        if op.f == "create":
            answer = await self.session.create(key, op.value)
            if answer.value:
                return op.complete("ok", op.value, term=answer.term)
            return op.complete("fail", op.value, term=answer.term, error="exists")
        if op.f == "read":
            answer = await self.session.read(key)
            return op.complete("ok", answer.value, term=answer.term)
        raise ProtocolError(f"the declare workload knows no op {op.f!r}, only create and read.")


class Creations(msgspec.Struct, frozen=True):
    """Creations with the ids 0, 1, 2 and so on, by any free client."""

    writer: int = 0

    def op(self, ctx: Context) -> Result:
        """A creation with the next id."""
        op = assign(invoke("create", self.writer), ctx)
        return (PENDING, self) if op is None else (op, Creations(self.writer + 1))

    def update(self, ctx: Context, event: Op) -> Generator:
        """Ids do not depend on what became of earlier ones: each is used once."""
        return self


def declare(*, nodes: Sequence[NodeId], concurrency: int, rate: float = 100.0, time_limit_s: float = 30.0) -> Workload:
    """The workload for this number of clients of these nodes, at `rate` ops per second for `time_limit_s`."""
    threads = threads_per_key(concurrency, len(nodes))

    def of_key(_: str) -> Generator:
        reads = each(lambda _: invoke("read"))
        race = sequence(limit(threads, Creations()), reads)
        return limit(OPS_PER_THREAD * threads, readers_apart(threads, len(nodes), reads, race))

    return Workload(
        name="declare",
        client=DeclareClient(),
        generator=concurrent_keys(threads, itertools.count(), of_key),
        final_generator=final_reads(keys_used(rate, time_limit_s, OPS_PER_THREAD * threads)),
        checkers=(
            CheckerSpec("linearizable", {"model": "create-once"}),
            CheckerSpec("declare"),
            CheckerSpec("stats"),
            CheckerSpec("coverage", {"fs": ["create", "read"]}),
        ),
        fs=("create", "read"),
        needs=frozenset({CREATIONS.name}),
        shapes={"create": OpShape(keyed=True, value=WHOLE), "read": OpShape(keyed=True)},
    )
