"""Nodes and clients whose messages are lost, repeated and reordered within their connections."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable

import msgspec
import pytest

from splitbrain.cluster import wire
from splitbrain.cluster.arrivals import WINDOW, Arrivals
from splitbrain.cluster.client import Client, ClientError, OutcomeUnknownError, UnavailableError
from splitbrain.cluster.raft.messages import Append
from splitbrain.cluster.storage import open_storage
from splitbrain.cluster.tree import Create, Done, Get, Properties, Put, encode_command
from tests.cluster.support import Carriage, Draws, MemoryConnection, World, eventually, in_virtual_time

THREE = ["n1", "n2", "n3"]


class Writer:
    """A client of one node that writes values nobody else writes, dials anew when it must, and notes what it was told.

    Attributes:
        acknowledged, refused, unknown: commands as they stand in the log, by what the client was told.
    """

    def __init__(self, world: World, node: str, first: int) -> None:
        self._world, self._node, self._first = world, node, first
        self._client: Client | None = None
        self.acknowledged: list[bytes] = []
        self.refused: list[bytes] = []
        self.unknown: list[bytes] = []

    async def write(self, values: int) -> None:
        for value in range(self._first, self._first + values):
            payload = msgspec.msgpack.encode(value)
            if value % 3:
                command = encode_command(Put(("r",), payload))
                await self._one(command, lambda client, value=value: client.put("/r", value, timeout_ms=400))
            else:
                command = encode_command(Create(("s", str(value)), payload))
                await self._one(
                    command, lambda client, value=value: client.create(f"/s/{value}", value, timeout_ms=400)
                )

    async def _one(self, command: bytes, ask: Callable[[Client], Awaitable[object]]) -> None:
        if self._client is None:
            self._client = await self._world.client(self._node)
        try:
            async with asyncio.timeout(0.8):
                await ask(self._client)
            self.acknowledged.append(command)
        except UnavailableError:
            self.refused.append(command)
            await self._hang_up()
        except (OutcomeUnknownError, TimeoutError):
            self.unknown.append(command)
            await self._hang_up()

    async def _hang_up(self) -> None:
        if self._client is not None:
            await self._client.close()
        self._client = None


@pytest.mark.parametrize("seed", range(3))
def test_no_command_is_carried_out_twice_and_every_acknowledged_one_once(seed: int) -> None:
    async def check() -> None:
        world = World(THREE)
        world.carriage = Carriage(seed, lose=0.01, repeat=0.3, late_ms=15)
        try:
            await world.start()
            writers = [Writer(world, THREE[i % 3], 1000 * i) for i in range(9)]
            await asyncio.gather(*(writer.write(40) for writer in writers))
            assert world.carriage.repeated > 300
            assert world.carriage.lost > 10
            world.carriage.calm()
            counts = Counter(await _commands(world, await eventually(lambda: _leader_that_wrote(world))))
            acknowledged = [command for writer in writers for command in writer.acknowledged]
            refused = [command for writer in writers for command in writer.refused]
            assert len(acknowledged) > 100
            assert [command for command, count in counts.items() if count > 1] == []
            assert [command for command in acknowledged if command not in counts] == []
            assert [command for command in refused if command in counts] == []
            assert world.failures == []
        finally:
            await world.close()

    in_virtual_time(check())


async def _leader_that_wrote(world: World) -> str | None:
    """A leader that has committed something in its term, so that its log holds all that was ever acknowledged."""
    leader = await world.leader()
    client = await world.client(leader)
    try:
        await client.put("/last", 0, timeout_ms=500)
    except ClientError:
        return None
    return leader


async def _commands(world: World, node: str) -> list[bytes]:
    """Every command in a node's log, but for those of `_leader_that_wrote`."""
    last = encode_command(Put(("last",), msgspec.msgpack.encode(0)))
    found = (await open_storage(world.disks[node], node, Draws(0), lambda _: None)).recovered
    return [entry.data for entry in found.entries if entry.kind == "command" and entry.data != last]


def _talk(world: World, source: str, node: str, *messages: bytes) -> MemoryConnection:
    connection = world.dial(source, node)
    for message in messages:
        connection.send(message)
    return connection


