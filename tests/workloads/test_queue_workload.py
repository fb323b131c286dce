"""The queue workload: what its client reports and acknowledges, and that its drain ends when nothing is left."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, cast

import msgspec
import pytest

from splitbrain.checkers.queues import TotalQueue
from splitbrain.harness.contract.brokers import Delivery
from splitbrain.harness.contract.operations import QUEUES, lacking
from splitbrain.harness.contract.rng import Streams
from splitbrain.harness.contract.sessions import Answer, DefiniteError, IndefiniteError
from splitbrain.harness.contract.test import Client, Test
from splitbrain.harness.generators import Context, Generator
from splitbrain.results.arrow import to_table
from splitbrain.results.errors import ProtocolError
from splitbrain.results.history import Op, OpType
from splitbrain.workloads.catalogue import build
from splitbrain.workloads.queue import BATCH, HELD, HOLDS, NAMES, SETTLE_S, Drain, Enqueues, QueueClient
from splitbrain.workloads.queue import drained as in_the_end
from tests.workloads.support import FIVE, drive, invocations, run

THREE = FIVE[:3]


@dataclass
class Broker:
    """Queues in memory, honest or not.

    Attributes:
        acked: what was acknowledged, in order.
        drops: values that are confirmed and forgotten.
        swaps: takes give the last message, not the first one.
        fails_after: takes fail once so many were answered.
    """

    queues: dict[str, list[tuple[int, bool]]] = field(default_factory=dict[str, list[tuple[int, bool]]])
    acked: list[int] = field(default_factory=list[int])
    drops: frozenset[int] = frozenset()
    swaps: bool = False
    fails_after: int | None = None
    name: str = "broker"

    async def connect(self, deployment: Any, node: str) -> BrokerSession:
        return BrokerSession(self)


class BrokerSession:
    """A session: what it took and did not acknowledge goes back at its close."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.taken: dict[int, tuple[str, int]] = {}
        self.tag = 0

    async def declare_queue(self, queue: str) -> Answer:
        self.broker.queues.setdefault(queue, [])
        return Answer()

    async def publish(self, queue: str, value: int) -> Answer:
        if value not in self.broker.drops:
            self.broker.queues[queue].append((value, False))
        return Answer(value, 4)

    async def take(self, queue: str) -> Answer:
        if self.broker.fails_after is not None:
            self.broker.fails_after -= 1
            if self.broker.fails_after < 0:
                raise IndefiniteError("the connection broke")
        held = self.broker.queues[queue]
        if not held:
            return Answer(None, 4)
        value, redelivered = held.pop(-1 if self.broker.swaps else 0)
        self.tag += 1
        tag = self.tag
        self.taken[tag] = (queue, value)
        return Answer(Delivery(value=value, tag=tag, redelivered=redelivered), 4)

    def ack(self, tag: int) -> None:
        self.broker.acked.append(self.taken.pop(tag)[1])

    def reject(self, tag: int, *, requeue: bool) -> None:
        queue, value = self.taken.pop(tag)
        if requeue:
            self.broker.queues[queue].insert(0, (value, True))

    async def purge(self, queue: str) -> Answer:
        held = self.broker.queues[queue]
        count = len(held)
        held.clear()
        return Answer(count)

    async def close(self) -> None:
        for queue, value in reversed(self.taken.values()):
            self.broker.queues[queue].insert(0, (value, True))
        self.taken.clear()


@dataclass
class Only:
    system: Broker


def opened(broker: Broker) -> Client:
    test = cast(Test, Only(broker))

    async def made() -> Client:
        client = await QueueClient().open(test, cast(Any, None), "n1")
        await client.setup(test)
        return client

    return run(made())


def do(client: Client, f: str, value: Any = None, *, key: str = "q0") -> Op:
    test = cast(Test, None)
    return run(client.invoke(test, Op(process=3, type="invoke", f=f, key=key, value=value, node="n1")))


def test_a_session_with_these_methods_has_the_operations() -> None:
    assert lacking(BrokerSession(Broker()), QUEUES) == []
    assert lacking(object(), QUEUES) == ["ack", "declare_queue", "publish", "purge", "reject", "take"]


