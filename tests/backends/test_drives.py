"""Block devices of which a part fails."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import struct
import time
from collections.abc import Generator
from pathlib import Path

import pytest

from splitbrain.harness.backends.agent import loops
from splitbrain.harness.backends.agent.drives import BLOCK, Drive
from splitbrain.harness.backends.agent.tools import AgentError
from tests.backends.support import missing

SIZE = 8 << 20
BROKEN_FROM = 3 << 20
BLKDISCARD = 0x1277
GONE_WITHIN_S = 60.0


@pytest.fixture
def drive(tmp_path: Path) -> Generator[Drive]:
    """A drive that begins with a word and holds zeros otherwise."""
    if os.geteuid() != 0 or not os.path.exists(loops.CONTROL):
        missing("only root has loop devices, and not in a container")
    if shutil.which("mkfs.ext4", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin") is None:
        missing("mkfs.ext4 is not installed (e2fsprogs)")
    (tmp_path / "content").write_bytes(b"content")
    made = Drive(str(tmp_path / "image"), SIZE)
    made.make(str(tmp_path / "content"))
    try:
        yield made
    finally:
        made.mend()
        made.close()


@pytest.fixture
def device(drive: Drive) -> Generator[int]:
    """The drive's device, open."""
    _, descriptor = drive.attach()
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def synced(device: int, place: int) -> str | None:
    """The error that a write of a block and a sync get, by name; None if they get none."""
    try:
        os.pwrite(device, os.urandom(BLOCK), place)
        os.fsync(device)
    except OSError as error:
        return errno.errorcode[error.errno or 0]
    return None


def test_a_drive_holds_what_it_was_made_of_and_takes_no_room_for_the_rest(drive: Drive, device: int) -> None:
    assert os.pread(device, SIZE + 1, 0) == b"content".ljust(SIZE, b"\0")
    assert os.stat(drive.image).st_blocks * 512 < 1 << 20


def test_a_drive_fails_beyond_a_place_and_keeps_its_size(drive: Drive, device: int) -> None:
    for place in (0, BROKEN_FROM - BLOCK, BROKEN_FROM, SIZE - BLOCK):
        assert synced(device, place) is None
    drive.fail_beyond(BROKEN_FROM)
    assert os.lseek(device, 0, os.SEEK_END) == SIZE, "a file system finds buffers for all of it"
    assert [synced(device, place) for place in (BROKEN_FROM, SIZE - BLOCK)] == ["EIO", "EIO"]
    assert [synced(device, place) for place in (0, BROKEN_FROM - BLOCK)] == [None, None]
    drive.mend()
    assert [synced(device, place) for place in (BROKEN_FROM, SIZE - BLOCK)] == [None, None]


def test_a_drive_whose_blocks_were_given_back_in_many_places_says_that_it_cannot_fail(
    drive: Drive, device: int
) -> None:
    for number in range(0, 20, 2):
        fcntl.ioctl(device, BLKDISCARD, struct.pack("=QQ", BROKEN_FROM + number * BLOCK, BLOCK))
    with pytest.raises(AgentError, match="out of order"):
        drive.fail_beyond(BROKEN_FROM)
    assert synced(device, BROKEN_FROM) is None


def test_nothing_of_a_drive_is_left_with_its_last_user_but_the_image(drive: Drive, tmp_path: Path) -> None:
    _, descriptor = drive.attach()
    drive.close()
    assert synced(descriptor, 0) is None, "the one that has the device keeps all that it needs"
    os.close(descriptor)
    with open("/proc/self/mounts") as file:
        assert str(tmp_path) not in file.read()
    deadline = time.monotonic() + GONE_WITHIN_S
    while str(tmp_path / "image") in loops.images().values():
        assert time.monotonic() < deadline, "the inner device is still there"
        time.sleep(0.01)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["content", "image"]


def test_a_drive_that_cannot_be_made_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(AgentError):
        Drive(str(tmp_path / "image"), BLOCK).make(str(tmp_path / "no such content"))
    assert list(tmp_path.iterdir()) == []
