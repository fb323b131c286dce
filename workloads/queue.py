"""Queues: publish unique numbers, take them and acknowledge, and drain all queues at the end (Jepsen's total-queue).

A value is taken, and acknowledged at the very end of the op that reports it: nothing is acknowledged that the history
does not have. Every second one is acknowledged later: a client holds some messages all the time, which their queue must
give back if the others lose its node. A message whose taker was given up goes back to its queue once the system has
noticed, and comes out again. In the end each node is asked until it finds each queue empty; see `Drain`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from splitbrain.checkers.verdict import CheckerSpec
from splitbrain.harness.contract.brokers import Delivery, Queues
from splitbrain.harness.contract.generator import bits
from splitbrain.harness.contract.nodes import NodeId
from splitbrain.harness.contract.operations import QUEUES
from splitbrain.harness.contract.test import WHOLE, OpShape, Test, Workload
from splitbrain.harness.generators import (
    PENDING,
    Context,
    Generator,
    Pending,
    Result,
    clients,
    each,
    invoke,
    mix,
    phases,
    time_limit,
)
from splitbrain.harness.generators.leaves import assign
from splitbrain.results.errors import ProtocolError
from splitbrain.results.history import Op
from splitbrain.workloads.sessions import SessionClient

NAMES: Final = ("q0", "q1", "q2")
"""Of the queues."""

ENQUEUES: Final = 11
DEQUEUES: Final = 10
"""Of 21 ops. A queue that is mostly empty keeps nothing that a fault could lose; one that only grows is never read."""

BATCH: Final = 10
"""How many messages one drain takes at most."""

HELD: Final = 2
"""One message of so many is held by its client."""

HOLDS: Final = 3
"""So many at a time: when it has more, it acknowledges the oldest ones as it begins its next op."""

SETTLE_S: Final = 10.0
"""How long a message may be away whose taker is gone: until the system has noticed that its connection is closed.

Where a request may arrive late, as its taker has gone long before, it may be away for so much longer.
"""

DRAIN_S: Final = 60.0
LATE_WAITS: Final = 6
"""The time limit of all drains: so long, and so many times as long as something may arrive late."""

RETRY_S: Final = 0.2
_SECOND_NS: Final = 1_000_000_000


class QueueClient(SessionClient[Queues]):
    """Publishes to queues, and takes from them."""

    operations = QUEUES
    shared_by = 1

    def __init__(self, session: Queues | None = None) -> None:
        super().__init__(session)
        self._held: list[int] = []

    async def setup(self, test: Test) -> None:
        """Make the queues."""
        for name in NAMES:
            await self.session.declare_queue(name)

    async def invoke(self, test: Test, op: Op) -> Op:
        """Carry out one op; an exception of the session goes through to the runner, which knows what it means."""
        name = op.key or ""
        for tag in self._held[:-HOLDS]:
            self.session.ack(tag)
        del self._held[:-HOLDS]
        match op.f:
            case "enqueue":
                answer = await self.session.publish(name, op.value)
                return op.complete("ok", op.value, term=answer.term)
            case "dequeue":
                answer = await self.session.take(name)
                return op.complete("ok", self._told(answer.value), term=answer.term)
            case "drain":
                return op.complete("ok", self._dealt_with(await self._all(name)))
            case _:
                raise ProtocolError(f"the queue workload knows no op {op.f!r}, only enqueue, dequeue and drain.")

    def survives(self, op: Op) -> bool:
        """After an enqueue: the messages that it holds are the next process's to take, as if it had been closed.

        What a take of unknown outcome has goes back only when the session ends.
        """
        if op.f != "enqueue" or not super().survives(op):
            return False
        for tag in self._held:
            self.session.reject(tag, requeue=True)
        self._held.clear()
        return True

    async def _all(self, name: str) -> list[Delivery]:
        """Up to `BATCH` messages, fewer only where the queue has no more."""
        taken: list[Delivery] = []
        while len(taken) < BATCH:
            found: Delivery | None = (await self.session.take(name)).value
            if found is None:
                break
            taken.append(found)
        return taken

    def _told(self, taken: Delivery | None) -> Any:
        """What the history says of a message, which is acknowledged now, or with the next op."""
        if taken is None:
            return None
        if taken["value"] % HELD:
            return self._dealt_with([taken])[0]
        self._held.append(taken["tag"])
        return {"value": taken["value"], "redelivered": taken["redelivered"], "held": HOLDS}

    def _dealt_with(self, taken: Sequence[Delivery]) -> list[Any]:
        """Acknowledge messages; what the history says of them. Nothing is awaited between this and the op's end."""
        for delivery in taken:
            self.session.ack(delivery["tag"])
        return [reported(each) for each in taken]


