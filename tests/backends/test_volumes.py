"""Faults of disks, as a process sees them that has its files on the volume."""

from __future__ import annotations

import errno
import os
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from splitbrain.harness.backends.agent import loops
from splitbrain.harness.backends.agent.freezer import Freezer
from splitbrain.harness.backends.agent.tools import AgentError
from splitbrain.harness.backends.agent.volumes import Volume
from tests.backends.support import missing

SIZE = 32 << 20
BLOCK = 4096
ANSWERS_WITHIN_S = 60.0


@pytest.fixture
def volume(tmp_path: Path) -> Generator[Volume]:
    """A mounted volume whose data are in `tmp_path / "data"`."""
    if os.geteuid() != 0:
        missing("only root can mount file systems from files")
    if not os.path.exists(loops.CONTROL):
        missing("there are no loop devices here")
    if shutil.which("mkfs.ext4", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin") is None:
        missing("mkfs.ext4 is not installed (e2fsprogs)")
    (tmp_path / "data").mkdir(mode=0o750)
    freezer = Freezer()
    aside = {"seen.jsonl": str(tmp_path / "aside")}
    volume = Volume(str(tmp_path / "data"), str(tmp_path / "image"), freezer, size=SIZE, aside=aside)
    volume.mount()
    try:
        yield volume
    finally:
        volume.unmount()
        freezer.close()
    assert str(tmp_path) not in Path("/proc/self/mounts").read_text()


class Writer:
    """A process's file on the volume, open all the time; every call tells the error that it got, by name."""

    def __init__(self, volume: Volume, name: str = "wal") -> None:
        self.path = Path(volume.path, name)
        self.descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC)

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.descriptor)

    def write(self, data: bytes) -> str | None:
        def all_of_it() -> None:
            rest = data
            while rest:
                rest = rest[os.write(self.descriptor, rest) :]

        return _error(all_of_it)

    def sync(self) -> str | None:
        return _error(lambda: os.fsync(self.descriptor))

    def read(self) -> str | None:
        return _error(lambda: os.pread(self.descriptor, 1, 0))


