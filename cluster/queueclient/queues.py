"""Queues, through one connection to one node.

    queues = await client.queues()
    await queues.declare("orders", QueueOptions(max_length=1000))
    publisher = queues.publisher("orders")
    await publisher.publish(b"...")                      # returns once it is confirmed
    consumer = await queues.consume("orders", prefetch=10)
    message = await consumer.next()
    queues.ack(message)

Errors say whether what was wanted may have happened (`ClientError.definite`). A message that is not settled goes back
to its queue when the connection ends, or when its node cannot be reached: it is delivered at least once.
"""

from __future__ import annotations

import msgspec

from splitbrain.cluster.asking import DEFAULT_TIMEOUT_MS
from splitbrain.cluster.channel import Channel
from splitbrain.cluster.errors import (
    ClientError,
    InvalidRequestError,
    OutcomeUnknownError,
    TransactionAbortedError,
    UnavailableError,
)
from splitbrain.cluster.members import node_of
from splitbrain.cluster.queueclient import changes
from splitbrain.cluster.queueclient.connection import Ends, QueueConnection, pause, unexpected
from splitbrain.cluster.queueclient.consumer import Consumer, Message
from splitbrain.cluster.queueclient.options import MAX_QUEUES, Declared, QueueOptions
from splitbrain.cluster.queueclient.publisher import ATTEMPT_MS, Publisher
from splitbrain.cluster.queuegroups.log import Retire
from splitbrain.cluster.queuegroups.notes import QueueReport, Taken
from splitbrain.cluster.queuegroups.records import DECLARE, FORGET, Change, QueueRecord, name_problem, record_of
from splitbrain.cluster.queues import ConsumerId
from splitbrain.cluster.queues.commands import Dequeue, Discard, Purge, Return, Settle
from splitbrain.cluster.queues.replies import NothingToDequeue, Purged
from splitbrain.cluster.tree import text_name
from splitbrain.cluster.wire import ClientAddress


