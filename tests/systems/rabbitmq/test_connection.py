"""The client of RabbitMQ sends each operation once, on one connection, and says what is known of its outcome."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from splitbrain.harness.contract.sessions import DefiniteError, IndefiniteError
from splitbrain.harness.systems.rabbitmq.connection import Connection
from splitbrain.harness.systems.rabbitmq.errors import REFUSING, error_of
from splitbrain.harness.systems.rabbitmq.session import RabbitmqSession
from splitbrain.harness.systems.rabbitmq.settings import QUORUM
from tests.systems.rabbitmq.fake_broker import Act, FakeBroker, Spec

Use = Callable[[RabbitmqSession], Awaitable[Any]]

PUBLISH: Use = lambda session: session.publish("q", 7)  # noqa: E731
TAKE: Use = lambda session: session.take("q")  # noqa: E731
DECLARE: Use = lambda session: session.declare_queue("q")  # noqa: E731
PURGE: Use = lambda session: session.purge("q")  # noqa: E731
EVERY = {
    "Basic.Publish": PUBLISH,
    "Basic.Get": TAKE,
    "Queue.Declare": DECLARE,
    "Queue.Purge": PURGE,
}


@pytest.fixture
def brokers() -> Iterator[list[FakeBroker]]:
    made: list[FakeBroker] = []
    yield made
    for broker in made:
        broker.close()


async def connected(broker: FakeBroker) -> RabbitmqSession:
    dialled = socket.socket()
    dialled.setblocking(False)
    await asyncio.get_running_loop().sock_connect(dialled, broker.address)
    return RabbitmqSession(await Connection.on(dialled), QUORUM)


def used(broker: FakeBroker, *uses: Use) -> list[Any]:
    """What each use of one session came to, in order: an answer's value or an error."""

    async def main() -> list[Any]:
        session = await connected(broker)
        found: list[Any] = []
        for use in uses:
            try:
                found.append((await use(session)).value)
            except (DefiniteError, IndefiniteError) as error:
                found.append(error)
        await session.close()
        return found

    return asyncio.run(main())


def breaks(method: str) -> Act:
    """Ends the connection when that method comes, with nothing said."""

    def act(broker: FakeBroker, connection: socket.socket, name: str) -> bool:
        return name == method

    return act


def closes(method: str, code: int) -> Act:
    """Closes the channel with that code in answer to the method, once."""

    def act(broker: FakeBroker, connection: socket.socket, name: str) -> bool:
        if name == method and broker.methods.count(name) == 1:
            broker.send(connection, 1, Spec.Channel.Close(code, "because", 0, 0))
        return False

    return act


def test_operations_are_answered(brokers: list[FakeBroker]) -> None:
    brokers.append(FakeBroker())
    assert used(brokers[0], DECLARE, PUBLISH, PUBLISH, TAKE, PURGE) == [None, 7, 7, None, 3]
    assert brokers[0].messages == [b"7", b"7"]
    assert brokers[0].connections == 1


def test_a_message_that_is_taken_is_acknowledged_only_when_that_is_asked_for(brokers: list[FakeBroker]) -> None:
    def act(broker: FakeBroker, connection: socket.socket, name: str) -> bool:
        if name == "Basic.Get":
            broker.deliver(connection, 1, b"41", redelivered=True)
            # The answer that an empty queue would give comes as well, and must answer nothing.
        return False

    brokers.append(FakeBroker(act))

    async def main() -> None:
        session = await connected(brokers[0])
        found = (await session.take("q")).value
        assert found == {"value": 41, "tag": 1, "redelivered": True}
        assert "Basic.Ack" not in brokers[0].methods
        session.ack(found["tag"])
        session.reject(2, requeue=True)
        await session.close()

    asyncio.run(main())
    brokers[0].close()
    assert brokers.pop().methods[-3:] == ["Basic.Ack", "Basic.Reject", "Channel.Close"]


@pytest.mark.parametrize("method", EVERY)
def test_a_connection_that_breaks_has_nothing_sent_again_and_no_other_one_made(
    brokers: list[FakeBroker], method: str
) -> None:
    brokers.append(FakeBroker(breaks(method)))
    first, second, third = used(brokers[0], EVERY[method], EVERY[method], PUBLISH)
    assert isinstance(first, IndefiniteError)
    assert isinstance(second, DefiniteError)
    assert isinstance(third, DefiniteError)
    assert "closed the connection" in str(second)
    assert brokers[0].methods.count(method) == 1
    assert brokers[0].connections == 1


