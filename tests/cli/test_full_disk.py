"""A disk that is full is one clear sentence, never a traceback; and what was whole before is whole afterwards."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from splitbrain.results.store import Store
from tests.spark.support import SET, set_history, stored

COMMAND = "from splitbrain.harness.cli.main import main; main()"

IN_A_SMALL_DISK = """
set -e
mount -t tmpfs -o size=2m tmpfs "$1"
if [ -d "$2" ]; then cp -r "$2" "$1/store"; fi
dd if=/dev/zero of="$1/filler" bs=4k 2> /dev/null || true
truncate -s "-$3" "$1/filler"
shift 3
exec "$@"
"""
"""A file system of two megabytes, of which so many bytes are free; it is gone with the process."""

_NAMESPACE = ["unshare", "--map-root-user", "--mount"]


def _mounts() -> bool:
    if shutil.which("unshare") is None:
        return False
    tried = [*_NAMESPACE, "mount", "-t", "tmpfs", "tmpfs", "/mnt"]
    return subprocess.run(tried, capture_output=True, check=False).returncode == 0


pytestmark = pytest.mark.skipif(not _mounts(), reason="no file system of its own can be mounted here")


def splitbrain(disk: Path, store: Path, free: int, *arguments: str) -> subprocess.CompletedProcess[str]:
    """What the command answers on a disk with so many bytes free, on which a copy of that store is."""
    disk.mkdir()
    inner = ["sh", "-c", IN_A_SMALL_DISK, "sh", str(disk), str(store), str(free), sys.executable, "-c", COMMAND]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    words = [*_NAMESPACE, *inner, *arguments, "--store", str(disk / "store")]
    return subprocess.run(words, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.slow
@pytest.mark.parametrize("free", [0, 40_960], ids=["nothing free", "room for a beginning"])
def test_a_recording_ends_with_one_sentence(tmp_path: Path, free: int) -> None:
    words = ["run", "--workload", "register", "--backend", "sim", "--time-limit", "5", "--rate", "20"]
    done = splitbrain(tmp_path / "disk", tmp_path / "nothing", free, *words)
    assert done.returncode == 255, done.stderr
    assert "splitbrain: No space left on device" in done.stderr.strip().splitlines()[-1]
    assert "Traceback" not in done.stderr
    assert "a bug of splitbrain" not in done.stderr


@pytest.mark.slow
def test_analyze_names_each_run_whose_verdict_has_no_room(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    runs = [stored(store, "t", seed, set_history(20), SET) for seed in (1, 2)]
    done = splitbrain(tmp_path / "disk", store.root, 0, "analyze", "--engine", "inline")
    assert done.returncode == 255
    assert "Traceback" not in done.stderr
    for run in runs:
        place = f"{tmp_path}/disk/store/{run.path.relative_to(store.root)}"
        assert f"this run cannot be judged: {place}: No space left on device" in done.stderr
