"""What a node has promised survives kills, loss of power and damage, or the node refuses to start (RA-34, M43)."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Coroutine
from typing import Any, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from splitbrain.cluster.errors import CorruptStorageError, StorageError, WrongNodeError
from splitbrain.cluster.log.nodelog import NODE, open_node_log
from splitbrain.cluster.log.replay import Replay
from splitbrain.cluster.log.walfile import decode, encode_entries, encode_header, encode_mark, encode_truncation
from splitbrain.cluster.raft import Entry, Recovered
from splitbrain.cluster.raft.events import Written
from splitbrain.cluster.storage import Storage, open_storage
from tests.cluster.support import Draws, FakeDisk, entry, written

T = TypeVar("T")

WAL = "wal-0000000000000001"
VOTE = "vote-00000001"
UID = 1
HEADER = encode_header(1) + encode_mark(len(encode_header(1)), len(encode_header(1)))


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)


class Opened:
    """An open storage with its syncing task, and what it said."""

    def __init__(self, storage: Storage, recovered: Recovered, log: list[str]) -> None:
        self.storage = storage
        self.entries = list(recovered.entries)
        self.term = recovered.term
        self.voted_for = recovered.voted_for
        self.log = log
        self.done: list[Written] = []
        self.syncing = asyncio.get_running_loop().create_task(storage.sync_log(self.done.append))

    async def durable(self) -> None:
        """Wait until nothing more becomes durable."""
        for _ in range(20):
            await asyncio.sleep(0)

    async def stop(self) -> None:
        self.syncing.cancel()
        await asyncio.gather(self.syncing, return_exceptions=True)


def replayed(content: bytes) -> list[Entry]:
    """The entries that a file of the write-ahead log gives to its group."""
    replay = Replay(WAL, 0, None)
    replay.take_all(decode(content, WAL, 1).changes)
    return replay.entries()


async def opened(disk: FakeDisk, node: str = "n1") -> Opened:
    log: list[str] = []
    found = await open_storage(disk, node, Draws(0), log.append)
    storage, recovered = found.storage, found.recovered
    return Opened(storage, recovered, log)


E1, E2, E3 = entry(1), entry(2, data=b"two"), entry(3, data=b"three" * 10)


async def disk_with(*batches: tuple[Entry, ...]) -> FakeDisk:
    """A disk to which these were written, each batch made durable before the next."""
    disk = FakeDisk()
    node = await opened(disk)
    for batch in batches:
        node.storage.append(batch, written(*batch))
        await node.durable()
    await node.stop()
    return disk


async def entries_on(disk: FakeDisk) -> list[Entry]:
    node = await opened(disk)
    await node.stop()
    return node.entries


class TestSyncing:
    def test_entries_come_back_with_everything_that_they_were(self) -> None:
        async def check() -> None:
            assert await entries_on(await disk_with((E1, E2), (E3,))) == [E1, E2, E3]

        run(check())

    def test_nothing_is_called_durable_before_it_was_synced(self) -> None:
        async def check() -> None:
            disk = FakeDisk()
            node = await opened(disk)
            disk.gate = asyncio.Event()
            node.storage.append((E1,), written(E1))
            await node.durable()
            assert node.done == []
            assert (await entries_on(disk.crash(_Everything()))) == []
            disk.gate.set()
            await node.durable()
            assert node.done == [written(E1)]
            assert (await entries_on(disk.crash(_Everything()))) == [E1]
            await node.stop()

        run(check())

    def test_what_was_appended_during_a_sync_is_covered_by_one_more_sync_and_not_by_that_one(self) -> None:
        async def check() -> None:
            disk = FakeDisk()
            node = await opened(disk)
            disk.gate = asyncio.Event()
            before = disk.calls.count("sync")
            node.storage.append((E1,), written(E1))
            await node.durable()
            node.storage.append((E2,), written(E2))
            node.storage.append((E3,), written(E3))
            disk.gate.set()
            await node.durable()
            assert node.done == [written(E1), written(E3)]
            assert disk.calls.count("sync") - before == 2
            await node.stop()

        run(check())

    def test_term_and_vote_are_durable_when_saving_them_returns(self) -> None:
        async def check() -> None:
            disk = FakeDisk()
            node = await opened(disk)
            await node.storage.save_vote(7, "n3")
            await node.stop()
            again = await opened(disk.crash(_Everything()))
            assert (again.term, again.voted_for) == (7, "n3")
            await again.stop()

        run(check())

    def test_what_a_killed_process_had_not_synced_is_synced_before_it_is_handed_back(self) -> None:
        async def check() -> None:
            disk = FakeDisk()
            node = await opened(disk)
            disk.gate = asyncio.Event()
            node.storage.append((E1,), written(E1))
            await node.durable()  # the file has it, the disk does not
            await node.stop()
            disk.gate = None
            assert await entries_on(disk.crash(_Everything())) == []
            again = await opened(disk)
            assert again.entries == [E1]
            assert await entries_on(disk.crash(_Everything())) == [E1]
            await again.stop()

        run(check())

    def test_a_vote_that_a_killed_process_had_not_made_durable_is_durable_before_it_is_handed_back(self) -> None:
        """A kill leaves the new name in the cache; nobody may rely on it before the directory was synced."""

        async def check() -> None:
            disk = FakeDisk()
            node = await opened(disk)
            before = disk.read(VOTE)
            saving = asyncio.get_running_loop().create_task(node.storage.save_vote(7, "n3"))
            while disk.read(VOTE) == before:
                await asyncio.sleep(0)
            saving.cancel()
            await node.stop()
            assert disk.crash(_Everything()).read(VOTE) == before, "the kill came before the directory was synced"
            again = await opened(disk)
            assert (again.term, again.voted_for) == (7, "n3")
            assert disk.crash(_Everything()).read(VOTE) == disk.read(VOTE)
            await again.stop()

        run(check())

    def test_a_failing_sync_ends_the_syncing_and_confirms_nothing(self) -> None:
        async def check() -> None:
            disk = FakeDisk()
            node = await opened(disk)
            disk.broken = True
            node.storage.append((E1,), written(E1))
            with pytest.raises(OSError, match="Input/output error"):
                await node.syncing
            assert node.done == []

        run(check())


class TestTruncation:
    def test_truncated_entries_stay_away_and_others_take_their_place(self) -> None:
        async def check() -> None:
            disk = await disk_with((E1, E2, E3))
            node = await opened(disk)
            replacement = entry(2, term=2, data=b"other")
            node.storage.truncate(2)
            node.storage.append((replacement,), written(replacement))
            await node.durable()
            await node.stop()
            assert await entries_on(disk) == [E1, replacement]

        run(check())

    def test_a_gap_in_what_is_appended_is_refused(self) -> None:
        async def check() -> None:
            node = await opened(FakeDisk())
            with pytest.raises(AssertionError, match="entry 2 appended after 0"):
                node.storage.append((E2,), written(E2))
            await node.stop()

        run(check())

    def test_an_entry_of_an_earlier_index_voids_what_was_there(self) -> None:
        other = entry(2, term=2, data=b"other")
        assert replayed(HEADER + encode_entries(UID, [E1, E2, E3, other])) == [E1, other]


class TestTornTail:
    def test_a_log_cut_at_any_byte_of_its_last_records_keeps_the_whole_ones_before(self) -> None:
        async def check() -> None:
            whole = HEADER + encode_entries(UID, [E1, E2, E3])
            ends = [len(HEADER) + len(encode_entries(UID, [E1, E2, E3][:n])) for n in range(4)]
            for size in range(len(HEADER), len(whole) + 1):
                disk = FakeDisk()
                await (await opened(disk)).stop()
                disk.put(WAL, whole[:size])
                node = await opened(disk)
                kept = sum(end <= size for end in ends) - 1
                assert node.entries == [E1, E2, E3][:kept]
                torn = size - ends[kept]
                said = [f"{WAL}: cut off {torn} bytes of an unfinished write at byte {ends[kept]}"] if torn else []
                assert node.log == said
                # It goes on behind what was kept, not behind the rest of the torn record.
                more = entry(kept + 1, term=5, data=b"more")
                node.storage.append((more,), written(more))
                await node.durable()
                await node.stop()
                assert await entries_on(disk) == [*[E1, E2, E3][:kept], more]

        run(check())

    def test_a_torn_tail_may_have_whole_records_behind_the_damage(self) -> None:
        """A disk writes sectors in any order: the second record of a batch may be there without the first."""

        async def check() -> None:
            disk = await disk_with((E1,))
            torn = bytearray(encode_entries(UID, [E2, E3]))
            torn[10] ^= 1
            disk.put(WAL, (disk.read(WAL) or b"") + bytes(torn))
            assert await entries_on(disk) == [E1]

        run(check())


class TestCorruption:
    def test_any_flipped_bit_in_what_was_durable_is_fatal(self) -> None:
        """The records of the log, not the last mark: that one claims nothing that anybody was promised."""

        async def check() -> None:
            disk = await disk_with((E1, E2), (E3,))
            content = disk.read(WAL) or b""
            last_mark = len(content) - len(encode_mark(0, 0))
            for position in range(len(HEADER), last_mark):
                for bit in (1, 128):
                    damaged = bytearray(content)
                    damaged[position] ^= bit
                    disk.put(WAL, bytes(damaged))
                    with pytest.raises(CorruptStorageError, match="Replace this node"):
                        await open_storage(disk, "n1", Draws(0), print)
            disk.put(WAL, content)
            assert await entries_on(disk) == [E1, E2, E3]

        run(check())

    def test_a_flipped_bit_is_never_read_as_something_else(self) -> None:
        """Without a mark behind it damage looks like a torn tail; what comes back is a prefix and nothing altered."""
        content = HEADER + encode_entries(UID, [E1, E2, E3]) + encode_truncation(UID, 3)
        for position in range(len(HEADER), len(content)):
            damaged = bytearray(content)
            damaged[position] ^= 16
            assert decode(bytes(damaged), WAL, 1).torn > 0
            found = replayed(bytes(damaged))
            assert found == [E1, E2, E3][: len(found)]

    def test_a_mark_does_not_speak_for_what_was_appended_during_its_sync(self) -> None:
        """A loss of power right after the mark may leave the mark and not what came before it."""

        async def check() -> None:
            disk = FakeDisk()
            node = await opened(disk)
            first_sync = disk.gate = asyncio.Event()
            node.storage.append((E1,), written(E1))
            await node.durable()
            node.storage.append((E2,), written(E2))
            disk.gate = asyncio.Event()
            first_sync.set()
            await node.durable()
            await node.stop()
            content = bytearray(disk.read(WAL) or b"")
            record = encode_entries(UID, [E2])
            begin = content.index(record)
            content[begin : begin + len(record)] = bytes(len(record))
            after = FakeDisk()
            for name in (NODE, VOTE):
                after.put(name, disk.read(name) or b"")
            after.put(WAL, bytes(content))
            assert await entries_on(after) == [E1]

        run(check())

    def test_a_mark_counts_only_where_it_was_written(self) -> None:
        """A command may contain whatever it likes, the bytes of a mark included."""
        mark = encode_mark(0, 10_000)
        torn = bytearray(encode_entries(UID, [entry(1, data=mark * 3)]))
        torn[-1] ^= 1
        assert replayed(HEADER + bytes(torn)) == []

    def test_a_record_of_an_index_that_does_not_follow_is_fatal(self) -> None:
        with pytest.raises(CorruptStorageError, match=f"{WAL}, byte 78: entry 3 follows entry 1"):
            replayed(HEADER + encode_entries(UID, [E1, E3]))

    def test_damage_to_term_and_vote_is_fatal(self) -> None:
        async def check() -> None:
            disk = FakeDisk()
            node = await opened(disk)
            await node.storage.save_vote(3, "n2")
            await node.stop()
            content = disk.read(VOTE) or b""
            for position in range(len(content)):
                damaged = bytearray(content)
                damaged[position] ^= 1
                disk.put(VOTE, bytes(damaged))
                with pytest.raises(StorageError, match=f"{VOTE}, byte"):
                    await open_storage(disk, "n1", Draws(0), print)

        run(check())

    def test_term_and_vote_that_lost_their_end_are_damaged_wherever_it_was_cut(self) -> None:
        """The checksum of nothing is 0, as is the one that is missing: eight bytes look sound to a careless reader."""

        async def check() -> None:
            disk = FakeDisk()
            node = await opened(disk)
            await node.storage.save_vote(3, "n2")
            await node.stop()
            content = disk.read(VOTE) or b""
            for size in range(len(content)):
                disk.put(VOTE, content[:size])
                with pytest.raises(CorruptStorageError, match=VOTE):
                    await open_storage(disk, "n1", Draws(0), print)

        run(check())

    @pytest.mark.parametrize(
        ("missing", "says"), [(WAL, "log is gone"), (VOTE, "vote are gone"), (NODE, "is gone, but vote")]
    )
    def test_one_file_without_the_other_is_fatal(self, missing: str, says: str) -> None:
        async def check() -> None:
            disk = await disk_with((E1,))
            disk.remove(missing)
            with pytest.raises(CorruptStorageError, match=says):
                await open_storage(disk, "n1", Draws(0), print)

        run(check())

    def test_a_log_that_was_used_is_no_first_start_whatever_else_is_gone(self) -> None:
        async def check() -> None:
            disk = await disk_with((E1,))
            disk.remove(NODE)
            disk.remove(VOTE)
            with pytest.raises(CorruptStorageError, match=f"is gone, but {WAL} is there"):
                await open_storage(disk, "n1", Draws(0), print)

        run(check())

    def test_a_node_does_not_start_with_the_files_of_another(self) -> None:
        async def check() -> None:
            disk = await disk_with((E1,))
            with pytest.raises(WrongNodeError, match="belongs to node 'n1', not to 'n2'"):
                await open_storage(disk, "n2", Draws(0), print)

        run(check())

    @pytest.mark.parametrize("name", [VOTE, NODE])
    def test_files_of_a_newer_version_are_refused_and_left_alone(self, name: str) -> None:
        async def check() -> None:
            disk = await disk_with((E1,))
            content = bytearray(disk.read(name) or b"")
            content[4] = 9
            disk.put(name, bytes(content))
            with pytest.raises(StorageError, match="format 9, this node reads 1"):
                await open_storage(disk, "n1", Draws(0), print)
            assert disk.read(name) == bytes(content)

        run(check())

    def test_a_first_start_that_was_cut_short_is_a_first_start_again(self) -> None:
        async def check() -> None:
            whole = FakeDisk()
            await (await opened(whole)).stop()
            begun = FakeDisk()
            await open_node_log(begun, "n1", Draws(0), print)
            # In the order in which a first start makes them; the node knows its group last.
            for present in ([], [WAL], [WAL, NODE], [WAL, NODE, VOTE]):
                disk = FakeDisk()
                for name in present:
                    disk.put(name, (begun.read(name) or whole.read(name)) or b"")
                assert await entries_on(disk) == []

        run(check())


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(1, 4), st.binary(max_size=60)),
        st.tuples(st.just("truncate"), st.integers(0, 6), st.just(b"")),
        st.tuples(st.just("wait"), st.just(0), st.just(b"")),
        st.tuples(st.just("vote"), st.just(0), st.just(b"")),
    ),
    max_size=25,
)


@pytest.mark.slow
@given(STEPS, st.integers(0, 2**32))
def test_after_a_loss_of_power_the_log_is_as_it_was_at_some_time_since_it_was_last_called_durable(
    steps: list[tuple[str, int, bytes]], seed: int
) -> None:
    run(_crash_check(steps, seed))


async def _crash_check(steps: list[tuple[str, int, bytes]], seed: int) -> None:
    disk = FakeDisk()
    node = await opened(disk)
    states: list[list[Entry]] = [[]]  # the log after each record that was written
    durable_state, term, saved = 0, 1, (0, None)
    reports: dict[Written, int] = {}
    for action, count, data in steps:
        log = states[-1]
        if action == "append":
            new = tuple(entry(len(log) + 1 + n, term, data) for n in range(count))
            states += [log + list(new[: n + 1]) for n in range(count)]
            done = Written(new[-1].index, term, len(reports))
            reports[done] = len(states) - 1
            node.storage.append(new, done)
        elif action == "truncate" and log:
            keep = max(0, len(log) - 1 - count)
            term += 1
            states.append(log[:keep])
            node.storage.truncate(keep + 1)
        elif action == "wait":
            await node.durable()
        elif action == "vote":
            term += 1
            await node.storage.save_vote(term, "n2")
            saved = (term, "n2")
        durable_state = max([durable_state, *(reports[done] for done in node.done)])
    await node.stop()
    again = await opened(disk.crash(random.Random(seed)))
    assert again.entries in states[durable_state:]
    assert (again.term, again.voted_for) == saved
    await again.stop()


class _Everything(random.Random):
    """The worst crash: nothing of what was not synced is left."""

    def random(self) -> float:
        return 0.0

    def randint(self, a: int, b: int) -> int:
        return a
