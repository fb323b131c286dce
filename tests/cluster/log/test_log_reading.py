"""A reader of a node's files says what they hold and what is damaged, and changes nothing."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from splitbrain.cluster.errors import StorageError
from splitbrain.cluster.inspection import in_words, load_state, read_node
from splitbrain.cluster.log.reading import NodeFiles, NoNodeError
from splitbrain.cluster.storage import open_storage
from splitbrain.cluster.tree import NEWEST_VERSION
from tests.cluster.support import Draws, FakeDisk, World, entry, in_cluster, in_virtual_time, written

THREE = ["n1", "n2", "n3"]


class Untouched:
    """A disk that can only be read."""

    def __init__(self, files: dict[str, bytes]) -> None:
        self._files = files

    def names(self) -> list[str]:
        return sorted(self._files)

    def read(self, name: str) -> bytes | None:
        return self._files.get(name)


def files_of(disk: FakeDisk) -> dict[str, bytes]:
    return {name: disk.read(name) or b"" for name in disk.names()}


def grown(
    fill: Callable[[World], Awaitable[None]], *, wal_bytes: int = 1 << 20, checkpoint_interval: int = 1 << 20
) -> dict[str, bytes]:
    """The files of n1 of a cluster of one, as they are after `fill` and a stop."""
    world = World(["n1"])
    world.wal_bytes = wal_bytes
    world.checkpoint_interval = checkpoint_interval
    in_cluster(world, fill)
    return files_of(world.disks["n1"])


def puts(count: int, *, snapshot_at: int = 0) -> Callable[[World], Awaitable[None]]:
    async def fill(world: World) -> None:
        client = await world.client(await world.leader())
        for number in range(1, count + 1):
            await client.put(f"/k{number}", {"n": number})
            await asyncio.sleep(0.01)
            if number == snapshot_at:
                await client.snapshot()

    return fill


def words(found: NodeFiles) -> list[str]:
    return [in_words(each.entry) for each in found.groups[0].entries]


def test_the_log_of_a_node_is_read_as_it_was_written() -> None:
    found = read_node(Untouched(grown(puts(3))))
    assert (found.member, found.damage) == ("n1", [])
    [group] = found.groups
    assert group.vote is not None
    assert (group.name, group.vote.voted_for, group.last) == ("metadata", "n1", 4)
    assert words(found) == [
        f"no-op, version {NEWEST_VERSION} of the state machine",
        'put /k1 {"n":1}',
        'put /k2 {"n":2}',
        'put /k3 {"n":3}',
    ]
    assert all(each.durable for each in group.entries)


def test_segments_and_the_rest_of_the_log_make_one_log() -> None:
    found = read_node(Untouched(grown(puts(60), wal_bytes=400)))
    [group] = found.groups
    assert group.segments
    assert [each.entry.index for each in group.entries] == list(range(1, 62))
    assert {each.file for each in group.entries} > {each.file for each in group.segments}
    assert words(found)[1:] == [f'put /k{n} {{"n":{n}}}' for n in range(1, 61)]
    assert found.damage == []


def test_ra37_a_snapshot_is_read_with_the_log_behind_it() -> None:
    disk = Untouched(grown(puts(5, snapshot_at=3)))
    found = read_node(disk)
    [group] = found.groups
    assert [(each.sort, each.index, each.problem) for each in group.states] == [("snapshot", 4, None)]
    assert [each.entry.index for each in group.entries] == [5, 6]
    state = load_state(disk, group.states[0])
    assert (state.applied_index, [path for path, _ in state.tree]) == (4, [(), ("k1",), ("k2",), ("k3",)])


def test_what_the_marks_do_not_cover_is_not_called_durable() -> None:
    async def story() -> FakeDisk:
        disk = FakeDisk()
        opened = await open_storage(disk, "n1", Draws(0), lambda _: None)
        syncing = asyncio.ensure_future(opened.storage.sync_log(lambda _: None))
        opened.storage.append([entry(1)], written(entry(1)))
        await asyncio.sleep(0.01)
        disk.gate = asyncio.Event()
        opened.storage.append([entry(2)], written(entry(2)))
        await asyncio.sleep(0.01)
        syncing.cancel()
        return disk

    found = read_node(Untouched(files_of(in_virtual_time(story()))))
    assert [(each.entry.index, each.durable) for each in found.groups[0].entries] == [(1, True), (2, False)]
    assert found.damage == []


def test_ra34_a_tail_that_is_being_written_is_no_damage() -> None:
    files = grown(puts(3))
    [name] = [each for each in files if each.startswith("wal-")]
    whole = read_node(Untouched(files))
    files[name] += b"\x20\0\0\0half of a rec"
    found = read_node(Untouched(files))
    assert found.damage == []
    assert found.wal is not None
    assert found.wal.bytes - found.wal.ends == 17
    assert words(found) == words(whole)


def test_ra34_damage_in_what_was_durable_is_named_and_what_is_before_it_is_shown() -> None:
    files = grown(puts(3))
    [name] = [each for each in files if each.startswith("wal-")]
    at = files[name].index(b"k2")
    files[name] = files[name][:at] + b"X" + files[name][at + 1 :]
    found = read_node(Untouched(files))
    [damage] = found.damage
    assert (damage.file, damage.what) == (name, "a record that was durable is damaged")
    assert at - 64 < damage.byte < at
    assert words(found) == [f"no-op, version {NEWEST_VERSION} of the state machine", 'put /k1 {"n":1}']


def test_ra40_a_checkpoint_that_is_not_whole_is_not_valid_and_no_damage() -> None:
    files = grown(puts(8), checkpoint_interval=4)
    name = max(each for each in files if each.startswith("checkpoint-"))
    files[name] = files[name][:-3]
    found = read_node(Untouched(files))
    last = found.groups[0].states[-1]
    assert (last.file, found.damage) == (name, [])
    assert last.problem is not None
    assert "the state in the snapshot is damaged" in last.problem
    assert name in files


def test_a_checkpoint_of_another_format_is_damage_if_a_start_comes_to_it() -> None:
    whole = grown(puts(12), checkpoint_interval=4)
    older, newest = sorted(each for each in whole if each.startswith("checkpoint-"))[-2:]
    assert starts(with_format(whole, older, 9))
    assert read_node(Untouched(with_format(whole, older, 9))).damage == []
    files = with_format(whole, newest, 9)
    [damage] = read_node(Untouched(files)).damage
    assert (damage.file, damage.byte) == (newest, 4)
    assert not starts(files)
    assert starts(with_format(whole, newest, 0)), "no format has that number: it was not whole"
    assert read_node(Untouched(with_format(whole, newest, 0))).damage == []


def with_format(files: dict[str, bytes], name: str, number: int) -> dict[str, bytes]:
    return {**files, name: files[name][:4] + number.to_bytes(4, "little") + files[name][8:]}


def test_a_segment_that_is_gone_is_damage() -> None:
    files = grown(puts(60), wal_bytes=400)
    names = sorted(each for each in files if each.startswith("segment-"))
    assert len(names) > 2
    del files[names[1]]
    [damage] = read_node(Untouched(files)).damage
    assert damage.file == names[2]
    assert "it does not follow entry" in damage.what


def test_no_files_of_a_node_are_an_error() -> None:
    with pytest.raises(NoNodeError):
        read_node(Untouched({"telemetry.jsonl": b""}))


def test_a_file_that_a_running_node_replaces_is_looked_for_again() -> None:
    files = grown(puts(3))

    class Running(Untouched):
        times = 0

        def names(self) -> list[str]:
            self.times += 1
            return [*super().names(), *(["wal-00000000000000ff"] if self.times == 1 else [])]

    disk = Running(files)
    assert read_node(disk).damage == []
    assert disk.times == 2


LOGS = [grown(puts(12)), grown(puts(40, snapshot_at=20), wal_bytes=300), grown(puts(30), checkpoint_interval=4)]


@given(st.sampled_from(LOGS), st.randoms(use_true_random=False))
def test_any_damage_is_reported_and_never_another_error(files: dict[str, bytes], rng: random.Random) -> None:
    damaged = dict(files)
    for _ in range(rng.randint(1, 3)):
        name = rng.choice(sorted(damaged))
        content = bytearray(damaged[name])
        match rng.randint(0, 3):
            case 0:
                del damaged[name]
                if not damaged:
                    return
                continue
            case 1:
                del content[rng.randint(0, len(content)) :]
            case 2:
                content += rng.randbytes(rng.randint(1, 40))
            case _:
                at = rng.randrange(len(content) or 1)
                content[at : at + 1] = rng.randbytes(1)
        damaged[name] = bytes(content)
    before = dict(damaged)
    disk = Untouched(damaged)
    found = read_node(disk)
    for group in found.groups:
        assert all(in_words(each.entry) for each in group.entries)
        for state in group.states:
            if state.problem is None:
                load_state(disk, state)
    assert damaged == before
    # The reverse does not hold: a start does not look at segments that it does not need.
    if not found.damage:
        assert starts(damaged)


def starts(files: dict[str, bytes]) -> bool:
    """Whether a node starts with these files."""

    async def story() -> bool:
        disk = FakeDisk()
        for name, content in files.items():
            disk.put(name, content)
        try:
            await open_storage(disk, "n1", Draws(0), lambda _: None)
        except StorageError:
            return False
        return True

    run: Coroutine[Any, Any, bool] = story()
    return in_virtual_time(run)
