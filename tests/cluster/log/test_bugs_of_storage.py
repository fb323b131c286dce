"""What the switches of the files of a node break, beside the same steps without them."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

import pytest

from splitbrain.cluster.bugs import M40, M41, M42, M43, M44, M45, Bugs
from splitbrain.cluster.errors import CorruptStorageError
from splitbrain.cluster.log.nodelog import NodeLog, open_node_log
from splitbrain.cluster.log.snapshot import Meta
from splitbrain.cluster.log.walfile import encode_entries
from splitbrain.cluster.raft import Entry
from tests.cluster.support import Draws, FakeDisk, both, entry, written

GROUP = "tree"
LOG = [entry(index, data=b"command %d" % index) for index in range(1, 21)]


class Worst(random.Random):
    """A loss of power after which nothing is left of what was not synced."""

    def random(self) -> float:
        return 0.0

    def randint(self, a: int, b: int) -> int:
        return a


class Node:
    """The log of one node, and the task that syncs it."""

    def __init__(self, disk: FakeDisk, log: NodeLog, max_bytes: int) -> None:
        self.disk = disk
        self.log = log
        self.syncing = asyncio.ensure_future(log.sync(lambda _, __: None, max_bytes))

    @property
    def entries(self) -> list[Entry]:
        return list(self.log.found[GROUP].entries)

    async def write(self, entries: list[Entry], committed: int = 0) -> None:
        group = self.log.groups[GROUP]
        group.append(entries, written(*entries))
        group.committed = committed
        await self.settle()

    async def settle(self) -> None:
        for _ in range(20):
            await asyncio.sleep(0)

    async def stop(self) -> None:
        self.syncing.cancel()
        await asyncio.gather(self.syncing, return_exceptions=True)


async def opened(disk: FakeDisk, bugs: Bugs, max_bytes: int = 1_000_000) -> Node:
    log = await open_node_log(disk, "n1", Draws(0), lambda _: None, bugs)
    if GROUP not in log.groups:
        await log.create(GROUP)
    return Node(disk, log, max_bytes)


def run(check: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        await check()

    asyncio.run(main())


def checkpoint(node: Node, index: int) -> None:
    group = node.log.groups[GROUP]
    group.write_checkpoint(Meta(uid=group.uid, index=index, term=1), b"state %d" % index)


async def recovers(disk: FakeDisk, bugs: Bugs, *, refused: str) -> Node | None:
    """The node as it starts again, None if it refuses to for this reason."""
    try:
        return await opened(disk, bugs)
    except CorruptStorageError as error:
        if refused not in str(error):
            raise
        return None


@both(M40)
def test_m40_lets_the_log_go_for_a_checkpoint_that_the_power_takes(bugs: Bugs, broken: bool) -> None:
    async def check() -> None:
        node = await opened(FakeDisk(), bugs, max_bytes=1)
        await node.write(LOG[:10], committed=10)
        checkpoint(node, 10)
        await node.write(LOG[10:], committed=10)
        await node.stop()
        again = await recovers(
            node.disk.crash(Worst()),
            bugs,
            refused="entries up to 10 were in segments and the snapshot, and what is there ends at 0",
        )
        assert (again is None) == broken
        if again is not None:
            assert again.entries == LOG
            await again.stop()

    run(check)


@both(M41)
def test_m41_names_a_checkpoint_the_snapshot_before_it_is_durable(bugs: Bugs, broken: bool) -> None:
    async def check() -> None:
        node = await opened(FakeDisk(), bugs)
        await node.write(LOG, committed=20)
        checkpoint(node, 10)
        await node.log.groups[GROUP].promote(10)
        await node.stop()
        again = await recovers(node.disk.crash(Worst()), bugs, refused="snapshot-00000001-000000000000000a")
        assert (again is None) == broken
        if again is not None:
            assert again.log.found[GROUP].state == b"state 10"
            assert again.entries == LOG[10:]
            await again.stop()

    run(check)


@both(M42)
def test_m42_does_not_start_with_a_checkpoint_that_is_not_whole(bugs: Bugs, broken: bool) -> None:
    async def check() -> None:
        node = await opened(FakeDisk(), bugs)
        await node.write(LOG, committed=20)
        checkpoint(node, 10)
        await node.disk.sync_names()
        await node.stop()
        again = await recovers(node.disk.crash(Worst()), bugs, refused="checkpoint-00000001-000000000000000a")
        assert (again is None) == broken
        if again is not None:
            assert again.entries == LOG
            await again.stop()

    run(check)


def wal_of(disk: FakeDisk) -> tuple[str, bytearray]:
    name = max(name for name in disk.names() if name.startswith("wal-"))
    return name, bytearray(disk.read(name) or b"")


@both(M43)
def test_m43_takes_the_rest_of_an_unfinished_write_for_an_entry(bugs: Bugs, broken: bool) -> None:
    async def check() -> None:
        node = await opened(FakeDisk(), bugs)
        await node.write(LOG[:10])
        await node.stop()
        name, content = wal_of(node.disk)
        torn = bytearray(encode_entries(1, LOG[10:11]))
        torn[-2:] = bytes(2)
        node.disk.put(name, bytes(content + torn))
        again = await opened(node.disk, bugs)
        assert again.entries == [*LOG[:10], *([entry(11, data=b"command \0\0")] if broken else [])]
        await again.stop()

    run(check)


@both(M43)
def test_m43_takes_damage_to_what_was_durable_for_the_end(bugs: Bugs, broken: bool) -> None:
    async def check() -> None:
        node = await opened(FakeDisk(), bugs)
        await node.write(LOG[:10])
        await node.write(LOG[10:])
        await node.stop()
        name, content = wal_of(node.disk)
        content[content.index(b"command 5")] ^= 1
        node.disk.put(name, bytes(content))
        again = await recovers(node.disk, bugs, refused="a record that was durable is damaged")
        assert (again is not None) == broken
        if again is not None:
            assert again.entries == LOG[:4]
            await again.stop()

    run(check)


@both(M44)
def test_m44_forgets_what_was_durable_when_it_is_killed_during_a_roll_over(bugs: Bugs, broken: bool) -> None:
    async def check() -> None:
        node = await opened(FakeDisk(), bugs, max_bytes=600)
        await node.write(LOG[:5])
        name, _ = wal_of(node.disk)
        node.disk.gate = asyncio.Event()
        node.log.groups[GROUP].append(LOG[5:], written(*LOG[5:]))
        await node.settle()
        # The batch becomes durable; what follows it, which is the roll-over, does not.
        gate, node.disk.gate = node.disk.gate, asyncio.Event()
        gate.set()
        await node.settle()
        assert (name in node.disk.names()) == (not broken)
        await node.stop()
        node.disk.gate = None
        again = await opened(node.disk, bugs)
        assert again.entries == ([] if broken else LOG)
        await again.stop()

    run(check)


@both(M45)
def test_m45_gives_a_group_the_entries_of_a_former_one(bugs: Bugs, broken: bool) -> None:
    async def check() -> None:
        node = await opened(FakeDisk(), bugs)
        await node.write(LOG[:3])
        await node.log.delete(GROUP)
        await node.log.create(GROUP)
        await node.stop()
        again = await opened(node.disk, bugs)
        assert again.entries == (LOG[:3] if broken else [])
        await again.stop()

    run(check)


def test_a_damaged_log_is_refused_without_a_switch() -> None:
    """The switches are off by default, also in what opens files."""

    async def check() -> None:
        node = await opened(FakeDisk(), Bugs())
        await node.write(LOG[:10])
        await node.write(LOG[10:])
        await node.stop()
        name, content = wal_of(node.disk)
        content[content.index(b"command 5")] ^= 1
        node.disk.put(name, bytes(content))
        with pytest.raises(CorruptStorageError):
            await open_node_log(node.disk, "n1", Draws(0), lambda _: None)

    run(check)