@pytest.mark.parametrize("error", [DefiniteError, IndefiniteError])
def test_a_system_that_cannot_make_the_queues_is_not_prepared(error: type[Exception]) -> None:
    class RefusingSession(BrokerSession):
        async def declare_queue(self, queue: str) -> Answer:
            raise error("no such right.")

    client = QueueClient(RefusingSession(Broker()))
    with pytest.raises(error, match="no such right"):
        run(client.setup(cast(Test, None)))


def test_a_client_makes_the_queues_and_reports_what_it_put_in_and_took_out() -> None:
    broker = Broker()
    client = opened(broker)
    assert set(broker.queues) == set(NAMES)
    put = do(client, "enqueue", 7)
    assert (put.type, put.value, put.key, put.term) == ("ok", 7, "q0", 4)
    broker.queues["q0"].append((9, True))
    assert do(client, "dequeue").value == 7
    assert do(client, "dequeue").value == {"value": 9, "redelivered": True}
    assert do(client, "dequeue").value is None
    assert broker.acked == [7, 9]
    with pytest.raises(ProtocolError, match="knows no op 'peek'"):
        do(client, "peek")


def test_a_client_holds_some_messages_until_it_has_more_of_them_and_begins_its_next_op() -> None:
    broker = Broker()
    client = opened(broker)
    broker.queues["q0"] = [(value, value == 2) for value in range(0, HELD * (HOLDS + 2), HELD)]
    for number in range(HOLDS + 1):
        value = number * HELD
        assert do(client, "dequeue").value == {"value": value, "redelivered": value == 2, "held": HOLDS}
        assert broker.acked == []
    do(client, "enqueue", 99)
    assert broker.acked == [0]
    do(client, "dequeue")
    do(client, "enqueue", 101)
    assert broker.acked == [0, HELD]


def test_a_client_goes_on_after_an_enqueue_alone_and_gives_back_what_the_process_before_held() -> None:
    broker = Broker()
    client = opened(broker)
    session = client.session  # type: ignore[attr-defined]
    session.broken = False
    for value in (2, 4):
        do(client, "enqueue", value)
        do(client, "dequeue")
    survives: Any = client.survives  # type: ignore[attr-defined]
    assert not survives(Op(process=3, type="invoke", f="dequeue"))
    assert broker.queues["q0"] == [], "it still holds them"
    assert survives(Op(process=3, type="invoke", f="enqueue"))
    assert sorted(broker.queues["q0"]) == [(2, True), (4, True)]
    do(client, "enqueue", 6)
    assert broker.acked == [], "what was given back is acknowledged by none"
    session.broken = True
    assert not survives(Op(process=3, type="invoke", f="enqueue"))


def test_a_drain_takes_a_batch_at_most_and_fewer_only_where_there_are_no_more() -> None:
    broker = Broker()
    client = opened(broker)
    broker.queues["q1"] = [(value, False) for value in range(BATCH + 3)]
    assert do(client, "drain", key="q1").value == list(range(BATCH))
    assert do(client, "drain", key="q1").value == [BATCH, BATCH + 1, BATCH + 2]
    assert do(client, "drain", key="q1").value == []
    assert broker.acked == list(range(BATCH + 3))


def test_a_drain_that_breaks_off_has_acknowledged_nothing_that_it_does_not_report() -> None:
    broker = Broker(fails_after=2)
    client = opened(broker)
    broker.queues["q0"] = [(value, False) for value in range(5)]
    with pytest.raises(IndefiniteError):
        do(client, "drain")
    assert broker.acked == []
    run(client.close())
    assert broker.queues["q0"] == [(0, True), (1, True), (2, False), (3, False), (4, False)]


def test_values_are_unique_and_go_to_every_queue_from_every_client() -> None:
    puts = invocations(drive(build("queue", nodes=FIVE, concurrency=10).generator, ops_max=600), "enqueue")
    values = [op.value for op in puts]
    assert values == list(range(len(values)))
    assert {op.key for op in puts} == set(NAMES)
    assert {op.process for op in puts} == set(range(10))
    assert isinstance(Enqueues(), msgspec.Struct)


