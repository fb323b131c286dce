"""Queues that give messages up: what clients ask of a broker, and what the history says of it."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from splitbrain.harness.contract.brokers import Delivery
from splitbrain.harness.contract.operations import EXPIRING_QUEUES, lacking
from splitbrain.harness.contract.sessions import Answer
from splitbrain.harness.contract.test import Test
from splitbrain.results.errors import ProtocolError
from splitbrain.results.history import Op
from splitbrain.workloads.dead_letter import CONSUMED, LIMIT, NAMES, TTL_S, WEIGHTS, DeadLetterClient, deed
from splitbrain.workloads.letters import dead_letters


class Broker:
    """A session with queues in memory, which notes what it is asked."""

    def __init__(self) -> None:
        self.declared: dict[str, tuple[Any, ...]] = {}
        self.queues: dict[str, list[Delivery]] = {}
        self.settled: list[tuple[int, str]] = []

    async def declare_queue(self, queue: str) -> Answer:
        self.queues[queue] = []
        return Answer()

    async def declare_limited(self, queue: str, limit: int, dead_letters: str) -> Answer:
        assert dead_letters in self.queues, "it is there"
        self.declared[queue] = (limit, None, dead_letters)
        return await self.declare_queue(queue)

    async def declare_expiring(self, queue: str, limit: int, ttl_ms: int, dead_letters: str) -> Answer:
        assert dead_letters in self.queues, "it is there"
        self.declared[queue] = (limit, ttl_ms, dead_letters)
        return await self.declare_queue(queue)

    async def publish(self, queue: str, value: int) -> Answer:
        self.queues[queue].append(Delivery(value=value, tag=value, redelivered=False))
        return Answer(value)

    async def take(self, queue: str) -> Answer:
        return Answer(self.queues[queue].pop(0) if self.queues[queue] else None)

    def ack(self, tag: int) -> None:
        self.settled.append((tag, "ack"))

    def reject(self, tag: int, *, requeue: bool) -> None:
        self.settled.append((tag, "return" if requeue else "reject"))

    async def purge(self, queue: str) -> Answer:
        return Answer(0)

    async def close(self) -> None:
        pass


def test_a_session_with_these_methods_has_the_operations() -> None:
    assert lacking(Broker(), EXPIRING_QUEUES) == []


def test_messages_wait_where_they_expire_and_are_consumed_where_they_do_not() -> None:
    deliveries = sum(LIMIT + 1 if deed(value) == "return" else 1 for value in range(4)) / 4
    for name in NAMES:
        put = WEIGHTS[0] / len(NAMES)
        in_turn = (name == NAMES[0]), CONSUMED.count(name) / len(CONSUMED)
        consumed = WEIGHTS[1] * sum(in_turn) / len(in_turn)
        assert consumed < put if name in TTL_S else consumed > put * deliveries


def test_consumers_settle_each_value_in_its_way_and_dead_letters_are_read_with_their_reasons() -> None:
    broker, name = Broker(), NAMES[0]
    client, test = DeadLetterClient(broker), cast(Test, None)

    def op(f: str, value: Any = None) -> Op:
        return Op(process=0, type="invoke", f=f, key=name, value=value, node="n1")

    async def main() -> None:
        await client.setup(test)
        assert broker.declared == {
            queue: (LIMIT, round(TTL_S[queue] * 1000) if queue in TTL_S else None, dead_letters(queue))
            for queue in NAMES
        }
        assert (await client.invoke(test, op("consume"))).value is None
        for value in range(4):
            await client.invoke(test, op("enqueue", value))
        said = [(await client.invoke(test, op("consume"))).value for _ in range(4)]
        assert said == [{"value": value, "did": deed(value)} for value in range(4)]
        assert broker.settled == [(0, "ack"), (1, "reject"), (2, "return"), (3, "ack")]
        assert (await client.invoke(test, op("collect"))).value is None
        dead = Delivery(value=1, tag=9, redelivered=False, reason="rejected")
        broker.queues[dead_letters(name)] = [dead]
        assert (await client.invoke(test, op("collect"))).value == {"value": 1, "reason": "rejected"}
        assert broker.settled[-1] == (9, "ack")
        with pytest.raises(ProtocolError, match="consume and collect"):
            await client.invoke(test, op("drain"))

    asyncio.run(main())
