"""`splitbrain clean`: what a killed controller left is told, then removed; what is anybody else's stays."""

from __future__ import annotations

import dataclasses
import json
import mmap
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from splitbrain.harness.backends.agent import volumes
from splitbrain.harness.backends.agent.loops import images
from splitbrain.harness.backends.shared import ownership
from splitbrain.harness.backends.shared.leftovers import Cleaned, sweep_faketime
from tests.backends.support import missing, processes_with, skip_without_namespaces, wait_until_gone
from tests.cli.support import answer, splitbrain, start

pytestmark = [pytest.mark.alone, pytest.mark.cluster]

RUN = (
    "run",
    "--workload",
    "register",
    "--nemesis",
    "disk,clock",
    "--nodes",
    "3",
    "--time-limit",
    "60",
    "--interval",
    "1",
)


def clean(store: Path, *options: str) -> list[str]:
    """What `splitbrain clean` says that it removed, or would, of this store or of this process's children."""
    found: list[str] = answer(splitbrain("clean", "--json", "--store", str(store), *options))["removed"]
    return [line for line in found if str(store) in line or f" {os.getpid()}," in line]


def disk_images(store: Path) -> list[Path]:
    return sorted(store.glob("test=*/run=*/nodes/*/*.disk"))


@pytest.mark.slow
def test_what_a_run_with_faults_of_disks_and_clocks_left_is_told_then_removed(tmp_path: Path) -> None:
    skip_without_namespaces()
    if (problem := volumes.problem()) is not None:
        missing(problem)
    shared = set(os.listdir("/dev/shm"))
    controller = start(*RUN, "--store", str(tmp_path), cwd=tmp_path)
    try:
        wait_for_faults(tmp_path, controller)
    finally:
        os.kill(controller.pid, signal.SIGKILL)
        controller.communicate()
    assert wait_until_gone(f":{controller.pid}:") == {}
    left = disk_images(tmp_path)
    assert len(left) == 3
    would = clean(tmp_path, "--dry-run")
    assert [line for line in would if line.startswith("would remove disk image")] == would != []
    assert disk_images(tmp_path) == left
    assert [line.replace("removed", "would remove") for line in clean(tmp_path)] == would
    assert disk_images(tmp_path) == []
    assert clean(tmp_path) == []
    assert [image for image in images().values() if str(tmp_path) in image] == []
    assert set(os.listdir("/dev/shm")) <= shared


def wait_for_faults(store: Path, controller: subprocess.Popen[str]) -> None:
    """Until faults of both kinds took place."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        assert controller.poll() is None, controller.communicate()
        history = b"".join(path.read_bytes() for path in store.glob("test=*/run=*/history.wal"))
        if b"start-disk" in history and b"start-clock" in history:
            return
        time.sleep(0.1)
    raise AssertionError("no fault took place within two minutes")


def test_images_of_living_controllers_of_other_machines_and_files_that_only_look_alike_stay(tmp_path: Path) -> None:
    own = ownership.this_controller()
    folder = tmp_path / "test=t" / "run=1" / "nodes" / "n1"
    folder.mkdir(parents=True)
    dead = folder / f"{dataclasses.replace(own, started=1).marker}.disk"
    stays = [
        folder / f"{own.marker}.disk",
        folder / f"{dataclasses.replace(own, started=1, boot='0' * 32).marker}.disk",
        folder / f"{dataclasses.replace(own, started=1, pid_namespace=1).marker}.disk",
        folder / "splitbrain-agent:1:2.disk",
        folder / f"{dataclasses.replace(own, started=1).marker}.disk.txt",
        tmp_path / f"{dataclasses.replace(own, started=1).marker}.disk",
    ]
    for path in (dead, *stays):
        path.touch()
    link = folder.parent / "n2"
    link.mkdir()
    os.symlink(stays[0], link / dead.name)
    assert clean(tmp_path) == [f"removed disk image {dead} (0.0 MB), whose controller is gone"]
    assert not dead.exists()
    assert all(path.exists() for path in stays)
    assert (link / dead.name).is_symlink()


def test_a_process_of_a_dead_controller_is_told_and_lives_on_until_it_is_cleaned(tmp_path: Path) -> None:
    marker = dataclasses.replace(ownership.this_controller(), started=1).marker
    process = subprocess.Popen(["/bin/sleep", "60"], env={ownership.MARKER_VARIABLE: marker})
    try:
        while process.pid not in processes_with(marker):
            assert process.poll() is None
        told = f"process {process.pid} of controller {os.getpid()}, which is gone"
        assert clean(tmp_path, "--dry-run") == [f"would kill {told}"]
        assert process.poll() is None
        assert clean(tmp_path) == [f"killed {told}"]
        assert process.wait(timeout=60) == -signal.SIGKILL
    finally:
        process.kill()
        process.wait()


def ended_pid() -> int:
    ended = subprocess.Popen([shutil.which("true") or "true"])
    ended.wait()
    return ended.pid


def test_shared_memory_of_libfaketime_goes_when_its_maker_is_gone_and_no_process_uses_it(tmp_path: Path) -> None:
    pid = ended_pid()
    unused = [tmp_path / f"{kind}_{pid}" for kind in ("faketime_sem", "faketime_shm", "sem.faketime_sem")]
    of_the_living, of_another = tmp_path / f"faketime_shm_{os.getpid()}", tmp_path / "faketime_notes"
    used = tmp_path / f"sem.faketime_shm_{pid}"
    for file in (*unused, of_the_living, of_another, used):
        file.write_bytes(b"x" * 4096)
    line = f"shared memory of libfaketime in {tmp_path}: {', '.join(file.name for file in unused)}"
    with used.open("r+b") as opened, mmap.mmap(opened.fileno(), 4096):
        assert sweep_faketime(tmp_path, dry_run=True) == Cleaned([f"would remove {line}"], [])
        assert all(file.exists() for file in unused)
        assert sweep_faketime(tmp_path, dry_run=False) == Cleaned([f"removed {line}"], [])
        assert sorted(tmp_path.iterdir()) == sorted([of_the_living, of_another, used])
    assert sweep_faketime(tmp_path, dry_run=False).removed
    assert sorted(tmp_path.iterdir()) == sorted([of_the_living, of_another])
    assert sweep_faketime(tmp_path, dry_run=False) == Cleaned([], [])


def test_of_many_files_of_shared_memory_a_line_names_three(tmp_path: Path) -> None:
    pid = ended_pid()
    for kind in ("faketime_sem", "faketime_shm", "sem.faketime_sem", "sem.faketime_shm"):
        (tmp_path / f"{kind}_{pid}").touch()
    [line] = sweep_faketime(tmp_path, dry_run=True).removed
    assert line.endswith(f"sem.faketime_sem_{pid} and 1 more")


def test_the_command_removes_shared_memory_that_is_left(tmp_path: Path) -> None:
    file = Path(f"/dev/shm/faketime_shm_{ended_pid()}")
    file.touch()
    try:
        removed = json.loads(splitbrain("clean", "--json", "--store", str(tmp_path)).stdout)["removed"]
        assert any(line.startswith("removed shared memory of libfaketime in /dev/shm: ") for line in removed)
        assert not file.exists()
    finally:
        file.unlink(missing_ok=True)
