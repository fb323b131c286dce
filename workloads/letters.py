"""What the workloads on queues with dead letters share: clients that publish, consume and read dead letters."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeVar

from splitbrain.checkers.verdict import CheckerSpec
from splitbrain.harness.contract.brokers import Delivery, LimitedQueues
from splitbrain.harness.contract.test import WHOLE, OpShape, Test, Workload
from splitbrain.harness.generators import Generator, mix
from splitbrain.results.errors import ProtocolError
from splitbrain.results.history import Op
from splitbrain.workloads.queue import SETTLE_S, Drain, Enqueues, drained, of_any
from splitbrain.workloads.sessions import SessionClient

FS: Final = ("enqueue", "consume", "collect")


Limited = TypeVar("Limited", bound=LimitedQueues)


def dead_letters(queue: str) -> str:
    """The name of the queue that gets the dead letters of another one."""
    return f"{queue}.dead"


class LetterClient(SessionClient[Limited], ABC):
    """Publishes to queues, consumes from them, and reads dead letters.

    Attributes:
        names: of the queues.
    """

    names: tuple[str, ...]
    shared_by = 1

    @abstractmethod
    async def declare(self, name: str) -> None:
        """Make a queue; the one for its dead letters is there."""

    @abstractmethod
    async def consumed(self, taken: Delivery) -> Any:
        """Do with a message what a consumer of it does; what the history says of it."""

    async def setup(self, test: Test) -> None:
        """Make the queues, those for dead letters first."""
        for name in self.names:
            await self.session.declare_queue(dead_letters(name))
            await self.declare(name)

    async def invoke(self, test: Test, op: Op) -> Op:
        """Carry out one op; an exception of the session goes through to the runner, which knows what it means."""
        name = op.key or ""
        match op.f:
            case "enqueue":
                answer = await self.session.publish(name, op.value)
                return op.complete("ok", op.value, term=answer.term)
            case "consume":
                answer = await self.session.take(name)
                said = None if answer.value is None else await self.consumed(answer.value)
                return op.complete("ok", said, term=answer.term)
            case "collect":
                answer = await self.session.take(dead_letters(name))
                return op.complete("ok", self._collected(answer.value), term=answer.term)
            case _:
                raise ProtocolError(f"a workload on dead letters knows no op {op.f!r}: enqueue, consume and collect.")

    def survives(self, op: Op) -> bool:
        """After an enqueue: what a take of unknown outcome has goes back only when the session ends."""
        return op.f == "enqueue" and super().survives(op)

    def _collected(self, taken: Delivery | None) -> Any:
        if taken is None:
            return None
        self.session.ack(taken["tag"])
        return {"value": taken["value"], "reason": taken.get("reason")}


def workload(
    name: str,
    client: LetterClient[Any],
    *,
    consumes: Generator,
    limit: int,
    weights: Sequence[int],
    options: Mapping[str, Any],
    late_s: float,
) -> Workload:
    """A workload of publishes, consumes and reads of dead letters, judged by the checker that is named like it.

    In the end all nodes are asked until each queue is empty, and then until its dead letters are.

    Args:
        name: of the workload.
        client: names its queues.
        consumes: the consumes.
        limit: how often a message may be given back.
        weights: of the three functions.
        options: further ones of the checker.
        late_s: how much later than usual something may arrive although nothing is wrong.
    """
    names = client.names
    drains = (Drain(names=names, f="consume", returns=True), Drain(names=names, f="collect"))
    return Workload(
        name=name,
        client=client,
        generator=mix(Enqueues(names=names), consumes, of_any("collect", names), weights=list(weights)),
        final_generator=drained(*drains, late_s=late_s),
        checkers=(
            CheckerSpec(name, {"limit": limit, **options, "settle_s": SETTLE_S + late_s}),
            CheckerSpec("stats"),
            CheckerSpec("coverage", {"fs": list(FS)}),
        ),
        fs=FS,
        needs=frozenset({client.operations.name}),
        shapes={
            "enqueue": OpShape(keyed=True, value=WHOLE),
            "consume": OpShape(keyed=True),
            "collect": OpShape(keyed=True),
        },
    )