@pytest.mark.parametrize("method", [method for method in EVERY if method != "Basic.Publish"])
@pytest.mark.parametrize(("code", "error"), [(404, DefiniteError), (405, DefiniteError), (541, IndefiniteError)])
def test_a_channel_that_is_closed_in_answer_tells_by_its_code_and_the_next_operation_has_another_channel(
    brokers: list[FakeBroker], method: str, code: int, error: type[Exception]
) -> None:
    brokers.append(FakeBroker(closes(method, code)))
    first, second = used(brokers[0], EVERY[method], PUBLISH)
    assert type(first) is error
    assert f"{code} because" in str(first)
    assert second == 7
    assert brokers[0].methods.count(method) == 1
    assert brokers[0].methods.count("Channel.Open") == 2
    assert brokers[0].connections == 1


async def given(session: RabbitmqSession) -> Any:
    """What a consumer is given next, once it has come."""
    while (found := (await session.consume("q")).value) is None:
        await asyncio.sleep(0.01)
    return found


def when_asked(**sends: Callable[[FakeBroker, socket.socket], None]) -> Act:
    """Sends something more in front of the answer to a method of the class Basic, or of `Purge`."""

    def act(broker: FakeBroker, connection: socket.socket, name: str) -> bool:
        send = sends.get(name.partition(".")[2])
        if send is not None:
            send(broker, connection)
        return False

    return act


def test_a_consumer_is_made_once_with_a_prefetch_of_one_and_reports_what_it_was_given(
    brokers: list[FakeBroker],
) -> None:
    def act(broker: FakeBroker, connection: socket.socket) -> None:
        broker.give(connection, 1, b"41", redelivered=True)

    brokers.append(FakeBroker(when_asked(Purge=act)))

    async def main() -> None:
        session = await connected(brokers[0])
        assert (await session.consume("q")).value is None
        await session.purge("q")
        assert await given(session) == {"value": 41, "tag": 1, "redelivered": True}
        assert (await session.consume("q")).value is None
        session.ack(1)
        await session.leave("q")
        await session.leave("q")  # it is none any more
        await session.close()

    asyncio.run(main())
    brokers[0].close()
    methods = brokers.pop().methods
    assert [methods.count(f"Basic.{name}") for name in ("Qos", "Consume", "Cancel", "Reject")] == [1, 1, 1, 0]
    assert methods.index("Basic.Qos") < methods.index("Basic.Consume")


def test_a_consumer_that_leaves_gives_back_what_it_did_not_report(brokers: list[FakeBroker]) -> None:
    def act(broker: FakeBroker, connection: socket.socket) -> None:
        broker.give(connection, 1, b"41")

    brokers.append(FakeBroker(when_asked(Purge=act)))

    async def main() -> None:
        session = await connected(brokers[0])
        await session.consume("q")
        await session.purge("q")  # its answer comes behind the message
        await session.leave("q")
        await session.purge("q")
        await session.close()

    asyncio.run(main())
    brokers[0].close()
    methods = brokers.pop().methods
    assert methods[methods.index("Basic.Cancel") :].count("Basic.Reject") == 1
    assert "Basic.Ack" not in methods


@pytest.mark.parametrize("how", ["cancel", "channel"])
def test_a_consumer_that_the_node_ended_is_a_definite_error_and_no_other_one_is_made_unseen(
    brokers: list[FakeBroker], how: str
) -> None:
    def act(broker: FakeBroker, connection: socket.socket) -> None:
        ended = {"cancel": Spec.Basic.Cancel(broker.consumer, True), "channel": Spec.Channel.Close(541, "why", 0, 0)}
        broker.send(connection, 1, ended[how])

    brokers.append(FakeBroker(when_asked(Purge=act)))

    async def main() -> None:
        session = await connected(brokers[0])
        assert (await session.consume("q")).value is None
        with suppress(IndefiniteError):  # a purge that the end of the channel answers
            await session.purge("q")
        with pytest.raises(DefiniteError, match=r"consume: the node (ended the consumer|closed the channel)"):
            await session.consume("q")
        await session.close()

    asyncio.run(main())
    assert brokers[0].methods.count("Basic.Consume") == 1


