"""Reads in every mode that a system has, mixed in each session with writes; each mode is judged by its own promise.

All clients write numbers, each once, to a few keys, and read them: with a majority, from the leader, from their own
node. So each answer says which write it saw. Reads of a mode that is linearizable are judged with all writes; what a
session may expect of the others, its system says (`splitbrain.harness.contract.read_modes.ReadPromise`). A read from
a node that is cut off may be as old as it likes, as long as its session has not seen newer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from splitbrain.checkers.verdict import CheckerSpec
from splitbrain.harness.contract.nodes import NodeId
from splitbrain.harness.contract.operations import FENCED_READS, READ_MODES
from splitbrain.harness.contract.read_modes import (
    READ,
    READ_AFTER,
    READ_FENCED,
    READ_LEADER,
    READ_LOCAL,
    SESSION_READS,
    ReadPromise,
    answered_alone,
)
from splitbrain.harness.contract.sessions import ReadModes
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
"""Of the ops of clients that write and read, without those that read back what they wrote."""

RAFT: Final[Mapping[str, ReadPromise]] = {
    READ: ReadPromise(line="a majority", linearizable="always", follows=(READ, READ_LOCAL), needs_quorum=True),
    READ_LEADER: ReadPromise(line="the leader", linearizable="one leader", same_term=True),
    READ_LOCAL: ReadPromise(line="the node of the client"),
    READ_AFTER: ReadPromise(line="the same, once it has applied the last write of the session", follows=("write",)),
    READ_FENCED: ReadPromise(line="the same, once it has applied what its leader has", follows=("write", READ_LOCAL)),
}
"""For a system that is not known yet: all kinds of reads."""


ALONE_WEIGHT: Final = 2.0
"""Of a read that a node answers alone, for clients that only read; that of the others is 1."""


class ReadModesClient(SessionClient[ReadModes]):
    """Writes, and reads in every mode."""

    operations = READ_MODES

    async def invoke(self, test: Test, op: Op) -> Op:
        """Carry out one op; an exception of the session goes through to the runner, which knows what it means."""
        key = op.key or ""
        if op.f == "write":
            answer = await self.session.write(key, op.value)
            return op.complete("ok", op.value, term=answer.term)
        if op.f in SESSION_READS:
            answer = await self.session.read_as(key, op.f)
            return op.complete("ok", answer.value, term=answer.term)
        raise ProtocolError(f"the read-modes workload knows no op {op.f!r}, only write, {', '.join(SESSION_READS)}.")


class FencedReadsClient(ReadModesClient):
    """The same, of a system that has fenced reads."""

    operations = FENCED_READS


class Mixed(msgspec.Struct, frozen=True):
    """Writes of the numbers 1, 2, 3 and so on, each once, and reads, of keys at random, by any free client.

    A client whose write was acknowledged reads its key next: a moment later its node has caught up.

    Attributes:
        reads: the kinds of reads.
        back: those with which a client reads what it wrote.
        number: the next one to be written.
        owed: clients that read back next, by process, and the keys that they wrote.
        write_share: of writes among the ops, without those that read back.
    """

    reads: tuple[str, ...]
    back: tuple[str, ...]
    number: int = 1
    owed: tuple[tuple[int, str], ...] = ()
    write_share: float = WRITE_SHARE

    def op(self, ctx: Context) -> Result:
        """The next op."""
        if not ctx.free:
            return PENDING, self
        for place, (process, key) in enumerate(self.owed):
            if ctx.free >> ctx.thread_of(process) & 1:
                f = self.back[ctx.rng.below(len(self.back))]
                rest = (*self.owed[:place], *self.owed[place + 1 :])
                read = msgspec.structs.replace(invoke(f, key=key), process=process)
                return read, msgspec.structs.replace(self, owed=rest)
        key = str(ctx.rng.below(KEYS))
        if ctx.rng.random() >= self.write_share:
            op = assign(invoke(self.reads[ctx.rng.below(len(self.reads))], key=key), ctx)
            return (PENDING, self) if op is None else (op, self)
        op = assign(invoke("write", self.number, key=key), ctx)
        return (PENDING, self) if op is None else (op, msgspec.structs.replace(self, number=self.number + 1))

    def update(self, ctx: Context, event: Op) -> Generator:
        """Remember whose write was acknowledged; a client that crashed owes nothing any more."""
        if event.type == "ok" and event.f == "write" and self.back:
            return msgspec.structs.replace(self, owed=(*self.owed, (event.process, event.key or "")))
        if event.type == "info" and any(process == event.process for process, _ in self.owed):
            return msgspec.structs.replace(self, owed=tuple(each for each in self.owed if each[0] != event.process))
        return self


def _reads(f: str) -> Generator:
    return each(lambda ctx: invoke(f, key=str(ctx.rng.below(KEYS))))


def read_modes(
    *,
    nodes: Sequence[NodeId],
    concurrency: int,
    reads: Mapping[str, ReadPromise] = RAFT,
) -> Workload:
    """The workload for this number of clients of these nodes.

    Where there are two clients for each node, one of them only reads, mostly what its node answers alone: little holds
    it up while the node is cut off, and a node that should not answer without a majority is asked nonetheless.

    Args:
        nodes: names of the nodes.
        concurrency: number of clients.
        reads: the kinds of reads of the system (`Capabilities.session_reads`).

    Raises:
        UsageError: the system has none.
    """
    reads = {f: promise for f, promise in reads.items() if f != READ_FENCED}
    if not reads:
        raise UsageError("workload 'read-modes' needs a system whose sessions read in several modes: choose another.")
    return _workload("read-modes", ReadModesClient(), READ_MODES.name, nodes, concurrency, reads)


def fenced_reads(
    *,
    nodes: Sequence[NodeId],
    concurrency: int,
    reads: Mapping[str, ReadPromise] = RAFT,
) -> Workload:
    """The same with fenced reads, beside consistent and local ones; `read-modes` leaves them out."""
    chosen = {f: promise for f, promise in reads.items() if f in (READ, READ_FENCED, READ_LOCAL)}
    return _workload("fenced-reads", FencedReadsClient(), FENCED_READS.name, nodes, concurrency, chosen)


def _workload(
    name: str,
    client: ReadModesClient,
    needs: str,
    nodes: Sequence[NodeId],
    concurrency: int,
    reads: Mapping[str, ReadPromise],
) -> Workload:
    mixed = Mixed(tuple(reads), tuple(f for f, promise in reads.items() if "write" in promise.follows))
    alone = answered_alone(reads) - {READ_LEADER}
    only_reads = mix(*map(_reads, reads), weights=[ALONE_WEIGHT if f in alone else 1.0 for f in reads])
    fs = ("write", *reads)
    return Workload(
        name=name,
        client=client,
        generator=reserve((len(nodes), only_reads), rest=mixed) if concurrency >= 2 * len(nodes) else mixed,
        final_generator=sequence(*(final(invoke(f, key=str(place % KEYS))) for place, f in enumerate(reads))),
        checkers=(*_judges(reads), CheckerSpec("stats"), CheckerSpec("coverage", _coverage(fs, reads))),
        fs=fs,
        needs=frozenset({needs}),
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
        "follows": {f: [each for each in promise.follows if each in ("write", *reads)] for f, promise in reads.items()},
        "same_term": [f for f, promise in reads.items() if promise.same_term],
        "sessions": "connection",
        "linearizable_writes": True,
        "fresh": [f for f, promise in reads.items() if promise.linearizable == "always"],
    }
    return [*found, CheckerSpec("session", sessions)]


def _coverage(fs: Sequence[str], reads: Mapping[str, ReadPromise]) -> dict[str, Any]:
    return {"fs": list(fs), "reads": list(reads), "under_faults": sorted(answered_alone(reads))}
