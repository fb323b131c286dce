"""A damaged store on a standalone cluster of which one worker is killed: the rest judges every run as it must be."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from pathlib import Path

import pytest

from tests.cli.damaged_store import KINDS, analyzed, lay, modules, problems

from .standalone import LOOPBACK, standalone_cluster

pytestmark = [pytest.mark.spark, pytest.mark.slow]

WAIT_S = 300.0


def test_a_worker_that_is_killed_in_between_costs_no_run_its_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, daemons = tmp_path / "modules", tmp_path / "daemons"
    modules(code)
    monkeypatch.syspath_prepend(code)
    monkeypatch.setenv("SPARK_LOCAL_IP", LOOPBACK)
    laid = lay(tmp_path / "store", 2 * len(KINDS), list(KINDS))
    daemons.mkdir()
    found: list[subprocess.CompletedProcess[str]] = []
    with standalone_cluster(daemons, workers=2) as master:
        command = threading.Thread(target=lambda: found.append(analyzed(tmp_path / "store", "--master", master)))
        command.start()
        ends_s = time.monotonic() + WAIT_S
        while not list(code.glob("begun-*")) and command.is_alive():
            assert time.monotonic() < ends_s
            time.sleep(0.05)
        assert command.is_alive(), found
        killed = processes_of(daemons / "worker-0")
        assert killed
        for process in killed:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        command.join()
        log = (daemons / "master.log").read_text()
    [done] = found
    assert problems(laid, done) == []
    assert "without Spark" not in done.stderr
    assert "Removing worker" in log


def processes_of(folder: Path) -> list[int]:
    """The worker of this folder, and its executors."""
    found: list[int] = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (process / "cmdline").read_bytes().split(b"\0")
            inside = os.readlink(process / "cwd").startswith(str(folder))
            if inside or str(folder).encode() in words:
                found.append(int(process.name))
    return found
