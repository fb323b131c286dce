"""Messages that kill their consumers: publish, consume, and read the dead letters of queues with a delivery limit.

Every fourth value is poison: the client that is given it ends its connection without settling it, as a process that
dies of it does, and begins anew with its next op. Other values are acknowledged at the very end of the op that reports
them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Self

from splitbrain.harness.contract.brokers import Delivery, LimitedQueues
from splitbrain.harness.contract.deployments import Deployment
from splitbrain.harness.contract.nodes import NodeId
from splitbrain.harness.contract.operations import LIMITED_QUEUES, need
from splitbrain.harness.contract.test import Test, Workload
from splitbrain.results.history import Op
from splitbrain.workloads.letters import LetterClient, dead_letters, workload
from splitbrain.workloads.queue import of_any

NAMES: Final = ("p0", "p1")
"""Of the queues."""

LIMIT: Final = 3
"""How often a message may be given back."""

EVERY: Final = 4
"""One value of so many is poison."""

WEIGHTS: Final = (5, 13, 3)
"""Of publishes, of consumes (a poisonous message takes one more than the limit), and of reads of dead letters."""


def is_poison(value: int) -> bool:
    """Whether a consumer dies of this value."""
    return value % EVERY == 0


class PoisonClient(LetterClient[LimitedQueues]):
    """Consumes until it dies of a message."""

    operations = LIMITED_QUEUES
    names = NAMES

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

    async def declare(self, name: str) -> None:
        """Make a queue with a delivery limit."""
        await self.session.declare_limited(name, LIMIT, dead_letters(name))

    async def invoke(self, test: Test, op: Op) -> Op:
        """Carry out one op, with a new session where the client had died."""
        await self._revive(test)
        return await super().invoke(test, op)

    async def consumed(self, taken: Delivery) -> Any:
        """Settle a message, or die of it; what the history says of it."""
        if is_poison(taken["value"]):
            session, self._session = self.session, None
            await session.close()
            return {"value": taken["value"], "died": True}
        self.session.ack(taken["tag"])  # nothing is awaited between this and the op's end
        return {"value": taken["value"], "died": False}

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
    late_s: float = 0.0,
) -> Workload:
    """The workload. It is the same for any number of nodes and clients."""
    return workload(
        "poison",
        PoisonClient(),
        consumes=of_any("consume", NAMES),
        limit=LIMIT,
        weights=WEIGHTS,
        options={},
        late_s=late_s,
    )
