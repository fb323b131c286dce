"""What the tests of the cluster share: a disk that loses what was not synced, a network in memory, nodes on both."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec
import pytest

from splitbrain.cluster.bugs import NO_BUGS, Bug, Bugs
from splitbrain.cluster.client import Client, connect
from splitbrain.cluster.node import Node, NodeConfig
from splitbrain.cluster.permits import ANY_AMOUNT
from splitbrain.cluster.raft import Config, Entry
from splitbrain.cluster.raft.events import Written
from splitbrain.cluster.registered import BUILT_IN
from splitbrain.cluster.replicas import ReplicaSettings
from splitbrain.cluster.runtime import Address, Connection, Runtime, Timer
from splitbrain.cluster.snapshotting import CHECKPOINT_INTERVAL, CHUNK_BYTES, SNAPSHOT_INTERVAL
from splitbrain.cluster.storage import WAL_BYTES
from splitbrain.cluster.store import Store
from splitbrain.cluster.stream import MAX_MESSAGE_BYTES
from splitbrain.cluster.tree import NEWEST_VERSION, Functions
from tests.harness import virtual

SECTOR = 32
"""Small, so that short logs already span many."""

FAST = Config(heartbeat_ms=10, election_min_ms=60, election_max_ms=120)


def entry(index: int, term: int = 1, data: bytes = b"") -> Entry:
    return Entry(index, term, "command" if data else "noop", data)


def written(*entries: Entry) -> Written:
    return Written(entries[-1].index, entries[-1].term, 0)


# --- disk ---------------------------------------------------------------------------------------------------------


@dataclass
class _Content:
    cached: bytearray = field(default_factory=bytearray)
    durable: bytes = b""


class FakeFile:
    def __init__(self, disk: FakeDisk, content: _Content) -> None:
        self._disk = disk
        self._content = content

    def append(self, data: bytes) -> None:
        self._content.cached += data
        self._disk.calls.append("append")

    async def sync(self) -> None:
        covered = bytes(self._content.cached)
        await self._disk.pause()
        if self._disk.broken:
            raise OSError(5, "Input/output error")
        self._content.durable = covered
        self._disk.calls.append("sync")

    def truncate(self, size: int) -> None:
        del self._content.cached[size:]

    def close(self) -> None:
        pass


class Draws:
    """The stream of randomness of a node."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def between(self, low: int, high: int) -> int:
        return self._random.randint(low, high)


