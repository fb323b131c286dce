"""Queues with a single active consumer: publish unique numbers, consume what comes, and leave now and then.

All clients are consumers of all queues, and one of each queue at a time is given messages, one by one. What it was
given is acknowledged at the very end of the op that reports it. With `leave` a client stops being a consumer, so that
another one has to take over; faults bring about more handovers. What becomes of messages is for the workload `queue`:
here nothing is drained.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from splitbrain.checkers.verdict import CheckerSpec
from splitbrain.harness.contract.brokers import Delivery, SingleActive
from splitbrain.harness.contract.nodes import NodeId
from splitbrain.harness.contract.operations import SINGLE_ACTIVE
from splitbrain.harness.contract.test import WHOLE, OpShape, Test, Workload
from splitbrain.harness.generators import mix
from splitbrain.results.errors import ProtocolError
from splitbrain.results.history import Op
from splitbrain.workloads.queue import Enqueues, of_any, reported
from splitbrain.workloads.sessions import SessionClient

NAMES: Final = ("sa0", "sa1")
"""Of the queues."""

WEIGHTS: Final = (4, 32, 1)
"""Of publishes, of consumes (most are by clients whose turn it is not), and of leaves."""


class SingleActiveClient(SessionClient[SingleActive]):
    """Publishes to queues, and is a consumer of them."""

    operations = SINGLE_ACTIVE

    async def setup(self, test: Test) -> None:
        """Make the queues."""
        for name in NAMES:
            await self.session.declare_single_active(name)

    async def invoke(self, test: Test, op: Op) -> Op:
        """Carry out one op; an exception of the session goes through to the runner, which knows what it means."""
        name = op.key or ""
        match op.f:
            case "enqueue":
                answer = await self.session.publish(name, op.value)
                return op.complete("ok", op.value, term=answer.term)
            case "consume":
                given: Delivery | None = (await self.session.consume(name)).value
                if given is None:
                    return op.complete("ok", None)
                self.session.ack(given["tag"])  # nothing is awaited between this and the op's end
                return op.complete("ok", reported(given))
            case "leave":
                await self.session.leave(name)
                return op.complete("ok")
            case _:
                raise ProtocolError(
                    f"the workload single-active knows no op {op.f!r}, only enqueue, consume and leave."
                )


def single_active(
    *,
    nodes: Sequence[NodeId],  # noqa: ARG001 - as every builder
    concurrency: int,  # noqa: ARG001
    rate: float = 100.0,  # noqa: ARG001
    time_limit_s: float = 30.0,  # noqa: ARG001
) -> Workload:
    """The workload. It is the same for any number of nodes and clients."""
    fs = ("enqueue", "consume", "leave")
    return Workload(
        name="single-active",
        client=SingleActiveClient(),
        generator=mix(Enqueues(names=NAMES), of_any("consume", NAMES), of_any("leave", NAMES), weights=list(WEIGHTS)),
        final_generator=None,
        checkers=(CheckerSpec("single-active"), CheckerSpec("stats"), CheckerSpec("coverage", {"fs": list(fs)})),
        fs=fs,
        needs=frozenset({SINGLE_ACTIVE.name}),
        shapes={
            "enqueue": OpShape(keyed=True, value=WHOLE),
            "consume": OpShape(keyed=True),
            "leave": OpShape(keyed=True),
        },
    )
