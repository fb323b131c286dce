"""A node's groups come and go without a trace of each other, and a late snapshot never replaces a newer one (RA-33)."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

from splitbrain.cluster.log.nodelog import NodeLog, open_node_log
from splitbrain.cluster.log.snapshot import Meta
from splitbrain.cluster.raft import Entry
from tests.cluster.support import Draws, FakeDisk, entry, written


def run(check: Callable[[FakeDisk], Awaitable[None]]) -> None:
    async def main() -> None:
        await check(FakeDisk())

    asyncio.run(main())


async def opened(disk: FakeDisk) -> NodeLog:
    return await open_node_log(disk, "n1", Draws(0), lambda _: None)


async def wrote(log: NodeLog, group: str, *entries: Entry) -> None:
    """Append entries, and wait until they are durable."""
    done = asyncio.get_running_loop().create_future()
    syncing = asyncio.ensure_future(log.sync(lambda name, _: done.set_result(name)))
    log.groups[group].append(entries, written(*entries))
    assert await done == group
    syncing.cancel()
    await asyncio.gather(syncing, return_exceptions=True)


def test_groups_share_a_file_and_each_finds_its_own_entries() -> None:
    async def check(disk: FakeDisk) -> None:
        log = await opened(disk)
        for name, data in (("a", b"one"), ("b", b"two")):
            await log.create(name)
            await wrote(log, name, entry(1, data=data))
        again = await opened(disk)
        assert {name: list(found.entries) for name, found in again.found.items()} == {
            "a": [entry(1, data=b"one")],
            "b": [entry(1, data=b"two")],
        }

    run(check)


def test_a_group_that_is_made_again_under_its_old_name_has_nothing_of_the_former_one() -> None:
    async def check(disk: FakeDisk) -> None:
        log = await opened(disk)
        first = await log.create("a")
        await wrote(log, "a", entry(1, data=b"one"), entry(2, data=b"two"))
        await first.write_snapshot(Meta(uid=first.uid, index=1, term=1), b"state")
        await log.delete("a")
        second = await log.create("a")
        assert second.uid != first.uid
        await wrote(log, "a", entry(1, data=b"new"))
        found = (await opened(disk)).found["a"]
        assert (list(found.entries), found.meta) == ([entry(1, data=b"new")], None)
        assert not [name for name in disk.names() if f"-{first.uid:08x}" in name]

    run(check)


def test_files_of_a_group_whose_deletion_was_cut_short_are_removed_and_not_read() -> None:
    async def check(disk: FakeDisk) -> None:
        log = await opened(disk)
        group = await log.create("a")
        await group.write_snapshot(Meta(uid=group.uid, index=1, term=1), b"state")
        left = {name: disk.read(name) or b"" for name in disk.names() if f"-{group.uid:08x}" in name}
        await log.delete("a")
        for name, content in left.items():
            disk.put(name, content)
        again = await opened(disk)
        assert again.groups == {}
        assert not set(left) & set(disk.names())

    run(check)


def test_a_snapshot_that_the_leaders_has_overtaken_is_dropped() -> None:
    async def check(disk: FakeDisk) -> None:
        log = await opened(disk)
        group = await log.create("a")
        await wrote(log, "a", *(entry(index) for index in range(1, 4)))
        disk.gate = asyncio.Event()
        installing = asyncio.ensure_future(group.install(Meta(uid=group.uid, index=9, term=2), b"theirs"))
        await asyncio.sleep(0)
        own = asyncio.ensure_future(group.write_snapshot(Meta(uid=group.uid, index=3, term=1), b"ours"))
        for _ in range(5):
            await asyncio.sleep(0)  # both wait for the disk now, the leader's first
        disk.gate.set()
        await asyncio.gather(installing, own)
        assert group.last_index == 9
        found = (await opened(disk)).found["a"]
        assert found.meta is not None
        assert (found.meta.index, found.state, list(found.entries)) == (9, b"theirs", [])
        assert len([name for name in disk.names() if name.startswith("snapshot-")]) == 1

    run(check)


def test_ra33_groups_that_are_made_at_once_have_a_log_each() -> None:
    async def check(disk: FakeDisk) -> None:
        log = await opened(disk)
        await log.create("old")
        first, second, _ = await asyncio.gather(log.create("a"), log.create("b"), log.delete("old"))
        assert first.uid != second.uid
        for name, data in (("a", b"one"), ("b", b"two")):
            await wrote(log, name, entry(1, data=data))
        again = await opened(disk)
        assert {name: list(found.entries) for name, found in again.found.items()} == {
            "a": [entry(1, data=b"one")],
            "b": [entry(1, data=b"two")],
        }

    run(check)


def test_ra33_a_group_whose_deletion_is_not_durable_yet_is_whole_after_a_loss_of_power() -> None:
    """Also when the write-ahead log rolls over meanwhile: the new file must have what the group needs."""

    async def check(disk: FakeDisk) -> None:
        log = await opened(disk)
        await log.create("a")
        await log.create("b")
        await wrote(log, "a", entry(1, data=b"promised"))
        disk.gate = asyncio.Event()
        deleting = asyncio.ensure_future(log.delete("a"))
        for _ in range(3):
            await asyncio.sleep(0)
        # The deletion hangs in the disk, and the log goes on with a new file.
        disk.gate = None
        syncing = asyncio.ensure_future(log.sync(lambda _, __: None, max_bytes=1))
        log.groups["b"].append([entry(1)], written(entry(1)))
        for _ in range(20):
            await asyncio.sleep(0)
        assert any(call.startswith("replace wal-") for call in disk.calls[-3:])
        found = (await opened(disk.crash(random.Random(0)))).found["a"]
        assert list(found.entries) == [entry(1, data=b"promised")]
        for task in (syncing, deleting):
            task.cancel()
        await asyncio.gather(syncing, deleting, return_exceptions=True)

    run(check)
