"""The examples of the documentation work as they stand."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.cluster
@pytest.mark.slow
@pytest.mark.parametrize(("arguments", "code"), [([], 0), (["--bug", "M09"], 1)])
def test_a_workload_of_ones_own_is_run_and_judged(tmp_path: Path, arguments: list[str], code: int) -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / "own_workload.py"), *arguments],
        cwd=tmp_path,
        env=dict(os.environ),
        capture_output=True,
        text=True,
        check=False,
        timeout=180,
    )
    assert done.returncode == code, done.stdout + done.stderr
    assert list(tmp_path.glob("store/test=append-log/run=*/report.html"))