def reported(delivery: Delivery) -> Any:
    """A message as the history says it: its value, with the mark of a redelivered one."""
    return {"value": delivery["value"], "redelivered": True} if delivery["redelivered"] else delivery["value"]


class Enqueues(msgspec.Struct, frozen=True):
    """Puts 0, 1, 2 and so on into any queue, or stream, by any free client.

    Attributes:
        value: the next one.
        names: of the queues.
        f: the function of the ops.
    """

    value: int = 0
    names: tuple[str, ...] = NAMES
    f: str = "enqueue"

    def op(self, ctx: Context) -> Result:
        """The next value."""
        if not ctx.free:
            return PENDING, self
        op = assign(invoke(self.f, self.value, key=ctx.rng.choice(self.names)), ctx)
        return (PENDING, self) if op is None else (op, Enqueues(self.value + 1, self.names, self.f))

    def update(self, ctx: Context, event: Op) -> Generator:
        """Values do not depend on what became of earlier ones: each is put in at most once."""
        return self


def of_any(f: str, names: tuple[str, ...]) -> Generator:
    """Ops without a value, each of any of these queues."""
    return each(lambda ctx: invoke(f, key=ctx.rng.choice(names)))


_Pair = tuple[str, str]
"""A queue and a node."""


class Drain(msgspec.Struct, frozen=True):
    """Drains every queue through every node, until each node found each of them empty after the last thing in it.

    What a drain took, and a drain of unknown outcome, make all nodes be asked again. What was taken by clients that are
    gone may come back later: so the last questions are asked `settle_s` after the first one, and after a drain of
    unknown outcome. Then nothing is left to come out, and the generator ends.

    Attributes:
        names: of the queues.
        f: what is asked, by ops of this function; an answer that holds nothing says that the queue is empty.
        returns: whether what an op took may come back to its queue although the op's outcome is known.
        settle_s: how long what a client took may be away that is gone.
        due_ns: when each queue may be found empty for good; empty before the first question.
        empty_ns: when a question was asked to which the answer was that the queue is empty, by queue and node.
        later_ns: when to ask again what was not answered.
        asked: by process, what it asks, and since when.
    """

    names: tuple[str, ...] = NAMES
    f: str = "drain"
    returns: bool = False
    settle_s: float = SETTLE_S
    due_ns: Mapping[str, int] = {}
    empty_ns: Mapping[_Pair, int] = {}
    later_ns: Mapping[_Pair, int] = {}
    asked: Mapping[int, tuple[_Pair, int]] = {}

    def op(self, ctx: Context) -> Result:
        """A drain that has to be asked for, by a free client of its node."""
        now = ctx.time_ns
        if not self.due_ns:
            due_ns = dict.fromkeys(self.names, now + round(self.settle_s * _SECOND_NS))
            return msgspec.structs.replace(self, due_ns=due_ns).op(ctx)
        nodes = sorted({ctx.node_of(thread) or "" for thread in bits(ctx.threads)})
        left = [(name, node) for name in self.names for node in nodes if not self._is_done((name, node))]
        if not left:
            return None
        under_way = {pair for pair, _ in self.asked.values()}
        when = {pair: self._when(pair) for pair in left if pair not in under_way}
        for thread in bits(ctx.free):
            for pair, from_ns in when.items():
                if pair[1] == (ctx.node_of(thread) or "") and from_ns <= now:
                    process = ctx.processes[thread]
                    op = Op(process=process, type="invoke", f=self.f, key=pair[0])
                    return op, msgspec.structs.replace(self, asked={**self.asked, process: (pair, now)})
        until = min((from_ns for from_ns in when.values() if from_ns > now), default=None)
        return Pending(until), self

    def update(self, ctx: Context, event: Op) -> Generator:
        """Note what a drain found."""
        if event.type == "invoke" or event.process not in self.asked:
            return self
        pair, since_ns = self.asked[event.process]
        asked = {process: what for process, what in self.asked.items() if process != event.process}
        now, name = ctx.time_ns, pair[0]
        if event.type == "ok" and not event.value:
            return msgspec.structs.replace(self, asked=asked, empty_ns={**self.empty_ns, pair: since_ns})
        if event.type == "fail":
            later_ns = {**self.later_ns, pair: now + round(RETRY_S * _SECOND_NS)}
            return msgspec.structs.replace(self, asked=asked, later_ns=later_ns)
        settle_ns = 0 if event.type == "ok" and not self.returns else round(self.settle_s * _SECOND_NS)
        return msgspec.structs.replace(
            self,
            asked=asked,
            due_ns={**self.due_ns, name: max(self.due_ns[name], now + settle_ns)},
            empty_ns={known: at for known, at in self.empty_ns.items() if known[0] != name},
            later_ns={**self.later_ns, pair: now + (0 if event.type == "ok" else round(RETRY_S * _SECOND_NS))},
        )

    def _is_done(self, pair: _Pair) -> bool:
        return self.empty_ns.get(pair, -1) > self.due_ns[pair[0]]

    def _when(self, pair: _Pair) -> int:
        """From when on to ask: one that found the queue empty already is asked again when that counts."""
        return self.due_ns[pair[0]] + 1 if pair in self.empty_ns else self.later_ns.get(pair, 0)


