"""Queues that give messages up: publish, consume, reject and give back, and read the dead letters with their reasons.

Of four values consumers acknowledge two, reject one for good, and give one back each time, until it exceeds the
delivery limit. In one of the queues messages expire as well, of any value.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from splitbrain.harness.contract.brokers import Delivery, ExpiringQueues
from splitbrain.harness.contract.nodes import NodeId
from splitbrain.harness.contract.operations import EXPIRING_QUEUES
from splitbrain.harness.contract.test import Workload
from splitbrain.harness.generators import Context, each, invoke
from splitbrain.results.history import Op
from splitbrain.workloads.letters import LetterClient, dead_letters, workload

NAMES: Final = ("d0", "e0")
"""Of the queues."""

CONSUMED: Final = ("d0", "e0")
"""Of what consumes are, in turn: all of the queue without expiry, then of both. So the queue with expiry gets more
messages than are consumed; and what was given back to it last is too old when its consumers are there again.
"""

TURN_S: Final = 1.6
"""How long such a turn is: longer than a message may wait."""

TTL_S: Final = {"e0": 1.0}
"""How long a message may wait in a queue; without end in the other one."""

LIMIT: Final = 2
"""How often a message may be given back."""

WEIGHTS: Final = (6, 9, 4)
"""Of publishes, of consumes (a message that is given back takes some), and of reads of dead letters."""


def deed(value: int) -> str:
    """What consumers do with this value: "ack", "reject" or "return"."""
    return ("ack", "reject", "return", "ack")[value % 4]


def _consume(ctx: Context) -> Op:
    is_alone = ctx.time_ns % round(2 * TURN_S * 1e9) < round(TURN_S * 1e9)
    return invoke("consume", key=NAMES[0] if is_alone else ctx.rng.choice(CONSUMED))


class DeadLetterClient(LetterClient[ExpiringQueues]):
    """Acknowledges some messages, rejects some, and gives others back."""

    operations = EXPIRING_QUEUES
    names = NAMES

    async def declare(self, name: str) -> None:
        """Make a queue in which messages expire, or one in which they do not."""
        if name in TTL_S:
            await self.session.declare_expiring(name, LIMIT, round(TTL_S[name] * 1000), dead_letters(name))
        else:
            await self.session.declare_limited(name, LIMIT, dead_letters(name))

    async def consumed(self, taken: Delivery) -> Any:
        """Settle a message; what the history says of it. Nothing is awaited between this and the op's end."""
        did = deed(taken["value"])
        if did == "ack":
            self.session.ack(taken["tag"])
        else:
            self.session.reject(taken["tag"], requeue=did == "return")
        return {"value": taken["value"], "did": did}


def dead_letter(
    *,
    nodes: Sequence[NodeId],  # noqa: ARG001 - as every builder
    concurrency: int,  # noqa: ARG001
    rate: float = 100.0,  # noqa: ARG001
    time_limit_s: float = 30.0,  # noqa: ARG001
    late_s: float = 0.0,
) -> Workload:
    """The workload. It is the same for any number of nodes and clients."""
    options = {"ttl_s": TTL_S}
    return workload(
        "dead-letter",
        DeadLetterClient(),
        consumes=each(_consume),
        limit=LIMIT,
        weights=WEIGHTS,
        options=options,
        late_s=late_s,
    )