class FakeDisk:
    """A directory in memory that knows what was synced.

    Attributes:
        calls: append, sync and replace, in the order in which they took effect.
        gate: while it is not set, nothing becomes durable.
        broken: syncing fails.
    """

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.gate: asyncio.Event | None = None
        self.broken = False
        self._files: dict[str, _Content] = {}
        self._durable: dict[str, _Content] = {}

    async def pause(self) -> None:
        await asyncio.sleep(0)
        if self.gate is not None:
            await self.gate.wait()

    def names(self) -> list[str]:
        return sorted(self._files)

    def has(self, name: str) -> bool:
        return name in self._files

    def read(self, name: str) -> bytes | None:
        content = self._files.get(name)
        return None if content is None else bytes(content.cached)

    def open(self, name: str) -> FakeFile:
        return FakeFile(self, self._files.setdefault(name, _Content()))

    async def replace(self, name: str, data: bytes) -> None:
        await self.pause()
        self._files[name] = _Content(bytearray(data), data)
        await self.sync_names()
        self.calls.append(f"replace {name}")

    def rename(self, source: str, target: str) -> None:
        self._files[target] = self._files.pop(source)

    def remove(self, name: str) -> None:
        self._files.pop(name, None)

    async def sync_names(self) -> None:
        names = dict(self._files)
        await self.pause()
        self._durable = names

    def put(self, name: str, data: bytes) -> None:
        """Lay a file down, durably."""
        self._files[name] = self._durable[name] = _Content(bytearray(data), data)

    def crash(self, rng: random.Random) -> FakeDisk:
        """What a loss of power leaves: of what was not synced any sectors, the others zeroed, up to any length; of
        names those that were synced."""
        left = FakeDisk()
        for name, content in self._durable.items():
            data = bytearray(content.cached)
            safe = len(content.durable)
            assert data[:safe] == content.durable, "what was synced was changed"
            for start in range(safe // SECTOR * SECTOR, len(data), SECTOR):
                begin, end = max(start, safe), min(start + SECTOR, len(data))
                if rng.random() < 0.3:
                    data[begin:end] = bytes(end - begin)
            left.put(name, bytes(data[: rng.randint(safe, len(data))]))
        return left


# --- network ------------------------------------------------------------------------------------------------------


class Carriage:
    """How messages fare within a connection: each may be lost, repeated, and overtaken by later ones."""

    def __init__(self, seed: int, *, lose: float = 0.0, repeat: float = 0.0, late_ms: int = 0) -> None:
        self._rng = random.Random(seed)
        self._lose, self._repeat, self._late_ms = lose, repeat, late_ms
        self.lost = self.repeated = 0

    def calm(self) -> None:
        """From now on every message arrives once, at once."""
        self._lose = self._repeat = 0.0
        self._late_ms = 0

    def delays_s(self) -> list[float]:
        """The delay of each copy that arrives."""
        if self._rng.random() < self._lose:
            self.lost += 1
            return []
        copies = 2 if self._rng.random() < self._repeat else 1
        self.repeated += copies - 1
        return [self._rng.random() * self._late_ms / 1000 for _ in range(copies)]


class MemoryConnection:
    """One end of a connection. What is sent over a cut link disappears, and the connection with it after a while."""

    def __init__(self, passes: Callable[[], bool], carriage: Carriage | None = None) -> None:
        self._passes = passes
        self._carriage = carriage
        self._inbox: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._closed = False
        self.other: MemoryConnection

    def send(self, message: bytes) -> None:
        if len(message) > MAX_MESSAGE_BYTES:
            raise ValueError(f"a message of {len(message)} bytes is longer than {MAX_MESSAGE_BYTES}.")
        if self._closed or self.other._closed:
            return
        if not self._passes():
            self.break_off()
        elif self._carriage is None:
            self.other._inbox.put_nowait(message)
        else:
            for delay_s in self._carriage.delays_s():
                asyncio.get_running_loop().call_later(delay_s, self._arrive, message)

    def _arrive(self, message: bytes) -> None:
        if not self.other._closed:
            self.other._inbox.put_nowait(message)

    async def receive(self) -> bytes:
        if self._closed and self._inbox.empty():
            raise ConnectionError("closed")
        message = await self._inbox.get()
        if message is None:
            raise ConnectionError("the other side is gone")
        return message

    async def hand_over(self, take: Callable[[bytes], None]) -> None:
        while True:
            take(await self.receive())

    def close(self) -> None:
        self.break_off()

    def break_off(self) -> None:
        for end in (self, self.other):
            if not end._closed:
                end._closed = True
                end._inbox.put_nowait(None)


def connection_pair(
    passes: Callable[[], bool] = lambda: True, carriage: Carriage | None = None
) -> tuple[MemoryConnection, MemoryConnection]:
    here, there = MemoryConnection(passes, carriage), MemoryConnection(lambda: True, carriage)
    here.other, there.other = there, here
    return here, there


def both(bug: Bug) -> pytest.MarkDecorator:
    """A test runs with the switch off and on."""
    return pytest.mark.parametrize(("bugs", "broken"), [(NO_BUGS, False), (Bugs([bug.id]), True)])


class World:
    """Nodes in one event loop, links between them that can be cut, disks that outlive their nodes.

    Attributes:
        cut: directed links (source, destination) that swallow everything.
        carriage: how messages fare on connections that are made from now on, clients' included; None: well.
        founders: the nodes with which the cluster begins; none stands for all.
        groups: beside that of the metadata store.
        chunk_bytes: of a snapshot in one message.
        learners_first: who joins becomes a voter once it has caught up.
        incarnations: of nodes that lost their data.
        snapshot_interval: entries that a node applies between two snapshots.
        checkpoint_interval: the same of checkpoints.
        wal_bytes: a file of the write-ahead log that is longer is replaced.
        store: the state machine.
        functions: those that transactions, procedures and projections may name.
        functions_of: of nodes that know others.
        machine_versions: of nodes that do not support the newest version of the state machine, that which they do.
        flag_probes: of nodes that have feature flags for tests, how many.
        replicas: how those of queues are maintained.
        conversions: how much of classic queues a node may convert at once.
        sent: frames that arrived at nodes from other nodes, as (source, destination).
    """

    def __init__(self, names: list[str], config: Config = FAST, bugs: Bugs = NO_BUGS) -> None:
        self.names = names
        self.config = config
        self.bugs = bugs
        self.founders: tuple[str, ...] = ()
        self.groups: tuple[str, ...] = ()
        self.chunk_bytes = CHUNK_BYTES
        self.learners_first = False
        self.incarnations: dict[str, int] = {}
        self.snapshot_interval = SNAPSHOT_INTERVAL
        self.checkpoint_interval = CHECKPOINT_INTERVAL
        self.wal_bytes = WAL_BYTES
        self.store: type[Store] = Store
        self.functions: Functions = BUILT_IN
        self.functions_of: dict[str, Functions] = {}
        self.machine_versions: dict[str, int] = {}
        self.flag_probes: dict[str, int] = {}
        self.replicas = ReplicaSettings()
        self.conversions = ANY_AMOUNT
        self.cut: set[tuple[str, str]] = set()
        self.carriage: Carriage | None = None
        self.disks = {name: FakeDisk() for name in names}
        self.telemetry: dict[str, list[dict[str, object]]] = {name: [] for name in names}
        self.logs: dict[str, list[str]] = {name: [] for name in names}
        self.failures: list[BaseException] = []
        self.nodes: dict[str, Node] = {}
        self._accept: dict[str, Callable[[Connection], Awaitable[None]]] = {}
        self._tasks: dict[str, list[asyncio.Future[None]]] = {name: [] for name in names}
        self._connections: dict[str, list[MemoryConnection]] = {name: [] for name in names}

    async def start(self, *names: str) -> None:
        for name in names or self.names:
            peers = {peer: _address(peer) for peer in self.names if peer != name}
            incarnation = self.incarnations.get(name, 0)
            config = NodeConfig(
                name,
                _address(name),
                peers,
                self.config,
                self.bugs,
                self.founders,
                incarnation,
                self.snapshot_interval,
                self.checkpoint_interval,
                self.wal_bytes,
                self.groups,
                self.chunk_bytes,
                self.learners_first,
                machine_version=self.machine_versions.get(name, NEWEST_VERSION),
                functions=self.functions_of.get(name, self.functions),
                flag_probes=self.flag_probes.get(name, 0),
                replicas=self.replicas,
                conversions=self.conversions,
            )
            node = Node(config, self.runtime(name), self.store)
            await node.start()
            self.nodes[name] = node

    async def kill(self, name: str) -> None:
        self.nodes.pop(name, None)
        self._accept.pop(name)
        tasks, self._tasks[name] = self._tasks[name], []
        for connection in self._connections.pop(name):
            connection.break_off()
        self._connections[name] = []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def wipe(self, name: str) -> None:
        """End a node that runs, take all that it wrote, and have it start as another member from now on."""
        await self.kill(name)
        self.disks[name] = FakeDisk()
        self.incarnations[name] = self.incarnations.get(name, 0) + 1

    async def close(self) -> None:
        for name in list(self._accept):
            await self.kill(name)

    def isolate(self, *names: str) -> None:
        inside, outside = list(names), [name for name in self.names if name not in names]
        self.cut = {(a, b) for a in inside for b in outside} | {(b, a) for a in inside for b in outside}

    async def client(self, name: str) -> Client:
        return await connect(self.dial("client", name))

    def dial(self, source: str, name: str) -> MemoryConnection:
        here, there = connection_pair(lambda: (source, name) not in self.cut, self.carriage)
        self._connections[name].append(there)
        accept = self._accept[name]
        self._spawn(name, accept(there), "accept")
        return here

    async def leader(self, among: list[str] | None = None) -> str:
        """The leader of the highest term among these nodes, once a majority of all nodes follows it."""

        async def agreed() -> str | None:
            views = {name: self.nodes[name].status() for name in among or list(self.nodes)}
            top = max(views.values(), key=lambda view: view.term)
            agree = [view for view in views.values() if (view.term, view.leader) == (top.term, top.leader)]
            leads = top.leader in views and views[top.leader].role == "leader"
            return top.leader if leads and 2 * len(agree) > len(self.names) else None

        return await eventually(agreed)

    async def in_force(self, version: int, *names: str) -> None:
        """Wait until these nodes, or all that run, have applied the step to a version of the state machine."""

        async def met() -> bool | None:
            versions = [self.nodes[name].status().machine_version for name in names or self.nodes]
            return all(each == version for each in versions) or None

        await eventually(met)

    def runtime(self, name: str) -> Runtime:
        """The world of one process of a node; `start` uses it, and so does a test that starts nodes otherwise."""

        def log(line: str) -> None:
            self.logs[name].append(line)

        def telemetry(line: bytes) -> None:
            self.telemetry[name].append(msgspec.json.decode(line))

        return Runtime(
            clock=LoopClock(),
            rng=LoopRng(name),
            network=_Network(self, name),
            disk=self.disks[name],
            spawn=lambda awaitable, task: self._spawn(name, awaitable, task),
            telemetry=telemetry,
            log=log,
        )

    def _spawn(self, name: str, awaitable: Awaitable[None], task_name: str) -> None:
        def ended(task: asyncio.Future[None]) -> None:
            error = None if task.cancelled() else task.exception()
            if error is not None:
                self.failures.append(error)

        task = asyncio.ensure_future(awaitable)
        task.add_done_callback(ended)
        self._tasks[name].append(task)

    def serve(self, name: str, accept: Callable[[Connection], Awaitable[None]]) -> None:
        self._accept[name] = accept

    def serves(self, name: str) -> bool:
        return name in self._accept

    def reachable(self, source: str, name: str) -> bool:
        return self.serves(name) and (source, name) not in self.cut


class _Network:
    def __init__(self, world: World, node: str) -> None:
        self._world = world
        self._node = node

    async def connect(self, address: Address) -> Connection:
        await asyncio.sleep(0)
        if not self._world.serves(address[0]):
            raise ConnectionRefusedError("no process listens")
        if not self._world.reachable(self._node, address[0]):
            raise ConnectionError("no answer")
        return self._world.dial(self._node, address[0])

    async def listen(self, address: Address, accept: Callable[[Connection], Awaitable[None]]) -> None:
        self._world.serve(address[0], accept)


class LoopClock:
    def monotonic_ns(self) -> int:
        return round(asyncio.get_running_loop().time() * 1e9)

    def wall_ns(self) -> int:
        return _BEGAN_NS + self.monotonic_ns()

    def call_later(self, delay_ns: int, callback: Callable[[], None]) -> Timer:
        return asyncio.get_running_loop().call_later(delay_ns / 1e9, callback)

    async def sleep(self, delay_ns: int) -> None:
        await asyncio.sleep(delay_ns / 1e9)


class LoopRng:
    def __init__(self, seed: str) -> None:
        self._random = random.Random(seed)

    def between(self, low: int, high: int) -> int:
        return self._random.randint(low, high)


def _address(name: str) -> Address:
    return name, 1


_BEGAN_NS = 1_700_000_000_000_000_000
"""Some moment of a wall clock."""

T = TypeVar("T")
W = TypeVar("W", bound=World)


def in_cluster(world: W, check: Callable[[W], Awaitable[None]]) -> None:
    """Start all nodes, run the check, and end the nodes."""

    async def run() -> None:
        try:
            await world.start()
            await check(world)
        finally:
            await world.close()

    in_virtual_time(run())


def in_virtual_time(story: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that does no real I/O, on virtual time."""
    return virtual.in_virtual_time(lambda _: story)


async def eventually(ask: Callable[[], Awaitable[T | None]], within_s: float = 10.0) -> T:
    """The first answer that is not None."""
    loop = asyncio.get_running_loop()
    end = loop.time() + within_s
    while loop.time() < end:
        answer = await ask()
        if answer is not None:
            return answer
        await asyncio.sleep(0.005)
    raise AssertionError(f"it did not come about within {within_s} s")
