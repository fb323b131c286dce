"""One AMQP connection with one channel to one node by pika, one operation at a time.

The deployment makes the socket, since only it reaches every node. pika's own ways to connect make sockets, try several
addresses, and begin again; so none of them is used: the protocol of an `AsyncioConnection` is put on the socket that
was dialled. pika then sends what it is asked to, once, and says what came back, or why the connection ended. It has no
other connection to send anything on, and makes none. Its other adapter, `BlockingConnection`, does the same behind a
loop of its own. (aio-pika's robust connection connects again and declares again what was there: a client of a test must
not.)
"""

from __future__ import annotations

import asyncio
import logging
import socket  # noqa: TID251 - for the type of a dialled connection; nothing here opens one
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import pika
import pika.adapters.asyncio_connection
import pika.adapters.base_connection
from pika import spec

from splitbrain.harness.contract.deployments import Deployment
from splitbrain.harness.contract.nodes import NodeId
from splitbrain.harness.contract.sessions import DefiniteError, IndefiniteError
from splitbrain.harness.systems.rabbitmq.errors import error_of
from splitbrain.harness.systems.sockets import tcp

HEARTBEAT_S: Final = 10
"""After twice this time without a frame either side takes the other for gone."""

CLOSE_S: Final = 1.0
"""How long the node has to say goodbye."""

CONNECT_S: Final = 5.0

USER: Final = "splitbrain"

# The driver logs each lost connection as an error; here that is the outcome of an operation, which the history has.
logging.getLogger("pika").setLevel(logging.CRITICAL)

# pika has no types: what is used of it is named here, once.
_pika: Any = pika
_spec: Any = spec
_AsyncioConnection: Any = pika.adapters.asyncio_connection.AsyncioConnection
_protocol_of: Any = vars(pika.adapters.base_connection)["_StreamingProtocolShim"]
"""How pika itself puts one of its connections on a transport; it offers no other way to bring a socket."""


Message: TypeAlias = tuple[int, bytes, bool, str | None]
"""A message that has to be acknowledged: its tag, its body, whether it is redelivered, and why it is a dead letter."""

Logged: TypeAlias = tuple[object, bytes]
"""A message of a stream: the offset that the node names, None if it names none, and its body."""

OFFSET: Final = "x-stream-offset"
"""Where a consumer of a stream begins, and, in the headers of a message, where that is."""

FIRST_DEATH: Final = "x-first-death-reason"
"""The header that says why a message became a dead letter first."""


@dataclass
class _Consumer:
    """A consumer of a queue.

    Attributes:
        held: what came, and was not asked for yet.
        gone: why it is none any more; empty while it is one.
        tag: what the node knows it by.
    """

    held: deque[Message] = field(default_factory=deque[Message])
    gone: str = ""
    tag: str = ""


