"""A start looks at the segments that it needs, and refuses what is wrong with one of those (RA-35, RA-40)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from splitbrain.cluster.errors import CorruptStorageError
from splitbrain.cluster.log.nodelog import NodeLog, open_node_log
from splitbrain.cluster.log.segment import encode
from splitbrain.cluster.log.segments import Segments
from splitbrain.cluster.log.snapshot import Meta
from splitbrain.cluster.marks import counted
from splitbrain.cluster.raft import Entry
from tests.cluster.support import Draws, FakeDisk, entry, written

GROUP = "tree"
EACH = 10
LAST = 5 * EACH


def log_of(last: int) -> list[Entry]:
    return [entry(index, data=b"command %d" % index) for index in range(1, last + 1)]


class Reads(FakeDisk):
    """Notes which files are read."""

    def __init__(self) -> None:
        super().__init__()
        self.reads: list[str] = []

    def read(self, name: str) -> bytes | None:
        self.reads.append(name)
        return super().read(name)


async def opened(disk: FakeDisk) -> NodeLog:
    return await open_node_log(disk, "n1", Draws(0), lambda _: None)


def with_segments(check: Callable[[Reads], Awaitable[None]], checkpoint: int = LAST - EACH) -> None:
    """A disk with five segments, a checkpoint of this entry, and one more entry behind them."""

    async def main() -> None:
        disk = Reads()
        log = await opened(disk)
        group = await log.create(GROUP)
        syncing = asyncio.ensure_future(log.sync(lambda _, __: None, max_bytes=1))
        for first in range(0, LAST, EACH):
            entries = log_of(LAST)[first : first + EACH]
            group.append(entries, written(*entries))
            group.committed = entries[-1].index
            for _ in range(20):
                await asyncio.sleep(0)
        last = entry(LAST + 1, data=b"last")
        group.append([last], written(last))
        group.write_checkpoint(Meta(uid=group.uid, index=checkpoint, term=1), b"state")
        for _ in range(20):
            await asyncio.sleep(0)
        syncing.cancel()
        await asyncio.gather(syncing, return_exceptions=True)
        assert len(segments_of(disk)) == LAST // EACH
        disk.reads.clear()
        await check(disk)

    asyncio.run(main())


def segments_of(disk: FakeDisk) -> list[str]:
    return [name for name in disk.names() if name.startswith("segment-")]


def lose_checkpoint(disk: FakeDisk) -> None:
    [name] = [name for name in disk.names() if name.startswith("checkpoint-")]
    disk.remove(name)


def test_a_start_reads_no_segment_that_lies_before_its_checkpoint() -> None:
    async def check(disk: Reads) -> None:
        found = (await opened(disk)).found[GROUP]
        assert [each.index for each in found.entries] == list(range(LAST - EACH + 1, LAST + 2))
        assert [name for name in disk.reads if name.startswith("segment-")] == segments_of(disk)[-1:]

    with_segments(check)


@pytest.mark.parametrize("damage", ["flip", "remove", "rename"])
@pytest.mark.parametrize("which", range(4))
def test_a_segment_before_the_checkpoint_is_missed_when_the_checkpoint_is_lost(damage: str, which: int) -> None:
    async def check(disk: Reads) -> None:
        name = segments_of(disk)[which]
        following = segments_of(disk)[which + 1]
        if damage == "flip":
            content = bytearray(disk.read(name) or b"")
            content[-1] ^= 1
            disk.put(name, bytes(content))
            says = f"^{name}, byte [0-9]+: the data of entry {(which + 1) * EACH} is damaged"
        elif damage == "remove":
            disk.remove(name)
            says = f"^{following}, byte 0: it does not follow entry {which * EACH}"
        else:
            disk.rename(name, name[:-1] + "x")
            says = f"^{name[:-1]}x, byte 0: no segment has such a name"
        # The neighbour of the first segment that is needed must be there: it says where that one begins.
        if damage == "flip" or which < 3:
            found = (await opened(disk)).found[GROUP]
            assert [each.index for each in found.entries] == list(range(LAST - EACH + 1, LAST + 2))
        lose_checkpoint(disk)
        with pytest.raises(CorruptStorageError, match=says):
            await opened(disk)

    with_segments(check)


def test_a_segment_behind_the_checkpoint_is_needed_at_once() -> None:
    async def check(disk: Reads) -> None:
        disk.remove(segments_of(disk)[-1])
        with pytest.raises(CorruptStorageError, match=f"wal-.*: entries up to {LAST} were .* ends at {LAST - EACH}"):
            await opened(disk)

    with_segments(check)


def test_a_gap_in_the_middle_of_what_is_needed_names_the_file_behind_it() -> None:
    async def check(disk: Reads) -> None:
        disk.remove(segments_of(disk)[2])
        with pytest.raises(CorruptStorageError, match=f"^{segments_of(disk)[2]}, byte 0: it does not follow entry 20"):
            await opened(disk)

    with_segments(check, checkpoint=10)


def test_what_is_not_checked_at_the_start_is_checked_when_it_is_read() -> None:
    disk = FakeDisk()
    names: list[str] = []
    for first in (1, 3, 7):
        name, content = encode(1, log_of(8)[first - 1 : first + 1])
        disk.put(str(name), content)
        names.append(str(name))
    segments = Segments(disk, names)
    segments.require(0, 9)
    with pytest.raises(CorruptStorageError, match="it does not follow entry 4"):
        segments.read(0, 2, 8)


def test_forgetting_keeps_a_segment_that_has_later_entries() -> None:
    disk = FakeDisk()
    names: list[str] = []
    for first in (1, 3, 5):
        name, content = encode(1, log_of(6)[first - 1 : first + 1])
        disk.put(str(name), content)
        names.append(str(name))
    segments = Segments(disk, names)
    with counted() as counts:
        segments.forget(2)
        assert counts["segment kept for later entries"] == 0
        segments.forget(3)
        assert counts["segment kept for later entries"] == 1
    assert disk.names() == names[1:]
    assert (segments.first, segments.last) == (3, 6)
    assert [each.index for each in segments.read(3, 4, 5)] == [4, 5]


class Stuck(FakeDisk):
    """Once it is stuck no file of the write-ahead log is replaced any more."""

    stuck = False

    async def replace(self, name: str, data: bytes) -> None:
        if self.stuck and name.startswith("wal-"):
            await asyncio.Event().wait()
        await super().replace(name, data)


async def turns(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def test_ra35_a_crash_while_the_log_rolls_over_mixes_no_entries_with_those_that_they_replaced() -> None:
    """Entries 2 and 3 of term 2 are committed elsewhere, and not durable here yet, when what is committed moves on."""

    async def main() -> None:
        disk = Stuck()
        log = await opened(disk)
        group = await log.create(GROUP)
        syncing = asyncio.ensure_future(log.sync(lambda _, __: None, max_bytes=1))
        former = [entry(index, data=b"former") for index in range(1, 6)]
        disk.stuck, disk.gate = True, asyncio.Event()
        group.append(former, written(*former))
        await turns(5)
        group.truncate(2)
        later = [entry(index, term=2, data=b"later") for index in (2, 3)]
        group.append(later, written(*later))
        group.committed = 3
        disk.gate.set()
        await turns(20)
        syncing.cancel()
        await asyncio.gather(syncing, return_exceptions=True)
        assert list((await opened(disk)).found[GROUP].entries) == former

    asyncio.run(main())


def test_ra35_what_replaced_durable_entries_is_in_no_segment_before_it_is_durable_itself() -> None:
    """Entries 2 and 3 of term 2 come, and are committed elsewhere, while the disk syncs the last of those of term 1."""

    async def main() -> None:
        disk = Stuck()
        log = await opened(disk)
        group = await log.create(GROUP)
        syncing = asyncio.ensure_future(log.sync(lambda _, __: None, max_bytes=1))
        former = [*(entry(index, data=b"former") for index in range(1, 5)), entry(5, data=bytes(1000))]
        group.append(former[:4], written(*former[:4]))
        await turns(20)
        disk.stuck, disk.gate = True, asyncio.Event()
        group.append(former[4:], written(former[4]))
        await turns(5)
        group.truncate(2)
        later = [entry(index, term=2, data=b"later") for index in (2, 3)]
        group.append(later, written(*later))
        group.committed = 3
        disk.gate.set()
        await turns(20)
        syncing.cancel()
        await asyncio.gather(syncing, return_exceptions=True)
        assert any(name.startswith("segment-") for name in disk.names()), "the log did not roll over"
        assert list((await opened(disk)).found[GROUP].entries) == former

    asyncio.run(main())
