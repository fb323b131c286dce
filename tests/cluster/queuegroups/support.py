"""What the tests of groups of queues share: nodes in memory, and clients of queues on them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from splitbrain.cluster.bugs import NO_BUGS, Bugs
from splitbrain.cluster.client import Queues
from splitbrain.cluster.groupnames import is_queue_group
from splitbrain.cluster.raft import Config
from splitbrain.cluster.tree import NEWEST_VERSION
from tests.cluster.support import FAST, World, eventually, in_virtual_time

THREE = ["n1", "n2", "n3"]
FIVE = ["n1", "n2", "n3", "n4", "n5"]


def in_cluster(
    check: Callable[[World], Awaitable[None]],
    names: list[str] = THREE,
    *,
    config: Config = FAST,
    bugs: Bugs = NO_BUGS,
    checkpoint_interval: int = 1000,
) -> None:
    async def run() -> None:
        world = World(names, config, bugs)
        world.checkpoint_interval = checkpoint_interval
        try:
            await world.start()
            await world.in_force(NEWEST_VERSION)
            await check(world)
            assert world.failures == []
        finally:
            await world.close()

    in_virtual_time(run())


async def queues_on(world: World, name: str) -> Queues:
    return await (await world.client(name)).queues()


def queue_groups(world: World, name: str) -> list[str]:
    return [group for group in world.nodes[name].queue_groups if is_queue_group(group)]


async def leader_of(world: World, group: str) -> str:
    """Who leads a group, once all nodes that run and have a member agree."""

    async def agreed() -> str | None:
        members = [node for node in world.nodes.values() if group in node.queue_groups]
        leaders = {node.status(group).leader for node in members}
        found = leaders.pop() if leaders else None
        if leaders or found is None or found not in world.nodes:
            return None
        return found if world.nodes[found].status(group).role == "leader" else None

    return await eventually(agreed)


async def drained(queues: Queues, name: str) -> list[bytes]:
    """All messages of a queue, which are taken out."""
    bodies: list[bytes] = []
    while (message := await queues.take(name, settle=True)) is not None:
        bodies.append(message.body)
    return bodies
