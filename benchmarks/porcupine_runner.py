"""Porcupine (Anish Athalye, MIT), built from a checkout that the user has, as a peer for benchmarks."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

PROGRAM: Final = Path(__file__).parent / "porcupine" / "main.go"
MODULE: Final = "github.com/anishathalye/porcupine"


@dataclass(frozen=True)
class Process:
    """What a whole process cost.

    Attributes:
        cpu_s, wall_s: seconds, user and system together.
        peak_mib: the largest memory that it held.
        output: what it printed.
        timed_out: whether it was killed.
    """

    cpu_s: float
    wall_s: float
    peak_mib: float
    output: str
    timed_out: bool = False


_SHIM: Final = """
import json, os, subprocess, sys, time
began = time.monotonic()
child = subprocess.Popen(sys.argv[2:], stdout=subprocess.PIPE)
output = child.stdout.read()
_, status, used = os.wait4(child.pid, 0)
sys.stdout.write(json.dumps([used.ru_utime + used.ru_stime, time.monotonic() - began, used.ru_maxrss / 1024,
    output.decode()]))
"""
"""A small parent: a process's peak memory is at least what its parent held when it was started."""


def measured(command: list[str], timeout_s: float) -> Process:
    """Run a command and see what the whole process cost; it is killed after `timeout_s` of wall time."""
    shim = subprocess.Popen(
        [sys.executable, "-S", "-c", _SHIM, "-", *command],
        stdout=subprocess.PIPE,
        env={**os.environ, "GOMAXPROCS": "1"},
        start_new_session=True,
    )
    try:
        output, _ = shim.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        os.killpg(shim.pid, signal.SIGKILL)
        shim.wait()
        return Process(timeout_s, timeout_s, 0.0, "", timed_out=True)
    cpu_s, wall_s, peak_mib, said = json.loads(output)
    return Process(cpu_s, wall_s, peak_mib, said)


class Porcupine:
    """The runner, built in a folder of its own."""

    def __init__(self, checkout: Path) -> None:
        """Build it.

        Raises:
            SystemExit: there is no Go compiler, or the checkout does not build.
        """
        go = shutil.which("go")
        if go is None:
            raise SystemExit("Porcupine needs a Go compiler, and there is none on the PATH (Debian: golang-go).")
        if not (checkout / "porcupine.go").is_file():
            raise SystemExit(f"{checkout} is no checkout of Porcupine: it holds no porcupine.go.")
        self._folder = tempfile.TemporaryDirectory()
        folder = Path(self._folder.name)
        shutil.copy(PROGRAM, folder)
        (folder / "go.mod").write_text(
            f"module runner\n\ngo 1.16\n\nrequire {MODULE} v0.0.0\n\nreplace {MODULE} => {checkout.resolve()}\n"
        )
        environment = {**os.environ, "GOFLAGS": "-mod=mod", "GOPROXY": "off"}
        built = subprocess.run(
            [go, "build", "-o", "runner", "."], cwd=folder, env=environment, capture_output=True, text=True, check=False
        )
        if built.returncode:
            raise SystemExit(f"Porcupine does not build in {checkout}: {built.stderr.strip()}")
        self._program = folder / "runner"

    def judge(self, model: str, path: Path, timeout_s: float) -> tuple[Process, dict[str, Any]]:
        """The cost of the whole process, and what it says: `answer`, `cpu_s`, `wall_s` and `mib` of the check alone.

        `timeout_s` are CPU seconds of the check.
        """
        whole = measured([str(self._program), model, str(path), f"{timeout_s:g}"], 20 * timeout_s)
        if whole.timed_out:
            return whole, {"answer": "Unknown", "cpu_s": timeout_s, "wall_s": timeout_s, "mib": 0.0}
        return whole, json.loads(whole.output)
