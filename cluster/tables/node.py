"""A node of the table store: the I/O around `splitbrain.cluster.tables.machine`.

Links between nodes are those of the metadata cluster (`splitbrain.cluster.peers`). One that breaks says nothing about
the other node: sessions go on behind it. One that is refused says that the other node's process is gone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import msgspec

from splitbrain.cluster.arrivals import Arrivals
from splitbrain.cluster.bugs import M84D, NO_BUGS
from splitbrain.cluster.peers import PeerLink
from splitbrain.cluster.runtime import Connection, Runtime
from splitbrain.cluster.tables.config import TICK_MS, TablesConfig
from splitbrain.cluster.tables.database import Database
from splitbrain.cluster.tables.hosted import HostedReplica
from splitbrain.cluster.tables.known import problem_of
from splitbrain.cluster.tables.observed import Observed, line
from splitbrain.cluster.tables.records import Change, Item
from splitbrain.cluster.tables.wire import (
    MAX_REQUEST_BYTES,
    Answer,
    NodeState,
    Refusal,
    Request,
    Result,
    StatusRequest,
    decode_asked,
    encode,
)
from splitbrain.cluster.wire import ALIVE, PROTOCOL_VERSION, ClientHello, PeerHello, decode_hello

__all__ = ["TICK_MS", "TablesConfig", "TablesNode"]


class TablesNode:
    """A process of the table store: links to other nodes and connections of clients around a replica."""

    def __init__(self, config: TablesConfig, runtime: Runtime) -> None:
        self._config = config
        self._runtime = runtime
        self._links = {
            peer: PeerLink(runtime, config.node, peer, address, partial(self._link_changed, peer), NO_BUGS)
            for peer, address in config.peers.items()
        }
        self._clients: dict[Connection, int] = {}
        self._last_client = 0
        self._replica = HostedReplica(
            config,
            runtime,
            lambda to, frame: self._links[to].send_if_up(frame),
            lambda peer: self._links[peer].refused,
            self._listen,
            self._tell,
        )

    async def start(self) -> None:
        """Recover what is on disk, look for other nodes, serve. Returns when the node listens.

        Raises:
            StorageError: the data directory cannot be used.
            OSError: the disk failed, or the address cannot be served.
        """
        config, runtime = self._config, self._runtime
        await self._replica.open()
        self._tell(self._replica.begins())
        runtime.last_words(lambda: line(self._replica.machine.observed("end"), runtime.clock))
        await runtime.network.listen(config.listen, self._accept)
        self._replica.keep_journal()
        for peer, link in self._links.items():
            runtime.spawn(link.run(), f"link to {peer}")
        self._replica.start()

    @property
    def database(self) -> Database:
        """The replica of this node, with its view of the others."""
        return self._replica.database

    @property
    def on_changes(self) -> Callable[[Sequence[Change]], None]:
        """Is given the changes of each transaction, once this replica has applied them."""
        return self._replica.on_changes

    @on_changes.setter
    def on_changes(self, take: Callable[[Sequence[Change]], None]) -> None:
        self._replica.on_changes = take

    @property
    def on_replaced(self) -> Callable[[], None]:
        """Is called when the replica has taken over all tables of another one."""
        return self._replica.on_replaced

    @on_replaced.setter
    def on_replaced(self, call: Callable[[], None]) -> None:
        self._replica.on_replaced = call

    def begin(
        self, procedure: str, arguments: Sequence[Any], timeout_ms: int, answer: Callable[[Result | Refusal], None]
    ) -> None:
        """Carry out a procedure, for a client or for code in this process; `answer` is called once."""
        self._replica.begin(procedure, arguments, timeout_ms, answer)

    def _link_changed(self, peer: str) -> None:
        if self._links[peer].is_up:
            self._replica.link_up(peer)

    def _tell(self, observed: Observed) -> None:
        self._runtime.telemetry(line(observed, self._runtime.clock))

    def _listen(self, on: bool) -> None:
        if not on:
            for connection in list(self._clients):
                connection.close()

    # --- connections ------------------------------------------------------------------------------------------------

    async def _accept(self, connection: Connection) -> None:
        """Serve a connection until it breaks or says what makes no sense."""
        try:
            hello = decode_hello(await connection.receive())
            if hello.version != PROTOCOL_VERSION:
                self._runtime.log(f"a caller of protocol version {hello.version} was turned away: {hello}")
            elif isinstance(hello, ClientHello):
                await self._serve_client(connection)
            elif hello.to == self._config.node and hello.node in self._config.peers:
                await self._serve_peer(hello, connection)
            else:
                self._runtime.log(f"a caller that is no peer was turned away: {hello}")
        except ConnectionError:
            return
        except msgspec.DecodeError as error:
            self._runtime.log(f"a connection was closed, because what came on it made no sense: {error}")
        finally:
            connection.close()

    async def _serve_peer(self, hello: PeerHello, connection: Connection) -> None:
        def take(data: bytes) -> None:
            if data != ALIVE:
                self._replica.received(hello.node, data)

        await connection.hand_over(take)

    async def _serve_client(self, connection: Connection) -> None:
        """Clients of a node that has paused can ask for its status only."""
        arrivals = Arrivals()
        self._last_client += 1
        self._clients[connection] = self._last_client
        self._replica.machine.clients = len(self._clients)

        def take(data: bytes) -> None:
            asked = decode_asked(data)
            if arrivals.is_first(asked.id):
                self._serve(connection, asked, len(data))

        try:
            await connection.hand_over(take)
        finally:
            del self._clients[connection]
            self._replica.machine.clients = len(self._clients)

    def _serve(self, connection: Connection, asked: Request | StatusRequest, size: int) -> None:
        def answer(outcome: Result | Refusal | NodeState) -> None:
            connection.send(encode(Answer(asked.id, outcome)))

        if isinstance(asked, StatusRequest):
            answer(self._state(connection))
            return
        problem = _problem(asked, size)
        if problem is not None:
            answer(Refusal("invalid", problem))
        elif not self._replica.listens and M84D in self._config.bugs and asked.procedure == "read":
            table, key = asked.arguments
            answer(Result(next(iter(self._replica.database.tables.read(Item(table, key))), None)))
        else:
            self.begin(asked.procedure, asked.arguments, asked.timeout_ms, answer)

    def _state(self, connection: Connection) -> NodeState:
        database = self._replica.database
        return NodeState(
            members=tuple(sorted([self._config.node, *self._config.peers])),
            phase=database.phase,
            active=database.active(),
            alive=tuple(sorted(self._replica.machine.alive)),
            partitions=tuple(sorted(database.partitions)),
            client=f"{self._config.node}.{self._replica.life}.{self._clients[connection]}",
        )


def _problem(request: Request, size: int) -> str | None:
    """Why a request cannot be carried out, None if it can."""
    if size > MAX_REQUEST_BYTES:
        return f"a request has at most {MAX_REQUEST_BYTES} bytes, not {size}"
    return problem_of(request.procedure, request.arguments)
