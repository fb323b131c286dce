"""Clients that are connected to this node: how they get their answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, cast

from splitbrain.cluster import wire
from splitbrain.cluster.links import Links
from splitbrain.cluster.pending import Answering
from splitbrain.cluster.runtime import Connection
from splitbrain.cluster.tree import Result
from splitbrain.cluster.wire import (
    Applied,
    ClientAddress,
    ClientMessage,
    Deliver,
    Failure,
    Notice,
    Outcome,
    encode_peer,
)

MAX_NOTICES: Final = 64
"""In one answer: as many of the longest results are not too long for it."""


class Caller:
    """One client's connection.

    Args:
        connection: the connection.

    Attributes:
        address: where machines send messages for it.
    """

    def __init__(self, connection: Connection, address: ClientAddress) -> None:
        self._connection = connection
        self.address = address

    def answer(self, request_id: int, term: int, outcome: Outcome, index: int) -> None:
        """Answer a request."""
        self._connection.send(
            bounded(lambda outcome: wire.encode(wire.Answer(request_id, term, outcome, index)), outcome)
        )

    def notify(self, notices: Sequence[Notice]) -> None:
        """Say what was applied."""
        for first in range(0, len(notices), MAX_NOTICES):
            applied = Applied(tuple(notices[first : first + MAX_NOTICES]))
            self._connection.send(wire.encode(wire.Answer(0, applied.notices[0].term, applied)))

    def close(self) -> None:
        """End the connection."""
        self._connection.close()

    def deliver(self, data: bytes) -> None:
        """Pass on a message of a machine."""
        self._connection.send(wire.encode(wire.Answer(0, 0, ClientMessage(data))))


class Callers:
    """All clients that are connected to this node.

    Args:
        node: its name.
        life: distinguishes this process from the node's earlier ones.
        links: to the other nodes.
    """

    def __init__(self, node: str, life: int, links: Links) -> None:
        self._node = node
        self._life = life
        self._links = links
        self._last_number = 0
        self._by_address: dict[ClientAddress, Caller] = {}

    def enter(self, connection: Connection) -> Caller:
        """A client is connected."""
        self._last_number += 1
        caller = Caller(connection, ClientAddress(self._node, self._life, self._last_number))
        self._by_address[caller.address] = caller
        return caller

    def leave(self, caller: Caller) -> None:
        """Its connection is gone."""
        del self._by_address[caller.address]

    def close_all(self) -> None:
        """End all connections."""
        for caller in list(self._by_address.values()):
            caller.close()

    @property
    def count(self) -> int:
        """How many are connected."""
        return len(self._by_address)

    def is_connected(self, client: ClientAddress) -> bool:
        """Whether this is a client of this node, and of this life of it, and is connected."""
        return client in self._by_address

    def deliver(self, message: Deliver) -> None:
        """Send a message to a client, of this node or of another: to one that is not there any more it gets lost."""
        caller = self._by_address.get(message.client)
        if caller is not None:
            caller.deliver(message.data)
        elif message.client.node != self._node:
            self._links.send_to_node(message.client.node, encode_peer(message))


class Notices:
    """Results of commands of reply mode "notify", until all that is applied at once is applied (RA-18)."""

    def __init__(self) -> None:
        self._by_caller: dict[Caller, list[Notice]] = {}

    def answering(self, caller: Caller, request_id: int) -> Answering:
        """What takes the answer to a command: a failure goes out at once, a result with the next `send`."""

        def answer(term: int, outcome: Outcome, index: int) -> None:
            if index:
                notice = Notice(request_id, term, cast(Result, outcome), index)
                self._by_caller.setdefault(caller, []).append(notice)
            else:
                caller.answer(request_id, term, outcome, index)

        return answer

    def send(self) -> None:
        """Say what was applied since the last time, in that order."""
        if self._by_caller:
            by_caller, self._by_caller = self._by_caller, {}
            for caller, notices in by_caller.items():
                caller.notify(notices)


def bounded(encode: Callable[[Outcome], bytes], outcome: Outcome) -> bytes:
    """An answer as it is sent; only a query can have one that is too long, so that the failure is definite."""
    data = encode(outcome)
    if len(data) <= wire.MAX_ANSWER_BYTES:
        return data
    detail = f"the answer would have {len(data)} bytes, at most {wire.MAX_ANSWER_BYTES} can be sent"
    return encode(Failure("invalid_request", True, detail))
