"""Messages that kill their consumers: what clients ask of a broker, and verdicts on brokers of every kind."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast

import msgspec
import pytest

from splitbrain.checkers.queues import Poison
from splitbrain.harness.contract.brokers import Delivery
from splitbrain.harness.contract.operations import LIMITED_QUEUES, lacking
from splitbrain.harness.contract.rng import Streams
from splitbrain.harness.contract.sessions import Answer
from splitbrain.harness.contract.test import Test
from splitbrain.harness.generators import Context, Pending
from splitbrain.results.arrow import to_table
from splitbrain.results.errors import ProtocolError
from splitbrain.results.history import Op
from splitbrain.workloads.catalogue import build
from splitbrain.workloads.letters import dead_letters
from splitbrain.workloads.poison import NAMES, PoisonClient, is_poison


class Held(NamedTuple):
    value: int
    times: int = 0
    reason: str | None = None


@dataclass
class Broker:
    """Queues in memory that have a delivery limit.

    Attributes:
        counts: whether a death of a consumer is counted.
        gives_up_after: how many deaths more or less than the limit it takes to give a message up.
        keeps: whether dead letters arrive.
        reason: why they are some, as it says.
        sessions: how many were begun.
    """

    counts: bool = True
    gives_up_after: int = 0
    keeps: bool = True
    reason: str = "delivery_limit"
    queues: dict[str, list[Held]] = field(default_factory=dict[str, list[Held]])
    limits: dict[str, tuple[int, str]] = field(default_factory=dict[str, tuple[int, str]])
    sessions: int = 0
    name: str = "broker"

    async def connect(self, deployment: Any, node: str) -> BrokerSession:
        self.sessions += 1
        return BrokerSession(self)


class BrokerSession:
    """A session of one client."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.taken: dict[int, tuple[str, Held]] = {}

    async def declare_queue(self, queue: str) -> Answer:
        self.broker.queues.setdefault(queue, [])
        return Answer()

    async def declare_limited(self, queue: str, limit: int, dead_letters: str) -> Answer:
        assert dead_letters in self.broker.queues, "it is there"
        self.broker.limits[queue] = limit, dead_letters
        return await self.declare_queue(queue)

    async def publish(self, queue: str, value: int) -> Answer:
        self.broker.queues[queue].append(Held(value))
        return Answer(value)

    async def take(self, queue: str) -> Answer:
        if not self.broker.queues[queue]:
            return Answer()
        found = self.broker.queues[queue].pop(0)
        self.taken[found.value] = queue, found
        delivery = Delivery(value=found.value, tag=found.value, redelivered=found.times > 0)
        if found.reason is not None:
            delivery["reason"] = found.reason
        return Answer(delivery)

    def ack(self, tag: int) -> None:
        del self.taken[tag]

    def reject(self, tag: int, *, requeue: bool) -> None:
        raise AssertionError("no message is rejected")

    async def purge(self, queue: str) -> Answer:
        return Answer(0)

    async def close(self) -> None:
        broker = self.broker
        for queue, held in self.taken.values():
            limit, dead = broker.limits[queue]
            times = held.times + broker.counts
            if times <= limit + broker.gives_up_after and times < 30:
                broker.queues[queue].insert(0, Held(held.value, times))
            elif broker.keeps:
                broker.queues[dead].append(Held(held.value, reason=broker.reason))
        self.taken.clear()


@dataclass
class Only:
    system: Broker


def carried_out(broker: Broker, ops: int = 800, clients: int = 4) -> list[Op]:
    """The history of the workload, whose clients talk to the broker one after the other; to the end of its drains."""
    workload = build("poison", nodes=("n1",), concurrency=clients)
    history: list[Op] = []

    async def whole() -> None:
        test = cast(Test, Only(broker))
        opened = [await workload.client.open(test, cast(Any, None), "n1") for _ in range(clients)]
        await opened[0].setup(test)
        streams = Streams(1)
        ctx = Context.initial(clients, ("n1",), streams["workload"], streams["nemesis"])
        ctx = ctx.restrict(~ctx.nemesis_bit)
        for phase, most in ((workload.generator, 2 * ops), (workload.final_generator, 10**6)):
            left: Any = phase
            end = len(history) + most
            while left is not None and len(history) < end:
                ctx.time_ns += 1_000_000
                result = left.op(ctx)
                if result is None:
                    break
                found, left = result
                if isinstance(found, Pending):
                    ctx.time_ns += 100_000_000
                    continue
                op = msgspec.structs.replace(found, node="n1", time=ctx.time_ns, index=len(history))
                history.append(op)
                left = left.update(ctx, op)
                done = await opened[ctx.thread_of(op.process)].invoke(test, op)
                ctx.time_ns += 1_000_000
                history.append(msgspec.structs.replace(done, time=ctx.time_ns, index=len(history)))
                left = left.update(ctx, history[-1])

    asyncio.run(whole())
    return history


