"""Queues whose replicas are maintained: publish, look where they are, grow and shrink them, drain and revive nodes.

What becomes of messages is for the workload `queue`: here they only give replicas something to catch up on. In the end
all nodes are revived, and the queues are looked at until nothing has changed for a while; all clients publish to all of
them meanwhile, whose nodes have a replica or not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from splitbrain.checkers.verdict import CheckerSpec
from splitbrain.harness.contract.brokers import MaintainedReplicas
from splitbrain.harness.contract.nodes import NodeId
from splitbrain.harness.contract.operations import MAINTAINED_REPLICAS
from splitbrain.harness.contract.test import WHOLE, OpShape, Test, Workload
from splitbrain.harness.generators import Context, clients, each, invoke, mix, phases, stagger, time_limit
from splitbrain.results.errors import ProtocolError
from splitbrain.results.history import Op
from splitbrain.workloads.queue import Enqueues
from splitbrain.workloads.sessions import SessionClient

NAMES: Final = ("r0", "r1", "r2")
"""Of the queues: as many as it takes for each of five nodes to have a replica, whichever fails first."""

TARGET: Final = 3
"""Live replicas of each."""

WEIGHTS: Final = (60, 40)
"""Of publishes and looks."""

OPERATORS: Final = (1, 2, 3, 4)
"""Of growths, shrinkings, drains, and revivals, up to `OPERATORS_RATE`. More shrink than grow, so that failures find
queues at their target; and nodes are often drained while replicas are replaced."""

OPERATORS_RATE: Final = 20.0
"""Ops per second above which operators do not do more: a change takes a second, and while theirs are under way the
system begins none, and replaces nothing."""

SETTLE_S: Final = 10.0
"""After so long without a fault no node counts as failed any more."""

RECOVERY_S: Final = 1.5
"""So long a node must be down to count as failed; systems are started so."""

QUIET_S: Final = 8.0
"""For so long nothing may have changed before the end counts as quiet: more than twice the time between checks."""

FINAL_S: Final = 30.0
FINAL_VALUE: Final = 1_000_000_000
"""The first value that is put in during the final phase."""

FINAL_OPS_S: Final = 0.08
"""Between two ops of the final phase, on average."""

FINAL_WEIGHTS: Final = (2, 1)
"""Of publishes and looks in the final phase: all clients ask all queues, also those whose nodes have no replica."""


class ReplicasClient(SessionClient[MaintainedReplicas]):
    """Publishes to queues, looks at their replicas, and has them changed."""

    operations = MAINTAINED_REPLICAS

    async def setup(self, test: Test) -> None:
        """Make the queues."""
        for name in NAMES:
            await self.session.declare_maintained(name, TARGET)

    async def invoke(self, test: Test, op: Op) -> Op:
        """Carry out one op; an exception of the session goes through to the runner, which knows what it means."""
        name, session, value = op.key or "", self.session, op.value
        match op.f:
            case "enqueue":
                answer = await session.publish(name, value)
                return op.complete("ok", value, term=answer.term)
            case "look":
                return op.complete("ok", (await session.replicas(name)).value)
            case "grow":
                await session.grow(name, value)
            case "shrink":
                await session.shrink(name, value)
            case "drain":
                await session.drain(value)
            case "revive":
                await session.revive(value)
            case _:
                raise ProtocolError(
                    f"the workload replicas knows no op {op.f!r}, only enqueue, look, grow, shrink, drain and revive."
                )
        return op.complete("ok", value)


def replicas(
    *,
    nodes: Sequence[NodeId],
    concurrency: int,  # noqa: ARG001 - as every builder
    rate: float = 100.0,
    time_limit_s: float = 30.0,  # noqa: ARG001
) -> Workload:
    """The workload. It is the same for any number of clients; operators do as much at any high rate."""

    def of_queue(f: str) -> Any:
        return each(lambda ctx: invoke(f, _node(ctx), key=ctx.rng.choice(NAMES)))

    def of_node(f: str) -> Any:
        return each(lambda ctx: invoke(f, _node(ctx)))

    def _node(ctx: Context) -> str:
        return ctx.rng.choice(tuple(nodes))

    looks = each(lambda ctx: invoke("look", key=ctx.rng.choice(NAMES)))
    fs = ("enqueue", "look", "grow", "shrink", "drain", "revive")
    changes = [of_queue("grow"), of_queue("shrink"), of_node("drain"), of_node("revive")]
    most = max(1.0, rate / OPERATORS_RATE)
    weights = [*(most * weight for weight in WEIGHTS), *OPERATORS]
    asked = mix(Enqueues(FINAL_VALUE, NAMES), looks, weights=FINAL_WEIGHTS)
    revivals = time_limit(6.0, stagger(0.1, of_node("revive")))
    return Workload(
        name="replicas",
        client=ReplicasClient(),
        generator=mix(Enqueues(names=NAMES), looks, *changes, weights=weights),
        final_generator=phases(clients(revivals), clients(time_limit(FINAL_S, stagger(FINAL_OPS_S, asked)))),
        checkers=(
            CheckerSpec(
                "replicas",
                {"target": TARGET, "settle_s": SETTLE_S, "quiet_s": QUIET_S, "recovery_s": RECOVERY_S},
            ),
            CheckerSpec("stats"),
            CheckerSpec("coverage", {"fs": ["enqueue", "look"]}),
        ),
        fs=fs,
        needs=frozenset({MAINTAINED_REPLICAS.name}),
        shapes={
            "enqueue": OpShape(keyed=True, value=WHOLE),
            "look": OpShape(keyed=True, requests=2),
            "grow": OpShape(keyed=True, value=str, requests=3),
            "shrink": OpShape(keyed=True, value=str, requests=3),
            "drain": OpShape(value=str),
            "revive": OpShape(value=str),
        },
    )
