"""Multi-key compare-and-set: groups of registers that are read, written and compared-and-set together.

Each group is one object, which must be linearizable (Jepsen's `multi-register`, with a compare-and-set as well). Values
are few, so that a compare-and-set matches now and then. One that does not match is a `fail`: nothing happened.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

from splitbrain.checkers.verdict import CheckerSpec
from splitbrain.harness.contract.nodes import NodeId
from splitbrain.harness.contract.operations import TRANSACTIONS
from splitbrain.harness.contract.sessions import Transactions
from splitbrain.harness.contract.test import WHOLE, OpShape, Test, Workload
from splitbrain.harness.generators import Context, Generator, concurrent_keys, each, invoke, limit, mix
from splitbrain.results.errors import ProtocolError
from splitbrain.results.history import Op
from splitbrain.workloads.groups import final_reads, keys_used, readers_apart, threads_per_key
from splitbrain.workloads.sessions import ANY, SessionClient

REGISTERS: Final = ("x", "y")
VALUES: Final = 2
OPS_PER_KEY: Final = 100

Registers: TypeAlias = dict[str, Any]
"""Values by the name of the register."""


class MultiCasClient(SessionClient[Transactions]):
    """Reads, writes and compares-and-sets the registers of one group at a time."""

    operations = TRANSACTIONS
    shared_by = ANY

    async def invoke(self, test: Test, op: Op) -> Op:
        """Carry out one op; an exception of the session goes through to the runner, which knows what it means."""
        if op.f == "read":
            answer = await self.session.transact([["r", f"{op.key}.{name}", None] for name in REGISTERS])
            found = {name: mop[2] for name, mop in zip(REGISTERS, answer.value, strict=True)}
            return op.complete("ok", found, term=answer.term)
        if op.f == "write":
            answer = await self.session.transact([["w", key, value] for key, value in _of(op.key, op.value).items()])
            return op.complete("ok", op.value, term=answer.term)
        if op.f == "cas":
            expected, new = (_of(op.key, registers) for registers in op.value)

            def change(read: Mapping[str, Any]) -> Mapping[str, Any] | None:
                return new if read == expected else None

            answer = await self.session.update(list(expected), change)
            return op.complete("ok", op.value, term=answer.term)
        raise ProtocolError(f"the multi-cas workload knows no op {op.f!r}, only read, write and cas.")


def _of(group: str | None, registers: Registers) -> Registers:
    """The same by the names of keys."""
    return {f"{group}.{name}": value for name, value in registers.items()}


def _drawn(ctx: Context, names: Sequence[str]) -> Registers:
    return {name: ctx.rng.below(VALUES) for name in names}


def _write(ctx: Context) -> Op:
    return invoke("write", _drawn(ctx, ctx.rng.sample(REGISTERS, ctx.rng.between(1, len(REGISTERS)))))


def _cas(ctx: Context) -> Op:
    """One that compares all registers, or one, and sets one: of two that compare the same, only one may succeed."""
    compared = ctx.rng.sample(REGISTERS, ctx.rng.between(1, len(REGISTERS)))
    return invoke("cas", [_drawn(ctx, sorted(compared)), _drawn(ctx, [ctx.rng.choice(REGISTERS)])])


def multi_cas(
    *, nodes: Sequence[NodeId], concurrency: int, rate: float = 100.0, time_limit_s: float = 30.0
) -> Workload:
    """The workload for this number of clients of these nodes, at `rate` ops per second for `time_limit_s`."""
    threads = threads_per_key(concurrency, len(nodes))

    def of_key(_: str) -> Generator:
        reads = each(lambda _: invoke("read"))
        return limit(OPS_PER_KEY, readers_apart(threads, len(nodes), reads, mix(_write, _cas, weights=[1, 2])))

    registers = dict[str, WHOLE]
    return Workload(
        name="multi-cas",
        client=MultiCasClient(),
        generator=concurrent_keys(threads, itertools.count(), of_key),
        final_generator=final_reads(keys_used(rate, time_limit_s, OPS_PER_KEY)),
        checkers=(
            CheckerSpec("linearizable", {"model": "multi-register"}),
            CheckerSpec("stats"),
            CheckerSpec("coverage", {"fs": ["read", "write", "cas"]}),
        ),
        fs=("read", "write", "cas"),
        needs=frozenset({TRANSACTIONS.name}),
        shapes={
            "read": OpShape(keyed=True),
            "write": OpShape(keyed=True, value=registers),
            "cas": OpShape(keyed=True, value=tuple[registers, registers]),
        },
    )