def test_a_repeated_request_of_a_client_is_carried_out_and_answered_once() -> None:
    async def check() -> None:
        world = World(THREE)
        try:
            await world.start()
            leader = await world.leader()
            hello = wire.encode(wire.ClientHello(wire.PROTOCOL_VERSION))
            puts = [wire.encode(wire.Request(n, 2000, Put(("r",), bytes([n])))) for n in (1, 2, 3)]
            connection = _talk(world, "client", leader, hello, *puts[:2])
            answered = [wire.decode_answer(await connection.receive()).id for _ in puts[:2]]
            for message in puts:
                connection.send(message)
            answer = wire.decode_answer(await connection.receive())
            assert [*answered, answer.id] == [1, 2, 3]
            assert answer.outcome == Done(Properties(b"\x03", 3, 1, 0))
        finally:
            await world.close()

    in_virtual_time(check())


def test_a_refused_request_of_a_peer_that_comes_again_is_not_carried_out_later() -> None:
    """Its client was told that it certainly did not happen."""

    async def check() -> None:
        world = World(THREE)
        try:
            await world.start("n1", "n2")
            leader = await world.leader()
            node = "n1" if leader == "n2" else "n2"
            first, second = [Put(("r",), bytes([n])) for n in (1, 2)]
            hello = wire.encode(wire.PeerHello(wire.PROTOCOL_VERSION, "n3", node))
            forward = wire.encode_peer(wire.Forward(7, 1, first))
            connection = _talk(world, "n3", node, hello, forward)
            await asyncio.sleep(0.05)
            while await world.leader() != node:
                await world.kill(leader)
                await world.start(leader)
            connection.send(forward)
            connection.send(wire.encode_peer(wire.Forward(7, 2, second)))

            async def second_is_there() -> list[bytes] | None:
                commands = await _commands(world, node)
                return commands if encode_command(second) in commands else None

            assert encode_command(first) not in await eventually(second_is_there)
        finally:
            await world.close()

    in_virtual_time(check())


@pytest.mark.parametrize(
    "first",
    [
        wire.encode(wire.Request(1, 1000, Get(("r",)))),
        wire.encode_peer(Append(1, 0, 0, 0, 0)),
        wire.encode_peer(wire.Forward(1, 1, Get(("r",)))),
        wire.ALIVE,
    ],
    ids=["request", "consensus", "forward", "sign of life"],
)
def test_whatever_comes_instead_of_a_hello_ends_the_connection(first: bytes) -> None:
    async def check() -> None:
        world = World(THREE)
        try:
            await world.start()
            connection = _talk(world, "n2", "n1", first)
            with pytest.raises(ConnectionError):
                await connection.receive()
            assert world.failures == []
        finally:
            await world.close()

    in_virtual_time(check())


@pytest.mark.parametrize(
    "hello", [wire.ClientHello(wire.PROTOCOL_VERSION), wire.PeerHello(wire.PROTOCOL_VERSION, "n2", "n1")]
)
def test_a_hello_that_comes_twice_ends_the_connection(hello: wire.Hello) -> None:
    async def check() -> None:
        world = World(THREE)
        try:
            await world.start()
            connection = _talk(world, "n2", "n1", wire.encode(hello), wire.encode(hello))
            with pytest.raises(ConnectionError):
                await connection.receive()
            assert world.failures == []
        finally:
            await world.close()

    in_virtual_time(check())


class TestArrivals:
    def test_each_number_is_new_once_in_any_order(self) -> None:
        arrivals = Arrivals()
        assert [arrivals.is_first(n) for n in (3, 1, 3, 2, 1, 2, 4)] == [True, True, False, True, False, False, True]

    def test_what_is_too_old_to_be_known_counts_as_a_repeat(self) -> None:
        arrivals = Arrivals()
        assert arrivals.is_first(WINDOW + 10)
        assert arrivals.is_first(11)
        assert not arrivals.is_first(10)

    def test_a_node_may_know_fewer(self) -> None:
        arrivals = Arrivals(4)
        assert arrivals.is_first(14)
        assert arrivals.is_first(11)
        assert not arrivals.is_first(10)

    def test_it_remembers_a_bounded_number_and_forgets_none_that_could_pass_for_new(self) -> None:
        arrivals = Arrivals()
        numbers = range(1, 5 * WINDOW)
        assert all(arrivals.is_first(n) for n in numbers)
        assert not any(arrivals.is_first(n) for n in numbers)
        assert len(arrivals._recent) <= 2 * WINDOW + 1  # pyright: ignore[reportPrivateUsage]
