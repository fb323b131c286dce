"""Code that blocks the event loop of a run is named and broken off; the run ends, and says that it is inconclusive."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

import pytest

HERE: Final = Path(__file__).resolve().parent

RUN: Final = """
import asyncio, contextlib, sys, time
from pathlib import Path
from worlds import FakeClient, MemoryBackend, MemoryDeployment, make_test
from splitbrain.harness.campaigns import turns
from splitbrain.harness.campaigns.display import Silent
from splitbrain.harness.campaigns.record import record

turns.WARN_S, turns.BREAK_S, turns.HEARD_S = 0.5, float(sys.argv[2]), 0.4

async def sleeps(op):
    time.sleep(10**6)

async def computes(op):
    while True:
        with contextlib.suppress(Exception):
            while True:
                pass

async def goes_on(op):
    while True:
        try:
            time.sleep(10**6)
        except BaseException:
            pass

async def answers(op):
    return op.complete("ok", 1)

def never_ends(ctx):
    while True:
        pass

work = {"sleeps": sleeps, "computes": computes, "goes_on": goes_on}.get(sys.argv[3], answers)
more = {"generator": never_ends} if sys.argv[3] == "never_ends" else {}
test = make_test(FakeClient(work), **more)
run, summary = record(test, MemoryBackend(MemoryDeployment()), Path(sys.argv[1]), Silent())
print(summary.failure)
for row in run.history().to_pylist():
    if row["error"] or row["f"] == "interrupted":
        print(row["type"], row["f"], row["error"], row["value"])
"""


def _process(store: Path, what: str, break_s: float) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE), str(HERE.parents[1])])}
    command = [sys.executable, "-c", RUN, str(store), str(break_s), what]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


def _blocked(store: Path, what: str) -> subprocess.Popen[str]:
    """A run whose client blocks, which was said already, and which only a request ends."""
    process = _process(store, what, 1000)
    assert process.stderr is not None
    assert "has blocked the event loop" in process.stderr.readline()
    return process


@pytest.mark.slow
@pytest.mark.parametrize("what", ["sleeps", "computes"])
def test_a_client_that_blocks_is_broken_off_and_its_op_has_no_known_end(tmp_path: Path, what: str) -> None:
    out, err = _process(tmp_path, what, 1.5).communicate(timeout=60)
    assert f", in {what} has blocked the event loop for" in err
    failure, *rows = out.splitlines()
    assert failure == "None", "the history is judged: it is inconclusive, and nothing is wrong with the harness"
    assert any(row.startswith("info interrupted") and f"in {what} has blocked" in row for row in rows), rows
    assert any(row.startswith("info read client failed: ") and f"in {what} has blocked" in row for row in rows), rows
    assert f"in {what} has blocked" in next(tmp_path.glob("*/*/splitbrain.log")).read_text()


@pytest.mark.slow
def test_a_generator_that_never_ends_is_an_error_that_names_its_line(tmp_path: Path) -> None:
    out, _ = _process(tmp_path, "never_ends", 1.5).communicate(timeout=60)
    assert ", in never_ends has blocked the event loop for" in out.splitlines()[0]


@pytest.mark.slow
def test_code_that_goes_on_is_ended_with_the_process(tmp_path: Path) -> None:
    process = _process(tmp_path, "goes_on", 0.6)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (255, "")
    assert "splitbrain: ended. The event loop was stuck in <string>, line" in err


@pytest.mark.slow
def test_a_request_to_end_is_heard_while_a_client_blocks(tmp_path: Path) -> None:
    process = _blocked(tmp_path, "sleeps")
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=60)  # by itself it would be broken off after 1,000 s
    assert "info read client failed: <string>, line" in out
    assert "info interrupted None" in out


@pytest.mark.slow
def test_the_third_request_ends_a_process_that_nothing_else_ends(tmp_path: Path) -> None:
    process = _blocked(tmp_path, "goes_on")
    for _ in range(3):
        process.send_signal(signal.SIGTERM)
        time.sleep(0.3)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 255
    assert "splitbrain: ended. The event loop was stuck" in err
