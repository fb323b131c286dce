"""A file that is gone is missed, also when nothing else in the log depends on it (RA-33 to RA-36, M44)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from splitbrain.cluster.errors import CorruptStorageError
from splitbrain.cluster.log.nodelog import NodeLog, open_node_log
from splitbrain.cluster.log.snapshot import Meta
from splitbrain.cluster.raft import Entry
from tests.cluster.support import Draws, FakeDisk, entry, written

GROUP = "tree"
LOG = [entry(index, data=b"command %d" % index) for index in range(1, 11)]


async def opened(disk: FakeDisk) -> NodeLog:
    return await open_node_log(disk, "n1", Draws(0), lambda _: None)


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


def with_node(
    check: Callable[[FakeDisk, NodeLog], Awaitable[None]], max_bytes: int, committed: int = LOG[-1].index
) -> None:
    async def main() -> None:
        disk = FakeDisk()
        log = await opened(disk)
        await log.create(GROUP)
        syncing = asyncio.ensure_future(log.sync(lambda _, __: None, max_bytes))
        group = log.groups[GROUP]
        group.append(LOG, written(*LOG))
        group.committed = committed
        await settle()
        await check(disk, log)
        syncing.cancel()
        await asyncio.gather(syncing, return_exceptions=True)

    asyncio.run(main())


async def remove(disk: FakeDisk, sort: str) -> None:
    [name] = [name for name in disk.names() if name.startswith(f"{sort}-")]
    disk.remove(name)


async def missed(disk: FakeDisk, says: str) -> None:
    with pytest.raises(CorruptStorageError, match=says):
        await opened(disk)


def test_the_last_segment_is_missed_although_nothing_follows_it() -> None:
    async def check(disk: FakeDisk, log: NodeLog) -> None:
        await remove(disk, "segment")
        await missed(disk, "^wal-.*: entries up to 10 were in segments and the snapshot, .* ends at 0")

    with_node(check, max_bytes=1)


def test_a_snapshot_is_missed_although_nothing_follows_it() -> None:
    async def check(disk: FakeDisk, log: NodeLog) -> None:
        group = log.groups[GROUP]
        await group.write_snapshot(Meta(uid=group.uid, index=10, term=1), b"state")
        await settle()
        assert group.first_index == 11
        await remove(disk, "snapshot")
        await missed(disk, "^wal-.*: entries up to 10 were in segments and the snapshot, .* ends at 0")

    with_node(check, max_bytes=1)


def test_a_snapshot_is_not_needed_while_the_write_ahead_log_has_all_entries() -> None:
    async def check(disk: FakeDisk, log: NodeLog) -> None:
        group = log.groups[GROUP]
        await group.write_snapshot(Meta(uid=group.uid, index=10, term=1), b"state")
        await remove(disk, "snapshot")
        entries: list[Entry] = list((await opened(disk)).found[GROUP].entries)
        assert entries == LOG

    with_node(check, max_bytes=1_000_000)


@pytest.mark.parametrize("is_appended", [False, True])
def test_a_snapshot_of_the_leader_is_missed_before_anything_is_written_behind_it(is_appended: bool) -> None:
    async def check(disk: FakeDisk, log: NodeLog) -> None:
        group = log.groups[GROUP]
        await group.install(Meta(uid=group.uid, index=15, term=2), b"theirs")
        if is_appended:
            group.append([entry(16, term=2)], written(entry(16, term=2)))
            await settle()
        await remove(disk, "snapshot")
        await missed(disk, "^snapshot-00000001-000000000000000f, byte 0: the snapshot that was taken over .* is gone")

    with_node(check, max_bytes=1_000_000)


def test_what_was_installed_is_remembered_with_each_later_vote() -> None:
    async def check(disk: FakeDisk, log: NodeLog) -> None:
        group = log.groups[GROUP]
        await group.install(Meta(uid=group.uid, index=15, term=2), b"theirs")
        again = await opened(disk)
        await again.groups[GROUP].save_vote(again.found[GROUP].vote)
        await remove(disk, "snapshot")
        await missed(disk, "the snapshot that was taken over")

    with_node(check, max_bytes=1_000_000)


def test_a_file_of_the_write_ahead_log_is_never_shorter_than_it_was_made() -> None:
    async def check(disk: FakeDisk, log: NodeLog) -> None:
        [name] = [name for name in disk.names() if name.startswith("wal-")]
        content = disk.read(name) or b""
        assert name > "wal-0000000000000001"
        made = content.index(LOG[-1].data) + len(LOG[-1].data)
        for size in range(made + 1):
            disk.put(name, content[:size])
            await missed(disk, f"^{name}, byte [0-9]+: ")

    with_node(check, max_bytes=1, committed=0)