def drained(*drains: Drain, late_s: float) -> Generator:
    """These drains by all clients, one after the other, each within its time limit.

    Args:
        drains: what they ask.
        late_s: how much later than usual something may arrive although nothing is wrong.
    """
    limit_s, settle_s = DRAIN_S + LATE_WAITS * late_s, SETTLE_S + late_s
    return phases(
        *(clients(time_limit(limit_s, msgspec.structs.replace(drain, settle_s=settle_s))) for drain in drains)
    )


def queue(
    *,
    nodes: Sequence[NodeId],
    concurrency: int,  # noqa: ARG001 - as every builder
    rate: float = 100.0,  # noqa: ARG001
    time_limit_s: float = 30.0,  # noqa: ARG001
    late_s: float = 0.0,
) -> Workload:
    """The workload. It is the same for any number of nodes and clients."""
    fs = ("enqueue", "dequeue", "drain")
    return Workload(
        name="queue",
        client=QueueClient(),
        generator=mix(Enqueues(), of_any("dequeue", NAMES), weights=[ENQUEUES, DEQUEUES]),
        final_generator=drained(Drain(), late_s=late_s),
        checkers=(
            CheckerSpec("queue", {"settle_s": SETTLE_S + late_s, "nodes": [*nodes]}),
            CheckerSpec("stats"),
            CheckerSpec("coverage", {"fs": list(fs)}),
        ),
        fs=fs,
        needs=frozenset({QUEUES.name}),
        shapes={
            "enqueue": OpShape(keyed=True, value=WHOLE),
            "dequeue": OpShape(keyed=True),
            "drain": OpShape(keyed=True, requests=BATCH),
        },
    )
