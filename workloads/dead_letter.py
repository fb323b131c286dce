"""Queues that give messages up: publish, consume, reject and give back, and read the dead letters with their reasons.

Of four values consumers acknowledge two, reject one for good, and give one back each time, until it exceeds the
delivery limit. In one of the queues messages expire as well, of any value. In the end all nodes are asked until each
queue is empty, and then until its dead letters are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from splitbrain.checkers.verdict import CheckerSpec
from splitbrain.harness.contract.brokers import Delivery, ExpiringQueues
from splitbrain.harness.contract.nodes import NodeId
from splitbrain.harness.contract.operations import EXPIRING_QUEUES
from splitbrain.harness.contract.test import WHOLE, OpShape, Test, Workload
from splitbrain.harness.generators import clients, each, invoke, mix, phases, time_limit
from splitbrain.results.errors import ProtocolError
from splitbrain.results.history import Op
from splitbrain.workloads.queue import SETTLE_S, Drain, Enqueues
from splitbrain.workloads.sessions import SessionClient

NAMES: Final = ("d0", "e0")
"""Of the queues."""

TTL_S: Final = {"e0": 1.0}
"""How long a message may wait in a queue; without end in the other one."""

LIMIT: Final = 2
"""How often a message may be given back."""

WEIGHTS: Final = (6, 9, 4)
"""Of publishes, of consumes (a message that is given back takes some), and of reads of dead letters."""

DRAIN_S: Final = 60.0
"""For the queues, and once more for their dead letters."""


def dead_letters(queue: str) -> str:
    """The name of the queue that gets the dead letters of another one."""
    return f"{queue}.dead"


def deed(value: int) -> str:
    """What consumers do with this value: "ack", "reject" or "return"."""
    return ("ack", "reject", "return", "ack")[value % 4]


class DeadLetterClient(SessionClient[ExpiringQueues]):
    """Publishes to queues, consumes from them, and reads dead letters."""

    operations = EXPIRING_QUEUES

    async def setup(self, test: Test) -> None:
        """Make the queues, those for dead letters first."""
        for name in NAMES:
            await self.session.declare_queue(dead_letters(name))
            if name in TTL_S:
                await self.session.declare_expiring(name, LIMIT, round(TTL_S[name] * 1000), dead_letters(name))
            else:
                await self.session.declare_limited(name, LIMIT, dead_letters(name))

    async def invoke(self, test: Test, op: Op) -> Op:
        """Carry out one op; an exception of the session goes through to the runner, which knows what it means."""
        name = op.key or ""
        match op.f:
            case "enqueue":
                answer = await self.session.publish(name, op.value)
                return op.complete("ok", op.value, term=answer.term)
            case "consume":
                answer = await self.session.take(name)
                return op.complete("ok", self._consumed(answer.value), term=answer.term)
            case "collect":
                answer = await self.session.take(dead_letters(name))
                return op.complete("ok", self._collected(answer.value), term=answer.term)
            case _:
                raise ProtocolError(f"the workload dead-letter knows no op {op.f!r}: enqueue, consume and collect.")

    def _consumed(self, taken: Delivery | None) -> Any:
        """Settle a message; what the history says of it. Nothing is awaited between this and the op's end."""
        if taken is None:
            return None
        did = deed(taken["value"])
        if did == "ack":
            self.session.ack(taken["tag"])
        else:
            self.session.reject(taken["tag"], requeue=did == "return")
        return {"value": taken["value"], "did": did}

    def _collected(self, taken: Delivery | None) -> Any:
        if taken is None:
            return None
        self.session.ack(taken["tag"])
        return {"value": taken["value"], "reason": taken.get("reason")}


def dead_letter(
    *,
    nodes: Sequence[NodeId],  # noqa: ARG001 - as every builder
    concurrency: int,  # noqa: ARG001
    rate: float = 100.0,  # noqa: ARG001
    time_limit_s: float = 30.0,  # noqa: ARG001
) -> Workload:
    """The workload. It is the same for any number of nodes and clients."""
    consumes = each(lambda ctx: invoke("consume", key=ctx.rng.choice(NAMES)))
    collects = each(lambda ctx: invoke("collect", key=ctx.rng.choice(NAMES)))
    fs = ("enqueue", "consume", "collect")
    drains = (Drain(names=NAMES, f="consume", returns=True), Drain(names=NAMES, f="collect"))
    return Workload(
        name="dead-letter",
        client=DeadLetterClient(),
        generator=mix(Enqueues(names=NAMES), consumes, collects, weights=list(WEIGHTS)),
        final_generator=phases(*(clients(time_limit(DRAIN_S, drain)) for drain in drains)),
        checkers=(
            CheckerSpec("dead-letter", {"limit": LIMIT, "ttl_s": TTL_S, "settle_s": SETTLE_S}),
            CheckerSpec("stats"),
            CheckerSpec("coverage", {"fs": list(fs)}),
        ),
        fs=fs,
        needs=frozenset({EXPIRING_QUEUES.name}),
        shapes={
            "enqueue": OpShape(keyed=True, value=WHOLE),
            "consume": OpShape(keyed=True),
            "collect": OpShape(keyed=True),
        },
    )
