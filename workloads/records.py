"""Records that are written and never read: no later op can contradict an acknowledgement.

Audit trails and heartbeats are like that: they may be read years later. No history of such ops is ever wrong; the only
sign of a lost record is that a node acknowledged it while it could not reach a majority (`quorum-progress`).
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from splitbrain.checkers.verdict import CheckerSpec
from splitbrain.harness.contract.nodes import NodeId
from splitbrain.harness.contract.operations import KEY_VALUE
from splitbrain.harness.contract.sessions import KeyValue
from splitbrain.harness.contract.test import WHOLE, OpShape, Test, Workload
from splitbrain.harness.generators import PENDING, Context, Generator, Result, invoke
from splitbrain.harness.generators.leaves import assign
from splitbrain.results.errors import ProtocolError
from splitbrain.results.history import Op
from splitbrain.workloads.sessions import ANY, SessionClient


class RecordsClient(SessionClient[KeyValue]):
    """Writes records."""

    operations = KEY_VALUE
    shared_by = ANY

    async def invoke(self, test: Test, op: Op) -> Op:
        """Carry out one op; an exception of the session goes through to the runner, which knows what it means."""
        if op.f != "write":
            raise ProtocolError(f"the records workload knows no op {op.f!r}, only write.")
        answer = await self.session.write(f"record-{op.value}", op.value)
        return op.complete("ok", op.value, term=answer.term)


class Records(msgspec.Struct, frozen=True):
    """Writes records 0, 1, 2 and so on, by any free client."""

    number: int = 0

    def op(self, ctx: Context) -> Result:
        """The next record."""
        op = assign(invoke("write", self.number), ctx)
        return (PENDING, self) if op is None else (op, Records(self.number + 1))

    def update(self, ctx: Context, event: Op) -> Generator:
        """Records do not depend on what became of earlier ones: each is written at most once."""
        return self


def records(
    *,
    nodes: Sequence[NodeId],  # noqa: ARG001 - as every builder
    concurrency: int,  # noqa: ARG001
    rate: float = 100.0,  # noqa: ARG001
    time_limit_s: float = 30.0,  # noqa: ARG001
) -> Workload:
    """The workload. It is the same for any number of nodes and clients."""
    return Workload(
        name="records",
        client=RecordsClient(),
        generator=Records(),
        final_generator=None,
        checkers=(CheckerSpec("stats"), CheckerSpec("coverage", {"fs": ["write"]})),
        fs=("write",),
        needs=frozenset({KEY_VALUE.name}),
        shapes={"write": OpShape(value=WHOLE)},
    )