# --- the drain --------------------------------------------------------------------------------------------------------

AnswerTo = Callable[[Op, int], tuple[OpType, Any]]
"""How a drain ends: the op, and how many were answered before."""


def drained(
    answer: AnswerTo, *, clients: int = 6, limit_s: float = 60.0, drain: Generator | None = None
) -> tuple[list[Op], float]:
    """The ops of a drain through three nodes, and when it ended, in seconds; the limit if it did not."""
    streams = Streams(1)
    ctx = Context.initial(clients, THREE, streams["workload"], streams["nemesis"])
    ctx = ctx.restrict(~ctx.nemesis_bit)
    generator: Any = Drain() if drain is None else drain
    history: list[Op] = []
    under_way: list[tuple[int, Op]] = []
    answered = 0
    while ctx.time_ns < limit_s * 1e9:
        for ends_ns, op in [entry for entry in under_way if entry[0] <= ctx.time_ns]:
            under_way.remove((ends_ns, op))
            thread = ctx.thread_of(op.process)
            ctx.free |= 1 << thread
            how, value = answer(op, answered)
            answered += 1
            done = msgspec.structs.replace(op.complete(how, value), time=ctx.time_ns, index=len(history))
            if how == "info":
                ctx.processes = [p + clients if i == thread else p for i, p in enumerate(ctx.processes)]
            history.append(done)
            generator = generator.update(ctx, done)
        result = generator.op(ctx)
        if result is None:
            return history, ctx.time_ns / 1e9
        found, generator = result
        if isinstance(found, Op):
            thread = ctx.thread_of(found.process)
            assert ctx.free >> thread & 1
            ctx.free &= ~(1 << thread)
            op = msgspec.structs.replace(found, time=ctx.time_ns, node=THREE[thread % 3], index=len(history))
            history.append(op)
            generator = generator.update(ctx, op)
            under_way.append((ctx.time_ns + 20_000_000, op))
        else:
            ctx.time_ns += 5_000_000
    return history, limit_s


def judged(history: list[Op]) -> Any:
    """The verdict on a history in which one value was put into each queue, and came out, before this drain."""
    first: list[Op] = []
    for at, name in enumerate(NAMES):
        for f, value in (("enqueue", at), ("dequeue", at)):
            asked = Op(process=100, type="invoke", f=f, key=name, value=value, node="n1", time=0)
            first += [asked, msgspec.structs.replace(asked.complete("ok", value), time=0)]
    ops = [
        msgspec.structs.replace(op, index=index, time=op.time + 1)
        for index, op in enumerate([*first, *sorted(history, key=lambda op: op.index)])
    ]
    return TotalQueue().check(to_table(ops), {"settle_s": SETTLE_S, "order": "none"})


def test_empty_queues_are_asked_twice_through_every_node_and_again_only_after_the_time_to_settle() -> None:
    history, ended_s = drained(lambda op, _: ("ok", []))
    asked = invocations(history)
    assert sorted((op.key, op.node) for op in asked) == sorted((q, n) for q in NAMES for n in THREE for _ in range(2))
    assert SETTLE_S < ended_s < SETTLE_S + 1
    assert judged(history).valid == "true"


def test_what_comes_out_late_has_every_node_asked_again_and_the_checker_agrees() -> None:
    late: Iterator[list[int]] = iter([[900], [901]])

    def answer(op: Op, answered: int) -> tuple[OpType, Any]:
        if op.key == "q1" and op.node == "n2" and op.time > SETTLE_S * 1e9:
            return "ok", next(late, list[int]())
        return "ok", []

    history, ended_s = drained(answer)
    assert ended_s < SETTLE_S + 2
    last = max(op.index for op in history if op.type == "ok" and op.value == [901])
    assert {op.node for op in history if op.index > last and op.type == "invoke" and op.key == "q1"} == set(THREE)
    verdict = judged(history)
    assert verdict.figures["drained"] == 3
    assert verdict.anomalies == ("unexpected",)  # 900 and 901, which no client put in


