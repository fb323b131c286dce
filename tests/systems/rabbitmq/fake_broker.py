"""A node that speaks as much AMQP as a client of a test asks for, and ends a connection where it is told to."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import pika
from pika import frame, spec

Frame: Any = frame
Spec: Any = spec
Act = Callable[["FakeBroker", socket.socket, Any], bool]
"""What to do with a method on a channel; whether that was all."""

Then = Callable[["FakeBroker", socket.socket, str], None]
"""What to do behind the answer to a method."""


class FakeBroker:
    """Accepts connections on loopback, each in a thread of its own, until it is closed.

    Attributes:
        connections: how many there were.
        vhosts: to which they were, in order.
        methods: names of all methods that clients sent on channels, in order.
        consumer: the tag of the last one.
        arguments: of that consumer.
        act: what to do instead of answering; returns False to have the method answered.
        then: what to do behind the answer.
    """

    def __init__(self, act: Act | None = None, then: Then | None = None) -> None:
        self.connections = 0
        self.vhosts: list[str] = []
        self.methods: list[str] = []
        self.act = act
        self.then = then
        self.messages: list[bytes] = []
        self.consumer = ""
        self.arguments: Mapping[str, Any] = {}
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._threads: list[threading.Thread] = []
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()

    @property
    def address(self) -> tuple[str, int]:
        """Where it listens."""
        return self._listener.getsockname()[:2]

    def close(self) -> None:
        """Accept nothing more, and wait for the threads: all clients have to be closed."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in (self._accepting, *self._threads):
            thread.join(10)

    def send(self, connection: socket.socket, channel: int, method: Any) -> None:
        """Send one method."""
        connection.sendall(Frame.Method(channel, method).marshal())

    def deliver(self, connection: socket.socket, tag: int, body: bytes, *, redelivered: bool = False) -> None:
        """Answer a get with a message."""
        method = Spec.Basic.GetOk(tag, redelivered, "", "q", 0)
        header = Frame.Header(1, len(body), pika.BasicProperties())
        connection.sendall(Frame.Method(1, method).marshal() + header.marshal() + Frame.Body(1, body).marshal())

    def give(
        self,
        connection: socket.socket,
        tag: int,
        body: bytes,
        *,
        redelivered: bool = False,
        headers: Mapping[str, Any] | None = None,
    ) -> None:
        """Give a message to the consumer."""
        method = Spec.Basic.Deliver(self.consumer, tag, redelivered, "", "q")
        header = Frame.Header(1, len(body), pika.BasicProperties(headers=None if headers is None else dict(headers)))
        connection.sendall(Frame.Method(1, method).marshal() + header.marshal() + Frame.Body(1, body).marshal())

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            thread = threading.Thread(target=self._serve, args=(connection,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, suppress(OSError):
            self._speak(connection)

    def _speak(self, connection: socket.socket) -> None:
        received = b""
        while len(received) < 8:
            received += connection.recv(8 - len(received))
        capabilities = {"publisher_confirms": True, "basic.nack": True}
        start = Spec.Connection.Start(server_properties={"capabilities": capabilities})
        self.send(connection, 0, start)
        received = b""
        while True:
            used, found = Frame.decode_frame(received)
            if not used:
                more = connection.recv(65536)
                if not more:
                    return
                received += more
                continue
            received = received[used:]
            if isinstance(found, Frame.Body):
                self.messages.append(found.fragment)
                if self._answers(connection, "Basic.Publish body", found):
                    return
                self.send(connection, 1, Spec.Basic.Ack(len(self.messages)))
            elif isinstance(found, Frame.Method) and self._answers(connection, found.method.NAME, found.method):
                return

    def _answers(self, connection: socket.socket, name: str, method: Any) -> bool:
        """Answer a method; whether the connection has to end."""
        simple = {
            "Connection.StartOk": Spec.Connection.Tune(channel_max=9, frame_max=131072, heartbeat=0),
            "Connection.Open": Spec.Connection.OpenOk(),
            "Connection.Close": Spec.Connection.CloseOk(),
        }
        if name == "Connection.Open":
            self.vhosts.append(method.virtual_host)
        if name in simple:
            self.send(connection, 0, simple[name])
            return name == "Connection.Close"
        if name.startswith("Connection"):
            return False
        self.methods.append(name)
        if name == "Basic.Consume":
            self.consumer = method.consumer_tag
            self.arguments = method.arguments
        if self.act is not None and self.act(self, connection, name):
            return True
        answers = {
            "Channel.Open": Spec.Channel.OpenOk(),
            "Channel.Close": Spec.Channel.CloseOk(),
            "Confirm.Select": Spec.Confirm.SelectOk(),
            "Queue.Declare": Spec.Queue.DeclareOk(getattr(method, "queue", "q"), 0, 0),
            "Queue.Purge": Spec.Queue.PurgeOk(3),
            "Queue.Delete": Spec.Queue.DeleteOk(0),
            "Queue.Bind": Spec.Queue.BindOk(),
            "Queue.Unbind": Spec.Queue.UnbindOk(),
            "Exchange.Declare": Spec.Exchange.DeclareOk(),
            "Exchange.Delete": Spec.Exchange.DeleteOk(),
            "Exchange.Bind": Spec.Exchange.BindOk(),
            "Exchange.Unbind": Spec.Exchange.UnbindOk(),
            "Basic.Get": Spec.Basic.GetEmpty(),
            "Basic.Qos": Spec.Basic.QosOk(),
            "Basic.Consume": Spec.Basic.ConsumeOk(self.consumer),
            "Basic.Cancel": Spec.Basic.CancelOk(self.consumer),
        }
        if name in answers:
            self.send(connection, 1, answers[name])
        if self.then is not None:
            self.then(self, connection, name)
        return False
