"""Checkpoints are promoted by a new name and thinned out from the middle; the log stays until then (RA-38, RA-39)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from splitbrain.cluster.log.group import GroupLog
from splitbrain.cluster.log.nodelog import NodeLog, open_node_log, uid_of
from splitbrain.cluster.log.snapshot import Meta, SnapshotName, parse_name
from splitbrain.cluster.log.snapshots import MAX_CHECKPOINTS
from splitbrain.cluster.marks import counted
from tests.cluster.support import Draws, FakeDisk, FakeFile, entry, written

GROUP = "tree"


async def opened(disk: FakeDisk, seed: int = 0) -> NodeLog:
    return await open_node_log(disk, "n1", Draws(seed), lambda _: None)


def with_log(check: Callable[[FakeDisk, GroupLog], Awaitable[None]], last: int = 40) -> None:
    """A group with this many durable and committed entries."""

    async def main() -> None:
        disk = FakeDisk()
        log = await opened(disk)
        group = await log.create(GROUP)
        entries = [entry(index, data=b"x") for index in range(1, last + 1)]
        syncing = asyncio.ensure_future(log.sync(lambda _, __: None))
        group.append(entries, written(*entries))
        for _ in range(10):
            await asyncio.sleep(0)
        syncing.cancel()
        await asyncio.gather(syncing, return_exceptions=True)
        group.committed = last
        await check(disk, group)

    asyncio.run(main())


def checkpoint(group: GroupLog, index: int) -> None:
    group.write_checkpoint(Meta(uid=group.uid, index=index, term=1), b"state %d" % index)


def kept(disk: FakeDisk, sort: str) -> list[int]:
    names: list[SnapshotName] = [parse_name(name) for name in disk.names() if name.startswith(f"{sort}-")]
    return [name.index for name in names]


def test_ra38_a_checkpoint_leaves_the_log_and_its_promotion_lets_it_go() -> None:
    async def check(disk: FakeDisk, group: GroupLog) -> None:
        for index in (10, 20, 30):
            checkpoint(group, index)
        assert group.first_index == 1
        assert not await group.promote(9)
        assert await group.promote(25)
        assert (kept(disk, "snapshot"), kept(disk, "checkpoint"), group.first_index) == ([20], [30], 21)

    with_log(check)


def test_ra38_a_promotion_writes_no_state_and_syncs_before_it_renames() -> None:
    async def check(disk: FakeDisk, group: GroupLog) -> None:
        checkpoint(group, 10)
        disk.calls.clear()
        disk.gate = asyncio.Event()
        promoting = asyncio.ensure_future(group.promote(10))
        for _ in range(5):
            await asyncio.sleep(0)
        assert (kept(disk, "checkpoint"), kept(disk, "snapshot")) == ([10], [])
        disk.gate.set()
        assert await promoting
        assert disk.calls == ["sync"]

    with_log(check)


def test_ra38_a_snapshot_that_is_installed_during_a_promotion_stays_the_newest() -> None:
    """At each point of it: while the checkpoint is synced, and while its new name is."""

    async def check(disk: FakeDisk, group: GroupLog) -> None:
        for turns in range(6):
            index = group.last_index
            checkpoint(group, index)
            promoting = asyncio.ensure_future(group.promote(index))
            for _ in range(turns):
                await asyncio.sleep(0)
            await group.install(Meta(uid=group.uid, index=index + 10, term=2 + turns), b"theirs")
            assert await promoting in (True, False)
            assert (kept(disk, "snapshot"), kept(disk, "checkpoint")) == ([index + 10], [])
            assert group.last_index == index + 10
            found = (await opened(disk)).found[GROUP]
            assert found.state == b"theirs"

    with_log(check)


def test_ra38_a_promotion_that_goes_on_when_its_group_is_deleted_comes_to_nothing() -> None:
    async def main() -> None:
        disk = SlowCheckpoints()
        log = await opened(disk)
        group = await log.create(GROUP)
        checkpoint(group, 10)
        promoting = asyncio.ensure_future(group.promote(10))
        await asyncio.sleep(0)
        await log.delete(GROUP)
        disk.may_sync.set()
        assert not await promoting
        assert [name for name in disk.names() if uid_of(name) == group.uid] == []

    asyncio.run(main())


def test_ra38_the_state_where_the_log_in_memory_begins_is_there_at_each_moment_of_its_promotion() -> None:
    """A follower may ask for it while the new name is synced, too."""

    async def check(disk: FakeDisk, group: GroupLog) -> None:
        checkpoint(group, 10)
        again = (await opened(disk)).groups[GROUP]
        assert again.base == SnapshotName("checkpoint", again.uid, 10, 1)
        promoting = asyncio.ensure_future(again.promote(10))
        while not promoting.done():
            assert again.has_base()
            assert again.base is not None
            assert again.read_snapshot(again.base)[1] == b"state 10"
            await asyncio.sleep(0)
        assert await promoting
        assert again.base == SnapshotName("snapshot", again.uid, 10, 1)

    with_log(check)


def test_whether_the_disk_has_where_the_log_begins_is_asked_without_a_list_of_all_its_files() -> None:
    """A node with thousands of queues asks it at each of their checkpoints."""

    async def check(disk: FakeDisk, group: GroupLog) -> None:
        assert group.has_base(), "it begins with nothing"
        checkpoint(group, 10)
        assert await group.promote(10)
        names, disk.names = disk.names(), listed_not
        assert group.has_base()
        disk.remove(next(name for name in names if name.startswith("snapshot-")))
        assert not group.has_base()

    def listed_not() -> list[str]:
        raise AssertionError("all files were listed")

    with_log(check)


class SlowCheckpoints(FakeDisk):
    """Syncs no checkpoint before it may."""

    def __init__(self) -> None:
        super().__init__()
        self.may_sync = asyncio.Event()

    def open(self, name: str) -> FakeFile:
        file = super().open(name)
        if not name.startswith("checkpoint-"):
            return file
        synced = file.sync

        async def sync() -> None:
            await self.may_sync.wait()
            await synced()

        file.sync = sync
        return file


def thinned_out(seed: int) -> set[int]:
    """Checkpoints 1 to 30 are written, and the node restarts after the fifth: which ones are removed meanwhile."""
    removed: set[int] = set()

    async def check(disk: FakeDisk, group: GroupLog) -> None:
        for index in range(1, 6):
            checkpoint(group, index)
        again = (await opened(disk, seed)).groups[GROUP]
        assert again.base is not None
        for index in range(6, 31):
            before = kept(disk, "checkpoint")
            with counted() as counts:
                checkpoint(again, index)
            assert counts["checkpoint kept for followers"] == counts["checkpoint thinned out"]
            left = kept(disk, "checkpoint")
            assert len(left) == min(len(before) + 1, MAX_CHECKPOINTS)
            assert (left[0], left[-1]) == (1, index)
            assert again.base.index in left
            assert again.has_base()
            removed.update(set(before) - set(left))

    with_log(check)
    return removed


def test_ra39_thinning_takes_any_one_from_the_middle_but_that_from_which_the_node_went_on() -> None:
    assert set[int]().union(*map(thinned_out, range(30))) == set(range(2, 30)) - {5}


def test_ra40_a_checkpoint_before_the_one_that_was_valid_is_never_promoted_since_nobody_has_read_it() -> None:
    """A loss of power took a part of an older checkpoint, and left the newest one whole."""

    async def check(disk: FakeDisk, group: GroupLog) -> None:
        for index in (10, 20, 30):
            checkpoint(group, index)
        [torn] = [name for name in disk.names() if name.startswith("checkpoint-") and parse_name(name).index == 20]
        disk.put(torn, (disk.read(torn) or b"")[:-1])
        again = (await opened(disk)).groups[GROUP]
        assert again.base is not None
        assert again.base.index == 30
        assert not again.is_promotable(29)
        assert not await again.promote(29)
        assert again.is_promotable(30)
        assert await again.promote(30)
        assert (await opened(disk)).found[GROUP].state == b"state 30"

    with_log(check)
