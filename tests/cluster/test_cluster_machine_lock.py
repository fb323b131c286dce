"""A lock that is freed when its holder's client is gone: a machine that monitors clients, under faults (RA-24)."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

import msgspec
import pytest

from splitbrain.cluster.client import Client, ClusterError, MismatchingNodeError, connect
from splitbrain.cluster.machine import (
    ClientDown,
    DemonitorClient,
    DemonitorNode,
    EffectCommand,
    MachineEffect,
    MonitorClient,
    MonitorNode,
    NodeUp,
    WithEffects,
)
from splitbrain.cluster.raft import Entry
from splitbrain.cluster.runtime import Runtime
from splitbrain.cluster.store import Store
from splitbrain.cluster.tree import CompareAndSwap, Done, Increment, Put, Result
from splitbrain.cluster.wire import ClientAddress
from tests.cluster.support import LoopRng, World, eventually, in_virtual_time

THREE = ["n1", "n2", "n3"]
FREE = msgspec.msgpack.encode(None)
LOCK, FREED = ("lock",), ("freed",)

_decoder: msgspec.msgpack.Decoder[CompareAndSwap | EffectCommand] = msgspec.msgpack.Decoder(
    CompareAndSwap | EffectCommand
)


class Locking(Store):
    """Who swaps nothing for its address at /lock holds the lock, until it swaps back, or is gone.

    A holder whose node cannot be reached keeps it; the machine asks for it again when that node is there again.
    """

    def apply(self, entry: Entry) -> Result | WithEffects | None:
        before = self.holder
        result = super().apply(entry)
        if entry.kind != "command" or result is None or isinstance(result, WithEffects):
            return result
        try:
            command = _decoder.decode(entry.data)
        except msgspec.ValidationError:
            return result
        match command:
            case CompareAndSwap(path) if path == LOCK and isinstance(result, Done):
                return WithEffects(result, (*leave(before), *watch(self.holder)))
            case ClientDown(client, "gone") if client == before:
                self.tree.execute(Put(LOCK, FREE))
                self.tree.execute(Increment(FREED, 1))
                return WithEffects(result, leave(before))
            case NodeUp(node) if before is not None and before.node == node:
                return WithEffects(result, (MonitorClient(before),))
            case _:
                return result

    def begin_leading(self) -> Sequence[MachineEffect]:
        return watch(self.holder)

    @property
    def holder(self) -> ClientAddress | None:
        properties = self.tree.properties(LOCK)
        if properties is None or properties.payload in (None, FREE):
            return None
        assert isinstance(properties.payload, bytes)
        return ClientAddress(*msgspec.msgpack.decode(properties.payload, type=tuple[str, int, int]))


def watch(client: ClientAddress | None) -> tuple[MachineEffect, ...]:
    return () if client is None else (MonitorNode(client.node), MonitorClient(client))


def leave(client: ClientAddress | None) -> tuple[MachineEffect, ...]:
    return () if client is None else (DemonitorClient(client), DemonitorNode(client.node))


class NewLives(World):
    """Each start of a node draws another life."""

    def __init__(self) -> None:
        super().__init__(THREE)
        self._starts = 0

    def runtime(self, name: str) -> Runtime:
        self._starts += 1
        return replace(super().runtime(name), rng=LoopRng(f"{name} {self._starts}"))


async def with_lock(check: Callable[[World], Awaitable[None]]) -> None:
    world = NewLives()
    world.store = Locking
    try:
        await world.start()
        client = await world.client(await world.leader())
        await client.put("/lock", None)
        await check(world)
        assert world.failures == []
    finally:
        await world.close()


async def outside(world: World, name: str) -> Client:
    """A client that faults between nodes do not touch."""
    return await connect(world.dial("holder", name))


async def held_by(world: World, name: str) -> Client:
    """A new client of a node, which holds the lock."""
    client = await outside(world, name)
    address = await client.address()

    async def taken() -> bool | None:
        try:
            await client.compare_and_swap("/lock", None, [address.node, address.life, address.number])
        except MismatchingNodeError:
            return await value(world, "/lock") == [address.node, address.life, address.number] or None
        except ClusterError:
            return None
        return True

    await eventually(taken)
    return client


async def value(world: World, path: str) -> object:
    """What a majority says."""

    async def read() -> tuple[object] | None:
        for name in list(world.nodes):
            client = await outside(world, name)
            try:
                return ((await client.get(path, timeout_ms=300)).value,)
            except ClusterError:
                continue
            finally:
                client.abort()
        return None

    return (await eventually(read))[0]


async def comes_to(world: World, path: str, wanted: object) -> None:
    async def there() -> bool | None:
        return await value(world, path) == wanted or None

    await eventually(there)


@pytest.mark.parametrize("where", ["leader", "follower"])
def test_ra24_a_machine_hears_once_that_a_client_is_gone(where: str) -> None:
    async def check(world: World) -> None:
        leader = await world.leader()
        node = leader if where == "leader" else next(name for name in THREE if name != leader)
        client = await held_by(world, node)
        await asyncio.sleep(1)
        assert await value(world, "/lock") is not None
        await client.close()
        await comes_to(world, "/lock", None)
        await asyncio.sleep(1)
        assert await value(world, "/freed") == 1

    in_virtual_time(with_lock(check))


def test_ra24_a_client_that_cannot_be_reached_is_not_gone() -> None:
    async def check(world: World) -> None:
        leader = await world.leader()
        node = next(name for name in THREE if name != leader)
        client = await held_by(world, node)
        world.isolate(node)
        await asyncio.sleep(2)
        assert await value(world, "/lock") is not None
        world.cut = set()
        await asyncio.sleep(2)
        assert await value(world, "/lock") is not None
        await client.close()
        await comes_to(world, "/lock", None)

    in_virtual_time(with_lock(check))


def test_ra24_a_client_that_left_before_it_is_monitored_is_reported_at_once() -> None:
    async def check(world: World) -> None:
        gone = await outside(world, "n1")
        address = await gone.address()
        await gone.close()
        client = await outside(world, "n2")
        await client.compare_and_swap("/lock", None, [address.node, address.life, address.number])
        await comes_to(world, "/lock", None)
        assert await value(world, "/freed") == 1

    in_virtual_time(with_lock(check))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", range(6))
def test_ra24_under_kills_and_partitions_the_lock_is_freed_once_for_each_holder_that_went(seed: int) -> None:
    async def check(world: World) -> None:
        rng = random.Random(seed)
        for number in range(1, 7):
            node = rng.choice(THREE)
            client = await held_by(world, node)
            world.isolate(*rng.sample(THREE, rng.randint(0, 1)))
            killed = rng.choice(THREE)
            await world.kill(killed)
            if killed != node:
                await asyncio.sleep(rng.random())
                await client.close()
            await asyncio.sleep(rng.random())
            await world.start(killed)
            world.cut = set()
            await comes_to(world, "/lock", None)
            await asyncio.sleep(0.5)
            assert await value(world, "/freed") == number

    in_virtual_time(with_lock(check))


@pytest.mark.parametrize("seed", range(4))
def test_ra24_a_holder_that_stays_keeps_the_lock_through_changes_of_leader(seed: int) -> None:
    async def check(world: World) -> None:
        rng = random.Random(seed)
        node = rng.choice(THREE)
        client = await held_by(world, node)
        for _ in range(6):
            other = rng.choice([name for name in THREE if name != node])
            if rng.random() < 0.5:
                world.isolate(rng.choice(THREE))
                await asyncio.sleep(rng.random())
                world.cut = set()
            else:
                await world.kill(other)
                await asyncio.sleep(rng.random())
                await world.start(other)
            await asyncio.sleep(rng.random())
        assert await value(world, "/lock") is not None
        await client.close()
        await comes_to(world, "/lock", None)

    in_virtual_time(with_lock(check))
