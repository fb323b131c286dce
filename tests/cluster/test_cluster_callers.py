"""Who is connected to a node, and what machines send to them (RA-24)."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from splitbrain.cluster import wire
from splitbrain.cluster.callers import Callers
from splitbrain.cluster.links import Links
from splitbrain.cluster.wire import ClientAddress, ClientMessage, Deliver


class Connection:
    """Keeps what is sent to one client."""

    def __init__(self) -> None:
        self.received: list[wire.Outcome] = []

    def send(self, message: bytes) -> None:
        self.received.append(wire.decode_answer(message).outcome)

    async def receive(self) -> bytes:
        raise ConnectionError("never read")

    async def hand_over(self, take: Callable[[bytes], None]) -> None:
        raise ConnectionError("never read")

    def close(self) -> None:
        pass


class Ways:
    """Keeps what is sent to other nodes."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, object]] = []

    def send_to_node(self, node: str, frame: bytes) -> None:
        self.sent.append((node, wire.decode_peer(frame)[1]))


def test_ra24_messages_go_to_the_connection_or_to_its_node_and_to_nobody_else() -> None:
    links, one, two = Ways(), Connection(), Connection()
    callers = Callers("n1", 7, cast(Links, links))
    first, second = callers.enter(one), callers.enter(two)
    callers.deliver(Deliver(first.address, b"a"))
    callers.deliver(Deliver(second.address, b"b"))
    elsewhere = Deliver(ClientAddress("n2", 7, 1), b"c")
    callers.deliver(elsewhere)
    callers.deliver(Deliver(ClientAddress("n1", 8, 1), b"of an earlier life"))
    callers.leave(first)
    callers.deliver(Deliver(first.address, b"too late"))
    third = callers.enter(Connection())
    assert (one.received, two.received) == ([ClientMessage(b"a")], [ClientMessage(b"b")])
    assert [callers.is_connected(caller.address) for caller in (first, second, third)] == [False, True, True]
    assert not callers.is_connected(ClientAddress("n1", 8, second.address.number))
    assert links.sent == [("n2", elsewhere)]
    assert third.address not in (first.address, second.address)
