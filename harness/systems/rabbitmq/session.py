"""Queues on RabbitMQ, and names that are declared once, through one connection with one channel to one node."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from splitbrain.harness.contract.brokers import Delivery, Entity
from splitbrain.harness.contract.sessions import Answer, DefiniteError, IndefiniteError, NonsenseError
from splitbrain.harness.systems.rabbitmq.connection import Connection, Logged, Message
from splitbrain.harness.systems.rabbitmq.probe import Asked
from splitbrain.harness.systems.rabbitmq.registers import RabbitmqRegisters
from splitbrain.harness.systems.rabbitmq.settings import QUORUM
from splitbrain.harness.systems.rabbitmq.topology import RabbitmqTopology

_QUORUM: Final = {"x-queue-type": "quorum", "x-queue-leader-locator": "balanced"}


_STREAM: Final = {"x-queue-type": "stream", "x-queue-leader-locator": "balanced"}

_CARRIER: Final = "x-max-length"
"""The argument of a queue that carries a value, plus one: a number that RabbitMQ compares when a queue is declared
again, and that makes no difference while the queue is empty."""


def _limited(limit: int, dead_letters: str) -> dict[str, Any]:
    limits = {"x-delivery-limit": limit, "x-overflow": "reject-publish", "x-dead-letter-strategy": "at-least-once"}
    return {**_QUORUM, **limits, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead_letters}


_INVALID: Final = f"406 PRECONDITION_FAILED - invalid arg '{_CARRIER}'"
_INEQUIVALENT: Final = re.compile(
    f"406 PRECONDITION_FAILED - inequivalent arg '{_CARRIER}' .* but current is '([0-9]+)'"
)


def _current(error: DefiniteError) -> int | None:
    """What the node names as the value of a queue that differs from what was declared; None if it is another error."""
    found = _INEQUIVALENT.search(str(error))
    return None if found is None else int(found.group(1))


def _delivery(queue: str, found: Message | None) -> Answer:
    if found is None:
        return Answer()
    tag, body, redelivered, reason = found
    try:
        delivery = Delivery(value=int(body), tag=tag, redelivered=redelivered)
    except ValueError as error:
        raise NonsenseError(f"a message in {queue} is no whole number: {body[:40]!r}") from error
    if reason is not None:
        delivery["reason"] = reason
    return Answer(delivery)


def _values(stream: str, offset: int, found: Sequence[Logged]) -> list[int]:
    """The values of messages that have to be at consecutive offsets, the first at `offset`."""
    values: list[int] = []
    for wanted, (named, body) in enumerate(found, offset):
        if named != wanted or not body.isdigit():
            at = f"read_stream from offset {offset} of {stream} was answered with the message {body[:40]!r} at {named}"
            raise NonsenseError(f"{at}; expected was a whole number at {wanted}")
        values.append(int(body))
    return values


class RabbitmqSession:
    """One client's connection to one node.

    Args:
        connection: to the node.
        queue_type: of the queues that it declares, a number as in `settings`.
        probe: of the same node, which answers reads of its metadata; None where there is none.
        connect: opens another connection to the node, to the virtual host that is named, for what is in a topology.
        name: of the session, as no other one has it.
        registers: works on registers, in whose place keys are queues if it is None.
        consistent: have the metadata store ask a majority before a read, if it can: Khepri. Mnesia cannot.
    """

    def __init__(
        self,
        connection: Connection,
        queue_type: int,
        probe: Asked | None = None,
        *,
        connect: Callable[[str], Awaitable[Connection]] | None = None,
        name: str = "",
        registers: RabbitmqRegisters | None = None,
        consistent: bool = True,
    ) -> None:
        self._connection = connection
        self._probe = probe
        self._how = "consistent" if consistent else "local"
        self._known_registers = registers
        self._locks: set[str] = set()
        self._arguments: dict[str, Any] = _QUORUM if queue_type == QUORUM else {}
        self._entities: RabbitmqTopology | None = None
        if connect is not None and probe is not None:
            self._entities = RabbitmqTopology(connect, probe, self._how, self._arguments, name)

    async def declare_queue(self, queue: str) -> Answer:
        """Declare a durable queue of the type that the test chose; no error where it is there already."""
        await self._connection.declare(queue, self._arguments)
        return Answer()

    async def create(self, key: str, value: Any) -> Answer:
        """Declare a queue that is named so and has the value in its arguments; whether this call made it.

        A queue that is there with another value has the declaration refused, before anything is done. Where the test
        works on registers the key is one of these.
        """
        if self._known_registers is not None:
            return await self._known_registers.create(key, value)
        try:
            await self._connection.declare(key, {**self._arguments, _CARRIER: int(value) + 1})
        except DefiniteError as error:
            if _current(error) is None:
                raise
            return Answer(False)
        return Answer(True)

    async def read(self, key: str) -> Answer:
        """The value that the queue of that name was declared with, None if there is no such queue.

        AMQP has no request for that, but a declaration with an argument that no queue can have says it: where there is
        a queue it is refused because that has another value, which the node names, and else because no queue can be
        made so (`rabbit_amqqueue:assert_args_equivalence` and `check_declare_arguments`). Nothing is ever made.
        So the node is asked where it has no probe, or reads are its own ("local"). Where the test works on registers
        the key is one of these.
        """
        if self._known_registers is not None:
            return await self._known_registers.read(key)
        if self._probe is not None and self._how == "consistent":
            known = await self._probe.request(f"queue {key} {self._how}", list[int])
            return Answer(known[0] - 1 if known else None)
        try:
            await self._connection.declare(key, {**self._arguments, _CARRIER: -1})
        except DefiniteError as error:
            held = _current(error)
            if held is not None:
                return Answer(held - 1)
            if _INVALID not in str(error):
                raise
            return Answer()
        raise IndefiniteError(f"the node made a queue {key} whose {_CARRIER} is -1")

    async def read_as(self, key: str, f: str) -> Answer:
        """The value of a register, as function `f` promises."""
        return await self._registers.read_as(key, f)

    async def write(self, key: str, value: Any) -> Answer:
        """Set a register, which is a global parameter."""
        return await self._registers.write(key, value)

    async def compare_and_set(self, key: str, expected: Any, value: Any) -> Answer:
        """Set a register if it has the value that is expected; whether it had."""
        return await self._registers.compare_and_set(key, expected, value)

    @property
    def _registers(self) -> RabbitmqRegisters:
        """What works on registers.

        Raises:
            DefiniteError: the test does not.
        """
        if self._known_registers is None:
            raise DefiniteError("the keys of this test are queues, not registers")
        return self._known_registers

    async def add(self, collection: str, element: int) -> Answer:
        """Declare an exchange that is named after the element: an entry of the metadata store, and nothing else."""
        await self._connection.declare_exchange(f"{collection}.{element}")
        return Answer(element)

    async def elements(self, collection: str) -> Answer:
        """The elements whose exchanges are there, in ascending order.

        Raises:
            DefiniteError: the node does not say.
        """
        if self._probe is None:
            raise DefiniteError("the node has no probe, which answers that")
        found = await self._probe.request(f"exchanges {collection}. {self._how}", list[str])
        return Answer(sorted(int(each) for each in found))

    async def lease_lock(self, name: str, owner: int, lease_s: int) -> Answer:
        """Take a lock: declare a queue that is exclusive to this connection. 0 if it is taken, as there are no tokens.

        The lock goes with the connection, which ends when either side has heard nothing of the other for long
        (`HEARTBEAT_S`), or the node stops: that is its lease.
        """
        try:
            await self._connection.declare(f"lock.{name}", {}, exclusive=True)
        except DefiniteError as error:
            if "RESOURCE_LOCKED" not in str(error):
                raise
            return Answer(None)
        self._locks.add(name)
        return Answer(0)

    def lease_holds(self, name: str) -> bool:
        """Whether the connection is there that took the lock, as far as this client knows."""
        return name in self._locks and not self._connection.is_lost

    async def lease_unlock(self, name: str, owner: int) -> Answer:
        """Give a lock back: delete its queue; whether it was held until then."""
        if not self.lease_holds(name):
            return Answer(False)
        self._locks.discard(name)
        await self._connection.delete(f"lock.{name}")
        return Answer(True)

    async def declare_limited(self, queue: str, limit: int, dead_letters: str) -> Answer:
        """Declare a quorum queue with a delivery limit, whose dead letters are published at least once.

        No other type of queue has a limit.
        """
        await self._connection.declare(queue, _limited(limit, dead_letters))
        return Answer()

    async def declare_expiring(self, queue: str, limit: int, ttl_ms: int, dead_letters: str) -> Answer:
        """The same, and a message may wait in it for so long only."""
        await self._connection.declare(queue, {**_limited(limit, dead_letters), "x-message-ttl": ttl_ms})
        return Answer()

    async def publish(self, queue: str, value: int) -> Answer:
        """Publish a persistent message to a queue by the default exchange, and wait for the confirm."""
        await self._connection.publish(queue, str(value).encode())
        return Answer(value)

    async def take(self, queue: str) -> Answer:
        """Take the next message (`basic.get`, to be acknowledged); None if the queue has none."""
        return _delivery(queue, await self._connection.get(queue))

    async def declare_single_active(self, queue: str) -> Answer:
        """Declare a durable queue with a single active consumer, of the type that the test chose."""
        await self._connection.declare(queue, {**self._arguments, "x-single-active-consumer": True})
        return Answer()

    async def consume(self, queue: str, priority: int = 0) -> Answer:
        """What the queue gave to this session (`basic.consume` with a prefetch of 1); None if nothing has come yet.

        All consumers are of the same priority: the single active one of a classic queue is replaced for none.
        """
        return _delivery(queue, await self._connection.consume(queue))

    async def leave(self, queue: str) -> Answer:
        """Cancel the consumer, and give back what it was given and did not report."""
        await self._connection.cancel(queue)
        return Answer()

    async def declare_stream(self, stream: str) -> Answer:
        """Declare a stream with a replica on every node; no error where it is there already."""
        await self._connection.declare(stream, _STREAM)
        return Answer()

    async def publish_to_stream(self, stream: str, value: int) -> Answer:
        """Publish to a stream, and wait for the confirm of a majority, which names no offset. Nothing is sent twice."""
        await self._connection.publish(stream, str(value).encode())
        return Answer()

    async def read_stream(self, stream: str, offset: int, most: int) -> Answer:
        """Messages of the replica on this node, up to what it knows to be confirmed.

        Where that ends AMQP does not say, so the probe is asked first.

        Raises:
            DefiniteError: the node has no replica that runs, or no probe.
            NonsenseError: a message is not at the offset at which it was asked for.
        """
        if self._probe is None:
            raise DefiniteError("the node has no probe, which says where a stream ends")
        known = await self._probe.request(f"stream {stream}", list[int])
        if not known:
            raise DefiniteError(f"the node has no replica of {stream} that runs")
        end = known[0]
        count = min(most, end - offset)
        found = await self._connection.read_log(stream, offset, count) if count > 0 else []
        return Answer({"values": _values(stream, offset, found), "end": end})

    async def prepare_topology(self) -> Answer:
        """Nothing is to be done."""
        return Answer(None)

    async def declare(self, entity: Entity) -> Answer:
        """Make an entity, if it is not there."""
        return await self._topology.declare(entity)

    async def delete(self, entity: Entity) -> Answer:
        """Remove an entity. Whether it was there is not said."""
        return await self._topology.delete(entity)

    async def claim(self, vhost: str, queue: str) -> Answer:
        """Make a queue that is exclusive to this session's connections; whose it is."""
        return await self._topology.claim(vhost, queue)

    async def disconnect(self) -> Answer:
        """End those connections."""
        return await self._topology.disconnect()

    async def entities(self) -> Answer:
        """All entities at one moment: of a node's own copy with Mnesia, and for local reads."""
        return await self._topology.entities()

    async def projected(self, keys: Sequence[str]) -> Answer:
        """None: a node of RabbitMQ cannot show its store and the tables beside it at one moment."""
        return Answer(None)

    @property
    def _topology(self) -> RabbitmqTopology:
        """What works on entities.

        Raises:
            DefiniteError: the node has no probe.
        """
        if self._entities is None:
            raise DefiniteError("the node has no probe, which shows entities")
        return self._entities

    def ack(self, tag: int) -> None:
        """Acknowledge a message, which the node does not answer."""
        self._connection.ack(tag)

    def reject(self, tag: int, *, requeue: bool) -> None:
        """Give a message back, or have it discarded or dead-lettered."""
        self._connection.reject(tag, requeue=requeue)

    async def purge(self, queue: str) -> Answer:
        """Remove all messages that are not taken; their number."""
        return Answer(await self._connection.purge(queue))

    async def close(self) -> None:
        """End the connection. The node gives back what was taken and not acknowledged."""
        if self._known_registers is not None:
            self._known_registers.close()
        if self._probe is not None:
            self._probe.close()
        others = [] if self._entities is None else [self._entities]
        try:
            await asyncio.gather(self._connection.close(), *(each.close() for each in others))
        except BaseException:
            for each in (self._connection, *others):
                each.drop()
            raise