class Process:
    """Another process that writes and syncs, and can be waited for, whatever the kernel does to it.

    It writes every other block of a file, so that the file's tree of extents takes blocks among those of the data.
    """

    PROGRAM = """
import errno, os, sys
descriptor = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
def error(call, *arguments):
    try:
        call(*arguments)
    except OSError as error:
        return errno.errorcode[error.errno]
    return "ok"
for line in sys.stdin:
    for _ in range(int(line)):
        end = os.fstat(descriptor).st_size
        wrote = error(os.pwrite, descriptor, b"p" * 4096, end + 4096)
        print(wrote, error(os.fsync, descriptor), flush=True)
"""

    def __init__(self, volume: Volume, name: str = "trees") -> None:
        argv = [sys.executable, "-S", "-E", "-c", self.PROGRAM, f"{volume.path}/{name}"]
        self._process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate(timeout=ANSWERS_WITHIN_S)

    def writes(self, times: int = 1) -> list[tuple[str, str]]:
        """What so many writes got, and the sync after each."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(b"%d\n" % times)
        found: list[tuple[str, str]] = []
        rest = b""
        while len(found) < times:
            assert select.select([self._process.stdout], [], [], ANSWERS_WITHIN_S)[0], "a write or sync does not end"
            piece = os.read(self._process.stdout.fileno(), 4096)
            assert piece, "the process has ended"
            *lines, rest = (rest + piece).split(b"\n")
            for line in lines:
                wrote, synced = line.decode().split()
                found.append((wrote, synced))
        return found


def _until(holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + ANSWERS_WITHIN_S
    while not holds():
        assert time.monotonic() < deadline, f"waited in vain: {what}"
        time.sleep(0.01)


def _sync(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _error(call: Any) -> str | None:
    try:
        call()
    except OSError as error:
        return errno.errorcode[error.errno or 0]
    return None


def test_a_volume_looks_like_the_directory_that_it_hides_and_its_data_stay_when_it_goes(
    volume: Volume, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    assert [path.name for path in data.iterdir()] == ["seen.jsonl"]
    assert data.stat().st_mode & 0o777 == 0o750
    (data / "seen.jsonl").write_text("telemetry")
    volume.spoil({"full": True})
    with (data / "seen.jsonl").open("a") as file:
        file.write("!")
    volume.lose_power()
    (data / "kept").write_bytes(b"x" * 5000)
    (data / "sub").mkdir()
    with (data / "sub" / "holes").open("wb") as file:
        file.truncate(20 << 20)
        file.seek(10 << 20)
        file.write(b"middle")
    (data / "link").symlink_to("/etc/hostname")
    volume.unmount()
    assert sorted(path.name for path in data.iterdir()) == ["kept", "link", "seen.jsonl", "sub"]
    assert (data / "kept").read_bytes() == b"x" * 5000
    holes = data / "sub" / "holes"
    assert holes.stat().st_size == 20 << 20
    assert holes.stat().st_blocks * 512 < 1 << 20
    assert holes.read_bytes()[10 << 20 :].startswith(b"middle")
    assert (data / "link").readlink() == Path("/etc/hostname")
    assert not (data / "seen.jsonl").is_symlink()
    assert (data / "seen.jsonl").read_text() == "telemetry!", "no fault strikes it"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data"]


def test_a_full_disk_has_neither_room_nor_inodes_until_it_is_healed(volume: Volume) -> None:
    with Writer(volume) as writer:
        assert writer.write(b"x") is None
        assert volume.spoil({"full": True}) == {"errno": "ENOSPC"}
        assert writer.write(bytes(1 << 16)) == "ENOSPC"
        assert _error(lambda: Path(volume.path, "new").touch()) == "ENOSPC"
        assert writer.read() is None
        assert volume.counts() == {"errno": "ENOSPC"}
        volume.heal()
        assert writer.write(bytes(1 << 20)) is None
        assert writer.sync() is None
        Path(volume.path, "new").touch()


def test_a_sync_fails_once_and_the_one_after_it_succeeds_although_the_data_are_lost(volume: Volume) -> None:
    with Writer(volume) as writer:
        writer.write(b"a" * 8192)
        assert writer.sync() is None
        assert volume.spoil({"sync_fails": True}) == {"errno": "EIO"}
        assert writer.write(b"b" * 8192) is None
        assert writer.sync() == "EIO"
        assert writer.sync() is None, "the kernel took the pages for clean"
        assert writer.write(b"c") is None
        assert writer.sync() == "EIO", "it goes on until it is healed"
        volume.heal()
        assert writer.write(b"d" * 4096) is None
        assert writer.sync() is None
    volume.lose_power()
    left = Path(volume.path, "wal").read_bytes()
    assert left[:8192] == b"a" * 8192
    assert b"b" not in left[:-4096]


def test_a_sync_fails_where_the_file_system_must_first_read_what_it_knows_of_the_file(volume: Volume) -> None:
    """A new mount has nothing in memory, and the file's tree of extents lies where the device fails."""
    with Process(volume) as process:
        assert process.writes(40) == [("ok", "ok")] * 40
    volume.lose_power()
    volume.spoil({"sync_fails": True})
    with Process(volume) as process:
        for wrote, synced in process.writes(5):
            assert wrote in ("ok", "EIO")
            assert synced == "EIO" or wrote == "EIO"
        volume.heal()
        assert process.writes(5) == [("ok", "ok")] * 5


@pytest.mark.slow
def test_disks_that_break_again_and_again_in_every_way_refuse_and_never_keep_a_process_waiting(volume: Volume) -> None:
    refused = {
        "full": {("ENOSPC", "ok"), ("ok", "ENOSPC")},
        "read_only": {("EROFS", "EROFS")},
        "fails": {("EIO", "EIO")},
        "sync_fails": {("ok", "EIO"), ("EIO", "EIO"), ("EIO", "ok")},
    }
    written = 0
    for turn in range(5):
        for fault, answers in refused.items():
            with Process(volume) as process:
                assert process.writes(20) == [("ok", "ok")] * 20, (turn, fault)
                written += 20
                volume.spoil({fault: True})
                assert set(process.writes(5)) & answers, (turn, fault)
                if not volume.heals_stopped:
                    volume.heal()
                    assert process.writes() == [("ok", "ok")], (turn, fault)
                    written += 1
            volume.heal()
    blocks = Path(volume.path, "trees").read_bytes()
    assert blocks.count(b"p" * BLOCK) >= written, "nothing that was synced is lost"


