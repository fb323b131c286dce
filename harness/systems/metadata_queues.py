"""Quorum queues of the metadata cluster, for the workloads `queue`, `single-active` and `poison`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final, TypeVar

import msgspec

from splitbrain.cluster import queueoperators
from splitbrain.cluster.client import Client, ClientError, QueueNotFoundError, QueueOptions, Queues
from splitbrain.cluster.members import node_of
from splitbrain.cluster.queueclient import Consumer, Message, Publisher
from splitbrain.harness.contract.brokers import Delivery
from splitbrain.harness.contract.sessions import Answer, DefiniteError, NonsenseError
from splitbrain.harness.systems.metadata_declared import Declarations
from splitbrain.harness.systems.metadata_errors import refused

MEMBERS: Final = 99
"""Of a queue at most: each node has one, so that each fault meets a member, and all nodes are asked."""

UNLIMITED: Final = QueueOptions(initial_group_size=MEMBERS, delivery_limit=-1)
"""Without a delivery limit: what is given back often is not to be dropped."""

T = TypeVar("T")


def _limited(limit: int, dead_letters: str) -> QueueOptions:
    return QueueOptions(
        initial_group_size=MEMBERS,
        delivery_limit=limit,
        overflow="reject_publish",
        dead_letter_to=dead_letters,
        dead_letter_strategy="at_least_once",
    )


async def queue_leaders(client: Client) -> tuple[str, ...]:
    """The nodes that lead a queue each, as the node that is asked has applied it.

    Raises:
        ClientError: the node did not answer.
    """
    found = await queueoperators.every(client, mode="local")
    return tuple(sorted({node_of(queue.leader) for queue in found if queue.leader is not None}))


class MetadataQueues:
    """What one session does with queues.

    Args:
        client: of the node that is asked.
        timeout_ms: of a request.
        options: of the queues that were asked for, which all sessions share: any of them may have to make a queue.
    """

    def __init__(self, client: Client, timeout_ms: int, options: dict[str, QueueOptions]) -> None:
        self._options = options
        self._client = client
        self._timeout_ms = timeout_ms
        self._queues: Queues | None = None
        self._publishers: dict[str, Publisher] = {}
        self._taken: dict[int, Message] = {}
        self._consumers: dict[str, Consumer] = {}
        self._last_tag = 0
        self._declarations = Declarations()

    async def declare_limited(self, queue: str, limit: int, dead_letters: str) -> Answer:
        """Make a queue with a delivery limit, whose dead letters go to another one at least once."""
        return await self._declare_in_time(queue, _limited(limit, dead_letters))

    async def declare_expiring(self, queue: str, limit: int, ttl_ms: int, dead_letters: str) -> Answer:
        """The same, and a message may wait in it for so long only."""
        options = msgspec.structs.replace(_limited(limit, dead_letters), message_ttl=ttl_ms)
        return await self._declare_in_time(queue, options)

    async def declare(self, queue: str, *, single_active: bool = False) -> Answer:
        """Make a queue without a delivery limit, as `_declare_in_time`."""
        options = msgspec.structs.replace(UNLIMITED, single_active_consumer=single_active)
        return await self._declare_in_time(queue, options)

    async def declare_maintained(self, queue: str, target: int) -> Answer:
        """Make a queue with so many members at first, and that target of live ones."""
        options = msgspec.structs.replace(UNLIMITED, initial_group_size=target, target_group_size=target)
        return await self._declare_in_time(queue, options)

    async def opened(self) -> Queues:
        """Queues on this connection.

        Raises:
            DefiniteError: the node did not say its address; nothing was done.
        """
        return await self._opened()

    async def _declare_in_time(self, queue: str, options: QueueOptions) -> Answer:
        """Make a queue, as `Declarations.tried`; the first op that finds no queue makes it (`_with_queue`)."""
        self._options[queue] = options
        return await self._declarations.tried(lambda: self._declare(queue))

    async def publish(self, queue: str, value: int) -> Answer:
        """Publish, and wait for the confirm."""
        known = self._publishers.get(queue)
        publisher = self._publishers[queue] = known or (await self._opened()).publisher(queue)
        body = str(value).encode()
        confirmed = await self._with_queue(queue, lambda: publisher.publish(body, timeout_ms=self._timeout_ms))
        return Answer(value, confirmed.term or None)

    async def take(self, queue: str) -> Answer:
        """Take the next message; None if there is none."""
        queues = await self._opened()
        found = await self._with_queue(queue, lambda: queues.take(queue, timeout_ms=self._timeout_ms))
        return self._delivery(queue, found)

    def _delivery(self, queue: str, found: Message | None) -> Answer:
        if found is None:
            return Answer()
        self._last_tag += 1
        self._taken[self._last_tag] = found
        try:
            value = int(found.body)
        except ValueError as error:
            raise NonsenseError(f"a message in {queue} is no whole number: {found.body[:40]!r}") from error
        delivery = Delivery(value=value, tag=self._last_tag, redelivered=found.is_redelivered)
        if found.dead_because is not None:
            delivery["reason"] = found.dead_because
        return Answer(delivery, found.term or None)

    async def purge(self, queue: str) -> Answer:
        """Remove all messages that are not taken; their number."""
        queues = await self._opened()
        return Answer(await self._with_queue(queue, lambda: queues.purge(queue, timeout_ms=self._timeout_ms)))

    async def consume(self, queue: str, priority: int = 0) -> Answer:
        """What a consumer with a prefetch of 1 was given; None if nothing has come yet.

        Raises:
            DefiniteError: it is no consumer any more.
        """
        consumer = self._consumers.get(queue)
        if consumer is None:
            queues = await self._opened()
            consumer = self._consumers[queue] = await self._with_queue(
                queue, lambda: queues.consume(queue, prefetch=1, priority=priority, timeout_ms=self._timeout_ms)
            )
        try:
            found = consumer.arrived()
        except ClientError as error:
            del self._consumers[queue]
            raise DefiniteError(str(error)) from error
        return self._delivery(queue, found)

    async def leave(self, queue: str) -> Answer:
        """End the consumer, if there is one; what it was given goes back."""
        consumer = self._consumers.get(queue)
        if consumer is not None:
            await consumer.cancel(timeout_ms=self._timeout_ms)
            del self._consumers[queue]
        return Answer()

    async def _declare(self, queue: str) -> Answer:
        """Make a queue as it was asked for."""
        options = self._options.get(queue, UNLIMITED)
        declared = await (await self._opened()).declare(queue, options, timeout_ms=self._timeout_ms)
        return Answer(None, declared.term)

    async def _with_queue(self, queue: str, call: Callable[[], Awaitable[T]]) -> T:
        """Do something with a queue; the queue is made if it is not there, as it may not have been made in time.

        Raises:
            DefiniteError: there is no such queue, and it could not be made yet.
        """
        try:
            # With a time of its own: in a slow world both together take longer than one request may.
            await (await self._opened()).find(queue, timeout_ms=self._timeout_ms)
            return await call()
        except QueueNotFoundError as error:
            try:
                await self._declare(queue)
            except ClientError:
                raise DefiniteError(str(error)) from error
        return await call()

    def ack(self, tag: int) -> None:
        """Settle a message, which is not answered."""
        with suppress(ClientError):  # the connection is broken: the message goes back
            self._with(tag, Queues.ack)

    def reject(self, tag: int, *, requeue: bool) -> None:
        """Give a message back, or have it dead-lettered."""
        with suppress(ClientError):
            self._with(tag, Queues.give_back if requeue else Queues.reject)

    def _with(self, tag: int, settle: Callable[[Queues, Message], None]) -> None:
        assert self._queues is not None, "a message was taken"
        settle(self._queues, self._taken.pop(tag))

    async def _opened(self) -> Queues:
        """Queues on this connection.

        Raises:
            DefiniteError: the node did not say its address; nothing was done.
        """
        if self._queues is None:
            try:
                self._queues = await self._client.queues()
            except ClientError as error:
                raise refused(error) from error
        return self._queues
