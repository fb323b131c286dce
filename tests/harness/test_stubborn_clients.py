"""What a client goes on with after its run is over does not hold up the end of the run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).resolve().parent

RUN: Final = """
import asyncio, contextlib, sys
from pathlib import Path
from worlds import FakeClient, MemoryBackend, MemoryDeployment, make_test
from splitbrain.harness.campaigns.display import Silent
from splitbrain.harness.campaigns.record import record

async def swallow(op):
    while True:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(0.5)

run, _ = record(make_test(FakeClient(swallow)), MemoryBackend(MemoryDeployment()), Path(sys.argv[1]), Silent())
print(run.history().num_rows)
"""


def test_a_client_that_swallows_its_cancellation_does_not_keep_the_process(tmp_path: Path) -> None:
    command = [sys.executable, "-c", RUN, str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE), str(HERE.parents[1])])}
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert int(done.stdout) > 0, "its history is kept"