class Connection:
    """A connection with a channel in confirm mode; made by `open`."""

    def __init__(self, driver: Any, lost: asyncio.Future[BaseException]) -> None:
        self._driver = driver
        self._lost = lost
        self._dropped = False
        self._channel: Any = None
        self._waiting: asyncio.Future[Any] | None = None
        self._published = 0
        self._returned: str | None = None
        self._consumers: dict[str, _Consumer] = {}
        self._reader = ""

    @classmethod
    async def open(cls, deployment: Deployment, node: NodeId, vhost: str = "/") -> Connection:
        """Connect to a virtual host on a node.

        Raises:
            DefiniteError: it could not be reached, or accepts no connections.
        """
        return await cls.on(tcp(await deployment.dial(node), node, "RabbitMQ"), vhost)

    @classmethod
    async def on(cls, connected: socket.socket, vhost: str = "/") -> Connection:
        """The same on a socket that is connected.

        Raises:
            DefiniteError: what is at its other end accepts no connections.
        """
        loop = asyncio.get_running_loop()
        opened: asyncio.Future[None] = loop.create_future()
        lost: asyncio.Future[BaseException] = loop.create_future()

        def ended(_: Any, error: BaseException) -> None:
            if not lost.done():
                lost.set_result(error)
            if not opened.done():
                opened.set_exception(error_of(error, sent=False, what="connect"))

        def is_open(_: Any) -> None:
            if not opened.done():
                opened.set_result(None)

        driver = _AsyncioConnection(
            _pika.ConnectionParameters(
                virtual_host=vhost,
                credentials=_pika.PlainCredentials(USER, USER),
                heartbeat=HEARTBEAT_S,
                blocked_connection_timeout=None,
            ),
            on_open_callback=is_open,
            on_open_error_callback=ended,
            on_close_callback=ended,
            custom_ioloop=loop,
            internal_connection_workflow=False,
        )
        made = cls(driver, lost)
        try:
            await loop.create_connection(lambda: _protocol_of(driver), sock=connected)
            async with asyncio.timeout(CONNECT_S):
                await opened
                await made._open_channel()
        except (DefiniteError, IndefiniteError, OSError, TimeoutError) as error:
            made.drop()
            raise DefiniteError(f"connect: {error or type(error).__name__}") from error
        except BaseException:
            made.drop()
            raise
        return made

    @property
    def is_lost(self) -> bool:
        """Whether the connection has ended."""
        return self._lost.done()

    async def publish(self, queue: str, body: bytes, *, expires_ms: int | None = None) -> None:
        """Publish a persistent message, and wait for its confirm.

        Args:
            queue: where to.
            body: of the message.
            expires_ms: how long it may wait in the queue.

        Raises:
            DefiniteError: nothing was sent, or no queue took the message.
            IndefiniteError: it may have been taken.
        """

        def send(_: Any) -> None:
            self._published += 1
            self._returned = None
            expiration = None if expires_ms is None else str(expires_ms)
            properties = _pika.BasicProperties(delivery_mode=2, expiration=expiration)
            self._channel.basic_publish("", queue, body, properties, mandatory=True)

        confirm: Any = await self._ask("publish", send)
        if isinstance(confirm, _spec.Basic.Nack):
            raise IndefiniteError("publish: the node gave a negative confirm")
        if self._returned is not None:
            raise DefiniteError(f"publish: the message came back: {self._returned}")

    async def get(self, queue: str) -> Message | None:
        """Take a message without acknowledging it; None if empty.

        Raises:
            DefiniteError: nothing was taken.
            IndefiniteError: a message may have been, which goes back to its queue.
        """

        def send(answer: Callable[[Any], None]) -> None:
            def got(_: Any, method: Any, properties: Any, body: bytes) -> None:
                answer(_message(method, properties, body))

            self._channel.basic_get(queue, got)

        return await self._ask("get", send)

    async def consume(self, queue: str) -> Message | None:
        """What a consumer of a queue was given; None if nothing has come yet. The first call makes the consumer.

        The node gives a consumer one message, and the next one when that is acknowledged.

        Raises:
            DefiniteError: the consumer is gone; what it was given goes back to its queue.
            IndefiniteError: as `error_of` says.
        """
        if queue not in self._consumers:
            await self._begin(queue)
        consumer = self._consumers[queue]
        lost = f"the node closed the connection ({self._lost.result()})" if self._lost.done() else consumer.gone
        if lost:
            del self._consumers[queue]
            self._give_back(consumer)
            raise DefiniteError(f"consume: {lost}")
        return consumer.held.popleft() if consumer.held else None

    async def read_log(self, stream: str, offset: int, count: int) -> list[Logged]:
        """Read messages of a stream, of which the node must have so many from the offset on: it waits for them.

        Args:
            stream: which one.
            offset: of the first message.
            count: how many messages; at least 1, at most 65,535.

        Raises:
            DefiniteError, IndefiniteError: as `error_of` says.
        """
        found: list[Logged] = []
        last = 0

        def send(answer: Callable[[Any], None]) -> None:
            def given(_: Any, method: Any, properties: Any, body: bytes) -> None:
                nonlocal last
                last = method.delivery_tag
                if len(found) < count:
                    headers: dict[str, object] = properties.headers or {}
                    found.append((headers.get(OFFSET), body))
                    if len(found) == count:
                        answer(found)

            self._reader = self._channel.basic_consume(stream, given, arguments={OFFSET: offset})

        await self._ask("read", lambda answer: self._channel.basic_qos(prefetch_count=count, callback=answer))
        await self._ask("read", send)
        reader, self._reader = self._reader, ""
        await self._ask("end a read", lambda answer: self._channel.basic_cancel(reader, callback=answer))
        if self._channel.is_open:
            self._channel.basic_ack(last, multiple=True)
        return found

    async def _begin(self, queue: str) -> None:
        """Make a consumer of a queue: it is one once the node says so."""
        consumer = _Consumer()

        def given(_: Any, method: Any, properties: Any, body: bytes) -> None:
            consumer.held.append(_message(method, properties, body))

        def send(answer: Callable[[Any], None]) -> None:
            def begun(frame: Any) -> None:  # at once: the node may end the consumer in its next frame
                consumer.tag = str(frame.method.consumer_tag)
                self._consumers[queue] = consumer
                answer(frame)

            self._channel.basic_consume(queue, given, callback=begun)

        await self._ask("set the prefetch", lambda answer: self._channel.basic_qos(prefetch_count=1, callback=answer))
        await self._ask("consume", send)

    def _give_back(self, consumer: _Consumer) -> None:
        """Give back what came and was not asked for: the node does that itself only where the channel ends."""
        while consumer.held:
            tag, *_ = consumer.held.popleft()
            self.reject(tag, requeue=True)

    async def cancel(self, queue: str) -> None:
        """End the consumer of a queue, if there is one, and give back what it was given and not asked for.

        Raises:
            DefiniteError, IndefiniteError: as `error_of` says.
        """
        consumer = self._consumers.pop(queue, None)
        if consumer is None:
            return
        if not consumer.gone:
            await self._ask("cancel", lambda answer: self._channel.basic_cancel(consumer.tag, callback=answer))
        self._give_back(consumer)

    async def declare(self, queue: str, arguments: Mapping[str, Any], *, exclusive: bool = False) -> int:
        """Declare a queue, durable unless it is exclusive; how many messages it has.

        Raises:
            DefiniteError, IndefiniteError: as `error_of` says.
        """

        def send(answer: Callable[[Any], None]) -> None:
            self._channel.queue_declare(
                queue, durable=not exclusive, exclusive=exclusive, arguments=dict(arguments), callback=answer
            )

        frame = await self._ask("declare", send)
        return int(frame.method.message_count)

    async def declare_exchange(self, name: str, kind: str = "fanout", *, auto_delete: bool = False) -> None:
        """Declare a durable exchange, which may go with its last binding; no error where it is there already.

        Raises:
            DefiniteError, IndefiniteError: as `error_of` says.
        """

        def send(answer: Callable[[Any], None]) -> None:
            self._channel.exchange_declare(name, kind, durable=True, auto_delete=auto_delete, callback=answer)

        await self._ask("declare an exchange", send)

    async def delete_exchange(self, name: str) -> None:
        """Delete an exchange; no error where there is none.

        Raises:
            DefiniteError, IndefiniteError: as `error_of` says.
        """
        await self._ask("delete an exchange", lambda answer: self._channel.exchange_delete(name, callback=answer))

    async def bind(self, source: str, kind: str, end: str, key: str, arguments: Mapping[str, Any]) -> None:
        """Bind a queue or an exchange, which `kind` says, to an exchange; no error where it is bound so already.

        Raises:
            DefiniteError, IndefiniteError: as `error_of` says.
        """
        method: Any = self._channel.queue_bind if kind == "queue" else self._channel.exchange_bind
        await self._ask("bind", lambda answer: method(end, source, key, dict(arguments), callback=answer))

    async def unbind(self, source: str, kind: str, end: str, key: str, arguments: Mapping[str, Any]) -> None:
        """Remove such a binding; no error where there is none.

        Raises:
            DefiniteError, IndefiniteError: as `error_of` says.
        """
        method: Any = self._channel.queue_unbind if kind == "queue" else self._channel.exchange_unbind
        await self._ask("unbind", lambda answer: method(end, source, key, dict(arguments), callback=answer))

    async def confirm_open(self) -> None:
        """Have the node answer something that changes nothing, which shows that the connection is open.

        Raises:
            DefiniteError, IndefiniteError: as `error_of` says.
        """
        await self._ask("ask", lambda answer: self._channel.basic_qos(prefetch_count=0, callback=answer))

    async def purge(self, queue: str) -> int:
        """Remove what is not taken; how many messages that were.

        Raises:
            DefiniteError, IndefiniteError: as `error_of` says.
        """
        frame = await self._ask("purge", lambda answer: self._channel.queue_purge(queue, callback=answer))
        return int(frame.method.message_count)

    async def delete(self, queue: str) -> None:
        """Delete a queue.

        Raises:
            DefiniteError, IndefiniteError: as `error_of` says.
        """
        await self._ask("delete", lambda answer: self._channel.queue_delete(queue, callback=answer))

    def ack(self, tag: int) -> None:
        """Acknowledge a message; without effect where the channel on which it came is gone."""
        if self._channel.is_open:
            self._channel.basic_ack(tag)

    def reject(self, tag: int, *, requeue: bool) -> None:
        """Give a message back, or have it discarded or dead-lettered; as `ack`."""
        if self._channel.is_open:
            self._channel.basic_reject(tag, requeue=requeue)

    async def close(self) -> bool:
        """End the connection: in good order where nothing is under way, else at once, as a client that died does.

        Returns:
            Whether the node said goodbye, before which it removes the queues that are exclusive to the connection.
        """
        if self._lost.done():
            return False
        if self._waiting is None and self._driver.is_open:
            self._driver.close()
            try:
                async with asyncio.timeout(CLOSE_S):
                    ended = await asyncio.shield(self._lost)
                return isinstance(ended, _pika.exceptions.ConnectionClosedByClient)
            except TimeoutError:
                pass
            except BaseException:  # given up: nobody else would end it, and it answers heartbeats for ever
                self.drop()
                raise
        self.drop()
        return False

    def drop(self) -> None:
        """Break the connection at once, if that was not done yet."""
        if self._dropped:
            return
        self._dropped = True
        if vars(self._driver).get("_transport") is not None:
            # What pika does itself where the other side has gone; it has no public way to end without a goodbye.
            end: Any = getattr(self._driver, "_terminate_stream")  # noqa: B009 - not a name of the public interface
            end(_pika.exceptions.StreamLostError("given up by the client"))

    async def _open_channel(self) -> None:
        """A channel of this connection, in confirm mode."""
        loop = asyncio.get_running_loop()
        opened: asyncio.Future[Any] = loop.create_future()
        self._waiting = opened

        def is_open(found: Any) -> None:
            if not opened.done():
                opened.set_result(found)

        channel = self._driver.channel(on_open_callback=is_open)
        channel.add_on_close_callback(self._ended)
        self._channel = await self._outcome("open a channel", opened)
        channel.add_on_return_callback(self._came_back)
        channel.add_callback(self._found_empty, [_spec.Basic.GetEmpty], one_shot=False)
        channel.add_on_cancel_callback(self._cancelled)
        self._published = 0
        await self._ask("select confirms", lambda answer: channel.confirm_delivery(self._confirmed, callback=answer))

    async def _ask(self, what: str, send: Callable[[Callable[[Any], None]], None]) -> Any:
        """Do one operation; its answer."""
        if self._lost.done():
            raise DefiniteError(f"{what}: the node closed the connection ({self._lost.result()})")
        if not self._channel.is_open:  # an operation before this one was refused, and the channel ended with it
            try:
                await self._open_channel()
            except IndefiniteError as error:
                raise DefiniteError(f"{what}: not sent: {error}") from error
        self._waiting = asyncio.get_running_loop().create_future()
        try:
            send(self._answer)
        except _pika.exceptions.AMQPError as error:
            self._waiting = None
            raise error_of(error, sent=False, what=what) from error
        return await self._outcome(what, self._waiting)

    async def _outcome(self, what: str, waiting: asyncio.Future[Any]) -> Any:
        try:
            await asyncio.wait({waiting, self._lost}, return_when=asyncio.FIRST_COMPLETED)  # noqa: TID251 - one of two
        except BaseException:  # given up: what comes later would answer another operation
            self.drop()
            raise
        self._waiting = None
        if not waiting.done():
            raise error_of(self._lost.result(), sent=True, what=what)
        found = waiting.result()
        if isinstance(found, DefiniteError):
            raise found
        if isinstance(found, BaseException):
            raise error_of(found, sent=True, what=what)
        return found

    def _answer(self, found: Any) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(found)

    def _ended(self, _: Any, error: BaseException) -> None:
        """The channel ended: that answers what was asked for. The reason is a result, so that none is left unread."""
        for consumer in self._consumers.values():
            consumer.gone = f"the node closed the channel ({error})"
            consumer.held.clear()  # they went back, and their tags mean other messages on the next channel
        self._answer(error)

    def _cancelled(self, frame: Any) -> None:
        """The node ended a consumer by itself: its queue is gone, or has failed."""
        for consumer in self._consumers.values():
            if consumer.tag == str(frame.method.consumer_tag):
                consumer.gone = "the node ended the consumer"
        if self._reader == str(frame.method.consumer_tag):
            self._answer(DefiniteError("read: the node ended the consumer"))

    def _confirmed(self, frame: Any) -> None:
        if frame.method.delivery_tag == self._published or frame.method.multiple:
            self._answer(frame.method)

    def _found_empty(self, _: Any) -> None:
        self._answer(None)

    def _came_back(self, _: Any, method: Any, __: Any, ___: Any) -> None:
        self._returned = f"{method.reply_code} {method.reply_text}"


def _message(method: Any, properties: Any, body: bytes) -> Message:
    headers: dict[str, Any] = properties.headers or {}
    reason = headers.get(FIRST_DEATH)
    return method.delivery_tag, body, method.redelivered, None if reason is None else str(reason)
