"""A node of the table store: the I/O around `splitbrain.cluster.tables.machine`.

Links between nodes are those of the metadata cluster (`splitbrain.cluster.peers`). One that breaks says nothing about
the other node: sessions go on behind it. One that is refused says that the other node's process is gone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import msgspec

from splitbrain.cluster.arrivals import Arrivals
from splitbrain.cluster.bugs import M84D, NO_BUGS, Bugs
from splitbrain.cluster.errors import ArgumentError
from splitbrain.cluster.peers import PeerLink
from splitbrain.cluster.runtime import Address, Connection, Runtime
from splitbrain.cluster.tables.coordinator import Done, End
from splitbrain.cluster.tables.database import Database
from splitbrain.cluster.tables.effects import (
    Effect,
    Listen,
    LogActive,
    LogChanges,
    ReplaceAll,
    Reply,
    Say,
    SendFrame,
)
from splitbrain.cluster.tables.journal import Active, Committed, Journal, open_journal
from splitbrain.cluster.tables.known import problem_of
from splitbrain.cluster.tables.machine import POLL_MS, TableNode
from splitbrain.cluster.tables.messages import decode_frame, encode_frame
from splitbrain.cluster.tables.observed import Observed, line
from splitbrain.cluster.tables.records import Change, Item
from splitbrain.cluster.tables.strategies import strategy_named
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

_MS: Final = 1_000_000
_LIFE_LIMIT: Final = 2**40

TICK_MS: Final = 4_000
"""The tick time unless a node is configured otherwise. RabbitMQ's is 60 s; a test of a minute would see little then."""


@dataclass(frozen=True)
class TablesConfig:
    """The configuration of a node at its start.

    Attributes:
        node: its name.
        listen: the address that it serves.
        peers: all other nodes, and the addresses under which this one reaches them.
        strategy: what it does about partitions, by name (`splitbrain.cluster.tables.strategies`).
        preferred: the nodes that `pause-if-all-down` lists.
        tick_ms: the tick time, the same on all nodes.
        bugs: what is broken on purpose.

    Raises:
        ArgumentError: there is no such strategy, a preferred node is not known, or the tick time is too short.
    """

    node: str
    listen: Address
    peers: Mapping[str, Address]
    strategy: str = "ignore"
    preferred: tuple[str, ...] = ()
    tick_ms: int = TICK_MS
    bugs: Bugs = NO_BUGS

    def __post_init__(self) -> None:
        """Refuse what makes no cluster."""
        if self.node in self.peers:
            raise ArgumentError(f"{self.node} is named as its own peer: name only the other nodes.")
        if self.tick_ms < 100:
            raise ArgumentError(f"the tick time is 100 ms or more, not {self.tick_ms}.")
        unknown = sorted(set(self.preferred) - {self.node, *self.peers})
        if unknown:
            raise ArgumentError(f"--preferred names {', '.join(unknown)}: name this node, or a --peer.")
        strategy_named(self.strategy, self.preferred)


