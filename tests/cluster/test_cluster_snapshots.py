"""A node goes on from a snapshot, its own or that of its leader, as if it had applied every entry (RA-36 to RA-42)."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence

import pytest

from splitbrain.cluster import store
from splitbrain.cluster.client import ClientError
from splitbrain.cluster.log.snapshot import parse_name
from splitbrain.cluster.marks import counted
from splitbrain.cluster.members import member_id
from splitbrain.cluster.snapshotting import CHUNK_BYTES
from splitbrain.cluster.storage import WAL_BYTES, Storage
from tests.cluster.support import Carriage, World, eventually, in_virtual_time

THREE = ["n1", "n2", "n3"]


def in_cluster(
    check: Callable[[World], Awaitable[None]],
    interval: int = 20,
    checkpoint_interval: int = 0,
    wal_bytes: int = WAL_BYTES,
    chunk_bytes: int = CHUNK_BYTES,
) -> None:
    async def run() -> None:
        world = World(THREE)
        world.snapshot_interval = interval
        world.checkpoint_interval = checkpoint_interval
        world.wal_bytes = wal_bytes
        world.chunk_bytes = chunk_bytes
        try:
            await world.start()
            await check(world)
            assert world.failures == []
        finally:
            await world.close()

    in_virtual_time(run())


async def write(world: World, name: str, first: int, last: int) -> None:
    client = await world.client(name)
    for number in range(first, last + 1):
        await client.put(f"/k{number % 7}/x{number % 3}", number)


async def alike(world: World) -> None:
    """All nodes have applied the same entries, and have the same state."""

    async def met() -> bool | None:
        seen = {
            (status.applied_index, status.chain_hash, status.state_hash)
            for status in (each.status() for each in world.nodes.values())
        }
        return len(seen) == 1 or None

    await eventually(met)


def started(world: World, name: str) -> str:
    return [line for line in world.logs[name] if line.startswith("starts in term")][-1]


def test_a_node_that_restarts_goes_on_from_its_snapshot() -> None:
    async def check(world: World) -> None:
        await write(world, await world.leader(), 1, 90)
        await alike(world)
        await world.kill("n2")
        await world.start("n2")
        assert "behind entry" in started(world, "n2")
        assert int(started(world, "n2").split(" entries")[0].split()[-1]) <= 20 + 20
        await write(world, await world.leader(), 91, 95)
        await alike(world)

    in_cluster(check)


def test_a_cluster_that_restarts_as_a_whole_has_everything() -> None:
    async def check(world: World) -> None:
        await write(world, await world.leader(), 1, 90)
        for name in THREE:
            await world.kill(name)
        await world.start()
        assert all("behind entry" in started(world, name) for name in THREE)
        client = await world.client(await world.leader())
        assert (await client.get("/k6/x0")).value == 90
        await alike(world)

    in_cluster(check)


@pytest.mark.parametrize("chunk", [64, 1024 * 1024])
def test_a_follower_that_was_cut_off_takes_over_the_leaders_snapshot(chunk: int) -> None:
    async def check(world: World) -> None:
        leader = await world.leader()
        lagging = next(name for name in THREE if name != leader)
        await write(world, leader, 1, 5)
        world.isolate(lagging)
        await write(world, leader, 6, 120)
        world.cut.clear()
        await alike(world)
        assert any("took over the leader's snapshot" in line for line in world.logs[lagging])
        await write(world, lagging, 121, 130)
        await alike(world)

    in_cluster(check, chunk_bytes=chunk)


def test_ra42_a_snapshot_is_sent_to_its_end_although_newer_ones_are_written_meanwhile() -> None:
    async def check(world: World) -> None:
        leader = await world.leader()
        lagging = next(name for name in THREE if name != leader)
        world.isolate(lagging)
        await write(world, leader, 1, 60)
        client = await world.client(leader)
        world.carriage = Carriage(1, late_ms=20)  # on the links that are made now: a part takes longer than a write
        world.cut.clear()

        async def taken_over() -> bool | None:
            for number in range(3):
                await client.put(f"/k{number}", number)
            return any("took over the leader's snapshot" in line for line in world.logs[lagging]) or None

        await eventually(taken_over)

    in_cluster(check, interval=4, chunk_bytes=20)


def kept(world: World, name: str, sort: str) -> list[int]:
    return [parse_name(file).index for file in world.disks[name].names() if file.startswith(f"{sort}-")]


def test_ra38_checkpoints_let_nothing_of_the_log_go_and_make_a_restart_quick() -> None:
    async def check(world: World) -> None:
        await write(world, await world.leader(), 1, 90)
        await alike(world)
        assert kept(world, "n2", "snapshot") == []
        assert len(kept(world, "n2", "checkpoint")) >= 8
        await world.kill("n2")
        await world.start("n2")
        entries, base = started(world, "n2").split(" entries behind entry ")
        assert int(entries.split()[-1]) <= 10
        assert int(base.split(";")[0]) == kept(world, "n2", "checkpoint")[-1]
        await write(world, await world.leader(), 91, 95)
        await alike(world)

    in_cluster(check, interval=1000, checkpoint_interval=10)


async def stop(world: World, name: str) -> None:
    world.nodes[name].stopped()
    await world.kill(name)


def test_ra41_a_node_that_stopped_in_good_order_has_nothing_to_apply_again() -> None:
    async def check(world: World) -> None:
        await write(world, await world.leader(), 1, 30)
        await alike(world)
        applied = world.nodes["n2"].status().applied_index
        await stop(world, "n2")
        await world.start("n2")
        assert f"with 0 entries behind entry {applied};" in started(world, "n2")
        await write(world, await world.leader(), 31, 40)
        await alike(world)
        await stop(world, "n2")
        world.disks["n2"] = world.disks["n2"].crash(random.Random(1))
        await world.start("n2")
        await alike(world)

    in_cluster(check, interval=1000, checkpoint_interval=500)


@pytest.mark.parametrize("where", ["not durable", "there already", "none wanted"])
def test_ra41_no_checkpoint_is_written_at_the_stop_of_what_could_be_lost_or_is_there(where: str) -> None:
    async def check(world: World) -> None:
        leader = await world.leader()
        await write(world, leader, 1, 30)
        if where == "not durable":
            world.disks[leader].gate = asyncio.Event()
            await write(world, leader, 31, 32)
        elif where == "there already":
            await (await world.client(leader)).checkpoint()
        before = kept(world, leader, "checkpoint")
        await stop(world, leader)
        assert kept(world, leader, "checkpoint") == before

    in_cluster(check, interval=1000, checkpoint_interval=0 if where == "none wanted" else 500)


def test_ra41_a_disk_that_refuses_the_last_checkpoint_does_not_hold_up_the_stop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    async def check(world: World) -> None:
        await write(world, await world.leader(), 1, 30)
        monkeypatch.setattr(Storage, "write_checkpoint", full)
        await stop(world, "n2")
        assert "stops without a checkpoint: [Errno 28] No space left on device" in world.logs["n2"]
        assert world.telemetry["n2"][-1]["event"] == "stop"

    in_cluster(check, interval=1000, checkpoint_interval=500)


@pytest.mark.parametrize("is_large", [False, True])
def test_kh17_ra38_the_snapshot_is_a_checkpoint_that_leaves_the_log_of_one_interval(
    is_large: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if is_large:
        monkeypatch.setattr(store, "LARGE", 0)

    async def check(world: World) -> None:
        with counted() as marks:
            await write(world, await world.leader(), 1, 120)
            await alike(world)
        assert marks["checkpoint promoted"] > 0
        assert marks["snapshot written"] == 0
        for name in THREE:
            [index] = kept(world, name, "snapshot")
            assert world.nodes[name].status().applied_index - index >= 5

    in_cluster(check, interval=20, checkpoint_interval=5)


def test_ra38_without_a_checkpoint_that_may_be_promoted_a_snapshot_is_written() -> None:
    async def check(world: World) -> None:
        with counted() as marks:
            await write(world, await world.leader(), 1, 60)
            await alike(world)
        assert (marks["checkpoint promoted"], marks["checkpoint written"]) == (0, 0)
        assert marks["snapshot written"] > 0

    in_cluster(check, interval=10, checkpoint_interval=50)


def test_ra38_nothing_that_is_not_durable_here_is_in_a_checkpoint() -> None:
    """The other two commit without the disk of this leader."""

    async def check(world: World) -> None:
        leader = await world.leader()
        await write(world, leader, 1, 4)
        gate = world.disks[leader].gate = asyncio.Event()
        before = kept(world, leader, "checkpoint")
        await write(world, leader, 5, 40)
        assert world.nodes[leader].status().applied_index > 40
        assert kept(world, leader, "checkpoint") == before
        others = [name for name in THREE if name != leader]
        assert all(kept(world, name, "checkpoint")[-1] > 30 for name in others)
        gate.set()
        await write(world, leader, 41, 60)
        assert kept(world, leader, "checkpoint")[-1] > 40

    in_cluster(check, interval=1000, checkpoint_interval=5)


def test_ra38_a_leader_that_restarted_from_a_checkpoint_sends_it_to_a_follower_that_lacks_what_is_before() -> None:
    async def check(world: World) -> None:
        leader = await world.leader()
        lagging = next(name for name in THREE if name != leader)
        await write(world, leader, 1, 5)
        world.isolate(lagging)
        await write(world, leader, 6, 60)
        for name in THREE:
            await world.kill(name)
        await world.start()
        world.cut.clear()
        await alike(world)
        assert any("took over the leader's snapshot" in line for line in world.logs[lagging])
        await write(world, lagging, 61, 70)
        await alike(world)

    in_cluster(check, interval=1000, checkpoint_interval=10)


def test_ra38_a_leader_promotes_no_checkpoint_before_the_beginning_of_its_log_in_memory() -> None:
    """Else the snapshot that it sends ends before the log that it has, and the follower never gets further."""

    async def check(world: World) -> None:
        leader = await world.leader()
        lagging = next(name for name in THREE if name != leader)
        await write(world, leader, 1, 3)
        world.isolate(lagging)
        await write(world, leader, 4, 34)
        for name in THREE:
            if name != lagging:
                await (await world.client(name)).checkpoint()
            await world.kill(name)
        await world.start()
        await write(world, await world.leader(), 35, 42)
        assert [index for name in THREE for index in kept(world, name, "snapshot")], "nothing was promoted"
        world.cut.clear()
        await alike(world)

    in_cluster(check, interval=40, checkpoint_interval=10)


async def put_somewhere(world: World, rng: random.Random, number: int, acknowledged: dict[str, int]) -> None:
    """Write at a node that runs, and note it if that is acknowledged."""
    path = f"/k{rng.randint(0, 5)}"
    client = await world.client(rng.choice(sorted(world.nodes)))
    try:
        await client.put(path, number, timeout_ms=200)
        acknowledged[path] = number
    except ClientError:
        # It may have happened, or happen later: the next write decides.
        acknowledged.pop(path, None)
    await client.close()


async def crash_some(world: World, rng: random.Random) -> None:
    for name in rng.sample(THREE, rng.randint(1, 3)):
        if name in world.nodes:
            await world.kill(name)
            if rng.random() < 0.5:
                world.disks[name] = world.disks[name].crash(rng)


async def start_down(world: World, names: list[str]) -> None:
    for name in names:
        if name not in world.nodes:
            await world.start(name)


async def crashes(world: World, rng: random.Random) -> None:
    """Writes between kills and losses of power of any nodes; what was acknowledged is there in the end."""
    acknowledged: dict[str, int] = {}
    for number in range(60):
        if world.nodes:
            await put_somewhere(world, rng, number, acknowledged)
        if rng.random() < 0.25:
            await crash_some(world, rng)
        await start_down(world, [name for name in THREE if rng.random() < 0.5])
    await start_down(world, THREE)
    client = await world.client(await world.leader())
    for path, number in acknowledged.items():
        assert (await client.get(path, timeout_ms=5000)).value == number
    await alike(world)


EXPECTED = (
    "checkpoint written",
    "checkpoint promoted",
    "recovered from a checkpoint",
    "checkpoint thinned out",
    "snapshot written",
    "snapshot installed",
    "segment written",
    "write-ahead log rolled over",
)
"""Marks that these runs must reach."""


@pytest.mark.parametrize(
    "seeds",
    [(*range(10, 22), 26), pytest.param((*range(10), *range(22, 50)), marks=pytest.mark.slow)],
    ids=["some", "many"],
)
def test_ra38_to_ra42_nodes_that_crash_at_any_moment_keep_what_was_acknowledged_and_agree(seeds: Sequence[int]) -> None:
    with counted() as marks:
        for seed in seeds:
            rng = random.Random(seed)
            snapshots, checkpoints = rng.choice([4, 12, 40]), rng.choice([0, 1, 3, 8])
            wal_bytes = rng.choice([500, 3_000, WAL_BYTES])
            try:
                in_cluster(lambda world, rng=rng: crashes(world, rng), snapshots, checkpoints, wal_bytes)
            except Exception as error:
                raise AssertionError(f"seed {seed}") from error
    assert [mark for mark in EXPECTED if not marks[mark]] == [], "what no run reached, none has tested"


def test_a_node_that_lost_its_data_joins_by_a_snapshot() -> None:
    async def check(world: World) -> None:
        leader = await world.leader()
        lost = next(name for name in THREE if name != leader)
        await write(world, leader, 1, 100)
        client = await world.client(leader)
        await client.remove_member(lost)
        await world.wipe(lost)
        await client.add_member(member_id(lost, 1))
        await world.start(lost)
        await alike(world)
        assert any("took over the leader's snapshot" in line for line in world.logs[lost])

    in_cluster(check)
