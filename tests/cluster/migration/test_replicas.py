"""A migration of replicated tables: three table nodes, clients on each, one node migrates (M2K-4)."""

from __future__ import annotations

import random
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import pytest

from splitbrain.cluster.entities import queues, vhosts
from splitbrain.cluster.entities.store import LocalStore, Operation
from splitbrain.cluster.entities.tables import REGISTER
from splitbrain.cluster.migration.converters import of_entities
from splitbrain.cluster.migration.dispatch import FallbackStore
from splitbrain.cluster.migration.machine import Migration
from splitbrain.cluster.migration.shell import Shell, TreeSwitch
from splitbrain.cluster.migration.steps import Ended
from splitbrain.cluster.tables.effects import Effect, LogChanges
from splitbrain.cluster.tables.entities.layout import QUEUE
from splitbrain.cluster.tables.entities.store import TablesStore
from splitbrain.cluster.tables.records import Change, Contents, Item, Put
from splitbrain.cluster.tree import NEWEST_VERSION, Tree
from tests.cluster.migration.interrupted import FUNCTIONS, Pause
from tests.cluster.tables.simulation import Cluster
from tests.cluster.tables.test_tables_entities import OfNode

Subscriber = Callable[[Sequence[Change]], None]


class Observed(Cluster):
    """A simulated cluster of table nodes that says what each replica applies."""

    def __init__(self, seed: int) -> None:
        self.subscribers: dict[str, list[Subscriber]] = {"n1": [], "n2": [], "n3": []}
        super().__init__(["n1", "n2", "n3"], seed)

    def _carry_out(self, name: str, effects: Sequence[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, LogChanges):
                for subscriber in self.subscribers[name]:
                    subscriber(effect.changes)
        super()._carry_out(name, effects)


class Replica(OfNode):
    """One node's tables as a migration sees them."""

    def __init__(self, cluster: Observed, node: str) -> None:
        super().__init__(cluster, node)
        self.of = cluster
        self.node = node

    def contents(self) -> Contents:
        return self.of.node(self.node).database.tables.contents()

    def problem(self) -> str | None:
        return None  # a replica that is killed copies the tables of the others, closed, when it starts

    def subscribe(self, subscriber: Subscriber) -> Callable[[], None]:
        self.of.subscribers[self.node].append(subscriber)
        return lambda: self.of.subscribers[self.node].remove(subscriber)


class Pausing(LocalStore):
    """A tree whose changes take a while."""

    async def change(self, operation: Operation, data: Any) -> Any:
        await Pause()
        changed = await super().change(operation, data)
        await Pause()
        return changed


class World:
    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.cluster = Observed(seed)
        self.tree = Tree(version=NEWEST_VERSION, functions=FUNCTIONS)
        for command in REGISTER:
            self.tree.execute(command)
        self.alive: set[str] = set()
        self.wrong: list[str] = []
        self.models = {name: set[str]() for name in self.cluster.names}
        self.stores = {name: self.store(name) for name in self.cluster.names}

    def store(self, node: str) -> FallbackStore:
        tree = LocalStore(self.tree)
        return FallbackStore(TablesStore(OfNode(self.cluster, node)), tree, TreeSwitch(tree, self.progress))

    async def is_alive(self, owner: str) -> bool:
        return owner in self.alive

    async def progress(self) -> None:
        await Pause()

    def wall_ms(self) -> int:
        return self.cluster.now_ms

    async def client(self, node: str, operations: int) -> None:
        """Declares, deletes and looks at queues of its own, beside a model."""
        store, model = self.stores[node], self.models[node]
        await vhosts.declare(store, node)
        for _ in range(operations):
            name = f"q{self.rng.randrange(8)}"
            drawn = self.rng.random()
            if drawn < 0.5:
                await queues.declare(store, node, name)
                model.add(name)
            elif drawn < 0.8:
                if await queues.delete(store, node, name) != (name in model):
                    self.wrong.append(f"{node}: delete {name}")
                model.discard(name)
            elif {each.name for each in await queues.every(store) if each.vhost == node} != model:
                self.wrong.append(f"{node}: look at {self.cluster.now_ms}")

    def migrate(self, node: str, owner: str) -> Coroutine[Any, Any, Ended]:
        self.alive.add(owner)
        shell = Shell(Pausing(self.tree), Replica(self.cluster, node), self)
        return shell.run(Migration(owner, of_entities(), 1).steps())

    def advance(self, tasks: list[Coroutine[Any, Any, Any]]) -> list[Any]:
        """All of them for a while; what those gave that ended."""
        ended: list[Any] = []
        for task in list(tasks):
            try:
                task.send(None)
            except StopIteration as end:
                ended.append(end.value)
                tasks.remove(task)
        self.cluster.run(self.rng.choice((1, 3, 10)))
        return ended

    def check(self) -> None:
        assert self.wrong == []
        found = [(each.vhost, each.name) for each in self._all_queues()]
        assert sorted(found) == sorted((node, name) for node, model in self.models.items() for name in model)

    def _all_queues(self) -> Any:
        reading = queues.every(LocalStore(self.tree))
        try:
            reading.send(None)
        except StopIteration as end:
            return end.value
        raise AssertionError("a tree in this process waits for nothing")


@pytest.mark.parametrize("seed", range(5))
def test_m2k_4_clients_of_all_nodes_go_on_while_one_node_migrates(seed: int) -> None:
    world = World(seed)
    clients: list[Coroutine[Any, Any, Any]] = [world.client(node, 60) for node in world.cluster.names]
    for _ in range(200):
        world.advance(clients)
    migration: list[Coroutine[Any, Any, Any]] = [world.migrate("n2", "n2-1")]
    ends: list[Any] = []
    while migration:
        ends += world.advance(migration)
        world.advance(clients)
    assert ends == [Ended("finished")]
    while clients:
        world.advance(clients)
    world.check()


@pytest.mark.parametrize("seed", range(5))
def test_m2k_4_the_node_that_migrates_is_killed_and_another_one_begins_anew(seed: int) -> None:
    world = World(seed)
    clients: list[Coroutine[Any, Any, Any]] = [world.client(node, 80) for node in ("n1", "n3")]
    for _ in range(150):
        world.advance(clients)
    first: list[Coroutine[Any, Any, Any]] = [world.migrate("n2", "n2-1")]
    for _ in range(10 + 8 * seed):
        world.advance(first)
        world.advance(clients)
    for task in first:
        task.close()
    world.cluster.kill("n2")
    world.alive = set()
    second: list[Coroutine[Any, Any, Any]] = [world.migrate("n3", "n3-1")]
    ends: list[Any] = []
    while second:
        ends += world.advance(second)
        world.advance(clients)
    assert ends == [Ended("finished")]
    while clients:
        world.advance(clients)
    world.check()


def test_d5_large_tables_are_removed_though_each_record_takes_a_lock_on_all_replicas() -> None:
    """One transaction for all of them would miss its deadline each time, so that the tables stayed for ever."""
    cluster = Observed(1)
    cluster.run(5_000)
    records = [Put(Item(QUEUE, f"v/q{at}"), {"name": at}) for at in range(600)]
    for name in cluster.names:
        cluster.node(name).database.tables.apply(records)
    tables = OfNode(cluster, "n1")

    async def remove() -> list[Any]:
        await tables.run("set_access", ("retired", 2))
        left = [await tables.run("drop_entities", (2,))]
        while left[-1]:
            left.append(await tables.run("drop_entities", (2,)))
        return left

    removing: list[Coroutine[Any, Any, Any]] = [remove()]
    ends: list[Any] = []
    while removing:
        try:
            removing[0].send(None)
            cluster.run(10)
        except StopIteration as end:
            ends.append(end.value)
            removing.clear()
    assert ends == [[500, 400, 300, 200, 100, 0]]
    cluster.run(1_000)
    assert not any(cluster.node(name).database.tables.keys(QUEUE) for name in cluster.names)
