"""Locks: clients acquire and release a lock; it has one owner at a time, and its fencing tokens grow.

A lock that is held is refused at once (`fail`), and its client tries again; an owner releases the lock with its next
op. If the outcome of an acquire or a release is unknown, the client has crashed, and a successor with another number
takes its place; so a lock may stay held for good, and clients use the next one after a number of ops.

No lock is lost because a lease ran out: where a system ties a lock to a lease, the lease is longer than any run. So the
model may demand that the next owner comes only after the last one gave the lock back (`fenced-mutex`).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Final

from splitbrain.checkers.verdict import CheckerSpec
from splitbrain.harness.contract.nodes import NodeId
from splitbrain.harness.contract.operations import LOCKS
from splitbrain.harness.contract.sessions import Locks
from splitbrain.harness.contract.test import OpShape, Test, Workload
from splitbrain.harness.generators import (
    Generator,
    concurrent_keys,
    each,
    each_process,
    invoke,
    limit,
    repeat,
    sequence,
    until_ok,
)
from splitbrain.results.errors import ProtocolError
from splitbrain.results.history import Op
from splitbrain.workloads.sessions import SessionClient

OPS_PER_LOCK: Final = 100
CLIENTS_MIN: Final = 2


class LockClient(SessionClient[Locks]):
    """Takes locks and gives them back, in the name of the op's process."""

    operations = LOCKS

    async def invoke(self, test: Test, op: Op) -> Op:
        """Carry out one op; an exception of the session goes through to the runner, which knows what it means."""
        session, name = self.session, op.key or ""
        if op.f == "acquire":
            answer = await session.lock(name, op.process)
            if answer.value is None:
                return op.complete("fail", term=answer.term, error="held")
            return op.complete("ok", answer.value, term=answer.term)
        if op.f == "release":
            answer = await session.unlock(name, op.process)
            if answer.value:
                return op.complete("ok", term=answer.term)
            return op.complete("fail", term=answer.term, error="not the owner")
        raise ProtocolError(f"the lock workload knows no op {op.f!r}, only acquire and release.")


def lock(
    *,
    nodes: Sequence[NodeId],
    concurrency: int,
    rate: float = 100.0,  # noqa: ARG001 - as every builder
    time_limit_s: float = 30.0,  # noqa: ARG001
) -> Workload:
    """The workload for this number of clients of these nodes; one client of each node shares a lock with the others."""
    clients = min(max(len(nodes), CLIENTS_MIN), concurrency)

    def of_lock(_: str) -> Generator:
        acquire, release = (until_ok(each(lambda _, f=f: invoke(f))) for f in ("acquire", "release"))
        return limit(OPS_PER_LOCK, each_process(repeat(sequence(acquire, release))))

    return Workload(
        name="lock",
        client=LockClient(),
        generator=concurrent_keys(clients, itertools.count(), of_lock),
        final_generator=None,
        checkers=(
            CheckerSpec("linearizable", {"model": "fenced-mutex"}),
            CheckerSpec("stats"),
            CheckerSpec("coverage", {"fs": ["acquire", "release"]}),
        ),
        fs=("acquire", "release"),
        shapes={"acquire": OpShape(keyed=True), "release": OpShape(keyed=True)},
        needs=frozenset({LOCKS.name}),
    )
