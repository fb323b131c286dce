"""A set that only grows: add unique numbers, read all of them; what was acknowledged must stay.

Clients mostly add. A few read while faults are in force, and in the final phase every client reads until it was
answered, so that every node says what it holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, cast

import msgspec

from splitbrain.checkers.verdict import CheckerSpec
from splitbrain.harness.contract.nodes import NodeId
from splitbrain.harness.contract.operations import COLLECTIONS
from splitbrain.harness.contract.sessions import Collections
from splitbrain.harness.contract.test import WHOLE, OpShape, Test, Workload
from splitbrain.harness.generators import PENDING, Context, Generator, Result, each, final, invoke, mix
from splitbrain.harness.generators.leaves import assign
from splitbrain.results.errors import ProtocolError
from splitbrain.results.history import Op
from splitbrain.workloads.sessions import ANY, SessionClient

COLLECTION: Final = "elements"
ADDS_PER_READ: Final = 99
"""A read answers with the whole set: more of them would make a long run's history large."""


class SetClient(SessionClient[Collections]):
    """Adds elements to one set, and reads it."""

    operations = COLLECTIONS
    shared_by = ANY

    async def invoke(self, test: Test, op: Op) -> Op:
        """Carry out one op; an exception of the session goes through to the runner, which knows what it means."""
        if op.f == "add":
            answer = await self.session.add(COLLECTION, op.value)
            return op.complete("ok", op.value, term=answer.term)
        if op.f == "read":
            answer = await self.session.elements(COLLECTION)
            return op.complete("ok", sorted(cast("Sequence[int]", answer.value)), term=answer.term)
        raise ProtocolError(f"the set workload knows no op {op.f!r}, only add and read.")


class Adds(msgspec.Struct, frozen=True):
    """Adds 0, 1, 2 and so on, by any free client."""

    element: int = 0

    def op(self, ctx: Context) -> Result:
        """The next element."""
        op = assign(invoke("add", self.element), ctx)
        return (PENDING, self) if op is None else (op, Adds(self.element + 1))

    def update(self, ctx: Context, event: Op) -> Generator:
        """Elements do not depend on what became of earlier ones: each is added at most once."""
        return self


def grow_set(
    *,
    nodes: Sequence[NodeId],  # noqa: ARG001 - as every builder
    concurrency: int,  # noqa: ARG001
    rate: float = 100.0,  # noqa: ARG001
    time_limit_s: float = 30.0,  # noqa: ARG001
) -> Workload:
    """The workload. It is the same for any number of nodes and clients."""
    reads = each(lambda _: invoke("read"))
    return Workload(
        name="set",
        client=SetClient(),
        generator=mix(Adds(), reads, weights=[ADDS_PER_READ, 1]),
        final_generator=final(invoke("read")),
        checkers=(CheckerSpec("set"), CheckerSpec("stats"), CheckerSpec("coverage", {"fs": ["add", "read"]})),
        fs=("add", "read"),
        needs=frozenset({COLLECTIONS.name}),
        shapes={"add": OpShape(value=WHOLE), "read": OpShape()},
    )
