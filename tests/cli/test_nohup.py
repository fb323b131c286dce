"""A terminal that goes away: with nohup it is nothing to a run, and nothing to the tests."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from splitbrain.results.rundir import RunDir
from tests.cli.support import ROOT, SPLITBRAIN, environment, only_run

ASKING = ("SIGHUP", "SIGINT", "SIGTERM")

IGNORING = (
    "import os, signal, sys\n"
    "for name in sys.argv[1].split(','): signal.signal(signal.Signals[name], signal.SIG_IGN)\n"
    "os.execv(sys.argv[2], sys.argv[2:])\n"
)
"""A program that becomes another one, for which these signals are ignored, as nohup makes it."""

TELLING = f"import signal; print(*(signal.getsignal(getattr(signal, name)) == 1 for name in {ASKING}))"


def test_what_tests_start_ignores_no_signal() -> None:
    said = subprocess.run([sys.executable, "-c", TELLING], capture_output=True, text=True, check=True).stdout
    assert said.split() == ["False"] * 3


@pytest.mark.slow
def test_tests_of_signals_pass_where_all_of_them_are_ignored() -> None:
    tests = [
        "tests/cli/test_interrupts.py",
        f"tests/cli/test_nohup.py::{test_what_tests_start_ignores_no_signal.__name__}",
    ]
    given = ["-m", "pytest", "-q", "-n0", "-p", "no:cacheprovider", *tests]
    done = subprocess.run(
        [sys.executable, "-c", IGNORING, ",".join(ASKING), sys.executable, *given],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout


@pytest.mark.slow
def test_a_run_under_nohup_survives_a_hang_up(tmp_path: Path) -> None:
    store = tmp_path / "store"
    command = [*SPLITBRAIN, "run", "--backend", "sim", "--nodes", "3", "--nemesis", "none", "--time-limit", "20"]
    process = subprocess.Popen(
        [sys.executable, "-c", IGNORING, "SIGHUP", sys.executable, *command, "--seed", "1", "--store", str(store)],
        cwd=tmp_path,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    assert "starting" in process.stderr.readline()
    for _ in range(3):
        process.send_signal(signal.SIGHUP)
    out, errors = process.communicate()
    assert process.returncode in (0, 2), (out, errors)
    run = RunDir(only_run(store))
    assert run.status() == "complete"
    assert "interrupted" not in run.history()["f"].to_pylist()
