"""What a loss of power would leave is what one leaves; looking changes nothing, and shows promises that are none."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from splitbrain.checkers.consensus import Durability
from splitbrain.checkers.verdict import Verdict
from splitbrain.cluster.arguments import parse
from splitbrain.cluster.log.nodelog import open_node_log
from splitbrain.cluster.marks import counted, heard, reached, unnoticed
from splitbrain.cluster.raft.invariant import InvariantError
from splitbrain.cluster.recoverable import recoverable
from splitbrain.harness.campaigns.compose import RunOptions, compose
from splitbrain.harness.contract.faults import DiskFault
from splitbrain.harness.contract.rng import Rng
from splitbrain.harness.running.simulate import simulate
from splitbrain.harness.simulation import images
from splitbrain.harness.simulation.disk import FAILURE, DiskLatency, MountedDisk, SimDisk
from splitbrain.harness.simulation.images import ImageDisk

LATENCY = DiskLatency(1_000, 9_000)
NAMES = ("wal-1", "vote-1", "node")
ARGUMENTS = ["--node", "n1", "--listen", "n1:1", "--peer", "n2=n2:1", "--data", "-"]

CHANGES = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.sampled_from(NAMES), st.binary(min_size=1, max_size=60)),
        st.tuples(st.just("truncate"), st.sampled_from(NAMES), st.integers(0, 50)),
        st.tuples(st.just("sync"), st.sampled_from(NAMES), st.none()),
        st.tuples(st.just("rename"), st.sampled_from(NAMES), st.sampled_from(NAMES)),
        st.tuples(st.just("remove"), st.sampled_from(NAMES), st.none()),
        st.tuples(st.just("replace"), st.sampled_from(NAMES), st.binary(max_size=60)),
        st.tuples(st.just("names"), st.just(""), st.none()),
    ),
    max_size=30,
)


async def at_once(_: int) -> None:
    pass


def mounted(disk: SimDisk) -> MountedDisk:
    return disk.mount(at_once, lambda: True)


async def change(disk: MountedDisk, what: str, name: str, value: Any) -> None:
    if what == "names":
        await disk.sync_names()
    elif what == "remove":
        disk.remove(name)
    elif what == "rename" and name in disk.every_name() and name != value:
        disk.rename(name, value)
    elif what == "replace":
        await disk.replace(name, value)
    elif what in ("append", "truncate", "sync"):
        with disk.open(name) as file:
            if what == "append":
                file.append(value)
            elif what == "truncate":
                file.truncate(min(value, file.size()))
            else:
                await file.sync()


def changed(changes: list[tuple[str, str, Any]], seed: int) -> SimDisk:
    disk = SimDisk(Rng(seed), LATENCY, sector=16)

    async def work() -> None:
        for each in changes:
            await change(mounted(disk), *each)

    asyncio.run(work())
    return disk


def content(disk: SimDisk) -> dict[str, bytes]:
    view = mounted(disk)
    return {name: view.read(name) or b"" for name in view.every_name()}


@settings(max_examples=200, deadline=None)
@given(CHANGES, st.integers(0, 1000))
def test_an_image_is_what_a_loss_of_power_with_the_same_luck_leaves(
    changes: list[tuple[str, str, Any]], seed: int
) -> None:
    disk, same = changed(changes, 1), changed(changes, 1)
    before = content(disk)
    luck = Rng(seed)
    image = disk.image(luck, "drawn")
    assert content(disk) == before
    same._rng = Rng(seed)  # pyright: ignore[reportPrivateUsage]
    disk._rng = Rng(seed)  # pyright: ignore[reportPrivateUsage]
    same.power_loss()
    assert {name: bytes(data) for name, data in image.items()} == content(same)
    disk.power_loss()
    assert content(disk) == content(same), "the image had no part of the disk's own files"


@settings(max_examples=200, deadline=None)
@given(CHANGES)
def test_the_harshest_image_has_what_is_durable_and_nothing_else(changes: list[tuple[str, str, Any]]) -> None:
    disk = changed(changes, 1)
    harsh = disk.image(Rng(0), "nothing")

    async def all_durable() -> None:
        view = mounted(disk)
        await view.sync_names()
        for name in view.every_name():
            with view.open(name) as file:
                await file.sync()

    asyncio.run(all_durable())
    assert {name: bytes(data) for name, data in disk.image(Rng(0), "nothing").items()} == content(disk)
    assert set(harsh) <= set(NAMES) | {f"{name}.new" for name in NAMES}
    disk.power_loss()
    assert {name: bytes(data) for name, data in disk.image(Rng(5), "drawn").items()} == content(disk)


@settings(max_examples=200, deadline=None)
@given(CHANGES, st.integers(0, 1000))
def test_an_image_with_a_gap_lacks_at_most_a_sector_of_what_is_not_durable(
    changes: list[tuple[str, str, Any]], seed: int
) -> None:
    disk = changed(changes, 1)
    written, image = content(disk), disk.image(Rng(seed), "all but a gap")
    assert content(disk) == written
    durable = disk.image(Rng(0), "nothing")
    assert set(image) == set(written)
    for name, data in image.items():
        assert len(data) == len(written[name])
        differ = [at for at in range(len(data)) if data[at] != written[name][at]]
        assert not differ or differ[0] // 16 == differ[-1] // 16
        assert all(data[at] == 0 or data[at] in durable.get(name, b"") or name.endswith(".new") for at in differ)


def test_a_gap_is_filled_with_what_was_durable_there() -> None:
    disk = changed([("append", "node", b"a" * 40), ("sync", "node", None), ("truncate", "node", 8)], 1)
    with mounted(disk).open("node") as file:
        file.append(b"b" * 24)
    gaps = {bytes(disk.image(Rng(seed), "all but a gap")["node"]) for seed in range(20)}
    assert gaps == {b"a" * 16 + b"b" * 16, b"a" * 8 + b"b" * 8 + b"a" * 16}


def test_without_any_sync_the_harshest_image_is_empty() -> None:
    disk = changed([("append", "node", b"abc"), ("append", "wal-1", b"x")], 1)
    assert disk.image(Rng(0), "nothing") == {}
    disk = changed([("append", "node", b"abc"), ("names", "", None), ("append", "node", b"x")], 1)
    assert disk.image(Rng(0), "nothing") == {"node": bytearray()}


def test_a_copy_can_be_changed_as_a_disk_and_nothing_waits() -> None:
    async def work(disk: ImageDisk) -> None:
        file = disk.open("a")
        file.append(b"12345")
        file.truncate(3)
        await file.sync()
        file.truncate(4)
        file.close()
        await disk.replace("b", b"new")
        disk.rename("a", "c")
        disk.remove("missing")
        await disk.sync_names()

    disk = ImageDisk({"gone": bytearray(b"x"), "a.new": bytearray()})
    disk.remove("gone")
    with pytest.raises(StopIteration):
        work(disk).send(None)
    assert {name: disk.read(name) for name in disk.names()} == {"b": b"new", "c": b"123\0"}
    assert disk.read("gone") is None
    with pytest.raises(FileNotFoundError):
        disk.rename("missing", "d")


def test_each_change_of_a_disk_and_each_sync_is_a_reason_to_look() -> None:
    disk = SimDisk(Rng(1), LATENCY, sector=16)
    seen: list[str] = []
    disk.watch = seen.append

    async def work() -> None:
        for each in [
            ("append", "wal-1", b"abc"),
            ("truncate", "wal-1", 1),
            ("sync", "wal-1", None),
            ("rename", "wal-1", "vote-1"),
            ("remove", "vote-1", None),
            ("names", "", None),
        ]:
            await change(mounted(disk), *each)

    asyncio.run(work())
    assert seen == [
        *("create wal", "append wal", "truncate wal", "sync wal", "rename vote", "remove vote", "sync of names"),
    ]


def test_a_disk_with_a_fault_that_lets_a_write_pass_is_looked_at_as_well() -> None:
    disk = SimDisk(Rng(1), LATENCY, sector=16)
    disk.give(DiskFault(sync_fails=True))
    seen: list[str] = []
    disk.watch = seen.append
    asyncio.run(change(mounted(disk), "append", "wal-1", b"abc"))
    assert seen == ["create wal", "append wal"]


def test_what_is_rare_is_looked_at_and_what_is_common_more_seldom_and_not_before_the_first_line() -> None:
    now_ns, looks = 0, 0
    lines: list[str | bytes] = []

    def recover(_: ImageDisk, __: Rng) -> list[dict[str, Any]]:
        nonlocal looks
        looks += 1
        return [{"event": "unrecoverable", "group": "g", "problem": "it is broken"}]

    found = images.CrashImages(SimDisk(Rng(1), LATENCY), Rng(1), lambda: now_ns, lambda: 7, lines.append, lines.append)
    found.passed("sync wal")
    found.begins(recover)
    found.passed("sync wal")
    assert looks == 0
    found.line()
    assert looks == 1
    assert lines == [
        "after a loss of power at this moment it would not start: it is broken",
        b'{"wall":7,"event":"unrecoverable","group":"g"}',
    ]
    for _ in range(1000):
        found.passed("append wal")
    assert 1 < looks <= images.AT_ONCE
    for _ in range(images.AT_ONCE):
        found.passed(f"rename {looks}")
    assert looks == images.AT_ONCE, "the first of each kind, as far as the time allows"
    now_ns += 2 * images.EVERY_NS
    for number in range(5):
        found.passed(f"remove {number}")
    assert looks == images.AT_ONCE + 2
    found.ends()
    found.line()
    assert looks == images.AT_ONCE + 2


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (DiskFault(sync_fails=True), errno.EIO),
        (DiskFault(full=True), errno.ENOSPC),
        (DiskFault(read_only=True), errno.EROFS),
        (DiskFault(fails=True), errno.EIO),
    ],
)
def test_a_change_that_failed_is_a_reason_to_look_as_often_as_at_the_beginning_once_in_a_while(
    fault: DiskFault, error: int
) -> None:
    now_ns, looks = 0, 0

    def recover(_: ImageDisk, __: Rng) -> list[dict[str, Any]]:
        nonlocal looks
        looks += 1
        return []

    disk = SimDisk(Rng(1), LATENCY)
    found = images.CrashImages(disk, Rng(1), lambda: now_ns, lambda: 7, print, print)
    disk.watch = found.passed
    found.begins(recover)
    found.line()

    async def write() -> None:
        with mounted(disk).open("wal-1") as file:
            file.append(b"abc")
            await file.sync()

    def fails() -> None:
        disk.give(fault)
        with pytest.raises(OSError, match=r".") as raised:
            asyncio.run(write())
        assert raised.value.errno == error
        disk.give(None)

    for number in range(1000):
        found.passed(f"rename {number}")
    assert looks == images.AT_ONCE
    asyncio.run(write())
    assert looks == images.AT_ONCE, "the time does not allow more"
    for _ in range(2):
        fails()
        for number in range(1000):
            found.passed(f"rename {number}")
        assert looks == 2 * images.AT_ONCE, "once for both failures"
    now_ns += images.EVERY_NS
    fails()
    for number in range(1000):
        found.passed(f"rename {number}")
    assert looks - 3 * images.AT_ONCE in (0, 1), "one by the time that passed, unless the failure came first"


def test_each_change_and_each_sync_that_fails_is_a_failure_to_who_watches_the_disk() -> None:
    async def heard_of(does: Callable[[MountedDisk], Any]) -> list[str]:
        heard: list[str] = []
        disk = SimDisk(Rng(1), LATENCY)
        node = mounted(disk)
        node.open("log").append(b"abc")
        disk.give(DiskFault(fails=True))
        disk.watch = heard.append
        with pytest.raises(OSError, match="Input/output"):
            await carried_out(does, node)
        return heard

    async def carried_out(does: Callable[[MountedDisk], Any], node: MountedDisk) -> None:
        waits = does(node)
        if asyncio.iscoroutine(waits):
            await waits

    async def check() -> None:
        ways: list[Callable[[MountedDisk], Any]] = [
            lambda node: node.open("log").append(b"d"),
            lambda node: node.open("other"),
            lambda node: node.open("log").truncate(0),
            lambda node: node.rename("log", "old"),
            lambda node: node.remove("log"),
            lambda node: node.open("log").sync(),
            lambda node: node.open("log").sync_at_once(),
            lambda node: node.sync_names(),
            lambda node: node.sync_names_at_once(),
        ]
        for number, way in enumerate(ways):
            assert FAILURE in await heard_of(way), number

    asyncio.run(check())


def test_lines_are_looked_at_more_often_than_changes_of_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(images, "AT_ONCE", 10_000)

    def says_something(_: ImageDisk, __: Rng) -> list[dict[str, Any]]:
        return [{"event": "recoverable", "group": "g"}]

    def looks(pass_by: Callable[[images.CrashImages], None]) -> int:
        done: list[bytes] = []
        found = images.CrashImages(SimDisk(Rng(1), LATENCY), Rng(1), lambda: 0, lambda: 7, done.append, print)
        found.begins(says_something)
        found.line()
        before = len(done)
        for _ in range(1000):
            pass_by(found)
        return len(done) - before

    assert 2 <= looks(lambda found: found.passed("append wal")) < 16
    assert 18 < looks(lambda found: found.line()) < 50


def test_a_disk_that_lets_a_start_wait_is_no_fault_of_the_node() -> None:
    class Slow(ImageDisk):
        async def sync_names(self) -> None:
            await asyncio.sleep(0)

    disk = ImageDisk({})

    async def make() -> None:
        await open_node_log(disk, parse(ARGUMENTS)[0].member, Rng(1), lambda _: None)

    with pytest.raises(StopIteration):
        make().send(None)
    with pytest.raises(InvariantError, match="made a start wait"):
        recoverable(ARGUMENTS, Slow({name: bytearray(disk.read(name) or b"") for name in disk.names()}), Rng(1))


# --- what the cluster says of one -------------------------------------------------------------------------------------


def test_a_node_says_of_an_empty_disk_that_it_has_no_group_and_of_a_broken_one_that_it_would_not_start() -> None:
    assert recoverable(ARGUMENTS, ImageDisk({}), Rng(1)) == []
    (line,) = recoverable(ARGUMENTS, ImageDisk({"node": bytearray(b"nonsense")}), Rng(1))
    assert (line.event, line.group) == ("unrecoverable", "metadata")
    assert line.problem is not None
    assert "node" in line.problem


def test_a_node_says_which_term_vote_and_log_it_would_find() -> None:
    disk = ImageDisk({})

    async def make() -> None:
        log = await open_node_log(disk, parse(ARGUMENTS)[0].member, Rng(1), lambda _: None)
        await log.create("metadata", ["n1", "n2"])
        await log.create("q1", ["n1"], 2)

    with pytest.raises(StopIteration):
        make().send(None)
    found = recoverable(ARGUMENTS, disk, Rng(1))
    assert [(line.event, line.group, line.term, line.last, line.log_term) for line in found] == [
        ("recoverable", "metadata", 0, 0, 0),
        ("recoverable", "q1#2", 0, 0, 0),
    ]


def test_marks_that_are_passed_meanwhile_do_not_count() -> None:
    seen: list[str] = []
    with counted() as counts, heard(seen.append):
        with unnoticed():
            reached("segment written")
        assert (counts["segment written"], seen) == (0, [])
        reached("segment written")
        assert (counts["segment written"], seen) == (1, ["segment written"])


# --- in a run ---------------------------------------------------------------------------------------------------------

OPTIONS: dict[str, Any] = {
    "workload": "register",
    "nemesis": "none",
    "interval": 4.0,
    "op_timeout": 1.0,
    "recovery": 20.0,
    "system": "metadata",
    "backend": "sim",
    "nodes": "3",
    "concurrency": "2n",
    "rate": 100.0,
    "time_limit": 5.0,
    "world": "lan",
    "settings": "snapshot-interval=16,checkpoint-interval=8",
    "seed": 1,
}


def run(bug: str = "", **options: Any) -> tuple[list[dict[str, Any]], Verdict, str]:
    left = simulate(compose(RunOptions.of(**(OPTIONS | options), bug=bug)))
    assert left.failure is None
    rows = left.telemetry.to_pylist()
    return rows, Durability().check(left.history, left.telemetry, {}), left.history_hash


def test_each_node_is_looked_at_and_would_have_kept_its_promises() -> None:
    rows, verdict, _ = run()
    looks = [row for row in rows if row["event"] == "recoverable"]
    assert {row["node"] for row in looks} == {"n1", "n2", "n3"}
    assert max(row["last_index"] for row in looks) > 100
    assert verdict.valid == "true"
    assert verdict.figures["images"] >= 20


def test_looking_changes_nothing_of_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, _, history = run(nemesis="power,kill", interval=1.0)
    monkeypatch.setattr(images, "AT_ONCE", -1000)
    plain, _, same = run(nemesis="power,kill", interval=1.0)
    assert history == same
    assert [row for row in rows if "recoverable" not in row["event"]] == plain


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("bug", "anomaly"), [("M15", "log-forgotten"), ("M01", "vote-forgotten")])
def test_a_promise_before_the_sync_is_seen_without_any_fault(bug: str, anomaly: str) -> None:
    _, verdict, _ = run(bug, time_limit=20.0)
    assert verdict.anomalies == (anomaly,)


def test_a_checkpoint_that_takes_the_log_s_place_before_its_sync_is_seen_without_any_fault() -> None:
    rows, verdict, _ = run("M41")
    assert "unrecoverable" in verdict.anomalies
    assert any(row["event"] == "unrecoverable" for row in rows)
