"""A stopped node whose files were damaged has all that it acknowledged, or refuses to start: never a wrong answer.

Any byte flipped, any file cut off or gone, in the files of one node of a cluster: write-ahead log, segments, snapshot,
checkpoints, term and vote, the node's own (RA-33 to RA-40, M42, M43).
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Literal, TypeAlias

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from splitbrain.cluster.errors import StorageError
from splitbrain.cluster.log.snapshot import parse_name
from splitbrain.cluster.log.walfile import decode
from splitbrain.cluster.raft import Entry, Recovered
from splitbrain.cluster.storage import open_storage
from splitbrain.cluster.store import Store
from tests.cluster.support import Draws, FakeDisk, World, eventually, in_virtual_time

THREE = ["n1", "n2", "n3"]
SORTS = ("node", "vote", "wal", "segment", "snapshot", "checkpoint")
REFUSAL = re.compile(rf"^({'|'.join(SORTS)})[-0-9a-f]*, byte \d+: .*(Replace|replace) this node", re.DOTALL)

Files: TypeAlias = dict[str, bytes]


@dataclass(frozen=True)
class State:
    """What a node has: the entries behind the base, and all that it has applied at its last entry.

    Attributes:
        vote: its term, and for whom it voted.
        entries: by index.
        last: index of its last entry.
        chain: of the store, with all entries of the log applied.
    """

    vote: tuple[int, str | None]
    entries: dict[int, Entry]
    last: int
    chain: str


@dataclass(frozen=True)
class Stopped:
    """A cluster that was stopped.

    Attributes:
        files: of each node.
        victim: the node whose files are damaged.
        acknowledged: the last entry that it had reported as durable.
        values: what clients were acknowledged, by path.
        state: what it has if nothing is damaged.
        chains: by index, the chain of hashes of all that was applied, on whichever node: they agree.
    """

    files: dict[str, Files]
    victim: str
    acknowledged: int
    values: dict[str, int]
    state: State
    chains: dict[int, str]


def disk_of(files: Files) -> FakeDisk:
    disk = FakeDisk()
    for name, content in files.items():
        disk.put(name, content)
    return disk


def files_of(disk: FakeDisk) -> Files:
    return {name: disk.read(name) or b"" for name in disk.names()}


async def recovered(files: Files, node: str) -> State:
    opened = await open_storage(disk_of(files), node, Draws(0), lambda _: None)
    found: Recovered = opened.recovered
    store = Store() if opened.state is None else Store.load(opened.state)
    assert store.applied_index == found.base_index
    for each in found.entries:
        store.apply(each)
    entries = {each.index: each for each in found.entries}
    return State((found.term, found.voted_for), entries, store.applied_index, store.chain_hash)


Tail = Literal["synced", "unsynced"]


@cache
def stopped(tail: Tail) -> Stopped:
    """A cluster of three nodes with every sort of file, stopped; with `unsynced`, one had more in its cache."""

    async def story() -> Stopped:
        world = World(THREE)
        world.snapshot_interval, world.checkpoint_interval, world.wal_bytes = 30, 7, 700
        values: dict[str, int] = {}
        try:
            await world.start()
            leader = await world.leader()
            victim = next(name for name in THREE if name != leader)
            client = await world.client(leader)
            for number in range(1, 400):
                path = f"/k{number % 5}"
                await client.put(path, number)
                values[path] = number
                await asyncio.sleep(0.05)  # of virtual time: all that was appended is durable
                sorts = {name.partition("-")[0] for name in world.disks[victim].names()}
                if number > 120 and sorts == set(SORTS) and len(files_of(world.disks[victim])) >= 7:
                    break
            acknowledged = world.nodes[victim].status().applied_index
            if tail == "unsynced":
                world.disks[victim].gate = asyncio.Event()
                for number in range(400, 403):
                    await client.put("/k0", number)
                    values["/k0"] = number
                await asyncio.sleep(0.05)
        finally:
            await world.close()
        assert {name.partition("-")[0] for name in world.disks[victim].names()} == set(SORTS)
        files = {name: files_of(disk) for name, disk in world.disks.items()}
        chains: dict[int, str] = {}
        for name in THREE:
            state = await recovered(files[name], name)
            assert chains.setdefault(state.last, state.chain) == state.chain
        return Stopped(files, victim, acknowledged, values, await recovered(files[victim], victim), chains)

    return in_virtual_time(story())


@dataclass(frozen=True)
class Damage:
    """What is done to a file: a byte is changed, its end is cut off at an offset, or it is removed."""

    file: str
    sort: Literal["flip", "cut", "remove"]
    offset: int = 0
    mask: int = 1

    def of(self, files: Files) -> Files:
        content = bytearray(files[self.file])
        if self.sort == "remove":
            return {name: data for name, data in files.items() if name != self.file}
        if self.sort == "cut":
            del content[self.offset :]
        else:
            content[self.offset] ^= self.mask
        return {**files, self.file: bytes(content)}


def least(cluster: Stopped, damage: Damage) -> int:
    """The last entry that the node must still have if it starts.

    All that it acknowledged, with one exception: a write-ahead log that is shorter than it was is what a crash before
    the last writes leaves, and there is nothing beside it that says more (as in other systems: the end of the file is
    the end of the log). The whole records that are left must be there.
    """
    if damage.sort != "cut" or not damage.file.startswith("wal-"):
        return cluster.acknowledged
    left = damage.of(cluster.files[cluster.victim])[damage.file]
    number = int(damage.file.removeprefix("wal-"), 16)
    entries = [
        each.change.index for each in decode(left, damage.file, number).changes if isinstance(each.change, Entry)
    ]
    return min(cluster.acknowledged, max(entries, default=0))


async def judge(cluster: Stopped, damage: Damage) -> Literal["refused", "recovered"]:
    files = damage.of(cluster.files[cluster.victim])
    try:
        state = await recovered(files, cluster.victim)
    except StorageError as error:
        said = str(error)
        assert REFUSAL.match(said), said
        if damage.sort != "remove" and not damage.file.startswith("wal-"):
            assert damage.file in said
        return "refused"
    assert state.vote == cluster.state.vote
    assert least(cluster, damage) <= state.last <= cluster.state.last
    common = state.entries.keys() & cluster.state.entries.keys()
    assert all(state.entries[index] == cluster.state.entries[index] for index in common)
    if state.last == cluster.state.last:
        assert state.chain == cluster.state.chain
    assert cluster.chains.get(state.last, state.chain) == state.chain
    return "recovered"


def damages(cluster: Stopped) -> st.SearchStrategy[Damage]:
    files = cluster.files[cluster.victim]

    def of_file(name: str) -> st.SearchStrategy[Damage]:
        offsets = st.integers(0, len(files[name]) - 1)
        return st.one_of(
            st.builds(Damage, st.just(name), st.just("flip"), offsets, st.integers(1, 255)),
            st.builds(Damage, st.just(name), st.just("cut"), offsets),
            st.just(Damage(name, "remove")),
        )

    return st.sampled_from(sorted(files)).flatmap(of_file)


@pytest.mark.parametrize("tail", ["synced", "unsynced"])
def test_any_damage_to_a_file_is_refused_with_file_and_byte_or_harmless(tail: Tail) -> None:
    cluster = stopped(tail)

    @settings(max_examples=100)
    @given(damages(cluster))
    def check(damage: Damage) -> None:
        asyncio.run(judge(cluster, damage))

    check()


def every_damage(cluster: Stopped) -> Iterator[Damage]:
    for name, content in cluster.files[cluster.victim].items():
        yield Damage(name, "remove")
        for offset in range(len(content)):
            yield Damage(name, "cut", offset)
            yield Damage(name, "flip", offset, 1 << offset % 8)
            yield Damage(name, "flip", offset, 255)


@pytest.mark.slow
@pytest.mark.parametrize("tail", ["synced", "unsynced"])
def test_every_byte_of_every_file_may_be_damaged_and_every_file_cut_off_anywhere(tail: Tail) -> None:
    cluster = stopped(tail)
    for damage in every_damage(cluster):
        try:
            asyncio.run(judge(cluster, damage))
        except Exception as error:
            raise AssertionError(f"{damage}") from error


@pytest.mark.parametrize("sort", SORTS)
def test_what_becomes_of_a_file_that_is_gone(sort: str) -> None:
    """Only a checkpoint can be missed: there is always another way to its state."""
    cluster = stopped("synced")
    names = [name for name in cluster.files[cluster.victim] if name.partition("-")[0] == sort]
    found = {asyncio.run(judge(cluster, Damage(name, "remove"))) for name in names}
    if sort in ("node", "vote", "wal"):
        assert found == {"refused"}
    if sort == "checkpoint":
        assert found == {"recovered"}


def test_a_checkpoint_that_is_damaged_is_skipped_and_nothing_is_lost() -> None:
    cluster = stopped("synced")
    files = cluster.files[cluster.victim]
    newest = max((name for name in files if name.startswith("checkpoint-")), key=lambda name: parse_name(name).index)
    for offset in range(len(files[newest])):
        # The version is no damage that can be told from a file of another version.
        expected = "refused" if offset in range(4, 8) else "recovered"
        assert asyncio.run(judge(cluster, Damage(newest, "flip", offset, 16))) == expected


def test_a_checkpoint_of_which_a_loss_of_power_left_the_first_bytes_is_skipped() -> None:
    cluster = stopped("synced")
    files = cluster.files[cluster.victim]
    newest = max((name for name in files if name.startswith("checkpoint-")), key=lambda name: parse_name(name).index)
    for left in range(13):
        torn = files[newest][:left] + bytes(len(files[newest]) - left)
        found = asyncio.run(recovered({**files, newest: torn}, cluster.victim))
        assert (found.last, found.chain) == (cluster.state.last, cluster.state.chain)


@settings(max_examples=25)
@given(st.data())
def test_a_cluster_with_one_damaged_node_answers_with_all_that_was_acknowledged(data: st.DataObject) -> None:
    """The node starts and agrees with the others, or it refuses to, and they answer without it."""
    cluster = stopped("unsynced")
    damage = data.draw(damages(cluster))

    async def story() -> None:
        world = World(THREE)
        world.snapshot_interval, world.checkpoint_interval, world.wal_bytes = 30, 7, 700
        for name in THREE:
            files = cluster.files[name]
            world.disks[name] = disk_of(damage.of(files) if name == cluster.victim else files)
        try:
            for name in THREE:
                try:
                    await world.start(name)
                except StorageError:
                    assert name == cluster.victim
            client = await world.client(await world.leader())
            for path, number in cluster.values.items():
                assert (await client.get(path, timeout_ms=5000)).value == number

            async def alike() -> bool | None:
                seen = [node.status() for node in world.nodes.values()]
                return len({(each.applied_index, each.chain_hash) for each in seen}) == 1 or None

            await eventually(alike)
            assert world.failures == []
        finally:
            await world.close()

    in_virtual_time(story())
