"""Faults of disks, as a process sees them that has its files on the volume."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from harness.backends.agent import loops
from harness.backends.agent.errors import AgentError
from harness.backends.agent.freezer import Freezer
from harness.backends.agent.volumes import Volume
from tests.backends.support import missing

SIZE = 32 << 20


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


def test_a_loss_of_power_ends_every_other_fault(volume: Volume) -> None:
    for fault in ("full", "sync_fails", "read_only", "fails"):
        volume.spoil({fault: True})
        volume.lose_power()
        with Writer(volume) as writer:
            assert (writer.write(b"x"), writer.sync()) == (None, None), fault
        assert volume.heal() == {}, "there is nothing left to heal"


def test_syncs_of_a_slow_disk_wait_and_are_counted(volume: Volume) -> None:
    with Writer(volume) as writer:
        assert volume.spoil({"slow_ms": 150.0}) == {"frozen_ms": 150.0}
        waited = 0
        while waited < 3:
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


def test_what_is_frozen_thaws_when_whoever_froze_it_is_killed(tmp_path: Path, volume: Volume) -> None:
    """By a process that dies of SIGKILL while it holds the volume frozen for an hour."""
    program = (
        "import os, sys; from harness.backends.agent.freezer import Freezer; freezer = Freezer();"
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
    assert writer.wait(timeout=10) == 0


def test_another_namespace_that_holds_the_old_file_system_does_not_keep_a_disk_from_being_healed(
    volume: Volume,
) -> None:
    """A copy of the mounts, as a container or an agent of another run has them, would bring the old one back."""
    holder = subprocess.Popen(
        ["unshare", "--mount", "--propagation", "private", "sh", "-c", "echo; read _"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert holder.stdout is not None
    holder.stdout.readline()
    try:
        volume.spoil({"fails": True})
        volume.heal()
        with Writer(volume) as writer:
            assert (writer.write(b"x"), writer.sync()) == (None, None)
    finally:
        holder.communicate(b"\n", timeout=5)


def test_an_image_that_cannot_be_made_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loops, "CONTROL", str(tmp_path / "no-such-device"))
    (tmp_path / "data").mkdir()
    volume = Volume(str(tmp_path / "data"), str(tmp_path / "image"), size=SIZE)
    with pytest.raises(AgentError, match="no loop device"):
        volume.mount()
    assert [path.name for path in tmp_path.iterdir()] == ["data"]