class TablesNode:
    """A process of the table store.

    Attributes:
        on_changes: is given the changes of each transaction, once this replica has applied them.
        on_replaced: is called when the replica has taken over all tables of another one.
    """

    def __init__(self, config: TablesConfig, runtime: Runtime) -> None:
        self._config = config
        self._runtime = runtime
        self._links = {
            peer: PeerLink(runtime, config.node, peer, address, partial(self._link_changed, peer), NO_BUGS)
            for peer, address in config.peers.items()
        }
        self._refused: dict[str, bool] = dict.fromkeys(config.peers, False)
        self._clients: dict[Connection, None] = {}
        self._listens = False
        self._last_request = 0
        self._answers: dict[int, Callable[[End], None]] = {}
        self.on_changes: Callable[[Sequence[Change]], None] = lambda _: None
        self.on_replaced: Callable[[], None] = lambda: None
        self._machine: TableNode
        self._journal: Journal

    async def start(self) -> None:
        """Recover what is on disk, look for other nodes, serve. Returns when the node listens.

        Raises:
            StorageError: the data directory cannot be used.
            OSError: the disk failed, or the address cannot be served.
        """
        config, runtime = self._config, self._runtime
        recovered, self._journal = await open_journal(runtime.disk, config.node)
        self._machine = TableNode(
            config.node,
            (config.node, *config.peers),
            strategy_named(config.strategy, config.preferred, config.bugs),
            runtime.rng.between(1, _LIFE_LIMIT),
            config.tick_ms,
            runtime.rng.between,
            self._now_ms(),
            recovered.contents,
            recovered.active,
            config.bugs,
        )
        self._tell(self._begins())
        runtime.last_words(lambda: line(self._machine.observed("end"), runtime.clock))
        await runtime.network.listen(config.listen, self._accept)
        runtime.spawn(self._journal.sync(), "sync journal")
        for peer, link in self._links.items():
            runtime.spawn(link.run(), f"link to {peer}")
        runtime.spawn(self._poll(), "poll")

    @property
    def database(self) -> Database:
        """The replica of this node, with its view of the others."""
        return self._machine.database

    def begin(
        self, procedure: str, arguments: Sequence[Any], timeout_ms: int, answer: Callable[[Result | Refusal], None]
    ) -> None:
        """Carry out a procedure, for a client or for code in this process; `answer` is called once."""
        if not self._listens:
            answer(Refusal("stopped", f"the database of {self._config.node} is stopped"))
            return
        self._last_request += 1
        self._answers[self._last_request] = lambda end: answer(self._outcome(end))
        self._carry_out(self._machine.request(self._last_request, procedure, arguments, timeout_ms, self._now_ms()))

    def _now_ms(self) -> int:
        return self._runtime.clock.monotonic_ns() // _MS

    async def _poll(self) -> None:
        while True:
            await self._runtime.clock.sleep(POLL_MS * _MS)
            now_ms = self._now_ms()
            for peer, link in self._links.items():
                if link.refused and not self._refused[peer]:
                    self._carry_out(self._machine.refused(peer, now_ms))
                self._refused[peer] = link.refused
            self._carry_out(self._machine.poll(now_ms))

    def _link_changed(self, peer: str) -> None:
        if self._links[peer].is_up:
            self._carry_out(self._machine.link_up(peer, self._now_ms()))

    # --- effects ----------------------------------------------------------------------------------------------------

    def _carry_out(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            match effect:
                case SendFrame(to, frame):
                    self._links[to].send_if_up(encode_frame(frame))
                case LogChanges(changes):
                    self._journal.append(Committed(changes))
                    self._runtime.applied(1)
                    self.on_changes(changes)
                case LogActive(active):
                    self._journal.append(Active(active))
                case ReplaceAll(contents, active):
                    self._journal.replace(contents, active)
                    self.on_replaced()
                case Reply(request, end):
                    self._reply(self._answers.pop(request), end)
                case Listen(on):
                    self._listen(on)
                case Say(words):
                    self._runtime.log(words)
                case Observed():
                    self._tell(effect)

    def _tell(self, observed: Observed) -> None:
        self._runtime.telemetry(line(observed, self._runtime.clock))

    def _begins(self) -> Observed:
        config = self._config
        counted = {"net_tick_ms": config.tick_ms, "nodes": 1 + len(config.peers)}
        return Observed("start", "stopped", tuple(sorted(config.preferred)), counted, raised_by=config.strategy)

    def _reply(self, answer: Callable[[End], None], end: End) -> None:
        if isinstance(end, Done) and end.changed:
            self._journal.when_durable(partial(answer, end))
        else:
            answer(end)

    def _listen(self, on: bool) -> None:
        self._listens = on
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
                self._carry_out(self._machine.received(hello.node, decode_frame(data), self._now_ms()))

        await connection.hand_over(take)

    async def _serve_client(self, connection: Connection) -> None:
        """Clients of a node that has paused can ask for its status only."""
        arrivals = Arrivals()
        self._clients[connection] = None
        self._machine.clients = len(self._clients)

        def take(data: bytes) -> None:
            asked = decode_asked(data)
            if arrivals.is_first(asked.id):
                self._serve(connection, asked, len(data))

        try:
            await connection.hand_over(take)
        finally:
            del self._clients[connection]
            self._machine.clients = len(self._clients)

    def _serve(self, connection: Connection, asked: Request | StatusRequest, size: int) -> None:
        def answer(outcome: Result | Refusal | NodeState) -> None:
            connection.send(encode(Answer(asked.id, outcome)))

        if isinstance(asked, StatusRequest):
            answer(self._state())
            return
        problem = _problem(asked, size)
        if problem is not None:
            answer(Refusal("invalid", problem))
        elif not self._listens and M84D in self._config.bugs and asked.procedure == "read":
            table, key = asked.arguments
            answer(Result(next(iter(self._machine.database.tables.read(Item(table, key))), None)))
        else:
            self.begin(asked.procedure, asked.arguments, asked.timeout_ms, answer)

    def _outcome(self, end: End) -> Result | Refusal:
        if isinstance(end, Done):
            return Result(end.result)
        if end.reason == "stopped":
            return Refusal("stopped", f"the database of {self._config.node} does not serve")
        return Refusal("timeout", f"{self._config.node} got no lock, or no vote, in time")

    def _state(self) -> NodeState:
        database = self._machine.database
        return NodeState(
            members=tuple(sorted([self._config.node, *self._config.peers])),
            phase=database.phase,
            active=database.active(),
            alive=tuple(sorted(self._machine.alive)),
            partitions=tuple(sorted(database.partitions)),
        )


def _problem(request: Request, size: int) -> str | None:
    """Why a request cannot be carried out, None if it can."""
    if size > MAX_REQUEST_BYTES:
        return f"a request has at most {MAX_REQUEST_BYTES} bytes, not {size}"
    return problem_of(request.procedure, request.arguments)
