"""What nodes report of their elections and of their followers is judged right, and shows bugs of both.

A cluster in memory lives through cuts, deaths and changes of members; then its telemetry is judged.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator

import msgspec
import pyarrow as pa
import pytest

from splitbrain.checkers.consensus import Acknowledged, Candidacy, CommitMajority, Votes
from splitbrain.cluster.bugs import M09, M10, Bug, Bugs
from splitbrain.cluster.client import ClientError
from splitbrain.results.arrow import to_table
from splitbrain.results.telemetry import table_of
from tests.cluster.support import FAST, World, eventually, in_cluster

FOUR = ["n1", "n2", "n3", "n4"]


def lines(world: World) -> pa.Table:
    return table_of(
        {
            node: [(said["mono"], msgspec.json.encode(said)) for said in told]  # pyright: ignore[reportArgumentType]
            for node, told in world.telemetry.items()
        }
    )


def anomalies(table: pa.Table) -> Iterator[str]:
    for checker in (Acknowledged(), CommitMajority()):
        yield from checker.check(table, {}).anomalies
    for checker in (Votes(), Candidacy()):
        yield from checker.check(to_table([]), table, {}).anomalies


def judged(story: Callable[[World], Awaitable[None]], bugs: Bugs | None = None) -> tuple[set[str], pa.Table]:
    world = World(FOUR) if bugs is None else World(FOUR, bugs=bugs)
    world.founders = ("n1", "n2", "n3")
    in_cluster(world, story)
    table = lines(world)
    return set(anomalies(table)), table


async def puts(world: World, name: str, count: int) -> None:
    client = await world.client(name)
    for number in range(count):
        await client.put("/a", number)
    await client.close()


async def with_learner(world: World) -> None:
    client = await world.client(await world.leader(["n1", "n2", "n3"]))

    async def added() -> bool | None:
        try:
            await client.add_member("n4", role="learner")
        except ClientError:
            return None
        return True

    await eventually(added)
    await client.close()


async def ends_and_cuts(world: World) -> None:
    """A learner joins; the leader is cut off for long, comes back, and is ended; the next one, too."""
    await with_learner(world)
    for _ in range(2):
        leader = await world.leader(["n1", "n2", "n3"])
        await puts(world, leader, 5)
        world.isolate(leader)
        others = [name for name in FOUR if name != leader]
        await puts(world, await world.leader(others), 5)
        await asyncio.sleep(12 * FAST.election_max_ms / 1000)
        world.cut.clear()
        again = await world.leader(["n1", "n2", "n3"])
        await world.kill(again)
        await puts(world, await world.leader([name for name in FOUR if name != again]), 5)
        await world.start(again)
        await asyncio.sleep(FAST.election_max_ms / 1000)


async def removed_alone(world: World) -> None:
    """A leader that is cut off is to be removed: nobody else has that entry."""
    leader = await world.leader(["n1", "n2", "n3"])
    await puts(world, leader, 3)
    client = await world.client(leader)
    world.isolate(leader)
    with pytest.raises(ClientError):
        await client.remove_member(leader, timeout_ms=20)
    await asyncio.sleep(12 * FAST.election_max_ms / 1000)
    world.cut.clear()
    await puts(world, await world.leader(["n1", "n2", "n3"]), 3)


@pytest.mark.parametrize("story", [ends_and_cuts, removed_alone])
def test_a_right_cluster_is_judged_so(story: Callable[[World], Awaitable[None]]) -> None:
    found, table = judged(story)
    assert found == set()
    assert Acknowledged().check(table, {}).figures["counts"] > 0
    assert Votes().check(to_table([]), table, {}).figures["elections"] > 0
    assert Candidacy().check(to_table([]), table, {}).figures["timeouts"] > 0


@pytest.mark.parametrize(("bug", "anomaly"), [(M09, "learner-asked"), (M10, "stranger-counted")])
def test_bugs_of_elections_are_seen(bug: Bug, anomaly: str) -> None:
    assert anomaly in judged(ends_and_cuts, Bugs([bug.id]))[0]
