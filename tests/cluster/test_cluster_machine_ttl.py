"""Leases that end at a time: a machine that sets timers by the wall clock, under faults (RA-24)."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence

import msgspec
import pytest

from splitbrain.cluster.client import Client
from splitbrain.cluster.machine import EffectCommand, MachineEffect, SetTimerAt, Timeout, WithEffects
from splitbrain.cluster.raft import Entry
from splitbrain.cluster.store import Store
from splitbrain.cluster.tree import Children, Increment, Names, Put, Result
from tests.cluster.support import LoopClock, World, eventually, in_virtual_time

THREE = ["n1", "n2", "n3"]
ENDED = msgspec.msgpack.encode(None)

_decoder: msgspec.msgpack.Decoder[Put | EffectCommand] = msgspec.msgpack.Decoder(Put | EffectCommand)


class Leasing(Store):
    """What is put below /lease is the time, in ms since the epoch, at which that ends: it becomes nothing then."""

    def apply(self, entry: Entry) -> Result | WithEffects | None:
        result = super().apply(entry)
        if entry.kind != "command" or result is None or isinstance(result, WithEffects):
            return result
        try:
            command = _decoder.decode(entry.data)
        except msgspec.ValidationError:
            return result
        match command:
            case Put(("lease", name)):
                return WithEffects(result, self._timer(name))
            case Timeout(name):
                self.tree.execute(Put(("lease", name), ENDED))
                self.tree.execute(Increment(("ended", name), 1))
                return result
            case _:
                return result

    def begin_leading(self) -> Sequence[MachineEffect]:
        found = self.query(Children(("lease",)))
        names = found.names if isinstance(found, Names) else ()
        return [effect for name in names for effect in self._timer(name)]

    def _timer(self, name: str) -> tuple[MachineEffect, ...]:
        properties = self.tree.properties(("lease", name))
        ends = (properties and properties.payload) or ENDED
        assert isinstance(ends, bytes)
        at_ms: int | None = msgspec.msgpack.decode(ends)
        return () if at_ms is None else (SetTimerAt(name, at_ms),)


def now_ms() -> int:
    return LoopClock().wall_ns() // 1_000_000


def leasing(check: Callable[[World], Awaitable[None]]) -> None:
    async def run() -> None:
        world = World(THREE)
        world.store = Leasing
        try:
            await world.start()
            await check(world)
            assert world.failures == []
        finally:
            await world.close()

    in_virtual_time(run())


async def ends(client: Client, name: str) -> int:
    """When a lease was seen to have ended, once, in ms since the epoch."""

    async def ended() -> bool | None:
        return (await client.get(f"/lease/{name}")).value is None or None

    await eventually(ended)
    seen = now_ms()
    await asyncio.sleep(0.5)
    assert (await client.get(f"/ended/{name}")).value == 1
    return seen


def test_ra24_a_timer_runs_out_at_its_time_and_at_once_if_that_is_past() -> None:
    async def check(world: World) -> None:
        client = await world.client(await world.leader())
        at = now_ms() + 700
        await client.put("/lease/a", at)
        await client.put("/lease/past", 5)
        assert await ends(client, "past") < at
        assert at <= await ends(client, "a") < at + 100

    leasing(check)


def test_ra24_a_timer_that_is_set_again_runs_out_at_its_later_time_only() -> None:
    async def check(world: World) -> None:
        client = await world.client(await world.leader())
        at = now_ms() + 900
        await client.put("/lease/a", at - 500)
        await client.put("/lease/a", at)
        assert at <= await ends(client, "a") < at + 100

    leasing(check)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", range(6))
def test_ra24_kills_and_partitions_do_not_put_off_the_time_nor_bring_it_forward(seed: int) -> None:
    async def check(world: World) -> None:
        rng = random.Random(seed)
        client = await world.client(await world.leader())
        at = now_ms() + 6000
        await client.put("/lease/a", at)
        for _ in range(4):
            leader = await world.leader()
            if rng.random() < 0.5:
                world.isolate(leader)
            else:
                await world.kill(leader)
            await asyncio.sleep(rng.uniform(0.3, 0.8))
            world.cut = set()
            if leader not in world.nodes:
                await world.start(leader)
        assert now_ms() < at
        client = await world.client(await world.leader())
        assert at <= await ends(client, "a") < at + 100

    leasing(check)
