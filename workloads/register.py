"""Many small registers: read, write and compare-and-set, each key linearizable by itself.

Values are few, so that a compare-and-set matches now and then; keys are short-lived, so that each history stays small
enough to be judged exactly. A compare that does not match is a `fail`: nothing happened.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Final, cast

from splitbrain.checkers.verdict import CheckerSpec
from splitbrain.harness.contract.nodes import NodeId
from splitbrain.harness.contract.operations import KEY_VALUE
from splitbrain.harness.contract.sessions import KeyValue
from splitbrain.harness.contract.test import WHOLE, OpShape, Test, Workload
from splitbrain.harness.generators import Context, Generator, concurrent_keys, each, invoke, limit, mix
from splitbrain.results.errors import ProtocolError
from splitbrain.results.history import Op
from splitbrain.workloads.groups import final_reads, keys_used, readers_apart, threads_per_key
from splitbrain.workloads.sessions import ANY, SessionClient

VALUES: Final = 5
OPS_PER_KEY: Final = 200


class RegisterClient(SessionClient[KeyValue]):
    """Reads, writes and compares-and-sets one key at a time."""

    operations = KEY_VALUE
    shared_by = ANY

    async def invoke(self, test: Test, op: Op) -> Op:
        """Carry out one op; an exception of the session goes through to the runner, which knows what it means."""
        key = op.key or ""
        if op.f == "read":
            answer = await self.session.read(key)
            return op.complete("ok", answer.value, term=answer.term)
        if op.f == "write":
            answer = await self.session.write(key, op.value)
            return op.complete("ok", op.value, term=answer.term)
        if op.f == "cas":
            expected, value = cast("Sequence[int]", op.value)
            answer = await self.session.compare_and_set(key, expected, value)
            if answer.value:
                return op.complete("ok", op.value, term=answer.term)
            return op.complete("fail", op.value, term=answer.term, error="mismatch")
        raise ProtocolError(f"the register workload knows no op {op.f!r}, only read, write and cas.")


def _write(ctx: Context) -> Op:
    return invoke("write", ctx.rng.below(VALUES))


def _cas(ctx: Context) -> Op:
    return invoke("cas", [ctx.rng.below(VALUES), ctx.rng.below(VALUES)])


def register(
    *,
    nodes: Sequence[NodeId],
    concurrency: int,
    rate: float = 100.0,
    time_limit_s: float = 30.0,
    ops_per_key: int = OPS_PER_KEY,
) -> Workload:
    """The workload for this number of clients of these nodes.

    Args:
        nodes: names of the nodes.
        concurrency: number of clients.
        rate: their ops per second, for the number of keys that are read at the end.
        time_limit_s: length of the faults phase, likewise.
        ops_per_key: ops on one key before the next one's turn.
    """
    threads = threads_per_key(concurrency, len(nodes))

    def of_key(_: str) -> Generator:
        reads = each(lambda _: invoke("read"))
        return limit(ops_per_key, readers_apart(threads, len(nodes), reads, mix(_write, _cas)))

    return Workload(
        name="register",
        client=RegisterClient(),
        generator=concurrent_keys(threads, itertools.count(), of_key),
        final_generator=final_reads(keys_used(rate, time_limit_s, ops_per_key)),
        checkers=(
            CheckerSpec("linearizable", {"model": "cas-register"}),
            CheckerSpec("stats"),
            CheckerSpec("coverage", {"fs": ["read", "write", "cas"]}),
        ),
        fs=("read", "write", "cas"),
        needs=frozenset({KEY_VALUE.name}),
        shapes={
            "read": OpShape(keyed=True),
            "write": OpShape(keyed=True, value=WHOLE),
            "cas": OpShape(keyed=True, value=tuple[WHOLE, WHOLE]),
        },
    )