def verdict_of(broker: Broker) -> Any:
    spec = build("poison", nodes=("n1",), concurrency=4).checkers[0]
    return Poison().check(to_table(carried_out(broker)), spec.options)


def test_a_session_with_these_methods_has_the_operations() -> None:
    assert lacking(BrokerSession(Broker()), LIMITED_QUEUES) == []


def test_an_honest_broker_passes_and_gives_up_what_kills() -> None:
    verdict = verdict_of(Broker())
    assert verdict.valid == "true", verdict.sentence
    figures = verdict.figures
    assert figures["deaths"] == 4 * figures["dead_letters"] > 50
    assert figures["settled"] + figures["dead_letters"] == figures["acknowledged"]


@pytest.mark.parametrize(
    ("broker", "anomaly"),
    [
        (Broker(gives_up_after=1), "beyond"),
        (Broker(gives_up_after=-1), "early"),
        (Broker(keeps=False), "vanished"),
        (Broker(reason="expired"), "reason"),
    ],
)
def test_a_broker_that_breaks_a_promise_is_convicted_of_that(broker: Broker, anomaly: str) -> None:
    assert verdict_of(broker).anomalies == (anomaly,)


def test_a_client_dies_of_poison_with_its_session_and_begins_another_one() -> None:
    broker = Broker()
    test = cast(Test, Only(broker))

    def op(f: str, value: Any = None) -> Op:
        return Op(process=0, type="invoke", f=f, key=NAMES[0], value=value, node="n1")

    async def main() -> None:
        client = await PoisonClient().open(test, cast(Any, None), "n1")
        await client.setup(test)
        assert set(broker.queues) == {*NAMES, *map(dead_letters, NAMES)}
        assert (await client.invoke(test, op("consume"))).value is None
        assert is_poison(8)
        assert not is_poison(9)
        await client.invoke(test, op("enqueue", 8))
        await client.invoke(test, op("enqueue", 9))
        assert (await client.invoke(test, op("consume"))).value == {"value": 8, "died": True}
        await client.close()  # without a session there is nothing to close
        assert broker.sessions == 1
        broker.queues[NAMES[0]] = [Held(9)]
        assert (await client.invoke(test, op("consume"))).value == {"value": 9, "died": False}
        assert broker.sessions == 2
        broker.queues[dead_letters(NAMES[0])] = [Held(8, reason="delivery_limit")]
        assert (await client.invoke(test, op("collect"))).value == {"value": 8, "reason": "delivery_limit"}
        assert (await client.invoke(test, op("collect"))).value is None
        with pytest.raises(ProtocolError, match="knows no op 'peek'"):
            await client.invoke(test, op("peek"))

    asyncio.run(main())


def test_a_client_goes_on_after_an_enqueue_alone_and_not_without_a_session() -> None:
    broker = Broker()
    test = cast(Test, Only(broker))

    def op(f: str, value: Any = None) -> Op:
        return Op(process=0, type="invoke", f=f, key=NAMES[0], value=value, node="n1")

    async def main() -> None:
        client = await PoisonClient().open(test, cast(Any, None), "n1")
        await client.setup(test)
        vars(client.session)["broken"] = False
        assert client.survives(op("enqueue", 8))
        assert not client.survives(op("consume"))
        await client.invoke(test, op("enqueue", 8))
        await client.invoke(test, op("consume"))  # it dies of the message
        assert not client.survives(op("enqueue", 9))

    asyncio.run(main())
