"""What a session does with the entities of a broker, with a broker and a probe that say what a test wants."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import pytest

from splitbrain.harness.contract.sessions import DefiniteError, IndefiniteError
from splitbrain.harness.systems.rabbitmq.connection import Connection
from splitbrain.harness.systems.rabbitmq.probe import Asked
from splitbrain.harness.systems.rabbitmq.topology import RabbitmqTopology
from tests.systems.rabbitmq.fake_broker import Act, FakeBroker, Spec
from tests.systems.rabbitmq.loopback import probed_at

T = TypeVar("T")
Work = Callable[[RabbitmqTopology], Awaitable[None]]

EXCHANGE: list[Any] = ["exchange", "v0", "x", "direct"]
QUEUE: list[Any] = ["queue", "v0", "q"]
BINDING: list[Any] = ["binding", "v0", "x", "queue", "q", "k", 1]
BETWEEN: list[Any] = ["binding", "v0", "x", "exchange", "topic", "k", 0]


class Says:
    """A probe that has done what it was asked to, and shows what it is given."""

    def __init__(self, shown: list[Any]) -> None:
        self.shown = shown
        self.asked: list[str] = []

    async def request(self, words: str, kind: type[T]) -> T:
        self.asked.append(words)
        shown: Any = self.shown
        return shown

    async def change(self, words: str) -> None:
        self.asked.append(words)


def on(
    work: Work, act: Act | None = None, shown: list[Any] | None = None, opened: list[Connection] | None = None
) -> tuple[FakeBroker, list[str]]:
    """The broker, and what its probe was asked, after the work of a session."""
    broker, says = FakeBroker(act), Says(shown or [])

    async def connect(vhost: str) -> Connection:
        dialled = socket.socket()
        dialled.setblocking(False)
        await asyncio.get_running_loop().sock_connect(dialled, broker.address)
        connection = await Connection.on(dialled, vhost)
        if opened is not None:
            opened.append(connection)
        return connection

    async def main() -> None:
        probe: Any = says
        session = RabbitmqTopology(connect, probe, "consistent", {}, "s")
        await work(session)
        await session.close()

    try:
        asyncio.run(main())
    finally:
        broker.close()
    return broker, says.asked


def closes_channel(method: str, code: int, text: str) -> Act:
    def act(broker: FakeBroker, connection: socket.socket, name: str) -> bool:
        if name == method:
            broker.send(connection, 1, Spec.Channel.Close(code, text, 0, 0))
        return False

    return act


def breaks(method: str) -> Act:
    """The first connection that sends this method ends."""
    return lambda broker, _, name: name == method and broker.methods.count(name) == 1


def test_exchanges_queues_and_bindings_go_over_one_connection_to_each_virtual_host() -> None:
    async def work(session: RabbitmqTopology) -> None:
        for entity in (EXCHANGE, QUEUE, BINDING, BETWEEN):
            await session.declare(entity)
        await session.declare(["queue", "v1", "q"])
        for entity in (BETWEEN, BINDING, QUEUE, EXCHANGE):
            assert (await session.delete(entity)).value is None

    broker, asked = on(work)
    assert broker.vhosts == ["v0", "v1"]
    assert [name for name in broker.methods if name.startswith(("Queue", "Exchange"))] == [
        *("Exchange.Declare", "Queue.Declare", "Queue.Bind", "Exchange.Bind", "Queue.Declare"),
        *("Exchange.Unbind", "Queue.Unbind", "Queue.Delete", "Exchange.Delete"),
    ]
    assert asked == []


def test_what_amqp_does_not_know_is_asked_of_the_probe_and_a_virtual_host_stays() -> None:
    async def work(session: RabbitmqTopology) -> None:
        for entity in (["vhost", "v0"], ["user", "u0"], ["permission", "v0", "u0"], ["policy", "v0", "p0"]):
            await session.declare(entity)
        await session.delete(["user", "u0"])
        with pytest.raises(DefiniteError, match="'v0' stays"):
            await session.delete(["vhost", "v0"])

    broker, asked = on(work)
    assert broker.connections == 0
    assert asked == ["make vhost v0", "make user u0", "make permission v0 u0", "make policy v0 p0", "remove user u0"]


def test_what_every_broker_begins_with_is_not_shown() -> None:
    first: list[Any] = [
        *(["vhost", "/"], ["user", "guest"], ["user", "splitbrain"], ["permission", "v0", "splitbrain"]),
        *(["exchange", "v0", "", "direct"], ["exchange", "v0", "amq.topic", "topic"], ["exchange", "/", "x", "fanout"]),
        ["policy", "/", "mirrored"],
    ]
    ours: list[Any] = [["exclusive", "v0", "x0", "s.0"], ["permission", "v0", "u0"], QUEUE, ["user", "u0"]]

    async def work(session: RabbitmqTopology) -> None:
        assert (await session.entities()).value == sorted(ours)

    assert on(work, shown=[*first, *ours])[1] == ["entities consistent"]


def test_only_a_conflict_with_what_nobody_declared_is_said_in_the_words_of_a_consistent_answer() -> None:
    async def refused(session: RabbitmqTopology) -> None:
        with pytest.raises(DefiniteError, match=expected):
            await session.declare(QUEUE)

    expected = "^precondition_failed: "
    on(refused, closes_channel("Queue.Declare", 406, "PRECONDITION_FAILED - inequivalent arg 'durable'"))
    expected = "^declare: 405 RESOURCE_LOCKED"  # by the node's own copy: that may be an old one
    on(refused, closes_channel("Queue.Declare", 405, "RESOURCE_LOCKED - no"))


def test_queues_of_a_connection_have_an_owner_of_whom_no_one_hears_again_once_it_has_ended() -> None:
    async def work(session: RabbitmqTopology) -> None:
        owner = (await session.claim("v0", "mine")).value
        assert (await session.claim("v1", "mine")).value == owner == "s.0"
        assert (await session.disconnect()).value == owner
        assert (await session.disconnect()).value is None
        assert (await session.claim("v0", "mine")).value == "s.1"

    assert on(work)[0].connections == 3


@pytest.mark.parametrize("entity", [["queue", "v1", "q"], ["user", "u0"]])
def test_nothing_is_answered_once_the_connection_has_ended_that_owns_queues(entity: list[Any]) -> None:
    """An answer says that it is open; what was done elsewhere meanwhile is done, and its outcome counts as unknown."""

    def act(broker: FakeBroker, _: socket.socket, name: str) -> bool:
        return name == "Basic.Qos" and broker.methods.count(name) == 2  # the first one shows it to the claim

    async def work(session: RabbitmqTopology) -> None:
        await session.claim("v0", "mine")
        with pytest.raises(IndefiniteError, match="may own queues has ended"):
            await session.declare(entity)
        assert (await session.claim("v0", "mine")).value == "s.1"

    on(work, act)


def test_a_node_that_says_no_goodbye_may_keep_the_queues_of_a_connection() -> None:
    async def work(session: RabbitmqTopology) -> None:
        await session.claim("v0", "mine")
        with pytest.raises(IndefiniteError, match="did not say goodbye in v0"):
            await session.disconnect()
        assert (await session.claim("v0", "mine")).value == "s.1"

    on(work, breaks("Channel.Close"))


def test_a_session_whose_end_is_given_up_leaves_no_connection_that_would_keep_its_queues() -> None:
    silent = threading.Event()

    def act(_: FakeBroker, __: socket.socket, name: str) -> bool:
        if name == "Channel.Close":
            silent.wait(10)  # until the client has gone
        return False

    async def work(session: RabbitmqTopology) -> None:
        await session.claim("v0", "mine")
        await session.claim("v1", "mine")
        ending = asyncio.create_task(session.close())
        await asyncio.sleep(0)  # it has begun
        ending.cancel()
        await asyncio.wait([ending])
        async with asyncio.timeout(10):
            while not all(each.is_lost for each in opened):
                await asyncio.sleep(0.01)
        silent.set()

    opened: list[Connection] = []
    on(work, act, opened=opened)
    assert len(opened) == 2


@pytest.mark.parametrize(
    ("line", "error"),
    [
        (b"[]\n", None),
        (b'["refused","no_such_user"]\n', DefiniteError),
        (b'["unknown","timeout"]\n', IndefiniteError),
        (b"", IndefiniteError),
    ],
)
def test_a_change_by_the_probe_failed_for_certain_only_where_the_node_refused_it(line: bytes, error: Any) -> None:
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        connection, _ = listener.accept()
        with connection, listener:
            connection.recv(100)
            connection.sendall(line)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    deployment = probed_at(listener.getsockname())

    async def main() -> None:
        asked = Asked(deployment, "n1")
        if error is None:
            await asked.change("make user u0")
        else:
            with pytest.raises(error):
                await asked.change("make user u0")
        asked.close()

    asyncio.run(main())
    thread.join(10)


def test_a_change_is_certain_not_to_be_made_by_a_probe_that_is_not_reached() -> None:
    closed = socket.create_server(("127.0.0.1", 0))
    deployment = probed_at(closed.getsockname())
    closed.close()
    with pytest.raises(DefiniteError, match="probe"):
        asyncio.run(Asked(deployment, "n1").change("make user u0"))
