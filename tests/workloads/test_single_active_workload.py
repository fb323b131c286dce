"""Single active consumers: what clients ask of a broker, and verdicts on brokers that keep their promises or do not."""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import dataclass, field
from typing import Any, cast

import msgspec
import pytest

from splitbrain.checkers.queues import SingleActive
from splitbrain.checkers.queues.starved import WAIT_S
from splitbrain.harness.contract.brokers import Delivery
from splitbrain.harness.contract.operations import SINGLE_ACTIVE, lacking
from splitbrain.harness.contract.rng import Streams
from splitbrain.harness.contract.sessions import Answer
from splitbrain.harness.contract.test import Test
from splitbrain.harness.generators import Context
from splitbrain.results.arrow import to_table
from splitbrain.results.errors import ProtocolError
from splitbrain.results.history import Op
from splitbrain.workloads.catalogue import build
from splitbrain.workloads.single_active import NAMES, WITH_PRIORITIES, Asks, SingleActiveClient


@dataclass
class Broker:
    """Queues in memory with single active consumers, or consumers that take turns.

    Attributes:
        shares: every consumer is given messages.
        acked: what was acknowledged, in order.
    """

    shares: bool = False
    queues: dict[str, list[tuple[int, bool]]] = field(default_factory=dict[str, list[tuple[int, bool]]])
    consumers: dict[str, list[Any]] = field(default_factory=dict[str, list[Any]])
    acked: list[int] = field(default_factory=list[int])
    name: str = "broker"

    async def connect(self, deployment: Any, node: str) -> BrokerSession:
        return BrokerSession(self)


