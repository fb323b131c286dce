"""Scenarios One, Two and Three of the document on maintained replicas (S001), in memory, with faults around them.

    python -m tests.cluster.replicas.scenarios SEEDS [FIRST]    each scenario with so many seeds, from FIRST (0) on

Times are a tenth of the document's: a replica counts as failed after 6 s, or 9 s in Three. Until the scenario is over
A and B are killed and started, lose what they did not sync, and are cut off from each other and from C, in both
directions or in one, for less than that. D and E are spared: a node that cannot be reached is not selected.
"""

from __future__ import annotations

import asyncio
import random
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from typing import Final, TypeAlias

import msgspec

from splitbrain.cluster.bugs import NO_BUGS, Bugs
from splitbrain.cluster.client import ClientError, QueueOptions, Queues
from splitbrain.cluster.queuegroups.records import QueueRecord
from splitbrain.cluster.raft import Config
from splitbrain.cluster.replicas import ReplicaSettings
from splitbrain.cluster.runtime import Runtime
from splitbrain.cluster.tree import NEWEST_VERSION
from tests.cluster.support import LoopRng, World, eventually, in_virtual_time

NAMES: Final = ["n1", "n2", "n3", "n4", "n5"]
A, B, C, D, E = "n1", "n3", "n4", "n5", "n2"
"""By their parts in the document: the first queue of a cluster, declared on n1, is on n1, n3 and n4."""

ZONES: Final = {A: "z1", B: "z2", C: "z3", D: "z3", E: "z1"}
"""A replacement of C goes to D, which is in its zone."""

SETTINGS: Final = ReplicaSettings(interval_ms=9000, trigger_ms=1000, recovery_ms=6000, zones=ZONES)
QUEUE: Final = "qq"
BODIES: Final = [b"1", b"2", b"3"]
ENDS_S: Final = 120.0
"""After so long the scenario must have ended as the document says."""

ASK_S: Final = 8.0
"""After so long no answer comes any more: it may be lost."""

NO_ANSWER: Final = (ClientError, ConnectionError, KeyError, TimeoutError)
"""Of a client; a node that does not run is no key."""


class Seeded(World):
    """Nodes whose randomness is that of a seed."""

    def __init__(self, seed: int, settings: ReplicaSettings, bugs: Bugs) -> None:
        super().__init__(NAMES, Config(), bugs)
        self.seed = seed
        self.replicas = settings
        self.rng = random.Random(seed)
        self.has_faults = False
        self.is_over = False

    def runtime(self, name: str) -> Runtime:
        return replace(super().runtime(name), rng=LoopRng(f"{self.seed} {name} {self.rng.random()}"))


Story: TypeAlias = Callable[[Seeded, Queues], Awaitable[None]]


# --- the scenarios ----------------------------------------------------------------------------------------------------


async def one(world: Seeded, queues: Queues) -> None:
    """C failed for ever, and was deleted from the cluster: the queue ends on A, B and D."""
    await world.kill(C)
    await leave(world, C)
    await ends_on(world, {A, B, D})
    await stays(world)


async def two(world: Seeded, queues: Queues) -> None:
    """C failed for ever; while D is being added an operator adds E: the queue ends on A, B, D and E."""
    await world.kill(C)

    async def has_begun() -> bool | None:
        record = recorded(world)
        return (record.last_change > 0) or None

    await eventually(has_begun, ENDS_S)
    first = recorded(world)
    begun = first.change or first.changes[0]
    assert (begun.kind, begun.member, begun.by) == ("grow", D, "automation")
    await persistently(world, lambda queues: queues.grow(QUEUE, E), lambda record: E in record.members)
    await ends_on(world, {A, B, D, E})
    await stays(world)


async def three(world: Seeded, queues: Queues) -> None:
    """C is started again before the check: nothing changes, and the queue stays on A, B and C."""
    await world.kill(C)
    await asyncio.sleep(6.0)
    await world.start(C)
    await asyncio.sleep(1.0)
    await ends_on(world, {A, B, C})
    await stays(world)
    assert recorded(world).last_change == 0


SCENARIOS: Final[dict[str, tuple[Story, ReplicaSettings]]] = {
    "one": (one, SETTINGS),
    "two": (two, SETTINGS),
    "three": (three, msgspec.structs.replace(SETTINGS, recovery_ms=9000)),
}


def play(name: str, seed: int, *, faults: bool = True, bugs: Bugs = NO_BUGS) -> None:
    """Play one scenario; an AssertionError where it does not end as the document says."""
    story, settings = SCENARIOS[name]

    async def run() -> None:
        world = Seeded(seed, settings, bugs)
        try:
            await world.start()
            await world.in_force(NEWEST_VERSION)
            queues = await (await world.client(A)).queues()
            await queues.declare(QUEUE, QueueOptions(initial_group_size=3, target_group_size=3))
            publisher = queues.publisher(QUEUE)
            for body in BODIES:
                await publisher.publish(body)
            await ends_on(world, {A, B, C})
            world.has_faults = faults
            around = asyncio.ensure_future(_faults(world)) if faults else None
            await story(world, queues)
            if around is not None:
                await around
            assert world.failures == []
            assert await _drained(world) == BODIES
        finally:
            await world.close()

    in_virtual_time(run())


