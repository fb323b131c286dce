"""Locks on short leases, as users run them: the check that must fail.

A client takes a lock on a lease of two seconds, which it keeps alive, works for some seconds, and gives the lock back.
Before each step of its work it looks whether it still has the lock, as far as it has heard (`hold`, true or false), and
stops where it has not. That does not help: a client that is cut off from the leader continues while it believes that it
has the lock, while the lease expires and the next client gets the lock (Jepsen's analysis of etcd 3.4.3, 2020;
Kleppmann's "How to do distributed locking", 2016). So the model `owner-mutex` breaks as soon as faults cut a holder off
for longer than a lease, and that is no fault of the system: a run under such faults that passes has tested too little.

What is judged is when clients are at work: from an acquire that is ok to the release, or to the `hold` that is false. A
release ends the work when it begins, with any outcome. So it never fails: it is ok if a node answered, and info
else; its client has crashed then, and its lease runs out. So has one whose `hold` did not end.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Final

import msgspec

from splitbrain.checkers.verdict import CheckerSpec
from splitbrain.harness.contract.nodes import NodeId
from splitbrain.harness.contract.operations import LEASE_LOCKS
from splitbrain.harness.contract.sessions import DefiniteError, IndefiniteError, LeaseLocks
from splitbrain.harness.contract.test import OpShape, Test, Workload
from splitbrain.harness.generators import (
    PENDING,
    Context,
    Generator,
    Result,
    concurrent_keys,
    each,
    each_process,
    invoke,
    limit,
    repeat,
    sequence,
    until_ok,
)
from splitbrain.harness.generators.leaves import assign
from splitbrain.results.errors import ProtocolError
from splitbrain.results.history import Op
from splitbrain.workloads.sessions import SessionClient

LEASE_S: Final = 2
"""The shortest lease that etcd grants with its usual election timeout, and the one of Jepsen's tests."""

WORK_MIN_MS: Final = 2000
WORK_MAX_MS: Final = 20_000
"""How long a critical section takes: some are over within a lease, others last for several."""

OPS_PER_LOCK: Final = 1000
CLIENTS_PER_LOCK: Final = 2
"""Few, so that there are many locks: each fault cuts off only some nodes, and only those matter that hold one."""

MS_NS: Final = 1_000_000


class LeaseLockClient(SessionClient[LeaseLocks]):
    """Takes locks, works under them, and gives them back, in the name of the op's process."""

    operations = LEASE_LOCKS

    async def invoke(self, test: Test, op: Op) -> Op:
        """Carry out one op; an exception of the session goes through to the runner, which knows what it means."""
        session, name = self.session, op.key or ""
        if op.f == "acquire":
            answer = await session.lease_lock(name, op.process, LEASE_S)
            if answer.value is None:
                return op.complete("fail", term=answer.term, error="held")
            return op.complete("ok", answer.value, term=answer.term)
        if op.f == "hold":
            return op.complete("ok", session.lease_holds(name))
        if op.f == "release":
            try:
                answer = await session.lease_unlock(name, op.process)
            except DefiniteError as error:  # the lock stays taken until the lease runs out, but its owner has left
                raise IndefiniteError(str(error)) from error
            return op.complete("ok", answer.value, term=answer.term)
        raise ProtocolError(f"the lease-lock workload knows no op {op.f!r}, only acquire, hold and release.")


class _Work(msgspec.Struct, frozen=True):
    """A client's critical section: `hold` again and again, then a release; it ends at once when a `hold` is false."""

    end_ns: int | None = None
    over: bool = False

    def op(self, ctx: Context) -> Result:
        if self.over:
            return None
        end_ns = self.end_ns
        if end_ns is None:
            end_ns = ctx.time_ns + ctx.rng.between(WORK_MIN_MS, WORK_MAX_MS) * MS_NS
        ends = ctx.time_ns >= end_ns
        op = assign(invoke("release" if ends else "hold"), ctx)
        return (PENDING, self) if op is None else (op, _Work(end_ns, over=ends))

    def update(self, ctx: Context, event: Op) -> Generator:
        lost = event.f == "hold" and event.type == "ok" and event.value is False
        return _Work(self.end_ns, over=True) if lost else self


def lease_lock(
    *,
    nodes: Sequence[NodeId],  # noqa: ARG001 - as every builder
    concurrency: int,
    rate: float = 100.0,  # noqa: ARG001
    time_limit_s: float = 30.0,  # noqa: ARG001
) -> Workload:
    """The workload for this number of clients of these nodes; two clients of different nodes share a lock."""

    def of_lock(_: str) -> Generator:
        acquire = until_ok(each(lambda _: invoke("acquire")))
        return limit(OPS_PER_LOCK, each_process(repeat(sequence(acquire, _Work()))))

    return Workload(
        name="lease-lock",
        client=LeaseLockClient(),
        generator=concurrent_keys(min(CLIENTS_PER_LOCK, concurrency), itertools.count(), of_lock),
        final_generator=None,
        checkers=(
            CheckerSpec("linearizable", {"model": "owner-mutex"}),
            CheckerSpec("stats"),
            CheckerSpec("coverage", {"fs": ["acquire", "hold", "release"]}),
        ),
        fs=("acquire", "hold", "release"),
        shapes={f: OpShape(keyed=True) for f in ("acquire", "hold", "release")},
        needs=frozenset({LEASE_LOCKS.name}),
        local=frozenset({"hold", "release"}),
    )