class BrokerSession:
    """A session of one client."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.taken: dict[int, int] = {}
        self.priorities: dict[str, int] = {}

    async def declare_queue(self, queue: str) -> Answer:
        return await self.declare_single_active(queue)

    async def declare_single_active(self, queue: str) -> Answer:
        self.broker.queues.setdefault(queue, [])
        self.broker.consumers.setdefault(queue, [])
        return Answer()

    async def publish(self, queue: str, value: int) -> Answer:
        self.broker.queues[queue].append((value, False))
        return Answer(value)

    async def take(self, queue: str) -> Answer:
        return Answer()

    async def consume(self, queue: str, priority: int = 0) -> Answer:
        consumers, held = self.broker.consumers[queue], self.broker.queues[queue]
        if self not in consumers:
            self.priorities[queue] = priority
            before = sum(each.priorities[queue] >= priority for each in consumers)
            consumers.insert(before, self)  # the first one is active, and has nothing now that it has not acknowledged
        if not held or not (self.broker.shares or consumers[0] is self):
            return Answer()
        value, redelivered = held.pop(0)
        self.taken[value] = value
        return Answer(Delivery(value=value, tag=value, redelivered=redelivered))

    async def leave(self, queue: str) -> Answer:
        if self in self.broker.consumers[queue]:
            self.broker.consumers[queue].remove(self)
        return Answer()

    def ack(self, tag: int) -> None:
        self.broker.acked.append(self.taken.pop(tag))

    def reject(self, tag: int, *, requeue: bool) -> None:
        self.taken.pop(tag)

    async def purge(self, queue: str) -> Answer:
        return Answer(0)

    async def close(self) -> None:
        pass


@dataclass
class Only:
    system: Broker


def carried_out(broker: Broker, ops: int = 1500, clients: int = 4) -> list[Op]:
    """The history of the workload, whose clients talk to the broker one after the other."""
    workload = build("single-active", nodes=("n1",), concurrency=clients)
    history: list[Op] = []

    async def whole() -> None:
        test = cast(Test, Only(broker))
        opened = [await workload.client.open(test, cast(Any, None), "n1") for _ in range(clients)]
        await opened[0].setup(test)
        streams = Streams(1)
        left: Any = workload.generator
        ctx = Context.initial(clients, ("n1",), streams["workload"], streams["nemesis"])
        ctx = ctx.restrict(~ctx.nemesis_bit)
        while len(history) < 2 * ops:
            ctx.time_ns += 1_000_000
            found, left = left.op(ctx)
            assert isinstance(found, Op)
            op = msgspec.structs.replace(found, node="n1", time=ctx.time_ns, index=len(history))
            history.append(op)
            done = await opened[ctx.thread_of(op.process)].invoke(test, op)
            ctx.time_ns += 1_000_000
            history.append(msgspec.structs.replace(done, time=ctx.time_ns, index=len(history)))
            left = left.update(ctx, history[-1])

    asyncio.run(whole())
    return history


def verdict_of(broker: Broker) -> Any:
    spec = build("single-active", nodes=("n1",), concurrency=4).checkers[0]
    return SingleActive().check(to_table(carried_out(broker)), spec.options)


def test_a_session_with_these_methods_has_the_operations() -> None:
    assert lacking(BrokerSession(Broker()), SINGLE_ACTIVE) == []


def test_an_honest_broker_passes_and_consumers_take_over_from_each_other() -> None:
    broker = Broker()
    verdict = verdict_of(broker)
    assert verdict.valid == "true", verdict.sentence
    assert verdict.figures["handovers"] > 10
    assert verdict.figures["compared"] > 50
    assert verdict.figures["delivered"] == len(broker.acked)


def test_consumers_of_one_queue_have_priorities_and_take_over_from_others_that_stay() -> None:
    history = carried_out(Broker())
    asked = [op for op in history if op.type == "invoke" and op.f == "consume"]
    assert {(op.key, op.value) for op in asked} == {("sa0", None), ("sa1", 0), ("sa1", 1)}
    assert {(op.process == 3, op.value) for op in asked if op.key == WITH_PRIORITIES} == {(True, 1), (False, 0)}
    answers = [op for op in history if op.f == "consume" and op.type == "ok" and op.key == WITH_PRIORITIES]
    given = [op.process for op in answers if op.value is not None]
    assert sum(one != 3 == other for one, other in itertools.pairwise(given)) > 5  # process 3 takes over from others


def test_consumers_take_over_from_each_other_among_many_clients_too() -> None:
    verdict = SingleActive().check(to_table(carried_out(Broker(), clients=24)), {})
    assert verdict.valid == "true", verdict.sentence
    assert verdict.figures["handovers"] > 10
    assert verdict.figures["delivered"] > 100


def test_a_broker_that_lets_consumers_share_a_queue_is_convicted() -> None:
    verdict = verdict_of(Broker(shares=True))
    assert verdict.anomalies == ("shared",)


def test_a_client_acknowledges_what_it_reports_and_refuses_ops_that_it_does_not_know() -> None:
    broker = Broker()
    test = cast(Test, Only(broker))

    def op(f: str, value: Any = None) -> Op:
        return Op(process=0, type="invoke", f=f, key=NAMES[0], value=value, node="n1")

    async def main() -> None:
        client = await SingleActiveClient().open(test, cast(Any, None), "n1")
        await client.setup(test)
        assert set(broker.queues) == set(NAMES)
        assert (await client.invoke(test, op("consume"))).value is None
        assert (await client.invoke(test, op("enqueue", 3))).value == 3
        broker.queues[NAMES[0]].append((4, True))
        assert (await client.invoke(test, op("consume"))).value == 3
        assert (await client.invoke(test, op("consume"))).value == {"value": 4, "redelivered": True}
        assert broker.acked == [3, 4]
        assert (await client.invoke(test, op("leave"))).type == "ok"
        assert broker.consumers[NAMES[0]] == []
        with pytest.raises(ProtocolError, match="knows no op 'peek'"):
            await client.invoke(test, op("peek"))

    asyncio.run(main())


def test_each_client_asks_each_queue_once_at_the_end() -> None:
    left: Any = Asks()
    streams = Streams(1)
    ctx = Context.initial(3, ("n1", "n2"), streams["workload"], streams["nemesis"])
    ctx = ctx.restrict(~ctx.nemesis_bit)
    found: list[Op] = []
    while (result := left.op(ctx)) is not None:
        op, left = result
        assert isinstance(op, Op)
        found.append(op)
    assert sorted((op.process, op.key) for op in found) == [(process, name) for process in range(3) for name in NAMES]
    assert {op.value for op in found if op.key == WITH_PRIORITIES} == {0, 1}


def test_the_workload_ends_with_a_question_of_each_client_to_each_queue_long_after_the_last_put() -> None:
    workload = build("single-active", nodes=("n1",), concurrency=3)
    assert workload.final_generator is not None
    left: Any = workload.final_generator
    streams = Streams(1)
    ctx = Context.initial(3, ("n1",), streams["workload"], streams["nemesis"])
    ops: list[Op] = []
    while (result := left.op(ctx)) is not None:
        found, left = result
        if isinstance(found, Op):
            ops.append(msgspec.structs.replace(found, time=ctx.time_ns))
            left = left.update(ctx, ops[-1])
            left = left.update(ctx, msgspec.structs.replace(ops[-1], type="ok", value=None))
        else:
            ctx.time_ns = max(ctx.time_ns + 1, found.until_ns or 0)
    last_put_ns = max(op.time for op in ops if op.f == "enqueue")
    asked = ops[-3 * len(NAMES) :]
    assert {(op.process, op.key) for op in asked} == {(process, name) for process in range(3) for name in NAMES}
    assert min(op.time for op in asked) - last_put_ns > WAIT_S * 1e9 - 2e9
    assert not [op for op in ops if op.f == "leave" and op.time > last_put_ns]


def test_where_answers_come_late_without_a_fault_the_checker_knows_it() -> None:
    for late_s, options in ((0.0, {}), (30.0, {"late_s": 30.0})):
        workload = build("single-active", nodes=("n1",), concurrency=2, late_s=late_s)
        assert workload.checkers[0].options == options