def test_metadata_that_cannot_be_written_while_syncs_fail_make_a_disk_read_only_until_the_node_is_stopped(
    volume: Volume,
) -> None:
    """The kernel writes them to their places sooner or later; here, because somebody syncs the device."""
    with Process(volume) as process:
        assert process.writes(40) == [("ok", "ok")] * 40
        volume.spoil({"sync_fails": True})
        process.writes(5)
        Path(volume.path, "new").mkdir()
        assert _error(lambda: _sync(volume.path)) is None, "the journal can be written"
        assert not volume.heals_stopped
        assert _error(lambda: _sync(volume.device)) == "EIO"
        assert process.writes()[0][1] in ("EROFS", "EIO")
        assert volume.counts() == {"errno": "EROFS"}
        assert volume.heals_stopped
    assert volume.heal() == {"errno": "EROFS"}
    assert Path(volume.path, "trees").read_bytes().count(b"p" * BLOCK) == 40
    with Process(volume) as process:
        assert process.writes(40) == [("ok", "ok")] * 40


def test_a_volume_is_unmounted_while_syncs_fail_and_its_writer_was_killed(tmp_path: Path, volume: Volume) -> None:
    with Process(volume) as process:
        assert process.writes(40) == [("ok", "ok")] * 40
        volume.spoil({"sync_fails": True})
        process.writes(5)
    volume.unmount()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data"]
    assert (tmp_path / "data" / "trees").read_bytes().count(b"p" * BLOCK) >= 40


@pytest.mark.slow
def test_a_disk_that_became_read_only_refuses_even_files_that_were_open_before(volume: Volume) -> None:
    with Writer(volume) as writer:
        writer.write(b"x")
        assert writer.sync() is None
        assert volume.spoil({"read_only": True}) == {"errno": "EROFS"}
        assert writer.write(b"y") == "EROFS"
        assert writer.read() is None
        assert volume.heals_stopped
        with pytest.raises(AgentError, match="a process still has a file open there"):
            volume.heal()
    volume.heal()
    with Writer(volume) as writer:
        assert writer.write(b"z") is None
        assert writer.sync() is None
    assert Path(volume.path, "wal").read_bytes() == b"xz"


def test_a_disk_that_fails_gives_input_output_errors_for_everything(volume: Volume) -> None:
    with Writer(volume) as writer:
        writer.write(b"x")
        assert writer.sync() is None
        assert volume.spoil({"fails": True}) == {"errno": "EIO"}
        assert (writer.write(b"y"), writer.sync(), writer.read()) == ("EIO", "EIO", "EIO")
        assert _error(lambda: Path(volume.path, "wal").read_bytes()) == "EIO"
    assert volume.heal() == {"errno": "EIO"}
    assert Path(volume.path, "wal").read_bytes() == b"x"


def test_a_loss_of_power_keeps_what_was_synced_and_loses_what_was_not(volume: Volume) -> None:
    with Writer(volume, "synced") as synced:
        synced.write(b"a" * 8192)
        assert synced.sync() is None
        synced.write(b"b" * 3000)
    with Writer(volume, "never") as never:
        never.write(b"c" * 500)
    assert volume.lose_power() == {"bytes_lost": 3500, "names_lost": 1}
    assert Path(volume.path, "synced").read_bytes() == b"a" * 8192
    assert not Path(volume.path, "never").exists()
    assert volume.lose_power() == {"bytes_lost": 0, "names_lost": 0}
    with Writer(volume, "synced") as writer:
        assert writer.write(b"d") is None
        assert writer.sync() is None


@pytest.mark.slow
def test_a_loss_of_power_ends_every_other_fault(volume: Volume) -> None:
    for fault in ("full", "sync_fails", "read_only", "fails"):
        volume.spoil({fault: True})
        volume.lose_power()
        with Writer(volume) as writer:
            assert (writer.write(b"x"), writer.sync()) == (None, None), fault
        assert volume.heal() == {}, "there is nothing left to heal"