@pytest.mark.parametrize("then", ["consume", "leave"])
@pytest.mark.parametrize("how", ["cancel", "channel"])
def test_what_a_consumer_holds_that_the_node_ended_is_given_back_on_its_own_channel_only(
    brokers: list[FakeBroker], how: str, then: str
) -> None:
    def act(broker: FakeBroker, connection: socket.socket) -> None:
        if broker.methods.count("Queue.Purge") > 1:
            return
        broker.give(connection, 1, b"41")
        ended = {"cancel": Spec.Basic.Cancel(broker.consumer, True), "channel": Spec.Channel.Close(541, "why", 0, 0)}
        broker.send(connection, 1, ended[how])

    brokers.append(FakeBroker(when_asked(Purge=act)))

    async def main() -> None:
        session = await connected(brokers[0])
        assert (await session.consume("q")).value is None
        with suppress(IndefiniteError):  # a purge that the end of the channel answers
            await session.purge("q")
        await session.purge("q")  # on another channel, where the first one has ended
        if then == "leave":
            await session.leave("q")
        else:
            with pytest.raises(DefiniteError, match=r"consume: the node"):
                await session.consume("q")
        await session.purge("q")
        await session.close()

    asyncio.run(main())
    brokers[0].close()
    methods = brokers.pop().methods
    assert methods.count("Basic.Reject") == (1 if how == "cancel" else 0)  # the end of a channel gives back by itself
    assert "Basic.Cancel" not in methods


def test_a_consumer_that_was_refused_is_asked_for_again(brokers: list[FakeBroker]) -> None:
    brokers.append(FakeBroker(closes("Basic.Consume", 404)))
    refused, found = used(brokers[0], lambda session: session.consume("q"), lambda session: session.consume("q"))
    assert isinstance(refused, DefiniteError)
    assert found is None
    assert brokers[0].methods.count("Basic.Consume") == 2


def test_a_publish_without_a_confirm_is_unknown_whatever_ends_it(brokers: list[FakeBroker]) -> None:
    def nack(broker: FakeBroker, connection: socket.socket, name: str) -> bool:
        if name == "Basic.Publish body":
            broker.send(connection, 1, Spec.Basic.Nack(1, False, False))
        return False

    brokers.append(FakeBroker(nack))
    (found,) = used(brokers[0], PUBLISH)
    assert isinstance(found, IndefiniteError)
    assert "negative confirm" in str(found)


def test_a_message_that_no_queue_took_comes_back_and_certainly_failed(brokers: list[FakeBroker]) -> None:
    def come_back(broker: FakeBroker, connection: socket.socket, name: str) -> bool:
        if name == "Basic.Publish body":
            frames = [
                broker_frame.marshal()
                for broker_frame in (
                    _frame().Method(1, Spec.Basic.Return(312, "NO_ROUTE", "", "q")),
                    _frame().Header(1, 1, _pika().BasicProperties()),
                    _frame().Body(1, b"7"),
                )
            ]
            connection.sendall(b"".join(frames))
        return False

    brokers.append(FakeBroker(come_back))
    (found,) = used(brokers[0], PUBLISH)
    assert isinstance(found, DefiniteError)
    assert "312 NO_ROUTE" in str(found)


def _frame() -> Any:
    from pika import frame

    return frame


def _pika() -> Any:
    import pika

    return pika


def test_a_client_that_is_given_up_ends_its_connection_so_that_what_it_took_goes_back(
    brokers: list[FakeBroker],
) -> None:
    ended: list[str] = []

    def silent(broker: FakeBroker, connection: socket.socket, name: str) -> bool:
        if name == "Basic.Get":
            with suppress(ConnectionError):
                while connection.recv(1024):
                    pass
            ended.append("closed")
            return True
        return False

    brokers.append(FakeBroker(silent))

    async def main() -> None:
        session = await connected(brokers[0])
        task = asyncio.ensure_future(session.take("q"))
        while "Basic.Get" not in brokers[0].methods:
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        while not ended:  # the node has seen it
            await asyncio.sleep(0.01)
        with pytest.raises(DefiniteError):
            await session.publish("q", 1)
        await session.close()

    asyncio.run(main())
    brokers[0].close()
    broker = brokers.pop()
    assert "Basic.Publish" not in broker.methods
    assert broker.connections == 1


def test_a_node_that_refuses_the_login_or_says_nothing_accepts_no_connection() -> None:
    listener = socket.create_server(("127.0.0.1", 0))

    async def main() -> None:
        dialled = socket.socket()
        dialled.setblocking(False)
        await asyncio.get_running_loop().sock_connect(dialled, listener.getsockname())
        taken, _ = listener.accept()
        taken.close()
        with pytest.raises(DefiniteError, match="connect"):
            await Connection.on(dialled)

    asyncio.run(main())
    listener.close()


@pytest.mark.parametrize("code", [*REFUSING, 311, 320, 504, 506, 541])
def test_only_a_refusal_in_answer_is_definite(code: int) -> None:
    class ClosedError(Exception):
        reply_code, reply_text = code, "because"

    assert isinstance(error_of(ClosedError(), sent=True, what="declare"), DefiniteError) == (code in REFUSING)
    assert isinstance(error_of(ClosedError(), sent=False, what="declare"), DefiniteError)
