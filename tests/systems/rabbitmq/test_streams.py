"""What a session does with streams, with a broker and a probe that say what a test wants."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Any, TypeVar

import pytest

from splitbrain.harness.contract.sessions import DefiniteError, IndefiniteError, NonsenseError
from splitbrain.harness.systems.rabbitmq.connection import OFFSET, Connection
from splitbrain.harness.systems.rabbitmq.session import RabbitmqSession
from splitbrain.harness.systems.rabbitmq.settings import QUORUM
from tests.systems.rabbitmq.fake_broker import FakeBroker, Spec, Then

T = TypeVar("T")


class Says:
    """A probe that says where the stream ends; None if the node has no replica."""

    def __init__(self, end: int | None) -> None:
        self.end = end
        self.asked: list[str] = []

    async def request(self, words: str, kind: type[T]) -> T:
        self.asked.append(words)
        known: Any = [] if self.end is None else [self.end]
        return known

    def close(self) -> None:
        """Nothing to drop."""


def behind_consume(send: Callable[[FakeBroker, socket.socket], None]) -> Then:
    """Sends something behind the answer to a new consumer."""

    def then(broker: FakeBroker, connection: socket.socket, name: str) -> None:
        if name == "Basic.Consume":
            send(broker, connection)

    return then


def messages(*found: tuple[object, bytes]) -> Then:
    """Gives these messages to a consumer: the offset that each names, and its body."""

    def give(broker: FakeBroker, connection: socket.socket) -> None:
        for tag, (offset, body) in enumerate(found, 1):
            broker.give(connection, tag, body, headers=None if offset is None else {OFFSET: offset})

    return behind_consume(give)


def read(
    then: Then | None, end: int | None, offset: int, most: int, times: int = 1
) -> tuple[list[Any], FakeBroker, Says]:
    """What reads on one session came to: a value or an error."""
    broker, says = FakeBroker(then=then), Says(end)

    async def main() -> list[Any]:
        dialled = socket.socket()
        dialled.setblocking(False)
        await asyncio.get_running_loop().sock_connect(dialled, broker.address)
        probe: Any = says
        session = RabbitmqSession(await Connection.on(dialled), QUORUM, probe)
        found: list[Any] = []
        for _ in range(times):
            try:
                found.append((await session.read_stream("st0", offset, most)).value)
            except (DefiniteError, IndefiniteError) as error:
                found.append(error)
        await session.close()
        return found

    try:
        return asyncio.run(main()), broker, says
    finally:
        broker.close()


def test_a_read_gives_what_the_node_has_from_the_offset_on_and_ends_its_consumer() -> None:
    (found,), broker, says = read(messages((3, b"30"), (4, b"40"), (5, b"50")), 6, 3, 200)
    assert found == {"values": [30, 40, 50], "end": 6}
    assert says.asked == ["stream st0"]
    assert broker.arguments == {OFFSET: 3}
    assert [broker.methods.count(f"Basic.{name}") for name in ("Qos", "Consume", "Cancel", "Ack")] == [1, 1, 1, 1]


def test_a_read_gives_no_more_than_was_asked_for_though_the_node_sends_more() -> None:
    found, broker, _ = read(messages((0, b"1"), (1, b"2"), (2, b"3"), (3, b"4")), 4, 0, 2, times=2)
    assert found == [{"values": [1, 2], "end": 4}] * 2
    assert broker.methods.count("Basic.Cancel") == 2


@pytest.mark.parametrize("offset", [6, 7])
def test_a_read_at_the_end_asks_no_broker(offset: int) -> None:
    (found,), broker, _ = read(None, 6, offset, 200)
    assert found == {"values": [], "end": 6}
    assert "Basic.Consume" not in broker.methods


def test_a_node_without_a_replica_gives_nothing_and_says_no_end() -> None:
    (found,), broker, _ = read(None, None, 0, 200)
    assert isinstance(found, DefiniteError)
    assert "no replica of st0" in str(found)
    assert "Basic.Consume" not in broker.methods


@pytest.mark.parametrize("second", [(3, b"2"), (None, b"2"), (1, b"two")])
def test_a_message_that_is_not_the_one_at_its_offset_is_nonsense(second: tuple[object, bytes]) -> None:
    (found,), _, _ = read(messages((0, b"1"), second), 2, 0, 200)
    assert isinstance(found, NonsenseError)
    assert "expected was a whole number at 1" in str(found)


@pytest.mark.parametrize("how", ["cancel", "channel", "refused"])
def test_a_read_that_the_node_ends_is_an_error_and_the_next_one_is_made_anew(how: str) -> None:
    def end(broker: FakeBroker, connection: socket.socket) -> None:
        if broker.methods.count("Basic.Consume") > 1:
            broker.give(connection, 1, b"1", headers={OFFSET: 0})
        elif how == "cancel":
            broker.send(connection, 1, Spec.Basic.Cancel(broker.consumer, True))
        else:
            broker.send(connection, 1, Spec.Channel.Close(541 if how == "channel" else 406, "why", 0, 0))

    (first, second), _, _ = read(behind_consume(end), 1, 0, 200, times=2)
    assert isinstance(first, IndefiniteError if how == "channel" else DefiniteError)
    assert second == {"values": [1], "end": 1}
