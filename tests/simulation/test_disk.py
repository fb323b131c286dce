"""A simulated disk keeps what was synced, whatever happens, and of the rest no more than it must."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeAlias, TypeVar

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from splitbrain.cluster.errors import StorageError
from splitbrain.cluster.raft import Entry
from splitbrain.cluster.raft.events import Written
from splitbrain.cluster.runtime import Disk
from splitbrain.cluster.storage import Storage, open_storage
from splitbrain.harness.contract.faults import DiskFault
from splitbrain.harness.contract.rng import Rng
from splitbrain.harness.simulation.ahead import Ahead
from splitbrain.harness.simulation.clock import TrueClock
from splitbrain.harness.simulation.disk import DiskLatency, MountedDisk, SimDisk
from splitbrain.harness.simulation.inodes import Inode, Version
from splitbrain.harness.simulation.loop import SimLoop
from tests.cluster.support import Draws

T = TypeVar("T")

DID = (
    "refused_writes",
    "failed_syncs",
    "dropped_bytes",
    "slowed_syncs",
    "rotten_reads",
    "failed_reads",
    "failed_writes",
)
"""What is counted of a fault."""

SECTOR = 16
"""Small, so that short files already span many."""

LATENCY = DiskLatency(1_000, 9_000)


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)


def new_disk(seed: int = 0) -> SimDisk:
    return SimDisk(Rng(seed), LATENCY, sector=SECTOR)


async def at_once(_: int) -> None:
    pass


class Process:
    """A process whose syncs take effect at once; `end` is its death."""

    def __init__(self, disk: SimDisk, sleep: Callable[[int], Awaitable[None]] = at_once) -> None:
        self.alive = True
        self.disk = disk.mount(sleep, lambda: self.alive)

    def end(self) -> None:
        self.alive = False


class Gate:
    """A sleep that lasts until it is let go; `waiting` holds those who sleep, in the order in which they began."""

    def __init__(self) -> None:
        self.waiting: list[asyncio.Future[None]] = []

    async def sleep(self, _: int) -> None:
        over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.waiting.append(over)
        try:
            await over
        finally:
            self.waiting.remove(over)

    async def open(self, position: int = 0) -> None:
        self.waiting[position].set_result(None)
        await settle()


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def mounted(disk: SimDisk) -> MountedDisk:
    return Process(disk).disk


def content(disk: SimDisk, name: str) -> bytes:
    found = mounted(disk).read(name)
    assert found is not None, f"{name} is gone"
    return found


async def disk_with(files: dict[str, bytes], seed: int = 0) -> SimDisk:
    """A disk on which these are durable."""
    disk = new_disk(seed)
    for name, data in files.items():
        await mounted(disk).replace(name, data)
    return disk


# --- a slow and simple model ----------------------------------------------------------------------------------------


class ModelFile:
    def __init__(self) -> None:
        self.cached = b""
        self.durable = b""
        self.generation = 0  # of the sync that made it durable: an earlier one has nothing to add


class Model:
    """What a disk must be, kept by copying everything: every change of names is a snapshot of the whole directory."""

    def __init__(self) -> None:
        self.names: list[dict[str, ModelFile]] = [{}]  # the durable ones, then one snapshot for each change since

    @property
    def now(self) -> dict[str, ModelFile]:
        return self.names[-1]

    def change(self, **files: ModelFile | None) -> None:
        self.names.append({name: file for name, file in (self.now | files).items() if file is not None})

    def power_lost(self, disk: SimDisk) -> None:
        """Assert that what is left may be left, then take it over."""
        left = {name: content(disk, name) for name in mounted(disk).names()}
        candidates = [names for names in self.names if _is_left(names, left)]
        assert candidates, f"{left} is not what any of {len(self.names)} states of the directory may leave"
        self.names = [{}]
        for name, data in left.items():
            file = ModelFile()
            file.cached = file.durable = data
            self.names[0][name] = file


def _is_left(names: dict[str, ModelFile], left: dict[str, bytes]) -> bool:
    return names.keys() == left.keys() and all(_may_leave(names[name], data) for name, data in left.items())


def _may_leave(file: ModelFile, left: bytes) -> bool:
    """Whether each sector is old, new, or (one of them) new up to some byte and old from there."""
    old, new = file.durable, file.cached
    sizes = (len(new), len(old)) if len(new) < len(old) else range(len(old), len(new) + 1)
    size_allowed = len(left) in sizes
    old = old.ljust(len(left), b"\0")[: len(left)]
    new = (new + old[len(new) :])[: len(left)]
    torn = 0
    for at in range(0, len(left), SECTOR):
        was, is_, may = (data[at : at + SECTOR] for data in (old, left, new))
        if is_ in (was, may):
            continue
        if not any(is_ == may[:until] + was[until:] for until in range(len(is_))):
            return False
        torn += 1
    return size_allowed and torn <= 1


FILES = ("a", "b", "c")
name_of = st.sampled_from(FILES)

Step: TypeAlias = tuple[str, str, Any]

STEPS: st.SearchStrategy[list[Step]] = st.lists(
    st.one_of(
        st.tuples(st.just("append"), name_of, st.binary(min_size=1, max_size=3 * SECTOR)),
        st.tuples(st.just("append"), name_of, st.binary(min_size=1, max_size=3)),
        st.tuples(st.just("truncate"), name_of, st.floats(0, 1.2)),
        st.tuples(st.just("sync"), name_of, st.none()),
        st.tuples(st.just("begin sync"), name_of, st.none()),
        st.tuples(st.just("end sync"), st.just(""), st.integers(0, 3)),
        st.tuples(st.just("remove"), name_of, st.none()),
        st.tuples(st.just("replace"), name_of, st.binary(max_size=2 * SECTOR)),
        st.tuples(st.just("sync names"), st.just(""), st.none()),
        st.tuples(st.just("begin sync names"), st.just(""), st.none()),
        st.tuples(st.just("fail sync"), name_of, st.none()),
        st.tuples(st.just("kill"), st.just(""), st.none()),
        st.tuples(st.just("power"), st.just(""), st.none()),
    ),
    max_size=30,
)


class Script:
    """Does the same to a disk and to the model."""

    def __init__(self, seed: int) -> None:
        self.sim = new_disk(seed)
        self.model = Model()
        self.generations = 0
        self.boot()

    def boot(self) -> None:
        self.gate = Gate()
        self.process = Process(self.sim, self.gate.sleep)
        self.disk = self.process.disk
        self.under_way: list[tuple[asyncio.Task[None], Callable[[], None]]] = []

    async def do(self, action: str, name: str, argument: Any) -> None:
        match action:
            case "append":
                self.disk.open(name).append(argument)
                self.file(name).cached += argument
            case "truncate":
                size = int(len(self.file(name).cached) * argument)
                self.disk.open(name).truncate(size)
                self.file(name).cached = self.file(name).cached[:size].ljust(size, b"\0")
            case "sync" | "begin sync" | "sync names" | "begin sync names":
                if action.endswith("names"):
                    self.begin(self.disk.sync_names(), self.names_synced())
                else:
                    self.begin(self.disk.open(name).sync(), self.synced(self.file(name)))
                if not action.startswith("begin"):
                    await self.end(len(self.under_way) - 1)
            case "end sync" if self.under_way:
                await self.end(argument % len(self.under_way))
            case "remove":
                self.remove(name)
            case "replace":
                await self.replace(name, argument)
            case "fail sync":
                await self.fail_sync(name)
            case "kill" | "power":
                await self.crash(power=action == "power")
            case _:
                pass
        await settle()
        self.same()

    def remove(self, name: str) -> None:
        self.disk.remove(name)
        if name in self.model.now:
            self.model.change(**{name: None})

    def file(self, name: str) -> ModelFile:
        if name not in self.model.now:
            self.model.change(**{name: ModelFile()})
        return self.model.now[name]

    def begin(self, sync: Coroutine[Any, Any, None], done: Callable[[], None]) -> None:
        task = asyncio.get_running_loop().create_task(sync)
        self.under_way.append((task, done))

    async def end(self, position: int) -> None:
        await settle()
        await self.gate.open(position)
        task, done = self.under_way.pop(position)
        await task
        done()

    def synced(self, file: ModelFile) -> Callable[[], None]:
        self.generations += 1
        covered, generation = file.cached, self.generations

        def done() -> None:
            if generation > file.generation:
                file.durable, file.generation = covered, generation

        return done

    def names_synced(self) -> Callable[[], None]:
        covered = self.model.now

        def done() -> None:
            for position, names in enumerate(self.model.names):
                if names is covered:
                    del self.model.names[:position]

        return done

    async def replace(self, name: str, data: bytes) -> None:
        others = len(self.gate.waiting)
        task = asyncio.get_running_loop().create_task(self.disk.replace(name, data))
        await settle()
        while not task.done():
            await self.gate.open(others)
        await task
        file = ModelFile()
        file.cached = file.durable = data
        self.model.change(**{name: file})
        del self.model.names[:-1]

    async def fail_sync(self, name: str) -> None:
        file, handle = self.file(name), self.disk.open(name)
        handle.append(b"dirty")
        file.cached += b"dirty"
        self.sim.give(DiskFault(sync_fails=True))
        task = asyncio.get_running_loop().create_task(handle.sync())
        await settle()
        await self.gate.open(len(self.gate.waiting) - 1)
        with pytest.raises(OSError, match=name) as failed:
            await task
        assert failed.value.errno == errno.EIO
        self.sim.give(None)
        self.generations += 1
        file.cached, file.generation = dropped(file.cached, file.durable), self.generations

    async def crash(self, *, power: bool) -> None:
        if not power:
            self.sim.process_died()
        self.process.end()
        tasks = [task for task, _ in self.under_way]
        for task in tasks[::2]:
            task.cancel()
        if power:
            self.sim.power_loss()
            self.model.power_lost(self.sim)
        gate = self.gate
        self.boot()
        await settle()
        # Some of the dead process's tasks go on, as if nobody had told them.
        while gate.waiting:
            await gate.open()
        await asyncio.gather(*tasks, return_exceptions=True)

    def same(self) -> None:
        """What a node sees is what it did."""
        assert self.disk.names() == sorted(self.model.now)
        for name, file in self.model.now.items():
            assert self.disk.read(name) == file.cached
            assert self.disk.has(name)
        assert not self.disk.has("of no such name")


class TestAgainstASlowModel:
    @pytest.mark.slow
    @given(STEPS, st.integers(0, 2**32 - 1))
    @settings(max_examples=400)
    def test_a_disk_shows_what_was_done_and_a_loss_of_power_leaves_what_it_may(
        self, steps: list[Step], seed: int
    ) -> None:
        async def check() -> None:
            script = Script(seed)
            for action, name, argument in [*steps, ("power", "", None)]:
                await script.do(action, name, argument)

        run(check())


# --- one file, exactly ------------------------------------------------------------------------------------------------

FILE_STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(1, 40)),
        st.tuples(st.just("truncate"), st.integers(0, 40)),
        st.tuples(st.just("begin"), st.just(0)),
        st.tuples(st.just("end"), st.integers(0, 5)),
        st.tuples(st.just("give up"), st.integers(0, 5)),
        st.tuples(st.just("drop"), st.just(0)),
        st.tuples(st.just("power"), st.integers(0, 99)),
    ),
    max_size=40,
)


def _durable(inode: Inode) -> bytes:
    return bytes(inode.data[: inode.durable.shared]) + inode.durable.tail


TWO_TRUNCATIONS = [("append", 30), ("begin", 0), ("end", 0), ("truncate", 5), ("truncate", 5), ("append", 1)]


@pytest.mark.slow
@given(FILE_STEPS)
@example(TWO_TRUNCATIONS)
@example([*TWO_TRUNCATIONS, ("drop", 0)])
@example([("append", 30), ("begin", 0), ("truncate", 5), ("append", 9), ("begin", 0), ("end", 1), ("truncate", 20)])
@settings(max_examples=500)
def test_what_is_durable_is_what_the_file_was_when_the_latest_sync_that_ended_began(
    steps: list[tuple[str, int]],
) -> None:
    inode = Inode(SECTOR)
    cached = durable = b""
    syncs: list[tuple[Version, bytes]] = []
    stale: list[Version] = []
    for number, (action, count) in enumerate(steps):
        match action:
            case "append":
                data = bytes([number + 1]) * count
                inode.append(data)
                cached += data
            case "truncate":
                inode.truncate(max(0, len(cached) - count))
                cached = cached[: max(0, len(cached) - count)]
            case "begin":
                syncs.append((inode.begin_sync(), cached))
            case "end" if syncs:
                position = count % len(syncs)
                version, durable = syncs[position]
                inode.end_sync(version, done=True)
                stale += [version for version, _ in syncs[: position + 1]]
                del syncs[: position + 1]
            case "give up" if syncs:
                version, _ = syncs.pop(count % len(syncs))
                inode.end_sync(version, done=False)
                stale.append(version)
            case "drop" | "power":
                if action == "drop":
                    assert inode.drop_dirty() == len(cached) - _common(cached, durable)
                else:
                    inode.power_loss(Rng(count))
                    durable = bytes(inode.data)
                cached = dropped(cached, durable) if action == "drop" else durable
                stale += [version for version, _ in syncs]
                syncs.clear()
            case _:
                pass
        for version in stale:
            inode.end_sync(version, done=True)
        assert (inode.data, _durable(inode)) == (cached, durable)


def dropped(cached: bytes, durable: bytes) -> bytes:
    """What is read of a file whose dirty pages were dropped: what is durable, and zeros up to its length."""
    return durable + bytes(max(0, len(cached) - len(durable)))


def _common(a: bytes, b: bytes) -> int:
    """How long a beginning two files share, of which each write wrote other bytes than all others."""
    return next((n for n, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


# --- losses of power --------------------------------------------------------------------------------------------------

OLD, NEW = b"o" * (2 * SECTOR + 5), b"n" * (20 * SECTOR)


async def _after_power_loss(seed: int) -> tuple[bytes, dict[str, int]]:
    """What is left of a file of which OLD was synced, and NEW was not."""
    disk = await disk_with({"log": OLD}, seed)
    process = Process(disk)
    process.disk.open("log").append(NEW)
    process.end()
    outcome = disk.power_loss()
    return content(disk, "log"), outcome


class TestPowerLoss:
    def test_over_many_seeds_everything_that_may_happen_to_unsynced_sectors_does(self) -> None:
        async def check() -> None:
            seen: dict[str, int] = {}
            for seed in range(600):
                data, outcome = await _after_power_loss(seed)
                assert data.startswith(OLD)
                fresh = data[len(OLD) :]
                assert outcome["bytes_lost"] == len(NEW) - fresh.count(b"n")
                edges = [at for at in range(len(OLD) + 1, len(data)) if data[at] != data[at - 1]]
                assert len([at for at in edges if at % SECTOR]) <= outcome["sectors_torn"] <= 1
                what = {
                    "all lost": fresh == b"",
                    "all left": fresh == NEW,
                    "zeros": b"n" not in fresh and len(fresh) == len(NEW),
                    "a hole before a later sector": b"\0n" in fresh,
                    "a beginning only": 0 < len(fresh) < len(NEW) and set(fresh) == set(b"n"),
                    "torn": outcome["sectors_torn"] == 1,
                }
                for name in what:
                    seen[name] = seen.get(name, 0) + what[name]
            assert min(seen.values()) >= 8, seen

        run(check())

    def test_a_torn_sector_has_a_new_beginning_and_an_old_end(self) -> None:
        async def check() -> None:
            torn = 0
            for seed in range(300):
                disk = await disk_with({"log": b"o" * (2 * SECTOR)}, seed)
                process = Process(disk)
                file = process.disk.open("log")
                file.truncate(SECTOR)
                file.append(b"n" * SECTOR)
                process.end()
                outcome = disk.power_loss()
                sector = content(disk, "log")[SECTOR:]
                news = sector.count(b"n")
                assert sector == b"n" * news + b"o" * (SECTOR - news)
                assert outcome["sectors_torn"] == (0 < news < SECTOR)
                torn += outcome["sectors_torn"]
            assert torn >= 50

        run(check())

    def test_a_created_file_can_lose_its_name_although_its_content_was_synced(self) -> None:
        async def names_after(seed: int, *, sync_names: bool) -> list[str]:
            disk = new_disk(seed)
            process = Process(disk)
            file = process.disk.open("log")
            file.append(b"x")
            await file.sync()
            if sync_names:
                await process.disk.sync_names()
            process.end()
            lost = disk.power_loss()
            left = mounted(disk).names()
            assert lost["names_lost"] == lost["bytes_lost"] == (left == [])
            return left

        async def check() -> None:
            assert {tuple(await names_after(seed, sync_names=False)) for seed in range(50)} == {(), ("log",)}
            assert {tuple(await names_after(seed, sync_names=True)) for seed in range(50)} == {("log",)}

        run(check())

    def test_a_removed_file_can_come_back_until_the_names_are_synced(self) -> None:
        async def check() -> None:
            found: list[bytes | None] = []
            for seed in range(50):
                disk = await disk_with({"a": b"A"}, seed)
                process = Process(disk)
                process.disk.remove("a")
                assert process.disk.read("a") is None
                process.end()
                disk.power_loss()
                found.append(mounted(disk).read("a"))
                mounted(disk).remove("a")
                await mounted(disk).sync_names()
                disk.power_loss()
                assert mounted(disk).names() == []
            assert b"A" in found
            assert None in found

        run(check())

    @pytest.mark.parametrize("steps", [0, 1, 2])
    @pytest.mark.parametrize("end", ["kill", "power"])
    def test_a_replacement_that_is_interrupted_leaves_the_old_content_or_the_new(self, steps: int, end: str) -> None:
        async def left(seed: int) -> bytes:
            disk = await disk_with({"meta": OLD}, seed)
            gate = Gate()
            process = Process(disk, gate.sleep)
            task = asyncio.get_running_loop().create_task(process.disk.replace("meta", NEW))
            await settle()
            for _ in range(steps):
                await gate.open()
            assert task.done() == (steps == 2)
            process.end()
            task.cancel()
            await settle()
            if end == "power":
                disk.power_loss()
            else:
                disk.process_died()
            assert mounted(disk).names() == ["meta"]
            data = content(disk, "meta")
            # Whatever it left aside does not hinder the next one.
            await mounted(disk).replace("meta", b"again")
            disk.power_loss()
            assert content(disk, "meta") == b"again"
            return data

        async def check() -> None:
            outcomes = {await left(seed) for seed in range(40)}
            if steps == 1 and end == "power":
                assert outcomes == {OLD, NEW}
            else:
                assert outcomes == {OLD if steps == 0 else NEW}

        run(check())

    def test_replacements_follow_each_other(self) -> None:
        async def check() -> None:
            disk = new_disk()
            gate = Gate()
            process = Process(disk, gate.sleep)
            tasks = [asyncio.get_running_loop().create_task(process.disk.replace("a", data)) for data in (OLD, NEW)]
            await settle()
            seen: list[bytes | None] = []
            while gate.waiting:
                await gate.open()
                seen.append(process.disk.read("a"))
            assert [task.done() for task in tasks] == [True, True]
            assert seen == [OLD, OLD, NEW, NEW]

        run(check())

    def test_a_kill_loses_nothing(self) -> None:
        async def check() -> None:
            disk = new_disk()
            process = Process(disk)
            process.disk.open("log").append(NEW)
            process.end()
            disk.process_died()
            assert content(disk, "log") == NEW

        run(check())

    def test_a_dead_process_has_no_effect_and_is_not_told_that_anything_is_durable(self) -> None:
        async def check() -> None:
            created = 0
            for seed in range(30):
                disk = await disk_with({"log": OLD}, seed)
                gate = Gate()
                process = Process(disk, gate.sleep)
                file = process.disk.open("log")
                file.append(NEW)
                node = process.disk
                begun = [file.sync(), node.sync_names(), node.replace("log", b"new")]
                tasks = [asyncio.get_running_loop().create_task(work) for work in begun]
                await settle()
                process.end()
                disk.power_loss()
                left = content(disk, "log")
                file.append(b"more")
                file.truncate(0)
                node.remove("log")
                with pytest.raises(OSError, match="ended"):
                    node.open("ghost")
                mounted(disk).open("a new one")
                while gate.waiting:
                    await gate.open()
                for late in (*tasks, file.sync(), node.sync_names(), node.replace("log", b"")):
                    with pytest.raises(OSError, match="ended"):
                        await late
                assert mounted(disk).names() == ["a new one", "log"]
                mounted(disk).open("log").append(b"dirty")
                created += disk.power_loss()["names_lost"] == 0
                assert content(disk, "log").startswith(left)
            assert created < 30, "a dead process made a name durable"

        run(check())

    def test_a_sync_does_not_cover_what_is_appended_while_it_is_under_way(self) -> None:
        async def left(seed: int) -> bytes:
            disk = await disk_with({"log": b""}, seed)
            gate = Gate()
            process = Process(disk, gate.sleep)
            file = process.disk.open("log")
            file.append(b"covered")
            sync = asyncio.get_running_loop().create_task(file.sync())
            await settle()
            file.append(b"late")
            await gate.open()
            await sync
            process.end()
            disk.power_loss()
            return content(disk, "log")

        async def check() -> None:
            outcomes = [await left(seed) for seed in range(50)]
            assert all(data.startswith(b"covered") for data in outcomes)
            assert b"covered" in outcomes

        run(check())

    def test_a_sync_of_the_names_does_not_cover_what_is_created_while_it_is_under_way(self) -> None:
        async def left(seed: int) -> list[str]:
            disk = new_disk(seed)
            gate = Gate()
            process = Process(disk, gate.sleep)
            process.disk.open("covered")
            sync = asyncio.get_running_loop().create_task(process.disk.sync_names())
            await settle()
            process.disk.open("late")
            await gate.open()
            await sync
            process.end()
            disk.power_loss()
            return mounted(disk).names()

        async def check() -> None:
            assert {tuple(await left(seed)) for seed in range(30)} == {("covered",), ("covered", "late")}

        run(check())

    @pytest.mark.parametrize("end", ["cancelled", "killed"])
    def test_a_sync_that_is_given_up_makes_nothing_durable(self, end: str) -> None:
        async def left(seed: int) -> bytes:
            disk = await disk_with({"log": OLD}, seed)
            gate = Gate()
            process = Process(disk, gate.sleep)
            file = process.disk.open("log")
            file.append(NEW)
            sync = asyncio.get_running_loop().create_task(file.sync())
            await settle()
            if end == "cancelled":
                sync.cancel()
            else:
                disk.process_died()
                await gate.open()
            await settle()
            process.end()
            disk.power_loss()
            return content(disk, "log")

        async def check() -> None:
            assert OLD in [await left(seed) for seed in range(30)]

        run(check())

    def test_the_same_seed_has_the_same_outcome_and_another_one_another(self) -> None:
        async def outcomes(seeds: range) -> list[tuple[bytes, dict[str, int]]]:
            return [await _after_power_loss(seed) for seed in seeds]

        first, again = run(outcomes(range(20))), run(outcomes(range(20)))
        assert first == again
        assert len({data for data, _ in first}) > 10


# --- faults -----------------------------------------------------------------------------------------------------------


class TestFaults:
    def test_a_full_disk_refuses_to_grow_and_may_take_a_beginning(self) -> None:
        async def check() -> None:
            taken: list[int] = []
            for seed in range(40):
                disk = await disk_with({"log": OLD}, seed)
                file = mounted(disk).open("log")
                assert disk.give(DiskFault(full=True)) == {}
                with pytest.raises(OSError, match="log") as refused:
                    file.append(NEW)
                assert (refused.value.errno, refused.value.filename) == (errno.ENOSPC, "log")
                data = content(disk, "log")
                assert (OLD + NEW).startswith(data)
                taken.append(len(data) - len(OLD))
                file.truncate(3)
                await file.sync()
                with pytest.raises(OSError, match=r"log\.new"):
                    await mounted(disk).replace("log", NEW)
                assert content(disk, "log") == OLD[:3]
                assert disk.give(None)["refused_writes"] == 2
                file.append(b"room")
                assert content(disk, "log") == OLD[:3] + b"room"
            assert 0 in taken
            assert max(taken) > 0
            assert len(NEW) not in taken

        run(check())

    def test_a_sync_that_fails_drops_what_it_should_have_made_durable_and_the_next_one_says_nothing(self) -> None:
        async def check() -> None:
            disk = await disk_with({"log": OLD, "other": b""})
            gate = Gate()
            node = Process(disk, gate.sleep)
            file, other = node.disk.open("log"), node.disk.open("other")
            file.append(NEW)
            other.append(b"other")
            disk.give(DiskFault(sync_fails=True))
            loop = asyncio.get_running_loop()
            syncs = [loop.create_task(file.sync()), loop.create_task(file.sync())]
            await settle()
            await gate.open()
            with pytest.raises(OSError, match="log") as failed:
                await syncs[0]
            assert (failed.value.errno, failed.value.filename) == (errno.EIO, "log")
            assert node.disk.read("log") == OLD + bytes(len(NEW))
            await gate.open()
            await syncs[1]
            assert node.disk.read("log") == OLD + bytes(len(NEW))
            assert node.disk.read("other") == b"other"
            evidence = disk.give(None)
            assert (evidence["failed_syncs"], evidence["dropped_bytes"]) == (1, len(NEW))
            node.end()
            disk.power_loss()
            assert content(disk, "log").rstrip(bytes(1)) == OLD

        run(check())

    def test_what_is_written_after_a_failed_sync_stands_where_it_was_written(self) -> None:
        """A process that has not noticed yet goes on at the offset that it knows: a gap shows, nothing closes up."""

        async def check() -> None:
            disk = await disk_with({"log": OLD})
            file = mounted(disk).open("log")
            file.append(NEW)
            disk.give(DiskFault(sync_fails=True))
            with pytest.raises(OSError, match="log"):
                await file.sync()
            file.append(b"later")
            assert content(disk, "log") == OLD + bytes(len(NEW)) + b"later"

        run(check())

    def test_a_sync_with_nothing_to_write_leaves_the_failure_to_the_next(self) -> None:
        async def check() -> None:
            disk = await disk_with({"log": OLD})
            file = mounted(disk).open("log")
            disk.give(DiskFault(sync_fails=True))
            await file.sync()
            file.truncate(1)
            with pytest.raises(OSError, match="log"):
                await file.sync()
            assert content(disk, "log") == OLD
            file.append(b"x")
            await file.sync()
            assert disk.give(None)["failed_syncs"] == 1

        run(check())

    def test_a_slow_disk_takes_longer_by_what_was_asked_for_and_otherwise_within_its_latency(self) -> None:
        async def check() -> None:
            slept: list[int] = []

            async def sleep(delay_ns: int) -> None:
                slept.append(delay_ns)

            disk = new_disk()
            node = Process(disk, sleep).disk
            for _ in range(200):
                await node.sync_names()
            assert all(LATENCY.sync_ns_min <= ns < LATENCY.sync_ns_max for ns in slept)
            assert sorted(slept)[100] < LATENCY.sync_ns_min * 2 < LATENCY.sync_ns_max * 0.8 < max(slept)
            disk.give(DiskFault(slow_ms=2.5))
            del slept[:]
            await node.open("a").sync()
            await node.replace("b", b"")
            assert slept[0::2] == [2_500_000] * 3
            assert len(slept) == 6
            assert all(LATENCY.sync_ns_min <= ns < LATENCY.sync_ns_max for ns in slept[1::2])
            assert disk.give(None)["slowed_syncs"] == 3

        run(check())

    def test_a_sync_that_is_under_way_when_a_slow_disk_is_healed_takes_the_disks_own_time_from_then_on(self) -> None:
        loop = SimLoop(Rng(1))
        clock = TrueClock(loop)
        disk = new_disk()
        synced: list[int] = []

        async def sync() -> None:
            with disk.mount(clock.sleep_ns, lambda: True).open("a") as file:
                file.append(b"x")
                await file.sync()
            synced.append(loop.now_ns)

        async def check() -> None:
            disk.give(DiskFault(slow_ms=60_000))
            syncing = asyncio.ensure_future(sync())
            await clock.sleep_ns(3_000_000_000)
            assert synced == []
            disk.give(None)
            await syncing

        loop.run(check())
        assert LATENCY.sync_ns_min <= synced[0] - 3_000_000_000 <= LATENCY.sync_ns_max

    def test_rot_flips_one_bit_in_each_sector_named_until_it_ends(self) -> None:
        async def check() -> None:
            for seed in range(30):
                files = {"log": OLD * 3, "meta": b"m"}
                disk = await disk_with(files, seed)
                mounted(disk).open("log").append(b"not durable")
                now = {name: content(disk, name) for name in files}
                rotten = disk.give(DiskFault(rot=3))["rotten"]
                assert len({(name, sector) for name, sector in rotten}) == 3
                assert _flipped(disk, now) == sorted((name, sector) for name, sector in rotten)
                assert ["log", (len(OLD) * 3 - 1) // SECTOR] not in rotten
                assert disk.give(None)["rotten_reads"] == 3
                assert {name: content(disk, name) for name in files} == now

        run(check())

    def test_rot_comes_to_short_files_as_often_as_to_long_ones(self) -> None:
        async def check() -> None:
            hit: list[str] = []
            for seed in range(60):
                disk = await disk_with({"log": OLD * 10, "meta": b"m"}, seed)
                hit += [name for name, _ in disk.give(DiskFault(rot=1))["rotten"]]
            assert 20 <= hit.count("meta") <= 40

        run(check())

    def test_with_less_durable_than_asked_for_all_of_it_rots(self) -> None:
        async def check() -> None:
            for seed in range(20):
                disk = await disk_with({"log": b"x" * (2 * SECTOR + 1), "empty": b""}, seed)
                mounted(disk).open("log").append(b"not durable")
                assert sorted(disk.give(DiskFault(rot=9))["rotten"]) == [["log", 0], ["log", 1], ["log", 2]]
                assert content(disk, "log").endswith(b"not durable")
            assert new_disk().give(DiskFault(rot=9))["rotten"] == []

        run(check())

    def test_a_write_to_a_rotten_sector_repairs_it_and_a_truncation_takes_it_away(self) -> None:
        async def check() -> None:
            data = b"x" * (2 * SECTOR + 1)
            disk = await disk_with({"log": data})
            disk.give(DiskFault(rot=3))
            file = mounted(disk).open("log")
            file.append(b"y")
            assert [sector for _, sector in _flipped(disk, {"log": data + b"y"})] == [0, 1]
            file.truncate(SECTOR)
            assert [sector for _, sector in _flipped(disk, {"log": data[:SECTOR]})] == [0]
            file.truncate(0)
            assert content(disk, "log") == b""

        run(check())

    def test_a_fault_outlasts_the_process_and_a_loss_of_power(self) -> None:
        async def check() -> None:
            disk = await disk_with({"log": OLD})
            disk.give(DiskFault(full=True, rot=1))
            disk.process_died()
            disk.power_loss()
            assert len(_flipped(disk, {"log": OLD})) == 1
            with pytest.raises(OSError, match="log"):
                mounted(disk).open("log").append(b"x")

        run(check())

    def test_a_read_only_disk_takes_no_change_and_reads_and_syncs_as_ever(self) -> None:
        async def check() -> None:
            disk = await disk_with({"log": OLD, "meta": b"m"})
            file = mounted(disk).open("log")
            file.append(b"before")
            disk.give(DiskFault(read_only=True))
            refused = 0
            for change in (
                lambda: file.append(NEW),
                lambda: file.truncate(1),
                lambda: mounted(disk).open("new"),
                lambda: mounted(disk).remove("meta"),
            ):
                with pytest.raises(OSError, match="Read-only") as error:
                    change()
                assert error.value.errno == errno.EROFS
                refused += 1
            with pytest.raises(OSError, match="Read-only"):
                await mounted(disk).replace("meta", b"other")
            await file.sync()
            mounted(disk).remove("there is no such file")
            assert disk.give(None) == {**dict.fromkeys(DID, 0), "refused_writes": refused + 1}
            disk.power_loss()
            assert (content(disk, "log"), content(disk, "meta")) == (OLD + b"before", b"m")

        run(check())

    def test_a_disk_that_fails_fails_everything_and_keeps_what_was_durable(self) -> None:
        async def check() -> None:
            disk = await disk_with({"log": OLD})
            file = mounted(disk).open("log")
            file.append(NEW)
            disk.give(DiskFault(fails=True))
            for doing in (
                lambda: file.append(b"x"),
                lambda: file.truncate(1),
                lambda: mounted(disk).read("log"),
                lambda: mounted(disk).open("new"),
            ):
                with pytest.raises(OSError, match="Input/output") as error:
                    doing()
                assert error.value.errno == errno.EIO
            with pytest.raises(OSError, match="Input/output"):
                await file.sync()
            with pytest.raises(OSError, match="Input/output"):
                await mounted(disk).sync_names()
            did = disk.give(None)
            assert (did["failed_writes"], did["failed_reads"], did["failed_syncs"]) == (3, 1, 2)
            assert did["dropped_bytes"] == len(NEW)
            assert content(disk, "log")[: len(OLD)] == OLD
            file.append(b"again")
            await file.sync()

        run(check())

    def test_truncated_files_lose_some_of_their_last_sector_for_good(self) -> None:
        async def check() -> None:
            cut: list[int] = []
            for seed in range(60):
                files = {"log": b"l" * (3 * SECTOR), "meta": b"mm", "empty": b""}
                disk = await disk_with(files, seed)
                found = disk.give(DiskFault(truncate=9))["truncated"]
                assert {name for name, _ in found} == {"log", "meta"}
                for name, lost in found:
                    assert 1 <= lost <= min(SECTOR, len(files[name]))
                    assert content(disk, name) == files[name][:-lost]
                cut += [lost for name, lost in found if name == "log"]
                assert disk.give(None) == dict.fromkeys(DID, 0)
                disk.power_loss()
                assert all(content(disk, name) == files[name][:-lost] for name, lost in found)
            assert {1, SECTOR} <= set(cut)

        run(check())

    def test_a_truncation_takes_from_the_end_that_the_node_saw_and_may_reach_what_was_durable(self) -> None:
        async def check() -> None:
            disk = await disk_with({"log": b"d" * SECTOR})
            file = mounted(disk).open("log")
            file.append(b"n")
            assert disk.give(DiskFault(truncate=1))["truncated"] == [["log", 1]]
            assert content(disk, "log") == b"d" * SECTOR
            assert disk.give(DiskFault(truncate=1))["truncated"][0][1] >= 1
            left = content(disk, "log")
            disk.power_loss()
            assert content(disk, "log") == left
            assert left == b"d" * len(left)
            assert len(left) < SECTOR

        run(check())

    def test_the_counters_go_on_over_faults(self) -> None:
        async def check() -> None:
            disk = await disk_with({"log": OLD})
            for _ in range(2):
                disk.give(DiskFault(full=True))
                with pytest.raises(OSError, match="log"):
                    mounted(disk).open("log").append(b"x")
            assert disk.give(None)["refused_writes"] == 1
            assert disk.counters["refused_writes"] == 2
            assert disk.give(None) == {}

        run(check())


def _flipped(disk: SimDisk, should: dict[str, bytes]) -> list[tuple[str, int]]:
    """The sectors that read other than they should; each by one bit."""
    found: list[tuple[str, int]] = []
    for name, data in should.items():
        for offset, (is_, was) in enumerate(zip(content(disk, name), data, strict=True)):
            if is_ != was:
                assert (is_ ^ was).bit_count() == 1
                found.append((name, offset // SECTOR))
    assert len(found) == len(set(found)), "two bits of one sector"
    return sorted(found)


def test_a_closed_file_takes_nothing() -> None:
    async def check() -> None:
        file = mounted(new_disk()).open("log")
        file.close()
        for late in (lambda: file.append(b"x"), lambda: file.truncate(0)):
            with pytest.raises(OSError, match="log"):
                late()
        with pytest.raises(OSError, match="log"):
            await file.sync()

    run(check())


# --- what a node keeps on it ------------------------------------------------------------------------------------------


class Node:
    """The storage of a node of the cluster over many lives, with everything that it was told is durable.

    Attributes:
        logs: what the log was after each record that was written, from the one that is durable for certain on.
        votes: what was saved last for certain, then what is being saved.
        lives: how often it started to the end.
    """

    def __init__(self, seed: int) -> None:
        self.sim = new_disk(seed)
        self.rng = Rng(seed + 1)
        self.logs: list[list[Entry]] = [[]]
        self.votes: list[tuple[int, str | None]] = [(0, None)]
        self.term = 0
        self.writes = 0
        self.lives = 0
        self.lost: dict[str, int] = {}

    async def live(self) -> None:
        """One life: start, do this and that, lose power at any time."""
        process = Process(self.sim, self.sleep)
        serving = asyncio.get_running_loop().create_task(self.serve(process.disk))
        for _ in range(self.rng.below(80)):
            await asyncio.sleep(0)
        process.end()
        for what, count in self.sim.power_loss().items():
            self.lost[what] = self.lost.get(what, 0) + count
        serving.cancel()
        [error] = await asyncio.gather(serving, return_exceptions=True)
        assert isinstance(error, asyncio.CancelledError), error

    async def serve(self, disk: Disk) -> None:
        found = await open_storage(disk, "n1", Draws(0), lambda _: None)
        storage, recovered = found.storage, found.recovered
        assert list(recovered.entries) in self.logs
        assert (recovered.term, recovered.voted_for) in self.votes
        self.logs, self.votes = [list(recovered.entries)], [(recovered.term, recovered.voted_for)]
        self.writes = 0
        self.lives += 1
        await asyncio.gather(storage.sync_log(self.durable), self.work(storage))

    async def sleep(self, delay_ns: int) -> None:
        for _ in range(delay_ns // 1_000):
            await asyncio.sleep(0)

    def durable(self, done: Written) -> None:
        """The log that is durable now is the one of the write that `done` numbers, or a later one."""
        del self.logs[: len(self.logs) - 1 - (self.writes - done.generation)]

    async def work(self, storage: Storage) -> None:
        while True:
            log = self.logs[-1]
            action = self.rng.below(10)
            if action < 6:
                self.append(storage, log)
            elif action < 7 and log:
                self.term += 1
                keep = max(0, len(log) - 1 - self.rng.below(5))
                self.write(log[:keep])
                storage.truncate(keep + 1)
            elif action < 8:
                self.term += 1
                self.votes.append((self.term, f"n{self.rng.below(3)}"))
                await storage.save_vote(*self.votes[-1])
                del self.votes[:-1]
            await asyncio.sleep(0)

    def append(self, storage: Storage, log: list[Entry]) -> None:
        new: list[Entry] = []
        for _ in range(self.rng.between(1, 4)):
            data = bytes([self.rng.below(256)]) * self.rng.below(3 * SECTOR)
            new.append(Entry(len(log) + len(new) + 1, self.term, "command", data))
            self.write(log + new)
        storage.append(new, Written(new[-1].index, self.term, self.writes))

    def write(self, log: list[Entry]) -> None:
        self.logs.append(log)
        self.writes += 1


class TestTheStorageOfANode:
    @pytest.mark.slow
    def test_it_recovers_everything_that_was_confirmed_from_five_hundred_losses_of_power(self) -> None:
        async def check() -> None:
            lost: dict[str, int] = {}
            lives = 0
            for seed in range(25):
                node = Node(seed)
                for _ in range(20):
                    await node.live()
                for what, count in node.lost.items():
                    lost[what] = lost.get(what, 0) + count
                lives += node.lives
            assert 300 < lives < 500, "some lives must end while a node is starting"
            assert min(lost.values()) >= 50, lost

        run(check())

    @pytest.mark.parametrize("rotten", ["wal-0000000000000001", "vote-00000001", "node"])
    def test_it_refuses_to_start_on_rot_in_what_was_durable_and_starts_again_without(self, rotten: str) -> None:
        async def check() -> None:
            refused = 0
            for seed in range(40):
                disk = new_disk(seed)
                storage = (await open_storage(mounted(disk), "n1", Draws(0), lambda _: None)).storage
                entries = [Entry(index, 1, "command", b"data" * 5) for index in range(1, 9)]
                done: list[Written] = []
                storage.append(entries, Written(8, 1, 0))
                task = asyncio.get_running_loop().create_task(storage.sync_log(done.append))
                await settle()
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
                assert done
                if disk.give(DiskFault(rot=1))["rotten"][0][0] == rotten:
                    with pytest.raises(StorageError, match=rotten):
                        await open_storage(mounted(disk), "n1", Draws(0), lambda _: None)
                    refused += 1
                disk.give(None)
                recovered = (await open_storage(mounted(disk), "n1", Draws(0), lambda _: None)).recovered
                assert list(recovered.entries) == entries
            assert refused >= 10

        run(check())


@pytest.mark.parametrize("seed", range(5))
def test_a_disk_that_is_wiped_has_nothing_left_that_a_loss_of_power_could_bring_back(seed: int) -> None:
    async def check() -> None:
        disk = new_disk(seed)
        process = Process(disk)
        await process.disk.replace("durable", b"x" * 40)
        process.disk.open("cached").append(b"y" * 40)
        process.end()
        assert disk.give(DiskFault(wipe=True)) == {"wiped": 2}
        disk.power_loss()
        disk.give(None)
        again = Process(disk).disk
        assert (again.names(), again.read("durable"), again.read("cached")) == ([], None, None)
        await again.replace("durable", b"z")
        assert again.read("durable") == b"z"

    run(check())


def _contents(disk: SimDisk) -> tuple[dict[str, bytes], dict[str, bytes]]:
    """What the node sees, and what the harshest loss of power would leave."""
    seen = {name: disk.read(name) or b"" for name in disk.every_name()}
    return seen, {name: bytes(data) for name, data in disk.image(Rng(0), "nothing").items()}


def _change(disk: MountedDisk, rng: Rng) -> int:
    """Do something to the disk; how long it blocks."""
    there = disk.every_name()
    name = rng.choice(["a", "b", "c"])
    match rng.below(6):
        case 0:
            return disk.sync_names_at_once()
        case 1 if name in there:
            disk.rename(name, rng.choice(["a", "b", "c"]))
        case 2 if name in there:
            disk.remove(name)
        case 3 if name in there:
            return disk.open(name).sync_at_once()
        case 4:
            disk.open(name).truncate(rng.below(40))
        case _:
            disk.open(name).append(bytes(rng.below(250) + 1 for _ in range(rng.below(20))))
    return 0


@pytest.mark.parametrize("seed", range(30))
def test_what_a_blocked_process_had_not_come_to_is_taken_back(seed: int) -> None:
    rng, now = Rng(seed), 0
    disk, held = new_disk(seed), 0
    mounted = disk.mount(at_once, lambda: True)
    mounted.follow(Ahead(lambda: now, lambda: max(0, held - now)))
    were = [(0, _contents(disk))]
    for _ in range(40):
        began = max(now, held)
        held = began + _change(mounted, rng)
        were.append((held, _contents(disk)))
    now = rng.between(0, held)
    disk.take_back()
    assert _contents(disk) == [state for at, state in were if at <= now][-1]
