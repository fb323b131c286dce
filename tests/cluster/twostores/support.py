"""Nodes with two stores in one event loop, and steps of a migration at which a node is stopped."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager

import pytest

from splitbrain.cluster.bugs import NO_BUGS, Bugs
from splitbrain.cluster.client import Client, ClientError, OutcomeUnknownError
from splitbrain.cluster.entities import queues, vhosts
from splitbrain.cluster.entities.client import ClientStore
from splitbrain.cluster.flags.registry import KHEPRI_DB
from splitbrain.cluster.migration.converters import Converter
from splitbrain.cluster.migration.shell import Shell
from splitbrain.cluster.migration.steps import Effect, Event
from splitbrain.cluster.migration.treewrites import add_functions
from splitbrain.cluster.node import Node, NodeConfig
from splitbrain.cluster.registered import BUILT_IN
from splitbrain.cluster.runtime import Runtime
from splitbrain.cluster.tree import Functions
from splitbrain.cluster.twostores.mover import Mover
from tests.cluster.support import FAST, LoopRng, World, eventually

THREE = ["n1", "n2", "n3"]
ANSWER_MS = 4_000


class TwoStoresWorld(World):
    """Three founders, each with a replica of the tables and a member of the tree."""

    def __init__(self, names: Sequence[str] = THREE, bugs: Bugs = NO_BUGS, strategy: str = "ignore") -> None:
        super().__init__(list(names), bugs=bugs)
        self.strategy = strategy
        of_migration = Functions()
        add_functions(of_migration)
        self.functions = Functions.of(BUILT_IN, of_migration)
        self.starts = 0
        self.converters: tuple[Converter, ...] = ()

    def runtime(self, name: str) -> Runtime:
        """Each process draws other numbers: by its life a replica of the tables knows that another one is new."""
        self.starts += 1
        made = super().runtime(name)
        return Runtime(
            clock=made.clock,
            rng=LoopRng(f"{name} {self.starts}"),
            network=made.network,
            disk=made.disk,
            spawn=made.spawn,
            telemetry=made.telemetry,
            log=made.log,
        )

    async def start(self, *names: str) -> None:
        for name in names or self.names:
            config = NodeConfig(
                name,
                (name, 1),
                {peer: (peer, 1) for peer in self.names if peer != name},
                FAST,
                self.bugs,
                tuple(THREE),
                self.incarnations.get(name, 0),
                store="tables",
                functions=self.functions,
                partition_strategy=self.strategy,
                converters=self.converters,
            )
            node = Node(config, self.runtime(name))
            await node.start()
            self.nodes[name] = node

    def of_tables(self, name: str) -> list[dict[str, object]]:
        """What the tables of a node have reported."""
        return [row for row in self.telemetry[name] if row.get("group") == ":tables"]

    async def entities(self, name: str, timeout_ms: int = ANSWER_MS) -> ClientStore:
        """A client of a node."""
        return ClientStore(await self.client(name), timeout_ms)

    async def first(self, *, count: int = 12) -> list[str]:
        """Start all nodes, and declare queues; their names."""
        await self.start()
        await self.leader()
        names = [f"q{number:02}" for number in range(count)]

        async def declared() -> bool | None:
            try:
                store = await self.entities("n1")
                await vhosts.declare(store, "/")
                for name in names:
                    await queues.declare(store, "/", name)
            except ClientError:
                return None
            return True

        await eventually(declared, 60)
        assert await self.all_see() == ("tables", names)
        return names

    async def seen(self, name: str, within_s: float = 60.0) -> tuple[str, list[str]]:
        """The store that answers a node's client, and the queues there."""

        async def answered() -> tuple[str, list[str]] | None:
            client = await self.client(name)
            try:
                found = sorted(each.name for each in await queues.every(ClientStore(client, ANSWER_MS)))
                return (await client.stores()).store, found
            except ClientError:
                return None

        return await eventually(answered, within_s)

    async def all_see(self, *names: str, within_s: float = 60.0) -> tuple[str, list[str]]:
        """What all of these nodes answer, once it is the same; all that run, if none is named."""

        async def same() -> tuple[str, list[str]] | None:
            first, *others = [await self.seen(name, within_s) for name in names or tuple(self.nodes)]
            return first if all(each == first for each in others) else None

        return await eventually(same, within_s)

    async def migrated(self, name: str = "n1", within_s: float = 120.0) -> None:
        """Ask until the entities have moved."""

        async def asked() -> bool | None:
            try:
                await (await self.client(name)).migrate(timeout_ms=20_000)
            except ClientError:
                await asyncio.sleep(0.2)
                return None
            return True

        await eventually(asked, within_s)

    async def rolled_back(self, name: str = "n1") -> None:
        """Ask for the tables until they are in force."""

        async def asked() -> bool | None:
            try:
                state = await (await self.client(name)).roll_back(timeout_ms=20_000)
            except OutcomeUnknownError:
                return None
            return state.store == "tables" or None

        await eventually(asked, 60)

    async def flag(self, client: Client) -> str:
        """The state of the feature flag."""
        return next(each.state for each in await client.feature_flags() if each.name == KHEPRI_DB)

    async def end(self) -> None:
        """End all nodes; none of them failed."""
        assert self.failures == []
        await self.close()


class Stop:
    """Where a machine of the migration stops: its process hangs there until it is killed, or `go_on`.

    Attributes:
        reached: once it has stopped.
        node: of the process that hangs.
        seen: the effects that were to be carried out before.
    """

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self.node = ""
        self.seen: list[str] = []
        self.goes_on = asyncio.Event()

    def go_on(self) -> None:
        """Let the process that hangs go on."""
        self.goes_on.set()

    async def within(self, seconds: float = 60.0) -> str:
        """The node that hangs there."""
        await asyncio.wait_for(self.reached.wait(), seconds)
        return self.node


@contextmanager
def stops(monkeypatch: pytest.MonkeyPatch, at: Callable[[Effect], bool], *, after: bool) -> Generator[Stop]:
    """Let the first process hang that comes to such an effect, before or after it carries that out."""
    stop = Stop()
    carried_out = Shell.carry_out

    async def carry_out(self: Shell, effect: Effect) -> Event:
        stop.seen.append(type(effect).__name__)
        hangs = not stop.node and at(effect)
        if hangs:
            mover = self._surroundings  # pyright: ignore[reportPrivateUsage] - which node it is says nothing else
            assert isinstance(mover, Mover)
            stop.node = mover._owner.partition(":")[0]  # pyright: ignore[reportPrivateUsage]
        if hangs and not after:
            stop.reached.set()
            await stop.goes_on.wait()
        happened = await carried_out(self, effect)
        if hangs:
            stop.reached.set()
            await stop.goes_on.wait()
        return happened

    with monkeypatch.context() as patched:
        patched.setattr(Shell, "carry_out", carry_out)
        yield stop
