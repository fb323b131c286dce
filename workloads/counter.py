"""Counters: add amounts to a few numbers, and read them; each increment counts once, and answers the sum.

A client whose request got no answer may send it again. It must not count twice for that, nor not at all: what became of
it shows in the sums that others are answered. So amounts vary: hardly two sets of them have the same sum.

Where the system has triggers (operations `triggers`), each change of a counter also triggers two procedures, which
write down that they ran: at least once, the one of the higher priority first, and under the next leader if not before.
What was written down is read now and then, and of each counter twice at the end, at rest, with reads in between: what
was not carried out by then is lost.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Sequence
from contextlib import suppress
from typing import Any, Final

from splitbrain.checkers.verdict import CheckerSpec
from splitbrain.harness.contract.nodes import NodeId
from splitbrain.harness.contract.operations import COUNTERS, TRIGGERS
from splitbrain.harness.contract.sessions import Counters, DefiniteError, IndefiniteError, Triggers
from splitbrain.harness.contract.test import WHOLE, OpShape, Test, Workload
from splitbrain.harness.generators import (
    Context,
    Generator,
    concurrent_keys,
    each,
    invoke,
    limit,
    mix,
    sequence,
    time_limit,
)
from splitbrain.harness.generators import rate as pace
from splitbrain.results.errors import ProtocolError
from splitbrain.results.history import Op
from splitbrain.workloads.groups import final_reads, keys_used, readers_apart, threads_per_key
from splitbrain.workloads.sessions import ANY, SessionClient

AMOUNTS: Final = 1_000_000
"""The largest amount."""

OPS_PER_KEY: Final = 200

RUNS: Final = "read-runs"

RUNS_SHARE: Final = 0.1
"""Of the ops of clients that write, how many read what was triggered: an answer has all of it."""

REST_S: Final = 12.0
"""Between the two answers at rest: longer than the checker's `STILL_S`, as an answer takes some of it."""


READS_HZ: Final = 150.0


class CounterClient(SessionClient[Counters]):
    """Adds to one counter at a time, and reads it."""

    operations = COUNTERS
    shared_by = ANY

    async def invoke(self, test: Test, op: Op) -> Op:
        """Carry out one op; an exception of the session goes through to the runner, which knows what it means."""
        return await _carry_out(self.session, op)


class TriggersClient(SessionClient[Triggers]):
    """The same where each change triggers something, and it reads what that did."""

    operations = TRIGGERS
    shared_by = ANY

    def __init__(self, session: Triggers | None = None) -> None:
        super().__init__(session)
        self._is_prepared = False

    async def setup(self, test: Test) -> None:
        """Have changes trigger what they are to; where that is not possible yet, each client tries again."""
        with suppress(DefiniteError, IndefiniteError):
            await self.session.prepare_triggers()

    async def invoke(self, test: Test, op: Op) -> Op:
        """Carry out one op; nothing is added before it is known that this will trigger something."""
        if op.f == RUNS:
            answer = await self.session.read_runs(op.key or "", bool(op.value))
            return op.complete("ok", answer.value, term=answer.term)
        if op.f == "increment" and not self._is_prepared:
            await self.session.prepare_triggers()
            self._is_prepared = True
        return await _carry_out(self.session, op)


async def _carry_out(session: Counters, op: Op) -> Op:
    key = op.key or ""
    if op.f == "increment":
        answer = await session.increment(key, op.value)
    elif op.f == "read":
        answer = await session.read_counter(key)
    else:
        raise ProtocolError(f"the counter workload knows no op {op.f!r}, only increment, read and {RUNS}.")
    return op.complete("ok", answer.value, term=answer.term)


def _increment(ctx: Context) -> Op:
    return invoke("increment", 1 + ctx.rng.below(AMOUNTS))


def _meanwhile(keys: int) -> Generator:
    """Reads between the two answers at rest: a silent phase would show nothing of how the system answers."""
    return time_limit(REST_S, pace(READS_HZ, each(lambda ctx: invoke("read", key=str(ctx.rng.below(keys))))))


def counter(
    *,
    nodes: Sequence[NodeId],
    concurrency: int,
    rate: float = 100.0,
    time_limit_s: float = 30.0,
    ops_per_key: int = OPS_PER_KEY,
    operations: Collection[str] = (),
) -> Workload:
    """The workload for this number of clients of these nodes.

    Args:
        nodes: names of the nodes.
        concurrency: number of clients.
        rate: their ops per second, for the number of keys that are read at the end.
        time_limit_s: length of the faults phase, likewise.
        ops_per_key: ops on one key before the next one's turn.
        operations: of the system; changes trigger something if "triggers" is among them.
    """
    threads = threads_per_key(concurrency, len(nodes))
    has_triggers = TRIGGERS.name in operations
    fs = ("increment", "read", *([RUNS] if has_triggers else []))

    def of_key(_: str) -> Generator:
        reads = each(lambda _: invoke("read"))
        writes = mix(_increment, _increment, reads)
        if has_triggers:
            writes = mix(writes, each(lambda _: invoke(RUNS, False)), weights=[1 - RUNS_SHARE, RUNS_SHARE])
        return limit(ops_per_key, readers_apart(threads, len(nodes), reads, writes))

    keys = keys_used(rate, time_limit_s, ops_per_key)
    at_rest = final_reads(keys, RUNS, True)
    at_the_end = (at_rest, _meanwhile(keys), at_rest) if has_triggers else ()
    shapes: dict[str, Any] = {"increment": OpShape(keyed=True, value=WHOLE), "read": OpShape(keyed=True)}
    return Workload(
        name="counter",
        client=TriggersClient() if has_triggers else CounterClient(),
        generator=concurrent_keys(threads, itertools.count(), of_key),
        final_generator=sequence(final_reads(keys), *at_the_end),
        checkers=(
            CheckerSpec("linearizable", {"model": "counter", "functions": ["increment", "read"]}),
            CheckerSpec("counter"),
            *([CheckerSpec("triggers")] if has_triggers else []),
            CheckerSpec("stats"),
            CheckerSpec("coverage", {"fs": list(fs)}),
        ),
        fs=fs,
        needs=frozenset({COUNTERS.name, TRIGGERS.name} if has_triggers else {COUNTERS.name}),
        shapes=shapes | ({RUNS: OpShape(keyed=True, value=bool)} if has_triggers else {}),
    )