class Queues:
    """Queues, through one connection. Made by `Client.queues`, inside a running event loop.

    Args:
        channel: the connection; messages of machines on it are all taken for those of queues.
        address: of the connection.
    """

    def __init__(self, channel: Channel, address: ClientAddress) -> None:
        self._connection = QueueConnection(channel, address)
        self._takes = self._connection.new_process()
        self._last_take = 0

    # --- the queue ------------------------------------------------------------------------------------------------

    async def declare(
        self, name: str, options: QueueOptions | None = None, *, timeout_ms: int = DEFAULT_TIMEOUT_MS
    ) -> Declared:
        """Make a queue, if there is none of that name, and wait until it serves (QQ-8).

        A queue that is there stays as it is, whatever its options. No first member is on a node that is being drained.
        Where too few other nodes are left, the queue begins with those, and its leader adds members when a node is
        revived.

        Raises:
            InvalidRequestError: its name, or an option, makes no sense; or there are too many queues.
            UnavailableError: every node is being drained.
            OutcomeUnknownError: the queue may be there, or come to be; also if it did not serve in time.
        """
        wanted = options or QueueOptions()
        for each in (name, wanted.dead_letter_to):
            problem = None if each is None else name_problem(each)
            if problem is not None:
                raise InvalidRequestError(f"{problem}.")
        if wanted.initial_group_size < 1:
            raise InvalidRequestError("a queue has at least one member.")
        config, ends = msgspec.to_builtins(wanted.config()), Ends(timeout_ms)
        if wanted.target_group_size is not None and wanted.target_group_size < 1:
            raise InvalidRequestError("a queue has a target of at least one replica.")
        size, target = wanted.initial_group_size, wanted.target_group_size
        candidates = await self._candidates(ends)
        nodes = [text_name(node_of(member)) for member in candidates]
        data = [name, config, wanted.dead_letter_to, candidates, size, MAX_QUEUES, target, nodes]
        try:
            (is_new, found), term = await self._connection.transact(DECLARE, data, ends.left_ms)
        except TransactionAbortedError as error:
            if error.reason == "draining":
                raise UnavailableError("every node is being drained: revive one first.", error.term) from error
            raise InvalidRequestError(f"there are {MAX_QUEUES} queues already.", error.term) from error
        record = record_of(found)
        self._connection.remember(name, record)
        try:
            await self._until_it_serves(record, ends)
        except ClientError as error:
            raise OutcomeUnknownError(f"queue {name} is declared, and does not serve yet: {error}", term) from error
        return Declared(is_new, term, record)

    async def delete(self, name: str, *, timeout_ms: int = DEFAULT_TIMEOUT_MS) -> int:
        """End a queue, and remove its record; the term. What is in it is lost.

        Raises:
            QueueNotFoundError: there is none of that name.
            OutcomeUnknownError: it may be gone, or may go yet.
        """
        ends = Ends(timeout_ms)
        record = await self._connection.record(name, ends.left_ms, anew=True)
        await self._connection.carry_out(record, Retire(), ends.left_ms)
        self._connection.forget(name)
        try:
            # The leader of the queue does the same, and goes on where this client does not.
            _, term = await self._connection.transact(FORGET, [name, record.group], ends.left_ms)
        except ClientError as error:
            what = f"queue {name} takes nothing any more, and its record goes"
            raise OutcomeUnknownError(f"{what}: {error}", error.term) from error
        return term

    async def status(self, name: str, *, timeout_ms: int = DEFAULT_TIMEOUT_MS) -> QueueReport:
        """How a queue is, as its leader knows it, confirmed by a majority.

        Raises:
            QueueNotFoundError: there is none of that name.
        """
        return await self._connection.with_record(name, self._connection.report, timeout_ms)

    async def purge(self, name: str, *, timeout_ms: int = DEFAULT_TIMEOUT_MS) -> int:
        """Remove all messages that are not taken; how many these were."""
        said = await self._connection.command(name, Purge(), timeout_ms=timeout_ms)
        if not isinstance(said.what, Purged):
            raise unexpected(name, said)
        return said.what.count

    async def find(self, name: str, *, timeout_ms: int = DEFAULT_TIMEOUT_MS) -> None:
        """Ask where a queue is, if this connection does not know it yet. The first call on a queue does this by itself.

        Raises:
            QueueNotFoundError: there is none of that name.
        """
        await self._connection.record(name, timeout_ms)

    # --- its replicas -----------------------------------------------------------------------------------------------

    async def record(self, name: str, *, timeout_ms: int = DEFAULT_TIMEOUT_MS) -> QueueRecord:
        """What the metadata say of a queue now: its members, its target, and the changes of members.

        Raises:
            QueueNotFoundError: there is none of that name.
        """
        return await self._connection.record(name, timeout_ms, anew=True)

    async def grow(self, name: str, node: str, *, timeout_ms: int = DEFAULT_TIMEOUT_MS) -> Change:
        """Have a node take part in a queue, and wait until its replica has a vote; the change.

        Another change of members that is under way is waited for.

        Raises:
            QueueNotFoundError: there is none of that name.
            ChangeRefusedError: nothing changes, and its reason says why: the node takes part already, is being drained,
                does not run, or is none of the cluster.
            OutcomeUnknownError: the change may be made yet.
        """
        return await changes.change(self._connection, name, "grow", node, Ends(timeout_ms))

    async def shrink(self, name: str, node: str, *, timeout_ms: int = DEFAULT_TIMEOUT_MS) -> Change:
        """Have a node take part in a queue no more, and wait until it does not; the change.

        Raises:
            QueueNotFoundError: there is none of that name.
            ChangeRefusedError: nothing changes: the node does not take part, or too few live replicas would be left.
            OutcomeUnknownError: the change may be made yet.
        """
        return await changes.change(self._connection, name, "shrink", node, Ends(timeout_ms))

    async def _candidates(self, ends: Ends) -> list[str]:
        """The members of the metadata store that take on work, that of this node first.

        First as the leader locator "client-local" has it (QQ-8). The transaction looks at the tree once more, and only
        there: which nodes are drained may stand in tables.
        """
        here, members = self._connection.node, await self._connection.members()
        draining = await self._connection.draining(ends.left_ms)
        able = [member for member in members if node_of(member) not in draining]
        return sorted(able, key=lambda member: (node_of(member) != here, member))

    async def _until_it_serves(self, record: QueueRecord, ends: Ends) -> None:
        while True:
            report = QueueReport()
            try:
                report = await self._connection.report(record, min(ATTEMPT_MS, ends.left_ms))
            except ClientError as error:
                if ends.are_over or error.term is None:
                    raise
            if report.is_deleted:
                raise UnavailableError("it is being deleted: declare it again later.")
            if report.is_configured:
                return
            if ends.are_over:
                raise UnavailableError("it is not configured yet.")
            await pause()

    # --- to publish and to consume --------------------------------------------------------------------------------

    def publisher(self, name: str) -> Publisher:
        """A publisher to a queue, which need not be there yet; its messages stay in order.

        One for many messages: the queue keeps the number of each publisher until this connection ends.
        """
        return Publisher(self._connection, name)

    async def consume(
        self, name: str, *, prefetch: int | None = None, priority: int = 0, timeout_ms: int = DEFAULT_TIMEOUT_MS
    ) -> Consumer:
        """Begin to consume.

        Args:
            name: of the queue.
            prefetch: messages that the consumer has at once at most; None: it grants credit (`Consumer.credit`).
            priority: of consumers that take messages the highest is served first.
            timeout_ms: after so long it is given up.

        Raises:
            OutcomeUnknownError: it may have begun; what is delivered to it goes back when this connection ends.
        """
        consumer = Consumer(self._connection, name)
        await consumer.attach(prefetch, priority, timeout_ms)
        return consumer

    async def take(self, name: str, *, settle: bool = False, timeout_ms: int = DEFAULT_TIMEOUT_MS) -> Message | None:
        """Take the next message, None if there is none; with `settle` it is settled at once.

        Raises:
            OutcomeUnknownError: a message may have been taken; without `settle` it goes back when this connection ends.
        """
        self._last_take += 1
        consumer = ConsumerId(f"take-{self._last_take}", self._takes)
        said = await self._connection.command(name, Dequeue(consumer, settle), timeout_ms=timeout_ms)
        match said.what:
            case NothingToDequeue():
                return None
            case Taken() as taken:
                counts = taken.acquired, taken.failed
                return Message(name, taken.body, *counts, said.term, consumer, taken.id, taken.annotations)
            case _:
                raise unexpected(name, said)

    # --- messages that this connection has ------------------------------------------------------------------------

    def ack(self, message: Message) -> None:
        """A message is done with. Nothing is waited for; it is sent again until it is carried out.

        If the connection breaks before, the message is delivered again.

        Raises:
            UnavailableError: the connection is broken.
        """
        self._connection.settle(message.queue, Settle(message.key, (message.id,)))

    def reject(self, message: Message) -> None:
        """Refuse a message: it is a dead letter; as `ack`."""
        self._connection.settle(message.queue, Discard(message.key, (message.id,)))

    def give_back(self, message: Message) -> None:
        """Give a message back: it is served next; as `ack`."""
        self._connection.settle(message.queue, Return(message.key, (message.id,)))

    async def acked(self, message: Message, *, timeout_ms: int = DEFAULT_TIMEOUT_MS) -> None:
        """As `ack`, and wait until it is carried out."""
        await self._connection.command(message.queue, Settle(message.key, (message.id,)), timeout_ms=timeout_ms)

    async def rejected(self, message: Message, *, timeout_ms: int = DEFAULT_TIMEOUT_MS) -> None:
        """As `reject`, and wait until it is carried out."""
        await self._connection.command(message.queue, Discard(message.key, (message.id,)), timeout_ms=timeout_ms)

    async def given_back(self, message: Message, *, timeout_ms: int = DEFAULT_TIMEOUT_MS) -> None:
        """As `give_back`, and wait until it is carried out."""
        await self._connection.command(message.queue, Return(message.key, (message.id,)), timeout_ms=timeout_ms)