def test_syncs_of_a_slow_disk_wait_and_are_counted(volume: Volume) -> None:
    with Writer(volume) as writer:
        assert volume.spoil({"slow_ms": 150.0})["freezes"] >= 1
        waited = 0
        while waited < 3 or volume.counts()["slowed_syncs"] < 3:  # a sync may also wait for the machine
            began = time.monotonic()
            writer.write(b"x")
            assert writer.sync() is None
            waited += time.monotonic() - began > 0.05
        seen = volume.counts()
        assert seen["freezes"] >= 3
        assert seen["slowed_syncs"] >= 3
        assert volume.heal()["slowed_syncs"] >= seen["slowed_syncs"]
        assert volume.counts() == {}
        assert (writer.write(b"x"), writer.sync()) == (None, None)


def test_a_slow_disk_that_nobody_uses_slows_no_sync(volume: Volume) -> None:
    """A file system flushes by itself when it is frozen and thawed: that is not the node."""
    with Writer(volume) as writer:
        assert writer.write(b"before") is None
        volume.spoil({"slow_ms": 5.0})
        _until(lambda: volume.counts()["freezes"] >= 10, "ten freezes")
        assert volume.counts()["slowed_syncs"] == 0
        assert volume.heal()["slowed_syncs"] == 0
    volume.lose_power()  # another mount, another device
    volume.spoil({"slow_ms": 5.0})
    _until(lambda: volume.counts()["freezes"] >= 10, "ten freezes")
    assert volume.heal()["slowed_syncs"] == 0


def test_what_is_frozen_thaws_when_whoever_froze_it_is_killed(tmp_path: Path, volume: Volume) -> None:
    """By a process that dies of SIGKILL while it holds the volume frozen for an hour."""
    program = (
        "import os, sys; from splitbrain.harness.backends.agent.freezer import Freezer; freezer = Freezer();"
        "freezer.slow('x', os.open(sys.argv[1], os.O_RDONLY), sys.argv[2], 3.6e6); print(flush=True); input()"
    )
    killed = subprocess.Popen(
        [sys.executable, "-c", program, volume.path, volume.device], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert killed.stdout is not None
    assert killed.stdin is not None
    killed.stdout.readline()
    write = "import os, sys; os.fsync(os.open(sys.argv[1], os.O_CREAT | os.O_WRONLY))"
    writer = subprocess.Popen([sys.executable, "-c", write, f"{volume.path}/late"])
    with pytest.raises(subprocess.TimeoutExpired):
        writer.wait(timeout=0.5)
    killed.kill()
    killed.communicate()
    assert writer.wait(timeout=60) == 0


@contextmanager
def copied_mounts() -> Generator[None]:
    """Another mount namespace, as a container that starts has for a moment; what is mounted stays mounted in it."""
    holder = subprocess.Popen(
        ["unshare", "--mount", "--propagation", "private", "sh", "-c", "echo; read _"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert holder.stdout is not None
    holder.stdout.readline()
    try:
        yield
    finally:
        holder.communicate(b"\n", timeout=60)


def test_another_namespace_that_holds_the_old_file_system_does_not_keep_a_disk_from_being_healed(
    volume: Volume,
) -> None:
    """A copy of the mounts, as a container or an agent of another run has them, would bring the old one back."""
    with copied_mounts():
        volume.spoil({"fails": True})
        volume.heal()
        with Writer(volume) as writer:
            assert (writer.write(b"x"), writer.sync()) == (None, None)


def test_an_old_file_system_that_another_namespace_lets_go_later_does_not_write_into_the_new_one(
    volume: Volume,
) -> None:
    """What it had in memory for its device is old by then."""
    with Process(volume) as process:
        assert process.writes(20) == [("ok", "ok")] * 20
    old = volume.device
    with copied_mounts():
        volume.lose_power()
        with Process(volume) as process:
            assert process.writes(20) == [("ok", "ok")] * 20
        volume.spoil({"sync_fails": True})  # with all metadata in their places
        volume.heal()
    _until(lambda: old not in loops.images(), "the old device is gone")
    volume.lose_power()
    assert Path(volume.path, "trees").read_bytes().count(b"p" * BLOCK) == 40


def test_an_image_that_cannot_be_made_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loops, "CONTROL", str(tmp_path / "no-such-device"))
    (tmp_path / "data").mkdir()
    volume = Volume(str(tmp_path / "data"), str(tmp_path / "image"), size=SIZE)
    with pytest.raises(AgentError, match="no loop device"):
        volume.mount()
    assert [path.name for path in tmp_path.iterdir()] == ["data"]
