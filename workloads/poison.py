"""Messages that kill their consumers: publish, consume, and read the dead letters of queues with a delivery limit.

Every fourth value is poison: the client that is given it ends its connection without settling it, as a process that
dies of it does, and begins anew with its next op. Other values are acknowledged at the very end of the op that reports
them. In the end all nodes are asked until each queue is empty, and then until its dead letters are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Self

from splitbrain.checkers.verdict import CheckerSpec
from splitbrain.harness.contract.brokers import Delivery, LimitedQueues
from splitbrain.harness.contract.deployments import Deployment
from splitbrain.harness.contract.nodes import NodeId
from splitbrain.harness.contract.operations import LIMITED_QUEUES, need
from splitbrain.harness.contract.test import WHOLE, OpShape, Test, Workload
from splitbrain.harness.generators import clients, each, invoke, mix, phases, time_limit
from splitbrain.results.errors import ProtocolError
from splitbrain.results.history import Op
from splitbrain.workloads.queue import SETTLE_S, Drain, Enqueues
from splitbrain.workloads.sessions import SessionClient

NAMES: Final = ("p0", "p1")
"""Of the queues."""

LIMIT: Final = 3
"""How often a message may be given back."""

EVERY: Final = 4
"""One value of so many is poison."""

WEIGHTS: Final = (5, 13, 3)
"""Of publishes, of consumes (a poisonous message takes one more than the limit), and of reads of dead letters."""

DRAIN_S: Final = 60.0
"""For the queues, and once more for their dead letters."""


def dead_letters(queue: str) -> str:
    """The name of the queue that gets the dead letters of another one."""
    return f"{queue}.dead"


def is_poison(value: int) -> bool:
    """Whether a consumer dies of this value."""
    return value % EVERY == 0


class PoisonClient(SessionClient[LimitedQueues]):
    """Publishes to queues, consumes from them until it dies, and reads dead letters."""

    operations = LIMITED_QUEUES

    def __init__(self, session: LimitedQueues | None = None) -> None:
        super().__init__(session)
        self._place: tuple[Deployment, NodeId] | None = None

    async def open(self, test: Test, deployment: Deployment, node: NodeId) -> Self:
        """A client with its own session with `node`, which knows where to begin another one.

        Raises:
            ProtocolError: sessions with the system lack the operations.
        """
        client = await super().open(test, deployment, node)
        client._place = deployment, node
        return client

    async def setup(self, test: Test) -> None:
        """Make the queues, those for dead letters first."""
        for name in NAMES:
            await self.session.declare_queue(dead_letters(name))
            await self.session.declare_limited(name, LIMIT, dead_letters(name))

    async def invoke(self, test: Test, op: Op) -> Op:
        """Carry out one op; an exception of the session goes through to the runner, which knows what it means."""
        await self._revive(test)
        name = op.key or ""
        match op.f:
            case "enqueue":
                answer = await self.session.publish(name, op.value)
                return op.complete("ok", op.value, term=answer.term)
            case "consume":
                answer = await self.session.take(name)
                return op.complete("ok", await self._consumed(answer.value), term=answer.term)
            case "collect":
                answer = await self.session.take(dead_letters(name))
                return op.complete("ok", self._collected(answer.value), term=answer.term)
            case _:
                raise ProtocolError(f"the workload poison knows no op {op.f!r}, only enqueue, consume and collect.")

    async def _consumed(self, taken: Delivery | None) -> Any:
        """Settle a message, or die of it; what the history says of it."""
        if taken is None:
            return None
        if is_poison(taken["value"]):
            session, self._session = self.session, None
            await session.close()
            return {"value": taken["value"], "died": True}
        self.session.ack(taken["tag"])  # nothing is awaited between this and the op's end
        return {"value": taken["value"], "died": False}

    def _collected(self, taken: Delivery | None) -> Any:
        if taken is None:
            return None
        self.session.ack(taken["tag"])
        return {"value": taken["value"], "reason": taken.get("reason")}

    async def _revive(self, test: Test) -> None:
        """Begin a session where the one before was ended."""
        if self._session is None and self._place is not None:
            session = await test.system.connect(*self._place)
            self._session = need(session, self.operations, test.system.name)

    async def close(self) -> None:
        """Drop the session, if there is one."""
        if self._session is not None:
            await super().close()


def poison(
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
        name="poison",
        client=PoisonClient(),
        generator=mix(Enqueues(names=NAMES), consumes, collects, weights=list(WEIGHTS)),
        final_generator=phases(*(clients(time_limit(DRAIN_S, drain)) for drain in drains)),
        checkers=(
            CheckerSpec("poison", {"limit": LIMIT, "settle_s": SETTLE_S}),
            CheckerSpec("stats"),
            CheckerSpec("coverage", {"fs": list(fs)}),
        ),
        fs=fs,
        needs=frozenset({LIMITED_QUEUES.name}),
        shapes={
            "enqueue": OpShape(keyed=True, value=WHOLE),
            "consume": OpShape(keyed=True),
            "collect": OpShape(keyed=True),
        },
    )
