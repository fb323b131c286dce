"""Judging a damaged store on a standalone cluster of two workers, of which one is killed while it judges."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from pathlib import Path

from tests.cli.damaged_store import analyzed

from .standalone import standalone_cluster

WAIT_S = 900.0


def analyzed_with_a_worker_killed(root: Path, daemons: Path) -> tuple[subprocess.CompletedProcess[str], str]:
    """What the command answers on a store that `lay` made, and the log of the master.

    Args:
        root: the store; the modules of its checkers lie beside it, and one of them leaves a mark when it begins.
        daemons: a new folder for what the cluster writes.
    """
    marks = root.parent / "modules"
    daemons.mkdir()
    found: list[subprocess.CompletedProcess[str]] = []
    with standalone_cluster(daemons, workers=2) as master:
        command = threading.Thread(target=lambda: found.append(analyzed(root, "--master", master)))
        command.start()
        ends_s = time.monotonic() + WAIT_S
        while not list(marks.glob("begun-*")) and command.is_alive():
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
    return done, log


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
