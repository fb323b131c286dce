"""What dead controllers left on this machine is removed once, by however many who start at the same time."""

from __future__ import annotations

import dataclasses
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from splitbrain.harness.backends.agent import loops, syscalls, volumes
from splitbrain.harness.backends.shared import leftovers, ownership
from tests.backends.support import missing

ROOT = Path(__file__).parents[2]
SIZE_BYTES = 16 << 20
_MOUNT_AND_DIE = """
import os, signal, sys
from splitbrain.harness.backends.agent.volumes import Volume
Volume(sys.argv[1], sys.argv[2], size=int(sys.argv[3])).mount()
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A turn for this test alone."""
    monkeypatch.setattr(leftovers, "TURNS_BY", str(tmp_path))
    return tmp_path


@pytest.fixture
def leave(tmp_path: Path) -> Generator[Callable[[str, str], Path]]:
    """Leave a volume mounted in a folder of this name, with an image of that name, as a killed process does."""
    problem = volumes.problem()
    if problem is not None:
        missing(problem)
    top = Path(tempfile.mkdtemp())
    mounted: list[Path] = []

    def mount(folder: str, image: str) -> Path:
        data = top / folder / "data"
        data.mkdir(parents=True, exist_ok=True)
        argv = [sys.executable, "-c", _MOUNT_AND_DIE, str(data), str(top / folder / image), str(SIZE_BYTES)]
        assert subprocess.run(argv, cwd=ROOT, timeout=60).returncode == -signal.SIGKILL
        mounted.append(data)
        return data

    yield mount
    for data in mounted:
        with suppress(OSError):
            while True:
                syscalls.unmount(str(data), syscalls.MNT_DETACH)
    shutil.rmtree(top)


def is_mine(name: str) -> bool:
    return name == f"dead-{os.getpid()}.disk"


def mine() -> str:
    return f"dead-{os.getpid()}.disk"


@pytest.mark.parametrize("folder", ["plain", "l\u00e4ufe \u8dd1", "with blank", "tab\tand\\040", "\u2028line\rs"])
def test_a_volume_is_swept_wherever_it_is_mounted(leave: Callable[[str, str], Path], folder: str) -> None:
    data = leave(folder, mine())
    assert data.is_mount()
    assert len(volumes.sweep(is_mine)) == 1
    assert not data.is_mount()
    assert not (data.parent / mine()).exists()
    assert volumes.sweep(is_mine) == []


def test_a_device_that_another_mount_namespace_keeps_is_no_second_volume(leave: Callable[[str, str], Path]) -> None:
    """A node that starts meanwhile has a copy of the mounts, and with it the device."""
    data = leave("kept", mine())
    argv = ["unshare", "--mount", "--propagation", "private", "sh", "-c", "echo; exec sleep 60"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as other:
        try:
            assert other.stdout is not None
            assert other.stdout.readline() == b"\n"
            assert len(volumes.sweep(is_mine, dry_run=True)) == 1
            assert len(volumes.sweep(is_mine)) == 1
            assert any(image.startswith(str(data.parent)) for image in loops.images().values())
            assert volumes.sweep(is_mine, dry_run=True) == []
            assert volumes.sweep(is_mine) == []
        finally:
            other.kill()


@pytest.mark.slow
def test_sweeps_of_the_same_volume_do_not_disturb_each_other(leave: Callable[[str, str], Path]) -> None:
    with ThreadPoolExecutor(4) as pool:
        for _ in range(5):
            data = leave("here", mine())
            sweeps = [pool.submit(volumes.sweep, is_mine) for _ in range(4)]
            assert [line for sweep in sweeps for line in sweep.result()]
            assert not data.is_mount()


def test_a_device_that_serves_somebody_else_by_now_is_left_alone(
    leave: Callable[[str, str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Numbers of loop devices are used again as soon as they are free."""
    data = leave("living", f"living-{os.getpid()}.disk")
    now = loops.images()
    before = {device: str(data.parent / mine()) for device, image in now.items() if image.startswith(str(data.parent))}
    answers = iter([before])
    monkeypatch.setattr(loops, "images", lambda: next(answers, now))
    assert volumes.sweep(is_mine) == []
    assert data.is_mount()


def test_a_plain_user_leaves_the_volumes_of_root_alone(
    leave: Callable[[str, str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    data = leave("of root", mine())
    with monkeypatch.context() as patched:
        patched.setattr(os, "geteuid", lambda: 65534)
        assert volumes.sweep(is_mine) == []
    assert data.is_mount()


def test_sweeps_take_turns(turns: Path) -> None:
    """While one goes on, another removes nothing."""
    began, go_on = threading.Event(), threading.Event()
    order: list[str] = []

    def slow() -> list[str]:
        began.set()
        assert go_on.wait(60)
        order.append("first")
        return []

    def next_one() -> list[str]:
        order.append("second")
        return []

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(leftovers.sweep, slow)
        assert began.wait(60)
        second = pool.submit(leftovers.sweep, next_one)
        with pytest.raises(TimeoutError):
            second.result(timeout=0.3)
        assert order == []
        go_on.set()
        first.result()
        second.result()
    assert order == ["first", "second"]


def test_a_turn_that_does_not_come_keeps_no_run_from_starting(turns: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leftovers, "TURN_COMES_WITHIN_S", 0.1)
    held = os.open(turns, os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    try:
        assert leftovers.sweep(lambda: ["swept"])[0] == "swept"
    finally:
        os.close(held)


def test_a_name_tells_by_its_marker_whether_its_owner_is_gone() -> None:
    own = ownership.this_controller()
    dead = dataclasses.replace(own, started=1)
    is_left_over = leftovers._is_left_over  # pyright: ignore[reportPrivateUsage]
    assert is_left_over(f"{dead.marker}.disk")
    assert is_left_over(dead.marker)
    assert is_left_over(f"{dataclasses.replace(dead, boot=None).marker}.disk"), "as earlier versions named them"
    assert not is_left_over(f"{own.marker}.disk")
    assert not is_left_over(f"{dataclasses.replace(dead, boot='0' * 32).marker}.disk")
    assert not is_left_over("somebody-else.disk")
