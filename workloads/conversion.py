"""Classic queues whose files are converted under load: publish, take and acknowledge or give back, convert, drain.

A queue is held by one node: ops on it wait for that node, and none needs a majority but a conversion, which is a change
of the metadata. What is acknowledged is synced, so that no fault may lose it; what was taken and not settled goes back
after 5 s, or as the node begins anew. A node that finds a torn file does not start, as the checker `crashes` sees.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from splitbrain.checkers.verdict import CheckerSpec
from splitbrain.harness.contract.brokers import ClassicQueues, Delivery
from splitbrain.harness.contract.nodes import NodeId
from splitbrain.harness.contract.operations import CLASSIC_QUEUES
from splitbrain.harness.contract.test import WHOLE, OpShape, Test, Workload
from splitbrain.harness.generators import mix
from splitbrain.results.errors import ProtocolError
from splitbrain.results.history import Op
from splitbrain.workloads.queue import BATCH, SETTLE_S, Drain, Enqueues, drained, of_any, reported
from splitbrain.workloads.sessions import SessionClient

NAMES: Final = ("c0", "c1", "c2", "c3", "c4", "c5")
"""Of the queues: the files of each are converted once."""

WEIGHTS: Final = (50, 35, 10, 3)
"""Of publishes, takes, messages given back, and conversions. Queues fill: empty ones have nothing to convert."""


class ConversionClient(SessionClient[ClassicQueues]):
    """Publishes to classic queues, takes from them, and has their files converted."""

    operations = CLASSIC_QUEUES

    async def setup(self, test: Test) -> None:
        """Make the queues."""
        for name in NAMES:
            await self.session.declare_classic(name)

    async def invoke(self, test: Test, op: Op) -> Op:
        """Carry out one op; an exception of the session goes through to the runner, which knows what it means."""
        name, session = op.key or "", self.session
        match op.f:
            case "send":
                await session.put_classic(name, op.value)
                return op.complete("ok", op.value)
            case "receive":
                taken = await self._taken(name, 1)
                return op.complete("ok", next(iter(self._dealt_with(taken)), None))
            case "return":
                for delivery in await self._taken(name, 1):
                    session.settle_classic(delivery["tag"], requeue=True)
                return op.complete("ok")
            case "convert":
                return op.complete("ok", (await session.convert_classic(name)).value)
            case "exhaust":
                return op.complete("ok", self._dealt_with(await self._taken(name, BATCH)))
            case _:
                raise ProtocolError(
                    f"the workload conversion knows no op {op.f!r}, only send, receive, return, convert and exhaust."
                )

    async def _taken(self, name: str, most: int) -> list[Delivery]:
        """Up to `most` messages, fewer only where the queue has no more that are not taken."""
        taken: list[Delivery] = []
        while len(taken) < most:
            found: Delivery | None = (await self.session.take_classic(name)).value
            if found is None:
                break
            taken.append(found)
        return taken

    def _dealt_with(self, taken: Sequence[Delivery]) -> list[Any]:
        """Acknowledge messages; what the history says of them. Nothing is awaited between this and the op's end."""
        for delivery in taken:
            self.session.settle_classic(delivery["tag"], requeue=False)
        return [reported(each) for each in taken]


def conversion(
    *,
    nodes: Sequence[NodeId],  # noqa: ARG001 - as every builder
    concurrency: int,  # noqa: ARG001
    rate: float = 100.0,  # noqa: ARG001
    time_limit_s: float = 30.0,  # noqa: ARG001
    late_s: float = 0.0,
) -> Workload:
    """The workload. It is the same for any number of nodes and clients."""
    fs = ("send", "receive", "return", "convert", "exhaust")
    of_queues = [of_any(f, NAMES) for f in ("receive", "return", "convert")]
    options = {
        "enqueue": "send",
        "dequeue": "receive",
        "drain": "exhaust",
        "order": "none",
        "settle_s": SETTLE_S + late_s,
    }
    return Workload(
        name="conversion",
        client=ConversionClient(),
        generator=mix(Enqueues(names=NAMES, f="send"), *of_queues, weights=list(WEIGHTS)),
        final_generator=drained(Drain(names=NAMES, f="exhaust"), late_s=late_s),
        checkers=(
            CheckerSpec("queue", options),
            CheckerSpec("stats"),
            CheckerSpec("coverage", {"fs": list(fs)}),
        ),
        fs=fs,
        needs=frozenset({CLASSIC_QUEUES.name}),
        shapes={
            "send": OpShape(keyed=True, value=WHOLE),
            "receive": OpShape(keyed=True),
            "return": OpShape(keyed=True),
            "convert": OpShape(keyed=True, requests=2),
            "exhaust": OpShape(keyed=True, requests=BATCH),
        },
    )