def test_a_drain_of_unknown_outcome_has_to_settle_again() -> None:
    broke: list[float] = []

    def answer(op: Op, answered: int) -> tuple[OpType, Any]:
        if not broke and op.key == "q0" and op.time > SETTLE_S * 1e9:
            broke.append(op.time / 1e9)
            return "info", None
        return "ok", []

    history, ended_s = drained(answer)
    assert broke[0] + SETTLE_S < ended_s < broke[0] + SETTLE_S + 2
    assert judged(history).valid == "true"


def test_where_requests_may_arrive_late_the_last_questions_come_so_much_later() -> None:
    broke: list[float] = []

    def answer(op: Op, answered: int) -> tuple[OpType, Any]:
        if not broke and op.key == "q0":
            broke.append(op.time / 1e9)
            return "info", None
        return "ok", []

    history, ended_s = drained(answer, drain=in_the_end(Drain(), late_s=30.0))
    assert broke[0] + 40.0 < ended_s < broke[0] + 42.0
    last = [op for op in invocations(history) if op.time > (broke[0] + 40.0) * 1e9]
    assert {(op.key, op.node) for op in last} == {(name, node) for name in NAMES for node in THREE}


def test_a_drain_that_one_node_refuses_is_repeated_and_never_ends_by_itself() -> None:
    history, ended_s = drained(lambda op, _: ("fail", None) if op.node == "n3" else ("ok", []), limit_s=30)
    assert ended_s == 30
    refused = [op for op in invocations(history) if op.node == "n3"]
    assert len(refused) > 100
    verdict = judged(history)
    assert verdict.valid == "unknown"
    assert "n3 did not find it empty" in verdict.sentence


# --- the whole --------------------------------------------------------------------------------------------------------


def carried_out(broker: Broker, ops: int = 400) -> list[Op]:
    """The history of the workload, its drain included, whose clients talk to the broker one after the other."""
    workload = build("queue", nodes=("n1",), concurrency=4)
    history: list[Op] = []
    time_ns = 0

    async def whole() -> None:
        nonlocal time_ns
        test = cast(Test, Only(broker))
        clients = [await workload.client.open(test, cast(Any, None), "n1") for _ in range(4)]
        await clients[0].setup(test)
        streams = Streams(1)
        for generator, most in ((workload.generator, ops), (workload.final_generator, 100_000)):
            left: Any = generator
            ctx = Context.initial(4, ("n1",), streams["workload"], streams["nemesis"])
            ctx = ctx.restrict(~ctx.nemesis_bit)
            asked = 0
            while asked < most:
                ctx.time_ns = time_ns
                result = left.op(ctx)
                if result is None:
                    break
                found, left = result
                time_ns += 1_000_000
                if not isinstance(found, Op):
                    continue
                asked += 1
                op = msgspec.structs.replace(found, node="n1", time=time_ns, index=len(history))
                history.append(op)
                left = left.update(ctx, op)
                try:
                    done = await clients[ctx.thread_of(op.process)].invoke(test, op)
                except DefiniteError as error:
                    done = op.complete("fail", error=str(error))
                time_ns += 1_000_000
                ctx.time_ns = time_ns
                history.append(msgspec.structs.replace(done, time=time_ns, index=len(history)))
                left = left.update(ctx, history[-1])

    asyncio.run(whole())
    return history


def verdict_of(broker: Broker) -> Any:
    spec = build("queue", nodes=("n1",), concurrency=4).checkers[0]
    return TotalQueue().check(to_table(carried_out(broker)), spec.options)


def test_an_honest_broker_passes_and_all_that_was_put_in_came_out() -> None:
    verdict = verdict_of(Broker())
    assert verdict.valid == "true"
    assert not verdict.inconclusive
    assert verdict.figures["acknowledged"] == verdict.figures["delivered"] > 100


def test_a_broker_that_forgets_what_it_confirmed_is_convicted() -> None:
    verdict = verdict_of(Broker(drops=frozenset({17, 40})))
    assert verdict.anomalies == ("lost",)
    assert verdict.figures["lost"] == 2
    assert verdict.sentence.startswith("Lost: value 17 of queue 'q")


def test_a_broker_that_hands_out_the_last_message_first_is_convicted() -> None:
    assert verdict_of(Broker(swaps=True)).anomalies == ("order",)
