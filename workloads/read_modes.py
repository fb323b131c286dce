"""Reads in every mode that a system has, mixed in each session with writes; each mode is judged by its own promise.

All clients write numbers, each once, to a few keys, and read them: with a majority, from the leader, from their own node.
So each answer says which write it saw. Reads of a mode that is linearizable are judged with all writes; what a
session may expect of the others, its system says (`splitbrain.harness.contract.read_modes.ReadPromise`). A read from
a node that is cut off may be as old as it likes, as long as its session has not seen newer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from splitbrain.checkers.verdict import CheckerSpec
from splitbrain.harness.contract.nodes import NodeId
from splitbrain.harness.contract.read_modes import (
    READ,
    READ_AFTER,
    READ_LEADER,
    READ_LOCAL,
    ReadPromise,
    answered_alone,
)
from splitbrain.harness.contract.sessions import READ_MODES, ReadModes
from splitbrain.harness.contract.test import WHOLE, OpShape, Test, Workload
from splitbrain.harness.generators import (
    PENDING,
    Context,
    Generator,
    Result,
    each,
    final,
    invoke,
    mix,
    reserve,
    sequence,
)
from splitbrain.harness.generators.leaves import assign
from splitbrain.results.errors import ProtocolError, UsageError
from splitbrain.results.history import Op
from splitbrain.workloads.sessions import SessionClient

KEYS: Final = 5
"""Few, so that a session comes back to each of them often."""

WRITE_SHARE: Final = 0.4
"""Of the ops of clients that write and read."""

RAFT: Final[Mapping[str, ReadPromise]] = {
    READ: ReadPromise(line="a majority", linearizable="always", follows=(READ, READ_LOCAL), needs_quorum=True),
    READ_LEADER: ReadPromise(line="the leader", linearizable="one leader", same_term=True),
    READ_LOCAL: ReadPromise(line="the node of the client"),
    READ_AFTER: ReadPromise(line="the same, once it has applied the last write of the session", follows=("write",)),
}
"""For a system that is not known yet: all kinds of reads."""


class ReadModesClient(SessionClient[ReadModes]):
    """Writes, and reads in every mode."""

    operations = READ_MODES

    async def invoke(self, test: Test, op: Op) -> Op:
        """Carry out one op; an exception of the session goes through to the runner, which knows what it means."""
        key = op.key or ""
        if op.f == "write":
            answer = await self.session.write(key, op.value)
            return op.complete("ok", op.value, term=answer.term)
        if op.f in test.system.capabilities.session_reads:
            answer = await self.session.read_as(key, op.f)
            return op.complete("ok", answer.value, term=answer.term)
        raise ProtocolError(f"the read-modes workload knows no op {op.f!r}, only write and the reads of the system.")


class Writes(msgspec.Struct, frozen=True):
    """Writes of the numbers 1, 2, 3 and so on, each once, to a key at random, by any free client."""

    number: int = 1

    def op(self, ctx: Context) -> Result:
        """The next write."""
        if not ctx.free:
            return PENDING, self
        op = assign(invoke("write", self.number, key=_key(ctx)), ctx)
        return (PENDING, self) if op is None else (op, Writes(self.number + 1))

    def update(self, ctx: Context, event: Op) -> Generator:
        """Numbers do not depend on what became of earlier ones: each is written at most once."""
        return self


def _key(ctx: Context) -> str:
    return str(ctx.rng.below(KEYS))


def _reads(f: str) -> Generator:
    return each(lambda ctx: invoke(f, key=_key(ctx)))


def read_modes(
    *,
    nodes: Sequence[NodeId],
    concurrency: int,
    reads: Mapping[str, ReadPromise] = RAFT,
) -> Workload:
    """The workload for this number of clients of these nodes.

    Where there are two clients for each node, one of them only reads what its node answers alone: no write and no
    majority holds it up while the node is cut off.

    Args:
        nodes: names of the nodes.
        concurrency: number of clients.
        reads: the kinds of reads of the system (`Capabilities.session_reads`).

    Raises:
        UsageError: the system has none.
    """
    if not reads:
        raise UsageError("workload 'read-modes' needs a system whose sessions read in several modes: choose another.")
    share = (1 - WRITE_SHARE) / len(reads)
    mixed = mix(Writes(), *map(_reads, reads), weights=[WRITE_SHARE, *[share] * len(reads)])
    alone = sorted(answered_alone(reads) - {READ_LEADER})
    apart = concurrency >= 2 * len(nodes) and alone
    fs = ("write", *reads)
    return Workload(
        name="read-modes",
        client=ReadModesClient(),
        generator=reserve((len(nodes), mix(*map(_reads, alone))), rest=mixed) if apart else mixed,
        final_generator=sequence(*(final(invoke(f, key=str(place % KEYS))) for place, f in enumerate(reads))),
        checkers=(*_judges(reads), CheckerSpec("stats"), CheckerSpec("coverage", _coverage(fs, reads))),
        fs=fs,
        needs=frozenset({READ_MODES.name}),
        shapes={"write": OpShape(keyed=True, value=WHOLE), **{f: OpShape(keyed=True) for f in reads}},
    )


def _judges(reads: Mapping[str, ReadPromise]) -> Sequence[CheckerSpec]:
    always = sorted(f for f, promise in reads.items() if promise.linearizable == "always" and f != READ)
    model = f"read-modes({msgspec.json.encode(always).decode()})" if always else "read-modes"
    found = [CheckerSpec("linearizable", {"model": model})]
    found += [
        CheckerSpec("leader-reads", {"read": f}) for f, promise in reads.items() if promise.linearizable == "one leader"
    ]
    sessions: dict[str, Any] = {
        "follows": {f: list(promise.follows) for f, promise in reads.items()},
        "same_term": [f for f, promise in reads.items() if promise.same_term],
        "sessions": "connection",
        "linearizable_writes": True,
    }
    return [*found, CheckerSpec("session", sessions)]


def _coverage(fs: Sequence[str], reads: Mapping[str, ReadPromise]) -> dict[str, Any]:
    return {"fs": list(fs), "reads": list(reads), "under_faults": sorted(answered_alone(reads))}