# --- faults around them -----------------------------------------------------------------------------------------------


async def _faults(world: Seeded) -> None:
    rng = world.rng
    for _ in range(rng.randint(2, 5)):
        await asyncio.sleep(rng.uniform(0.2, 4.0))
        node, lasts_s = rng.choice([A, B]), rng.uniform(0.1, 2.0)
        kind = rng.choice(["kill", "power", "isolate", "one-way"])
        if kind in ("kill", "power"):
            await world.kill(node)
            if kind == "power":
                world.disks[node] = world.disks[node].crash(rng)
            await asyncio.sleep(lasts_s)
            await world.start(node)
            continue
        others = [name for name in (A, B, C) if name != node]
        if kind == "isolate":
            world.cut = {(a, b) for other in others for a, b in ((node, other), (other, node))}
        else:
            world.cut = {(node, rng.choice(others))}
        await asyncio.sleep(lasts_s)
        world.cut = set()
    world.is_over = True


# --- what is asked ----------------------------------------------------------------------------------------------------


def recorded(world: World) -> QueueRecord:
    """The record as the node that is furthest on has it."""
    nodes = world.nodes.values()
    found = max(nodes, key=lambda node: node.status().applied_index).queue(QUEUE)
    assert found is not None
    return found


async def ends_on(world: World, nodes: set[str]) -> None:
    """The queue has a voter on each of these nodes and nowhere else, and no change is under way."""

    async def is_so() -> bool | None:
        record = recorded(world)
        if record.change is not None or set(record.members) != nodes:
            return None
        lists = [world.nodes[name].members(record.group) for name in nodes if _takes_part(world, name, record)]
        return all(set(each.members) == nodes and not each.learners for each in lists) or None

    try:
        await eventually(is_so, ENDS_S)
    except AssertionError as error:
        record = recorded(world)
        raise AssertionError(f"the queue does not end on {sorted(nodes)}: {record}") from error


def _takes_part(world: World, name: str, record: QueueRecord) -> bool:
    return name in world.nodes and record.group in world.nodes[name].queue_groups


async def stays(world: Seeded) -> None:
    """Once the faults are over, future checks find that no action is necessary."""
    before = recorded(world).last_change
    while world.has_faults and not world.is_over:
        await asyncio.sleep(0.5)
    await asyncio.sleep(3 * world.replicas.interval_ms / 1000)
    assert recorded(world).last_change == before, f"a later check changed something: {recorded(world)}"


async def leave(world: World, node: str) -> None:
    """Have a node leave the cluster: asked until it has."""

    async def is_gone() -> bool | None:
        for name in [*world.nodes]:
            if node in world.nodes[name].cluster().members:
                with suppress(*NO_ANSWER):
                    async with asyncio.timeout(ASK_S):
                        await (await world.client(name)).remove_member(node, timeout_ms=2000)
                return None
        return True

    await eventually(is_gone, ENDS_S)


async def persistently(
    world: World, what: Callable[[Queues], Awaitable[object]], is_done: Callable[[QueueRecord], bool]
) -> None:
    """Ask one node after the other until it is done."""

    async def done() -> bool | None:
        if is_done(recorded(world)):
            return True
        for name in [*world.nodes]:
            with suppress(*NO_ANSWER):
                async with asyncio.timeout(ASK_S):
                    await what(await (await world.client(name)).queues())
                return True
        return None

    await eventually(done, ENDS_S)


async def _drained(world: World) -> list[bytes]:
    bodies: list[bytes] = []
    async with asyncio.timeout(ENDS_S):
        queues = await (await world.client(E)).queues()
        while (message := await queues.take(QUEUE, settle=True)) is not None:
            bodies.append(message.body)
    return bodies


def main(seeds: int, first: int = 0) -> int:
    """Play all scenarios with so many seeds each; how many did not end as they should."""
    failed = 0
    begun = time.process_time()
    for name in SCENARIOS:
        wrong = 0
        for seed in range(first, first + seeds):
            try:
                play(name, seed)
            except (AssertionError, ClientError, TimeoutError) as error:
                wrong += 1
                print(f"{name}, seed {seed}: {type(error).__name__}: {error}", flush=True)
        print(f"{name}: {seeds - wrong} of {seeds} seeds end as the document says", flush=True)
        failed += wrong
    print(f"{(time.process_time() - begun) / max(1, 3 * seeds):.2f} CPU seconds each")
    return failed


if __name__ == "__main__":
    sys.exit(1 if main(*map(int, sys.argv[1:3])) else 0)
